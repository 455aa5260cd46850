/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in the store: segments with their states, gaps, pins and counts; orders and what hosts
 * say of them; which collector has which host. Engines: SQLite (sql_sqlite.c) and PostgreSQL
 * (sql_postgres.c), with the same statements.
 *
 * Calls block: they run on worker threads, one at a time for an index. Open several for several
 * threads. Only open and close use base/mem; the others may be called in any thread. Each call is
 * one transaction: whole or not at all. It may be repeated after any failure.
 *
 * Errors of all calls: PFL_EAGAIN (the database is busy or unreachable: try later; the next call
 * connects again), PFL_EFULL, PFL_EPERM, PFL_EIO (damaged), PFL_ENOMEM, PFL_EINVAL (an argument),
 * PFL_ELIMIT (longer than its maximum). pfl_index_get_error has the sentence. Texts and spans in
 * rows are borrowed until the callback returns.
 */
#ifndef PFL_COLLECTOR_INDEX_INDEX_H
#define PFL_COLLECTOR_INDEX_INDEX_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"
#include "perfleet/collector.pb-c.h"

#define PFL_INDEX_WHY_BYTES     320u
#define PFL_INDEX_ID_BYTES      27u          /* a ULID with its NUL */
#define PFL_INDEX_KEY_BYTES     512u         /* of an object in the store, with its NUL */
#define PFL_INDEX_NAME_BYTES    256u         /* of hosts, orders, incarnations, with its NUL */
#define PFL_INDEX_SEGMENT_BYTES (64u << 10)  /* of a serialized perfleet.Segment */
#define PFL_INDEX_SCAN_UNITS    (1u << 20)   /* of work in one search: some 0.1 s */
#define PFL_INDEX_NOTE_WEIGHT   8u           /* so often it counts: in the index, and as JSON */
#define PFL_INDEX_TRACE_BYTES   8192u        /* a trace counts besides: two files of blocks */
#define PFL_INDEX_DELETED_BYTES 1024u        /* a deletion counts: its note, and the number */
#define PFL_INDEX_ORDER_BYTES   (256u << 10) /* of a serialized perfleet.Order */
#define PFL_INDEX_ROUNDS_BYTES  (16u << 20)  /* of an order's schedule */
#define PFL_INDEX_LIMIT         1000u        /* rows of a find, where the query has no limit */
#define PFL_INDEX_LIMIT_MAX     10000u
#define PFL_INDEX_SCAN_MAX      100000u /* rows that one find looks at */
#define PFL_INDEX_LOOK_MAX      1024u   /* traces of a look */
#define PFL_INDEX_PATTERNS_MAX  64u     /* of one find */
#define PFL_INDEX_COVER_MAX     4096u   /* known numbers, and gaps, that a gap may be over */
#define PFL_INDEX_CURSOR_BYTES  64u
#define PFL_INDEX_VOID_MS       10000u /* a collector without a beat for so long has no leases */
#define PFL_INDEX_BEAT_MS       2500u
#define PFL_INDEX_KINDS_MAX     4096u  /* classes and orders; others share one kind */
#define PFL_INDEX_OWN_KINDS_MAX 256u   /* of them, from one host */
#define PFL_INDEX_RUNS_MAX      20000u /* of a host */
#define PFL_INDEX_GAPS_MAX      65536u /* of a host */
#define PFL_INDEX_LONG_MAX      16384u /* of a host, that a window finds where they overlap it */
#define PFL_INDEX_FORGET_MAX    5000u  /* of each thing that a call forgets */
/* A collector without a beat for so long is forgotten, with its generation. */
#define PFL_INDEX_FORGET_COLLECTORS_MS (UINT64_C(180) * 86400 * 1000)

struct pfl_index;

struct pfl_index_conf {
    const char *where;  /* "sqlite:PATH" or "postgres:CONNINFO" (libpq's) */
    bool may_create;    /* the schema; and bring an older one up to date */
    bool may_lose_last; /* SQLite: a crash of the machine may undo the last calls; faster */
    unsigned void_ms;   /* 0: PFL_INDEX_VOID_MS */
    unsigned answer_ms; /* of PostgreSQL's server: longer is PFL_EAGAIN; 0: 35 s */
};

/* Whether `where` is well-formed and has no secret; if not, what it wants (static). */
bool pfl_index_judge(const char *where, const char **ret_what);
/* Whether several collectors may have it. */
bool pfl_index_is_shared(const char *where);
/* Files that a later connection reads, such as one with a password; they need not exist. */
void pfl_index_list_files(const char *where, void (*on_file)(void *user, const char *path),
                          void *user);

/* `ret_why` (PFL_INDEX_WHY_BYTES): a sentence. PFL_ENEWER: a newer program made the schema;
 * PFL_ESTATE: the schema is older, or is not there, and may not be made. */
PFL_MUST_USE int pfl_index_open(const struct pfl_index_conf *conf, char *ret_why,
                                struct pfl_index **ret_index);
/* In any thread: from now on a server has 5 s to answer, and one that was lost is not connected to
 * again. Then that is PFL_EAGAIN. */
void pfl_index_cancel(struct pfl_index *self);
void pfl_index_close(struct pfl_index *self); /* NULL is legal */
/* The last failure, as a sentence. */
const char *pfl_index_get_error(const struct pfl_index *self);

/* ---- segments ---- */

enum pfl_index_state {
    PFL_INDEX_RESERVED = 0,  /* on its way into the store */
    PFL_INDEX_LIVE = 1,      /* stored; a gap is live at once */
    PFL_INDEX_TOMBSTONE = 2, /* to be deleted from the store */
    PFL_INDEX_GONE = 3,      /* deleted: its number is known for a while */
    PFL_INDEX_LOST = 4,      /* the store does not have it: its number is a hole */
};

struct pfl_index_row {
    const char *id;
    const char *key; /* of its object; "": a gap */
    const char *host;
    const char *orderer;
    const char *order;
    const char *incarnation;
    enum pfl_index_state state;
    uint64_t number;
    uint64_t begin_unix_ns;
    uint64_t end_unix_ns;
    uint64_t bytes;
    struct pfl_span sha256;  /* empty: a gap */
    struct pfl_span segment; /* perfleet.Segment, serialized; empty: GONE */
    uint64_t stored_unix_ns;
    uint64_t keep_unix_ns; /* retention keeps it up to here at least */
    const char *pin_who;   /* "": not pinned */
    const char *pin_reason;
    uint64_t pin_end_unix_ns;
    uint64_t kind; /* of its run: pfl_index_kind */
};

/* What a live row counts in sums of bytes: its description and its files take room, too.
 * statements.c has the same (COUNTED). */
static inline uint64_t pfl_index_row_count_bytes(const struct pfl_index_row *row)
{
    return PFL_INDEX_TRACE_BYTES + row->bytes + PFL_INDEX_NOTE_WEIGHT * (uint64_t)row->segment.len;
}

/* False: no more rows are needed; the call then returns PFL_ECLOSED. */
typedef bool (*pfl_index_on_row)(void *user, const struct pfl_index_row *row);

/* perfleet.StoredTrace, serialized, without expires_unix_ns. PFL_ELIMIT: longer than `room`. */
PFL_MUST_USE int pfl_index_row_encode(const struct pfl_index_row *row, uint8_t *dst, size_t room,
                                      size_t *ret_len);

enum pfl_index_reserve {
    PFL_INDEX_RESERVE_NEW,      /* reserved now: store it under the caller's id and key */
    PFL_INDEX_RESERVE_AGAIN,    /* reserved before: store it under the id and key of ret_place */
    PFL_INDEX_RESERVE_NOTED,    /* a live gap, the same or larger: describe it under ret_place */
    PFL_INDEX_RESERVE_STORED,   /* live, or deleted since: write nothing, release it at the host */
    PFL_INDEX_RESERVE_CONFLICT, /* other bytes have this number: refuse it */
    PFL_INDEX_RESERVE_BUSY,     /* another collector is storing it */
};

struct pfl_index_place {
    char id[PFL_INDEX_ID_BYTES];
    char key[PFL_INDEX_KEY_BYTES];
    uint64_t begin_unix_ns; /* set on return: a known gap keeps its begin, whatever is said now */
};

/*
 * A segment that is to be stored. `place` has the id and key that the caller chose, and on return
 * those that hold. A segment with a gap is live when this returns RESERVE_NEW or RESERVE_NOTED,
 * and may be sent again with a larger `last`. What is stored as bytes, and what a longer note than
 * the index counts came for, is RESERVE_STORED. Bytes that are to be kept need a sha256 of 32
 * bytes. The class of a run is that of the first segment that came of it. PFL_ELIMIT: the host has
 * PFL_INDEX_RUNS_MAX runs, or PFL_INDEX_GAPS_MAX gaps.
 */
PFL_MUST_USE int pfl_index_reserve(struct pfl_index *self, const Perfleet__Segment *segment,
                                   uint64_t now_unix_ns, struct pfl_index_place *place,
                                   enum pfl_index_reserve *ret_result);
/* The first number of a gap that has no bytes in the index, and had none; of a gap whose first
 * PFL_INDEX_COVER_MAX numbers have, the one behind these. Above its `last`: there is none. */
PFL_MUST_USE int pfl_index_find_hole(struct pfl_index *self, const Perfleet__Segment *segment,
                                     uint64_t *ret_number);
/* Its bytes and their description are durable. PFL_ENOENT: there is no such reservation. */
PFL_MUST_USE int pfl_index_set_live(struct pfl_index *self, const char *id,
                                    uint64_t stored_unix_ns);
/* A reservation without an object; 0 also if there is none. */
PFL_MUST_USE int pfl_index_drop(struct pfl_index *self, const char *id);
/* A live segment as a description in the store has it (rebuild). PFL_EEXIST: its number is there.
 */
PFL_MUST_USE int pfl_index_restore(struct pfl_index *self, const Perfleet__StoredTrace *trace,
                                   const char *key);

/* PFL_ENOENT. */
PFL_MUST_USE int pfl_index_get(struct pfl_index *self, const char *id, pfl_index_on_row on_row,
                               void *user);
/*
 * Live segments, newest first unless the query says otherwise, in the order of their begin.
 * `is_visible` (NULL: all) is the policy's word on a row. `ret_cursor` (PFL_INDEX_CURSOR_BYTES)
 * continues: its length is 0 at the end. A find looks at PFL_INDEX_SCAN_MAX rows at most, and does
 * PFL_INDEX_SCAN_UNITS of work, so it may yield fewer rows than the limit, or none, and still have
 * a cursor; the query's look_at makes that fewer rows. PFL_ECLOSED: `on_row` ended it; the cursor
 * continues after that row. PFL_EINVAL: the cursor is of another query.
 */
struct pfl_index_cursor {
    uint8_t bytes[PFL_INDEX_CURSOR_BYTES];
    size_t len;
    uint64_t looked_at;         /* rows, of this find */
    uint64_t looked_to_unix_ns; /* all up to this begin were looked at, or passed */
};
/* Adds to `work` what it cost, in units of PFL_INDEX_SCAN_UNITS. */
typedef bool (*pfl_index_is_visible)(void *user, const struct pfl_index_row *row, uint64_t *work);
struct pfl_index_find {
    const Perfleet__TraceQuery *query;
    pfl_index_is_visible is_visible;
    pfl_index_on_row on_row;
    void *user; /* of both */
};
PFL_MUST_USE int pfl_index_find(struct pfl_index *self, const struct pfl_index_find *find,
                                struct pfl_index_cursor *ret_cursor);

/* At most `limit` rows of a state other than live that were last changed before `before_unix_ns`.
 */
PFL_MUST_USE int pfl_index_find_state(struct pfl_index *self, enum pfl_index_state state,
                                      uint64_t before_unix_ns, pfl_index_on_row on_row, void *user);

/* ---- deletion: by index first, then in the store ---- */

struct pfl_index_deletion {
    const char *who;    /* an operator, or "retention" */
    const char *reason; /* a sentence */
    uint64_t now_unix_ns;
    bool is_bound_by_keep; /* not what pfl_index_keep keeps */
    const char *lease;     /* only while this collector has it; NULL: in any case */
};
/* LIVE to TOMBSTONE, and a line in the audit of deletions. PFL_ENOENT: not live; PFL_EPERM: pinned,
 * or kept; PFL_ESTATE: another collector has the lease. */
PFL_MUST_USE int pfl_index_tombstone(struct pfl_index *self, const char *id,
                                     const struct pfl_index_deletion *deletion);
/* TOMBSTONE to GONE: its object is deleted. 0 also if it is gone. */
PFL_MUST_USE int pfl_index_set_gone(struct pfl_index *self, const char *id, uint64_t now_unix_ns);
/* A TOMBSTONE whose object could not be deleted: its turn comes after the others'. */
PFL_MUST_USE int pfl_index_postpone(struct pfl_index *self, const char *id);
/* Of state TOMBSTONE: they wait for their deletion in the store. */
PFL_MUST_USE int pfl_index_count_tombstones(struct pfl_index *self, uint64_t *ret_count);
/* Forgets numbers that are gone, lost or only reserved, and lines of the audit, of before that
 * moment: at most PFL_INDEX_FORGET_MAX of each, so that no transaction is long. Where `ret_count`
 * is not less than that there may be more. */
PFL_MUST_USE int pfl_index_forget(struct pfl_index *self, uint64_t before_unix_ns,
                                  uint64_t *ret_count);
/* Lines of the audit; at most so many, as some may be forgotten already. */
PFL_MUST_USE int pfl_index_count_deletions(struct pfl_index *self, uint64_t *ret_count);
/* Forgets the oldest lines of the audit that are more than `max`, and the numbers that are gone of
 * which they are, likewise. */
PFL_MUST_USE int pfl_index_forget_above(struct pfl_index *self, uint64_t max, uint64_t *ret_count);
/* Forgets runs without any segment that did not change since that moment, likewise; hosts and kinds
 * without runs; leases of such hosts, and of collectors that have ended; collectors that ended
 * PFL_INDEX_FORGET_COLLECTORS_MS ago. */
PFL_MUST_USE int pfl_index_forget_runs(struct pfl_index *self, uint64_t before_unix_ns,
                                       uint64_t *ret_count);

struct pfl_index_deleted {
    uint64_t at_unix_ns;
    const char *id;
    const char *host;
    const char *orderer;
    const char *order;
    uint64_t number;
    uint64_t bytes;
    const char *who;
    const char *reason;
};
typedef bool (*pfl_index_on_deleted)(void *user, const struct pfl_index_deleted *deleted);
/* The audit of deletions from a moment on, oldest first, at most PFL_INDEX_LIMIT_MAX lines. */
PFL_MUST_USE int pfl_index_list_deleted(struct pfl_index *self, uint64_t from_unix_ns,
                                        pfl_index_on_deleted on_deleted, void *user);

/* A pin holds until its end (0: without one). PFL_ENOENT: not live. */
PFL_MUST_USE int pfl_index_pin(struct pfl_index *self, const char *id,
                               const Perfleet__StoredTrace__Pin *pin);
PFL_MUST_USE int pfl_index_unpin(struct pfl_index *self, const char *id);
/* Retention keeps it up to that moment at least, such as after a person fetched it. */
PFL_MUST_USE int pfl_index_keep(struct pfl_index *self, const char *id, uint64_t until_unix_ns);

/* ---- what retention asks ---- */

/* The time that retention goes by, of all collectors that share the index: as it was noted last;
 * without a note, when the newest live trace was stored; 0: there is neither. */
PFL_MUST_USE int pfl_index_get_clock(struct pfl_index *self, uint64_t *ret_unix_ns);
PFL_MUST_USE int pfl_index_note_clock(struct pfl_index *self, uint64_t unix_ns);

/* An order's traces of a class of retention. */
struct pfl_index_kind {
    uint64_t id;
    const char *class_name;
    const char *orderer;
    const char *order;
    uint64_t bytes;
    uint64_t traces;
};
typedef bool (*pfl_index_on_kind)(void *user, const struct pfl_index_kind *kind);
/* By class; at most PFL_INDEX_KINDS_MAX. */
PFL_MUST_USE int pfl_index_list_kinds(struct pfl_index *self, pfl_index_on_kind on_kind,
                                      void *user);

struct pfl_index_use {
    uint64_t host_id;
    const char *name; /* of the host, or of the trigger */
    uint64_t amount;  /* bytes, or traces */
};
typedef bool (*pfl_index_on_use)(void *user, const struct pfl_index_use *use);
struct pfl_index_use_query {
    const char *class_name; /* of hosts */
    uint64_t above;         /* the same */
    uint64_t kind;          /* of triggers */
    uint64_t after_host;    /* the page begins behind it */
    const char *after_trigger;
    uint64_t limit;
};
/* Hosts with more bytes of a class than that, by host. */
PFL_MUST_USE int pfl_index_list_host_use(struct pfl_index *self,
                                         const struct pfl_index_use_query *query,
                                         pfl_index_on_use on_use, void *user);
/* Triggers with traces of a host in a kind, by host and trigger: how many there are is the hosts'
 * word, so the limit is on what is looked at. */
PFL_MUST_USE int pfl_index_list_trigger_use(struct pfl_index *self,
                                            const struct pfl_index_use_query *query,
                                            pfl_index_on_use on_use, void *user);

enum pfl_index_of {
    PFL_INDEX_OF_KIND,    /* the first stored of a kind */
    PFL_INDEX_OF_TRIGGER, /* of a kind, a host and a trigger */
    PFL_INDEX_OF_HOST,    /* of a class, a host: the first recorded */
};
/* Traces that are live, pinned or kept may be any number: they are passed in parts. */
struct pfl_index_look {
    uint64_t after_unix_ns; /* when it was stored; PFL_INDEX_OF_HOST: its begin */
    char after_id[PFL_INDEX_ID_BYTES];
    uint64_t limit;
    bool has_more; /* others may follow; of get_oldest: all of these are pinned or kept */
};
struct pfl_index_oldest {
    enum pfl_index_of of;
    uint64_t kind;
    uint64_t host_id;
    const char *class_name;
    const char *trigger;
    bool is_triggered;       /* of those that a trigger made, or of the others */
    uint64_t before_unix_ns; /* stored before */
    uint64_t now_unix_ns;
    struct pfl_index_look *look; /* NULL: all are looked at */
};
/* The oldest live trace that is neither pinned nor kept now, behind the look's place, and of so
 * many as the look has. Without one on_row is not called, and the look's place is the last one that
 * was looked at. */
PFL_MUST_USE int pfl_index_get_oldest(struct pfl_index *self, const struct pfl_index_oldest *query,
                                      pfl_index_on_row on_row, void *user);

/* Live traces, gaps too, of those that last for more than 15 minutes or of the others, by their
 * begin: as many as the look has, behind its place, which becomes the last one's. */
PFL_MUST_USE int pfl_index_list_live(struct pfl_index *self, bool is_long,
                                     struct pfl_index_look *look, pfl_index_on_row on_row,
                                     void *user);
/* LIVE to LOST, and a line in the audit. PFL_ENOENT: not live. */
PFL_MUST_USE int pfl_index_set_lost(struct pfl_index *self, const char *id,
                                    const struct pfl_index_deletion *why);
/* LOST to LIVE. PFL_ENOENT: not lost. */
PFL_MUST_USE int pfl_index_set_found(struct pfl_index *self, const char *id, uint64_t now_unix_ns);
/* Whether something other than `id` stands for the segment's number. */
PFL_MUST_USE int pfl_index_has_number(struct pfl_index *self, const Perfleet__Segment *segment,
                                      const char *id, bool *ret_has);

/* ---- counts ---- */

struct pfl_index_run {
    const char *host;
    const char *orderer;
    const char *order;
    const char *incarnation;
    uint64_t last;    /* the largest number that is known */
    uint64_t stored;  /* live */
    uint64_t in_gaps; /* the host said that they are lost */
    uint64_t removed; /* stored, and deleted since */
    uint64_t holes;   /* of 1 to last, none of these: reserved, or unknown */
    uint64_t bytes;   /* live */
};
typedef bool (*pfl_index_on_run)(void *user, const struct pfl_index_run *run);
struct pfl_index_run_query {
    const char *after_host; /* the page begins behind this run; "" in all four: with the first */
    const char *after_incarnation;
    const char *after_orderer;
    const char *after_order;
    uint64_t limit;
};
/* Runs of orders on hosts, by host, incarnation, orderer and order. */
PFL_MUST_USE int pfl_index_list_runs(struct pfl_index *self,
                                     const struct pfl_index_run_query *query,
                                     pfl_index_on_run on_run, void *user);

/* ---- orders ---- */

struct pfl_index_order {
    const char *orderer;
    const char *name;
    uint32_t generation;
    bool is_paused;
    struct pfl_span order; /* perfleet.Order, serialized */
};
typedef bool (*pfl_index_on_order)(void *user, const struct pfl_index_order *order);

/* New, or in place of the last one: its generation is above each earlier one of this name, also
 * over a removal. */
PFL_MUST_USE int pfl_index_put_order(struct pfl_index *self, const char *orderer,
                                     const Perfleet__Order *order, uint32_t *ret_generation);
/* PFL_ENOENT. */
PFL_MUST_USE int pfl_index_pause_order(struct pfl_index *self, const char *orderer,
                                       const char *name, bool is_paused);
/* With the states at hosts and the schedule. What stays of all removed orders of an orderer is one
 * generation. PFL_ENOENT. */
PFL_MUST_USE int pfl_index_remove_order(struct pfl_index *self, const char *orderer,
                                        const char *name);
struct pfl_index_order_query {
    const char *from_orderer; /* the page begins with this order; "" in both: with the first */
    const char *from_name;
    uint64_t limit;
};
/* By orderer and name. */
PFL_MUST_USE int pfl_index_list_orders_from(struct pfl_index *self,
                                            const struct pfl_index_order_query *query,
                                            pfl_index_on_order on_order, void *user);
/* All of them. */
PFL_MUST_USE int pfl_index_list_orders(struct pfl_index *self, pfl_index_on_order on_order,
                                       void *user);

struct pfl_index_host_state {
    const char *host;
    const char *orderer;
    const char *name;
    struct pfl_span state; /* perfleet.HostOrderState, serialized */
};
typedef bool (*pfl_index_on_host_state)(void *user, const struct pfl_index_host_state *state);
/* What a host says of an order. */
struct pfl_index_state_of_order {
    const char *name;
    const Perfleet__HostOrderState *state; /* NULL: it has it no more */
};
PFL_MUST_USE int pfl_index_set_host_state(struct pfl_index *self, const char *host,
                                          const char *orderer,
                                          const struct pfl_index_state_of_order *of);
struct pfl_index_host_state_query {
    const char *orderer;
    const char *name;
    const char *after_host; /* the page begins behind it; "": with the first */
    uint64_t limit;
};
/* What hosts say of an order, by host. */
PFL_MUST_USE int pfl_index_list_host_states(struct pfl_index *self,
                                            const struct pfl_index_host_state_query *query,
                                            pfl_index_on_host_state on_state, void *user);

/* The state of an order's schedule (pfl_schedule_save). `version`: 0 for the first; PFL_EEXIST:
 * another collector saved one since that version, so read it again. */
PFL_MUST_USE int pfl_index_set_rounds(struct pfl_index *self, const char *orderer, const char *name,
                                      uint64_t version, struct pfl_span rounds);
typedef void (*pfl_index_on_rounds)(void *user, uint64_t version, struct pfl_span rounds);
/* PFL_ENOENT: none was saved. */
PFL_MUST_USE int pfl_index_get_rounds(struct pfl_index *self, const char *orderer, const char *name,
                                      pfl_index_on_rounds on_rounds, void *user);

/* ---- collectors and their leases ---- */

/*
 * This index speaks as collector `name` from now on, with a generation of its own: leases and
 * reservations of an earlier life are void. Several indexes of one process share it: the first one
 * joins, the others adopt its generation.
 */
PFL_MUST_USE int pfl_index_join(struct pfl_index *self, const char *name, uint64_t *ret_generation);
PFL_MUST_USE int pfl_index_adopt(struct pfl_index *self, const char *name, uint64_t generation);
/* Every PFL_INDEX_BEAT_MS. PFL_ESTATE: another process joined under this name. */
PFL_MUST_USE int pfl_index_beat(struct pfl_index *self);
/* Gives all leases back. */
PFL_MUST_USE int pfl_index_leave(struct pfl_index *self);
/* The lease of a host, or of another thing of that name: taken, or held already. */
PFL_MUST_USE int pfl_index_lease(struct pfl_index *self, const char *what, bool *ret_is_held);
PFL_MUST_USE int pfl_index_give_lease(struct pfl_index *self, const char *what);
struct pfl_index_leases {
    uint64_t collectors; /* that are alive, with this one */
    uint64_t own;        /* leases of this one */
    uint64_t all;        /* leases of those that are alive */
};
PFL_MUST_USE int pfl_index_count_leases(struct pfl_index *self,
                                        struct pfl_index_leases *ret_leases);

#endif
