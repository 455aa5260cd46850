/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Known hosts: see known_hosts.h. A host that is new in a full table takes the place of the one
 * that left first. Ownership: the hosts. Limits: PFL_HOST_MAP_MAX; LABELS_MAX_BYTES of labels of
 * a host.
 */
#include "collector/serve/known_hosts.h"

#include "base/mem.h"
#include "base/message.h"
#include "collector/relay/host_map.h"
#include "perfleet/segment.fields.h"

#define LABELS_MAX_BYTES 32768u

enum place {
    PLACE_LEFT = 0, /* in the order in which they left, or came without a connection */
    PLACE_CONNECTED,
};

struct host {
    struct pfl_host_entry entry; /* first */
    struct pfl_buf labels;
};

struct pfl_known_hosts {
    struct pfl_host_map hosts; /* owned; a list for each place */
};

static struct host *host_of(struct pfl_host_entry *entry)
{
    return (struct host *)(void *)entry;
}

int pfl_known_hosts_new(const struct pfl_hash_key *hash_key, struct pfl_known_hosts **ret_hosts)
{
    struct pfl_known_hosts *k = pfl_mem_zalloc(sizeof(*k));

    if (k == NULL)
        return PFL_ENOMEM;
    pfl_host_map_init(&k->hosts, hash_key);
    *ret_hosts = k;
    return 0;
}

static void forget(struct pfl_known_hosts *k, struct host *h)
{
    pfl_host_map_remove(&k->hosts, &h->entry);
    pfl_buf_fini(&h->labels);
    pfl_mem_free(h);
}

void pfl_known_hosts_free(struct pfl_known_hosts *self)
{
    struct pfl_host_entry *entry;

    while (self != NULL && (entry = pfl_host_map_get_any(&self->hosts)) != NULL)
        forget(self, host_of(entry));
    pfl_mem_free(self);
}

static void set_relays(struct pfl_known_hosts *k, struct host *h, unsigned relays)
{
    if ((h->entry.relays != 0) != (relays != 0))
        pfl_host_map_move(&k->hosts, &h->entry, relays != 0 ? PLACE_CONNECTED : PLACE_LEFT);
    pfl_host_map_set_relays(&k->hosts, &h->entry, relays);
}

static int add(struct pfl_known_hosts *k, const struct pfl_known_host *host, struct host **ret_host)
{
    struct pfl_host_entry *leaves = pfl_host_map_get_first(&k->hosts, PLACE_LEFT);
    struct host *h = pfl_mem_zalloc(sizeof(*h));
    int rc = h != NULL ? pfl_host_map_add(&k->hosts, host->name, &h->entry) : PFL_ENOMEM;

    if (rc == PFL_ELIMIT && leaves == NULL && host->is_connected)
        leaves = pfl_host_map_find_excess(&k->hosts, host->relay, PFL_HOST_MAP_LISTS);
    if (rc == PFL_ELIMIT && leaves != NULL) {
        forget(k, host_of(leaves));
        rc = pfl_host_map_add(&k->hosts, host->name, &h->entry);
    }
    if (rc != 0) {
        pfl_mem_free(h);
        return rc;
    }
    pfl_buf_init(&h->labels, LABELS_MAX_BYTES);
    *ret_host = h;
    return 0;
}

static int pack(const struct pfl_known_host *host, struct pfl_buf *labels)
{
    struct pfl_message m = pfl_message_of(labels);

    for (size_t i = 0; i < host->labels_len; i++)
        pfl_message_str(&m, SEGMENT__LABEL, host->labels[i]);
    return m.rc;
}

int pfl_known_hosts_set(struct pfl_known_hosts *self, const struct pfl_known_host *host)
{
    struct host *h = host_of(pfl_host_map_find(&self->hosts, host->name));
    struct pfl_buf labels;
    int rc;

    pfl_buf_init(&labels, LABELS_MAX_BYTES);
    rc = pack(host, &labels);
    if (rc == 0 && h == NULL)
        rc = add(self, host, &h);
    if (rc != 0) {
        pfl_buf_fini(&labels);
        return rc;
    }
    pfl_buf_fini(&h->labels);
    h->labels = labels;
    set_relays(self, h,
               host->is_connected ? h->entry.relays | 1u << host->relay
                                  : h->entry.relays & ~(1u << host->relay));
    return 0;
}

void pfl_known_hosts_forget_relay(struct pfl_known_hosts *self, unsigned relay)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &self->hosts.lists[PLACE_CONNECTED]) {
        struct host *h = host_of(pfl_host_entry_of(it));

        set_relays(self, h, h->entry.relays & ~(1u << relay));
    }
}

bool pfl_known_hosts_is_connected(const struct pfl_known_hosts *self, const char *name)
{
    const struct host *h = host_of(pfl_host_map_find(&self->hosts, name));

    return h != NULL && h->entry.relays != 0;
}

bool pfl_known_hosts_get_labels(const struct pfl_known_hosts *self, const char *name,
                                struct pfl_span *ret_labels)
{
    const struct host *h = host_of(pfl_host_map_find(&self->hosts, name));

    if (h == NULL)
        return false;
    *ret_labels = pfl_buf_get(&h->labels);
    return true;
}
