/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A producer's own state.
 *
 * Made when the connection introduces itself; data sources, writers and permissions are added and
 * removed; freed when the connection is over and the service has removed its instances from the
 * sessions. The writer table grows to the largest id seen. The permission bitmap (8 KiB) is
 * allocated with the first data source that is set up: a producer that only connects costs a few
 * hundred bytes. Failures: PFL_ENOMEM, and PFL_EINVAL for names past their limit.
 */
#include "service/core/producer.h"

#include <assert.h>

#include "base/mem.h"
#include "base/shares.h"

#define BUFFER_IDS    65536u
#define FIRST_WRITERS 64u

int pfl_producer_new(const struct pfl_producer_conf *conf, struct pfl_producer **ret_producer)
{
    struct pfl_producer *p;

    if (conf->name.len > PFL_PRODUCER_NAME_MAX ||
        conf->sdk_version.len > PFL_PRODUCER_SDK_VERSION_MAX)
        return PFL_EINVAL;
    p = pfl_mem_zalloc(sizeof(*p));
    if (p == NULL)
        return PFL_ENOMEM;
    pfl_list_init(&p->sources);
    pfl_list_init(&p->instances);
    pfl_list_init(&p->flushes);
    pfl_smb_map_init(&p->smb);
    p->uid = conf->uid;
    p->who = conf->who;
    if (p->who == 0)
        p->who = conf->is_emulated ? PFL_SHARES_UIDS : conf->uid;
    p->smb.who = (uint32_t)p->who;
    p->pid = conf->pid;
    p->page_hint_bytes = conf->page_hint_bytes;
    p->smb_hint_bytes = conf->smb_hint_bytes;
    p->wants_scraping = conf->wants_scraping;
    p->is_emulated = conf->is_emulated;
    p->machine_id = conf->machine_id;
    p->ops = conf->ops;
    p->port = conf->port;
    if (conf->machine_name != NULL)
        p->machine_name = pfl_mem_strdup(conf->machine_name);
    p->name = pfl_mem_strndup((const char *)conf->name.data, conf->name.len);
    p->sdk_version = pfl_mem_strndup((const char *)conf->sdk_version.data, conf->sdk_version.len);
    if (p->name == NULL || p->sdk_version == NULL ||
        (p->machine_name == NULL && conf->machine_name != NULL)) {
        pfl_producer_free(p);
        return PFL_ENOMEM;
    }
    *ret_producer = p;
    return 0;
}

void pfl_producer_free(struct pfl_producer *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (self == NULL)
        return;
    assert(pfl_list_is_empty(&self->instances) && pfl_list_is_empty(&self->flushes));
    PFL_LIST_EACH_SAFE (it, tmp, &self->sources) {
        pfl_data_source_free(PFL_CONTAINER_OF(it, struct pfl_data_source, node));
    }
    pfl_smb_map_fini(&self->smb);
    pfl_mem_free(self->writers);
    pfl_mem_free(self->allowed);
    pfl_mem_free(self->machine_name);
    pfl_mem_free(self->name);
    pfl_mem_free(self->sdk_version);
    pfl_mem_free(self);
}

uint64_t pfl_producer_get_bytes(const struct pfl_producer *self)
{
    return sizeof(*self) + strlen(self->name) + strlen(self->sdk_version) + self->source_bytes +
           self->sources_len * sizeof(struct pfl_data_source) +
           self->writers_cap * sizeof(self->writers[0]) +
           (self->sources_len != 0 ? BUFFER_IDS / 8 : 0); /* `allowed`, which sessions make */
}

struct pfl_data_source *pfl_producer_find_source(const struct pfl_producer *self,
                                                 struct pfl_span name)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->sources) {
        struct pfl_data_source *source = PFL_CONTAINER_OF(it, struct pfl_data_source, node);

        if (name.len != 0 && pfl_span_eq(source->info.name, name))
            return source;
    }
    return NULL;
}

struct pfl_data_source *pfl_producer_find_source_id(const struct pfl_producer *self, uint64_t id)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->sources) {
        struct pfl_data_source *source = PFL_CONTAINER_OF(it, struct pfl_data_source, node);

        if (id != 0 && source->info.id == id)
            return source;
    }
    return NULL;
}

int pfl_producer_add_source(struct pfl_producer *self, struct pfl_data_source *source)
{
    if (self->sources_len >= PFL_PRODUCER_MAX_SOURCES ||
        source->bytes_len > PFL_PRODUCER_MAX_SOURCE_BYTES - self->source_bytes)
        return PFL_ELIMIT;
    pfl_list_append(&self->sources, &source->node);
    self->sources_len++;
    self->source_bytes += source->bytes_len;
    return 0;
}

int pfl_producer_update_source(struct pfl_producer *self, struct pfl_data_source *source,
                               struct pfl_span descriptor)
{
    size_t others_bytes = self->source_bytes - source->bytes_len;
    int rc;

    if (descriptor.len > PFL_PRODUCER_MAX_SOURCE_BYTES - others_bytes)
        return PFL_ELIMIT;
    rc = pfl_data_source_update(source, descriptor);
    if (rc == 0)
        self->source_bytes = others_bytes + source->bytes_len;
    return rc;
}

void pfl_producer_remove_source(struct pfl_producer *self, struct pfl_data_source *source)
{
    pfl_list_remove(&source->node);
    self->sources_len--;
    self->source_bytes -= source->bytes_len;
    pfl_data_source_free(source);
}

static int grow_writers(struct pfl_producer *self, size_t need)
{
    size_t cap = self->writers_cap != 0 ? self->writers_cap : FIRST_WRITERS;
    uint16_t *writers;

    while (cap < need)
        cap *= 2;
    writers = pfl_mem_realloc(self->writers, cap * sizeof(writers[0]));
    if (writers == NULL)
        return PFL_ENOMEM;
    memset(writers + self->writers_cap, 0, (cap - self->writers_cap) * sizeof(writers[0]));
    self->writers = writers;
    self->writers_cap = cap;
    return 0;
}

int pfl_producer_set_writer(struct pfl_producer *self, uint32_t writer_id_untrusted,
                            uint32_t buffer_id_untrusted)
{
    uint16_t buffer_id = (uint16_t)buffer_id_untrusted; /* 16 bits on the wire too */
    int rc;

    if (writer_id_untrusted == 0 || writer_id_untrusted >= PFL_PRODUCER_WRITERS)
        return 0;
    if (writer_id_untrusted >= self->writers_cap) {
        if (buffer_id == 0)
            return 0;
        rc = grow_writers(self, (size_t)writer_id_untrusted + 1);
        if (rc != 0)
            return rc;
    }
    self->writers_len -= self->writers[writer_id_untrusted] != 0;
    self->writers_len += buffer_id != 0;
    self->writers[writer_id_untrusted] = buffer_id;
    return 0;
}

uint16_t pfl_producer_get_writer(const struct pfl_producer *self, uint16_t writer_id)
{
    return writer_id < self->writers_cap ? self->writers[writer_id] : 0;
}

int pfl_producer_allow(struct pfl_producer *self, uint16_t buffer_id)
{
    if (self->allowed == NULL)
        self->allowed = pfl_mem_calloc(BUFFER_IDS / 64, sizeof(self->allowed[0]));
    if (self->allowed == NULL)
        return PFL_ENOMEM;
    self->allowed_len += !pfl_producer_is_allowed(self, buffer_id);
    self->allowed[buffer_id / 64] |= 1ull << (buffer_id % 64);
    return 0;
}

void pfl_producer_forbid(struct pfl_producer *self, uint16_t buffer_id)
{
    if (!pfl_producer_is_allowed(self, buffer_id))
        return;
    self->allowed[buffer_id / 64] &= ~(1ull << (buffer_id % 64));
    if (--self->allowed_len != 0)
        return;
    pfl_mem_free(self->allowed);
    self->allowed = NULL;
}

bool pfl_producer_is_allowed(const struct pfl_producer *self, uint16_t buffer_id)
{
    return self->allowed != NULL && (self->allowed[buffer_id / 64] >> (buffer_id % 64) & 1) != 0;
}
