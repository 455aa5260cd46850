/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Known hosts: see known_hosts.h. A table of lists by the hash of the name, which doubles no size:
 * PFL_KNOWN_HOSTS_MAX hosts are 4 in each list. A host that is new then takes the place of the one
 * that is not connected for longest. Names are those of certificates. Ownership: the entries.
 * Limits: those of the header; LABELS_MAX_BYTES of labels of a host.
 */
#include "collector/serve/known_hosts.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/message.h"
#include "perfleet/segment.fields.h"
#include "proto/tunnel/identity.h"

#define LISTS            4096u
#define LABELS_MAX_BYTES 32768u

struct host {
    struct host *next;
    unsigned relays; /* a bit each: is connected */
    uint64_t left;   /* when the last one went, in `leavings` */
    struct pfl_buf labels;
    char name[PFL_IDENTITY_NAME_BYTES];
};

struct pfl_known_hosts {
    struct host *lists[LISTS];
    unsigned len;
    uint64_t leavings; /* so many hosts left, or came without a connection */
};

int pfl_known_hosts_new(struct pfl_known_hosts **ret_hosts)
{
    struct pfl_known_hosts *k = pfl_mem_zalloc(sizeof(*k));

    if (k == NULL)
        return PFL_ENOMEM;
    *ret_hosts = k;
    return 0;
}

void pfl_known_hosts_free(struct pfl_known_hosts *self)
{
    for (unsigned i = 0; self != NULL && i < LISTS; i++) {
        struct host *h = self->lists[i];

        while (h != NULL) {
            struct host *next = h->next;

            pfl_buf_fini(&h->labels);
            pfl_mem_free(h);
            h = next;
        }
    }
    pfl_mem_free(self);
}

static struct host *find(const struct pfl_known_hosts *k, const char *name)
{
    struct host *h = k->lists[pfl_hash_str(name) % LISTS];

    while (h != NULL && strcmp(h->name, name) != 0)
        h = h->next;
    return h;
}

static void set_relays(struct pfl_known_hosts *k, struct host *h, unsigned relays)
{
    if (h->relays != 0 && relays == 0)
        h->left = ++k->leavings;
    h->relays = relays;
}

/* The host that left first, where its list points to it. NULL: all are connected. */
static struct host **find_first_left(struct pfl_known_hosts *k)
{
    struct host **first = NULL;

    for (unsigned i = 0; i < LISTS; i++) {
        for (struct host **at = &k->lists[i]; *at != NULL; at = &(*at)->next) {
            if ((*at)->relays == 0 && (first == NULL || (*at)->left < (*first)->left))
                first = at;
        }
    }
    return first;
}

static bool make_room(struct pfl_known_hosts *k)
{
    struct host **at;
    struct host *h;

    if (k->len < PFL_KNOWN_HOSTS_MAX)
        return true;
    at = find_first_left(k);
    if (at == NULL)
        return false;
    h = *at;
    *at = h->next;
    pfl_buf_fini(&h->labels);
    pfl_mem_free(h);
    k->len--;
    return true;
}

static int add(struct pfl_known_hosts *k, const char *name, struct host **ret_host)
{
    struct host **list = &k->lists[pfl_hash_str(name) % LISTS];
    struct host *h;

    if (strlen(name) >= sizeof(h->name))
        return PFL_ELIMIT;
    h = pfl_mem_zalloc(sizeof(*h));
    if (h == NULL)
        return PFL_ENOMEM;
    if (!make_room(k)) {
        pfl_mem_free(h);
        return PFL_ELIMIT;
    }
    memcpy(h->name, name, strlen(name) + 1);
    pfl_buf_init(&h->labels, LABELS_MAX_BYTES);
    h->left = ++k->leavings;
    h->next = *list;
    *list = h;
    k->len++;
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
    struct host *h = find(self, host->name);
    struct pfl_buf labels;
    int rc;

    pfl_buf_init(&labels, LABELS_MAX_BYTES);
    rc = pack(host, &labels);
    if (rc == 0 && h == NULL)
        rc = add(self, host->name, &h);
    if (rc != 0) {
        pfl_buf_fini(&labels);
        return rc;
    }
    pfl_buf_fini(&h->labels);
    h->labels = labels;
    set_relays(self, h,
               host->is_connected ? h->relays | 1u << host->relay
                                  : h->relays & ~(1u << host->relay));
    return 0;
}

void pfl_known_hosts_forget_relay(struct pfl_known_hosts *self, unsigned relay)
{
    for (unsigned i = 0; i < LISTS; i++) {
        for (struct host *h = self->lists[i]; h != NULL; h = h->next)
            set_relays(self, h, h->relays & ~(1u << relay));
    }
}

bool pfl_known_hosts_is_connected(const struct pfl_known_hosts *self, const char *name)
{
    const struct host *h = find(self, name);

    return h != NULL && h->relays != 0;
}

bool pfl_known_hosts_get_labels(const struct pfl_known_hosts *self, const char *name,
                                struct pfl_span *ret_labels)
{
    const struct host *h = find(self, name);

    if (h == NULL)
        return false;
    *ret_labels = pfl_buf_get(&h->labels);
    return true;
}
