/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One visit to a host: reads its finished segments one after the other, until it has no more or
 * its part is used up. Pure: it says what to do, and is given what came of it.
 *
 *     while ((step = pfl_visit_take(visit)) != PFL_VISIT_WAIT)
 *         begin(step);                       // one of them at a time is under way
 *     ... pfl_visit_on_done(visit, rc) ...   // later: its result; then the same loop again
 *
 * The order of steps is what makes it safe to die at any moment: a segment is reserved with its id
 * before a byte is stored; it is live only once its bytes and its description are durable; and the
 * host is asked to remove it only when it is live. The next collector begins at the reservation.
 * Where collectors share an index, a lease keeps two of them from visiting a host at the same time;
 * it saves work. That nothing is stored twice follows from the reservations alone.
 */
#ifndef PFL_COLLECTOR_PULL_VISIT_H
#define PFL_COLLECTOR_PULL_VISIT_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/ulid.h"
#include "collector/pull/corrupt_segments.h"
#include "collector/pull/host_queue.h"
#include "collector/pull/segment_check.h"
#include "perfleet/spool.pb-c.h"
#include "proto/tunnel/identity.h"

#define PFL_VISIT_SEGMENTS_MAX 64u /* its part, if others wait or not */
#define PFL_VISIT_BYTES_MAX    (256ull << 20)
#define PFL_VISIT_PAGES_MAX    256u
#define PFL_VISIT_LIST_MAX     1024u /* segments of one list */
#define PFL_VISIT_LEFT_MAX     1024u /* segments that one visit leaves at the host */
#define PFL_VISIT_GAPS_MAX     16u   /* gaps that the index refuses in one visit */
#define PFL_VISIT_CONNECTS_MAX 4u    /* in a row without progress; then the visit ends as lost */

enum pfl_visit_step {
    PFL_VISIT_WAIT = 0,  /* one is under way */
    PFL_VISIT_CONNECT,   /* open a stream to the host */
    PFL_VISIT_LIST,      /* ask it for segments: pfl_visit_get_list */
    PFL_VISIT_RESERVE,   /* the current segment, in the index */
    PFL_VISIT_BEGIN,     /* an object in the store */
    PFL_VISIT_READ,      /* ask the host for bytes from pfl_visit_get_offset on */
    PFL_VISIT_READ_MORE, /* let the same answer continue */
    PFL_VISIT_WRITE,     /* what was read last, into the object */
    PFL_VISIT_COMMIT,    /* the object */
    PFL_VISIT_DESCRIBE,  /* store the description beside it */
    PFL_VISIT_SET_LIVE,  /* in the index */
    PFL_VISIT_RELEASE,   /* ask the host to remove it */
    PFL_VISIT_ABORT,     /* the object */
    PFL_VISIT_DROP,      /* the reservation, of which nothing came */
    PFL_VISIT_LEASE,     /* take the host's lease: pfl_visit_on_lease */
    PFL_VISIT_GIVE_LEASE,
    PFL_VISIT_END, /* pfl_visit_get_end; free it */
};

/* What the index has of a segment. */
enum pfl_visit_reserve {
    PFL_VISIT_RESERVED = 0, /* now, or before, with these bytes: store it */
    PFL_VISIT_IS_LIVE,      /* stored: write nothing, release it */
    PFL_VISIT_CONFLICT,     /* other bytes are stored under this number */
    PFL_VISIT_BUSY,         /* another collector stores it */
};

/* Why segments stay at the host. */
enum pfl_visit_left {
    PFL_VISIT_LEFT_MALFORMED = 0, /* its description */
    PFL_VISIT_LEFT_CONFLICT,
    PFL_VISIT_LEFT_BUSY,
    PFL_VISIT_LEFT_CORRUPT, /* the bytes are not those of its SHA-256 */
    PFL_VISIT_LEFT_REFUSED, /* the host does not give or release it */
    PFL_VISIT_LEFT_LIMIT,   /* the index has no room for more of this host */
    PFL_VISIT_LEFT_REASONS,
};
const char *pfl_visit_left_name(enum pfl_visit_left left); /* static */

struct pfl_visit;

struct pfl_visit_conf {
    const char *host; /* borrowed */
    /* Classes of retention whose newest segments come first; borrowed. */
    char *const *newest_first;
    size_t newest_first_len;
    bool is_shared;                       /* with other collectors: a visit has the host's lease */
    struct pfl_corrupt_segments *corrupt; /* of all hosts; borrowed */
    uint64_t now_ms;                      /* for these, during the whole visit */
};

PFL_MUST_USE int pfl_visit_new(const struct pfl_visit_conf *conf, struct pfl_visit **ret_visit);
void pfl_visit_free(struct pfl_visit *self); /* NULL is legal */

/* The next step, which is under way from now. */
enum pfl_visit_step pfl_visit_take(struct pfl_visit *self);

/* ---- what came of it; none of these calls out ---- */

/* Of BEGIN, WRITE, COMMIT, DESCRIBE, SET_LIVE, ABORT, DROP, GIVE_LEASE, and of CONNECT. `rc`: 0 or
 * a pfl_err. COMMIT: PFL_EPARSE, the bytes were others. */
void pfl_visit_on_done(struct pfl_visit *self, int rc);
/* Of LEASE. */
void pfl_visit_on_lease(struct pfl_visit *self, int rc, bool is_held);
/* Of LIST; `reply` is taken. */
void pfl_visit_on_list(struct pfl_visit *self, Perfleet__SpoolReply *reply);
void pfl_visit_on_reserve(struct pfl_visit *self, int rc, enum pfl_visit_reserve result);
/* Of READ: the next bytes, which are written before more are given; `has_more` as in the reply. */
void pfl_visit_on_data(struct pfl_visit *self, struct pfl_span data, bool has_more);
/* READ or RELEASE was answered with a status; 0 only for RELEASE. */
void pfl_visit_on_status(struct pfl_visit *self, uint32_t status);
/* The stream is lost: legal at any time. A request on it is begun again. */
void pfl_visit_on_lost(struct pfl_visit *self);
/* Ends the visit as soon as what is under way has ended. */
void pfl_visit_stop(struct pfl_visit *self);

/* ---- what the steps are about ---- */

/* For LIST: where to continue. The strings are borrowed until the next call. */
void pfl_visit_get_list(const struct pfl_visit *self,
                        Perfleet__SpoolRequest__ListSegments *ret_list);
/* The current segment; its host is what the host says. */
Perfleet__Segment *pfl_visit_get_segment(const struct pfl_visit *self);
uint64_t pfl_visit_get_offset(const struct pfl_visit *self);
enum pfl_visit_end pfl_visit_get_end(const struct pfl_visit *self);

struct pfl_visit_figures {
    uint64_t stored; /* segments */
    uint64_t stored_bytes;
    uint64_t gaps;
    uint64_t released;
    uint64_t left[PFL_VISIT_LEFT_REASONS];
};
const struct pfl_visit_figures *pfl_visit_get_figures(const struct pfl_visit *self);
/* For the log. The names are the host's words, cut at their room; "" where it sent none. */
struct pfl_visit_left_segment {
    const char *why; /* static; NULL: no segment was left */
    char order[PFL_IDENTITY_NAME_BYTES];
    char incarnation[PFL_ULID_BYTES];
    uint32_t number;
    struct pfl_segment_fault fault; /* of a description, or of bytes; else zeroed */
};
/* The one that was left last, since the last call. */
void pfl_visit_take_left(struct pfl_visit *self, struct pfl_visit_left_segment *ret_left);

#endif
