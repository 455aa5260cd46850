/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts that a relay knows: connected now or seen before, with what they say of themselves as
 * far as it makes sense. Pure; time is an argument.
 */
#ifndef PFL_RELAY_HUB_HOST_INVENTORY_H
#define PFL_RELAY_HUB_HOST_INVENTORY_H

#include <stdbool.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/list.h"
#include "base/token_bucket.h"
#include "proto/tunnel/identity.h"

/* Hosts that are remembered; the one that left first is forgotten for a new one, one that left long
 * ago by the relay, and any that left by an operator who may. */
#define PFL_HOST_INVENTORY_MAX_HOSTS 16384u
/* A hello's bytes; strings in it; labels. */
#define PFL_HOST_INVENTORY_HELLO_BYTES 16384u
#define PFL_HOST_INVENTORY_TEXT_MAX    127u
#define PFL_HOST_INVENTORY_MAX_LABELS  32u

struct pfl_host {
    struct pfl_list node;
    struct pfl_host *next; /* borrowed: in the same bucket */
    char name[PFL_IDENTITY_NAME_BYTES];
    char address[80];
    void *peer; /* borrowed: the connection, NULL when there is none */
    uint64_t seen_ms;
    int64_t certificate_end_s; /* of the certificate that it showed last; UNIX time; 0: unknown */
    const char *tls_version; /* of its connection, or the last one: "1.3"; static; NULL: unknown */
    unsigned streams;
    json_t *claims; /* owned; NULL before a hello */
    bool has_clock;
    int64_t clock_offset_ns; /* its boot clock - ours */
    int64_t clock_error_ns;
    int64_t clock_taken_ns;         /* when, by our clock */
    struct pfl_token_bucket events; /* what it may tell, over all its connections: agent_events.c */
    struct pfl_token_bucket triggers;
    uint64_t unheard; /* of what it told, or lost, and not told on */
};

#define PFL_HOST_INVENTORY_BUCKETS 1024u

/* Why hosts were forgotten. */
enum pfl_host_inventory_why {
    PFL_HOST_INVENTORY_ASKED, /* by an operator */
    PFL_HOST_INVENTORY_AGE,
    PFL_HOST_INVENTORY_ROOM, /* for a new one */
    PFL_HOST_INVENTORY_WHYS
};

struct pfl_host_inventory {
    struct pfl_list hosts; /* owned; in the order in which they came last */
    struct pfl_host *buckets[PFL_HOST_INVENTORY_BUCKETS]; /* borrowed from the list: by name */
    unsigned count;
    uint64_t forgotten[PFL_HOST_INVENTORY_WHYS]; /* so many were */
};

void pfl_host_inventory_init(struct pfl_host_inventory *self);
void pfl_host_inventory_fini(struct pfl_host_inventory *self);
/* NULL: never seen, or forgotten. Borrowed while it is connected, else until the next join or the
 * next that is forgotten. */
struct pfl_host *pfl_host_inventory_find(const struct pfl_host_inventory *self, const char *name);
/* The host's connection is `peer` now. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_host_inventory_join(struct pfl_host_inventory *self, const char *name,
                                         void *peer, struct pfl_host **ret_host);
/* Its connection is gone; claims stay. */
void pfl_host_inventory_leave(struct pfl_host_inventory *self, struct pfl_host *host,
                              uint64_t now_ms);
/* A host that is not connected is gone, with its claims. */
void pfl_host_inventory_forget(struct pfl_host_inventory *self, struct pfl_host *host,
                               enum pfl_host_inventory_why why);
/* The same for all that left at least `age_ms` ago, those first that left first; `on_forget` comes
 * for each while it is still there. */
void pfl_host_inventory_forget_old(struct pfl_host_inventory *self, uint64_t now_ms,
                                   uint64_t age_ms,
                                   void (*on_forget)(void *user, const struct pfl_host *host),
                                   void *user);
/* Takes over what of `body` makes sense. PFL_EPARSE: nothing does. PFL_ENOMEM. */
PFL_MUST_USE int pfl_host_inventory_take_hello(struct pfl_host *host,
                                               struct pfl_span body_untrusted);
/* One exchange: its answer, and when it was asked and answered, by our clock. The better one is
 * kept, which ages: clocks drift. PFL_EPARSE: it makes no sense. */
PFL_MUST_USE int pfl_host_inventory_take_clock(struct pfl_host *host,
                                               struct pfl_span body_untrusted, int64_t asked_ns,
                                               int64_t now_ns);

/* Who looks, and what there is to say besides hosts. */
struct pfl_host_inventory_view {
    const char *relay;
    const char *fleet;
    uint64_t now_ms;
    bool (*may_see)(void *user, const char *host); /* NULL: everything */
    void *user;
};

/* Where a reading stands; zeroed: at its begin. */
struct pfl_host_inventory_reader {
    size_t bucket;
    bool has_begun;
    bool has_hosts;
    bool is_over;
};

/* The next piece of all of it as one JSON text goes to the end of `text`: at least one host's, or
 * the end. Hosts may come and go between two pieces; who is there all the time is in it once.
 * *ret_hosts: so many were looked at. PFL_ENOMEM. */
PFL_MUST_USE int pfl_host_inventory_read(const struct pfl_host_inventory *self,
                                         const struct pfl_host_inventory_view *view,
                                         struct pfl_host_inventory_reader *reader,
                                         struct pfl_buf *text, unsigned *ret_hosts);
/* One host as a JSON text, to be freed with pfl_mem_free. PFL_ENOMEM. */
PFL_MUST_USE int pfl_host_inventory_encode_host(const struct pfl_host *host, uint64_t now_ms,
                                                char **ret_json);

#endif
