/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts that a relay knows, connected now or seen before, with the valid parts of what they
 * report about themselves. Pure; time is an argument.
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

/* Maximal number of remembered hosts. For a new one the host that left first is forgotten. The
 * relay forgets hosts that left long ago; an operator with the right may make it forget any host
 * that left. */
#define PFL_HOST_INVENTORY_MAX_HOSTS 16384u
/* Limits: a hello's bytes; its strings; its labels. */
#define PFL_HOST_INVENTORY_HELLO_BYTES 16384u
#define PFL_HOST_INVENTORY_TEXT_MAX    127u
#define PFL_HOST_INVENTORY_MAX_LABELS  32u
#define PFL_HOST_INVENTORY_LABEL_BYTES 64u /* of a name, or a value, with its NUL */
/* Of the hash of a host's orders, with NUL. */
#define PFL_HOST_INVENTORY_ORDERS_BYTES 17u

/* Of a host's spool, as the host reports it. */
struct pfl_host_spool {
    bool is_known;
    uint64_t segments;
    uint64_t bytes;
    uint64_t oldest_ms; /* the age of the oldest segment, when it was reported */
    char orders[PFL_HOST_INVENTORY_ORDERS_BYTES]; /* a hash, in hex; "": none */
};

/* What one exchange about a host's clock has measured. */
struct pfl_host_exchange {
    int64_t offset_ns; /* its boot clock - ours */
    int64_t error_ns;  /* at most */
    int64_t host_ns;   /* its boot clock then */
};

struct pfl_host {
    struct pfl_list node;
    struct pfl_list change; /* in the order of changes */
    uint64_t version;       /* of its last change */
    struct pfl_host *next;  /* borrowed: in the same bucket */
    char name[PFL_IDENTITY_NAME_BYTES];
    char address[80];
    void *peer; /* borrowed: the connection, NULL when there is none */
    uint64_t seen_ms;
    int64_t certificate_end_s; /* of its last certificate; UNIX time; 0: unknown */
    const char *tls_version;   /* of its current or last connection: "1.3"; static; NULL: unknown */
    unsigned streams;
    json_t *claims; /* owned; NULL before a hello */
    bool has_clock;
    int64_t clock_offset_ns; /* its boot clock - ours */
    int64_t clock_error_ns;
    int64_t clock_taken_ns;            /* when, by our clock */
    struct pfl_host_exchange exchange; /* the last one */
    struct pfl_token_bucket
        events; /* rate of its events, over all its connections: agent_events.c */
    struct pfl_token_bucket triggers;
    struct pfl_token_bucket spools;
    struct pfl_host_spool spool;
    uint64_t unheard; /* events that were lost, or dropped */
};

#define PFL_HOST_INVENTORY_BUCKETS 1024u

/* Why hosts were forgotten. */
enum pfl_host_inventory_why {
    PFL_HOST_INVENTORY_ASKED, /* at an operator's request */
    PFL_HOST_INVENTORY_AGE,
    PFL_HOST_INVENTORY_ROOM, /* for a new host */
    PFL_HOST_INVENTORY_WHYS
};

struct pfl_host_inventory {
    struct pfl_list hosts; /* owned; in the order of their last connection */
    struct pfl_host *buckets[PFL_HOST_INVENTORY_BUCKETS]; /* borrowed from the list: by name */
    struct pfl_list changes; /* borrowed likewise; the last change is at the end */
    uint64_t version;        /* of the last change */
    unsigned count;
    uint64_t forgotten[PFL_HOST_INVENTORY_WHYS]; /* number so far */
};

void pfl_host_inventory_init(struct pfl_host_inventory *self);
void pfl_host_inventory_fini(struct pfl_host_inventory *self);
/* NULL: never seen, or forgotten. Borrowed while it is connected, otherwise until the next join or
 * forget. */
struct pfl_host *pfl_host_inventory_find(const struct pfl_host_inventory *self, const char *name);
/* `peer` is now the host's connection. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_host_inventory_join(struct pfl_host_inventory *self, const char *name,
                                         void *peer, struct pfl_host **ret_host);
/* Its connection ended; its claims stay. */
void pfl_host_inventory_leave(struct pfl_host_inventory *self, struct pfl_host *host,
                              uint64_t now_ms);
/* Removes a host that is not connected, with its claims. */
void pfl_host_inventory_forget(struct pfl_host_inventory *self, struct pfl_host *host,
                               enum pfl_host_inventory_why why);
/* The same for all that left at least `age_ms` ago, in the order in which they left; `on_forget` is
 * called for each before it is removed. */
void pfl_host_inventory_forget_old(struct pfl_host_inventory *self, uint64_t now_ms,
                                   uint64_t age_ms,
                                   void (*on_forget)(void *user, const struct pfl_host *host),
                                   void *user);
/* Takes the valid parts of `body`. PFL_EPARSE: not a hello. PFL_ENOMEM. */
PFL_MUST_USE int pfl_host_inventory_take_hello(struct pfl_host *host,
                                               struct pfl_span body_untrusted);
/* Takes one clock exchange: its answer, and when it was sent and answered, by our clock. The better
 * measurement is kept, and ages, because clocks drift. PFL_EPARSE: malformed. */
PFL_MUST_USE int pfl_host_inventory_take_clock(struct pfl_host *host,
                                               struct pfl_span body_untrusted, int64_t asked_ns,
                                               int64_t now_ns);

/* What a collector is to know of it has changed: its connection, its claims or its spool. Joining
 * and leaving do this. */
void pfl_host_inventory_touch(struct pfl_host_inventory *self, struct pfl_host *host);

/* The viewer, and contents besides hosts. */
struct pfl_host_inventory_view {
    const char *relay;
    const char *fleet;
    uint64_t now_ms;
    bool (*may_see)(void *user, const char *host); /* NULL: everything */
    void *user;
};

/* The position of a reader; zeroed: at the start. */
struct pfl_host_inventory_reader {
    size_t bucket;
    bool has_begun;
    bool has_hosts;
    bool is_over;
};

/* Appends the next piece of the inventory, as one JSON text, to `text`: at least one host, or the
 * end. Hosts may join and leave between two pieces; a host that stays is included once. *ret_hosts:
 * the number of hosts looked at. PFL_ENOMEM. */
PFL_MUST_USE int pfl_host_inventory_read(const struct pfl_host_inventory *self,
                                         const struct pfl_host_inventory_view *view,
                                         struct pfl_host_inventory_reader *reader,
                                         struct pfl_buf *text, unsigned *ret_hosts);
/* What collectors are to know of a host, as a JSON text; the caller frees it with pfl_mem_free.
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_host_inventory_encode_spool(const struct pfl_host *host, char **ret_json);
/* One host as a JSON text; the caller frees it with pfl_mem_free. PFL_ENOMEM. */
PFL_MUST_USE int pfl_host_inventory_encode_host(const struct pfl_host *host, uint64_t now_ms,
                                                char **ret_json);

#endif
