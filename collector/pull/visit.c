/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A visit to a host: see visit.h.
 *
 * Happy path: take the lease, if the host is shared; connect, list; for each segment reserve,
 * begin, read and write in queue, commit, describe, set live, release; a gap has no bytes, and is
 * live once it is reserved: reserve, describe, release. Segments of classes whose newest come first
 * are listed before the others, newest first.
 *
 * Failures: a lost stream is opened again, and the read continues where it ended. A segment that
 * cannot be taken is left at the host and counted, and its reservation dropped. An index or a store
 * that fails ends the visit: the host waits. Ownership: the visit owns the last list. Limits: those
 * of the header.
 */
#include "collector/pull/visit.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "collector/pull/segment_check.h"
#include "proto/unpack.h"

#define STATUS_NOT_FOUND 404u

struct pfl_visit {
    struct pfl_visit_conf conf;
    enum pfl_visit_step step;
    enum pfl_visit_end end;
    bool is_busy;
    bool has_stream;
    bool has_object;
    bool has_reservation;
    bool has_lease;
    bool is_reading; /* the last READ has more to give */
    bool is_stopped;
    bool is_ending;
    bool is_newest;  /* lists the classes whose newest come first */
    bool has_more;   /* of this list */
    bool has_wasted; /* bytes of corrupt segments were read */
    struct pfl_visit_left_segment left;
    unsigned connects;
    Perfleet__SpoolReply *page; /* owned; NULL: none */
    unsigned pages;
    size_t at;         /* in it */
    uint64_t offset;   /* in the current segment */
    size_t data_len;   /* of what is being written */
    uint64_t segments; /* so far */
    unsigned left_len; /* of them all, whatever the reason */
    unsigned gaps;     /* that the index refused */
    uint64_t bytes;
    char after_incarnation[PFL_ULID_BYTES];
    uint32_t after_number;
    struct pfl_visit_figures figures;
};

static const char *const left_names[PFL_VISIT_LEFT_REASONS] = {
    "malformed", "conflict", "busy", "corrupt", "refused", "limit",
};

static const struct pfl_segment_fault no_fault;
static const struct pfl_segment_fault read_before = {
    .what = "the bytes were others when they were read last: they are read again later",
    .field = "sha256"};

const char *pfl_visit_left_name(enum pfl_visit_left left)
{
    return left_names[left];
}

int pfl_visit_new(const struct pfl_visit_conf *conf, struct pfl_visit **ret_visit)
{
    struct pfl_visit *v = pfl_mem_zalloc(sizeof(*v));

    if (v == NULL)
        return PFL_ENOMEM;
    v->conf = *conf;
    v->step = conf->is_shared ? PFL_VISIT_LEASE : PFL_VISIT_LIST;
    v->is_newest = conf->newest_first_len != 0;
    *ret_visit = v;
    return 0;
}

static void drop_page(struct pfl_visit *v)
{
    if (v->page != NULL)
        pfl_proto_free(&v->page->base);
    v->page = NULL;
    v->at = 0;
}

void pfl_visit_free(struct pfl_visit *self)
{
    if (self == NULL)
        return;
    drop_page(self);
    pfl_mem_free(self);
}

/* ---- what comes next ---- */

/* Who is stopped gives all leases back at once. */
static void step_to_end(struct pfl_visit *v)
{
    if (v->has_object)
        v->step = PFL_VISIT_ABORT;
    else
        v->step = v->has_lease && !v->is_stopped ? PFL_VISIT_GIVE_LEASE : PFL_VISIT_END;
}

static void end(struct pfl_visit *v, enum pfl_visit_end how)
{
    bool is_patient = how == PFL_VISIT_DRAINED || how == PFL_VISIT_MORE || how == PFL_VISIT_STUCK;

    v->is_ending = true;
    v->end = is_patient && v->has_wasted ? PFL_VISIT_CORRUPT : how;
    step_to_end(v);
}

/* The list is used up: continue behind it, or with the other classes. */
static void list_on(struct pfl_visit *v)
{
    drop_page(v);
    v->step = PFL_VISIT_LIST;
    if (v->has_more)
        return;
    v->after_incarnation[0] = '\0';
    v->after_number = 0;
    if (v->is_newest) {
        v->is_newest = false;
        return;
    }
    for (unsigned i = 0; i < PFL_VISIT_LEFT_REASONS; i++) {
        if (v->figures.left[i] != 0) {
            end(v, PFL_VISIT_STUCK);
            return;
        }
    }
    end(v, PFL_VISIT_DRAINED);
}

static bool is_newest_first(const struct pfl_visit *v, const Perfleet__Segment *segment)
{
    for (size_t i = 0; i < v->conf.newest_first_len; i++) {
        if (strcmp(v->conf.newest_first[i],
                   segment->retention != NULL ? segment->retention : "default") == 0)
            return true;
    }
    return false;
}

static void leave(struct pfl_visit *v, enum pfl_visit_left why,
                  const struct pfl_segment_fault *fault)
{
    const Perfleet__Segment *segment = v->page->segment[v->at];

    v->figures.left[why]++;
    v->left_len++;
    v->left = (struct pfl_visit_left_segment){
        .why = left_names[why], .number = segment->number, .fault = *fault};
    (void)snprintf(v->left.order, sizeof(v->left.order), "%s",
                   segment->order != NULL ? segment->order : "");
    (void)snprintf(v->left.incarnation, sizeof(v->left.incarnation), "%s",
                   segment->incarnation != NULL ? segment->incarnation : "");
}

static struct pfl_corrupt_segment_name name_of(const struct pfl_visit *v)
{
    const Perfleet__Segment *segment = v->page->segment[v->at];

    return (struct pfl_corrupt_segment_name){v->conf.host, segment->incarnation, segment->number};
}

/* Its bytes were others when they were read last. */
static bool is_corrupt(const struct pfl_visit *v)
{
    const struct pfl_corrupt_segment_name name = name_of(v);

    return pfl_corrupt_segments_waits(v->conf.corrupt, &name, v->conf.now_ms);
}

/* The next segment of the page that this list is about. */
static void advance(struct pfl_visit *v)
{
    struct pfl_segment_fault fault;

    if (v->segments >= PFL_VISIT_SEGMENTS_MAX || v->bytes >= PFL_VISIT_BYTES_MAX) {
        end(v, PFL_VISIT_MORE);
        return;
    }
    for (; v->at < v->page->n_segment; v->at++) {
        if (v->left_len >= PFL_VISIT_LEFT_MAX) {
            end(v, PFL_VISIT_STUCK);
            return;
        }
        if (is_newest_first(v, v->page->segment[v->at]) != v->is_newest)
            continue;
        if (!pfl_segment_check(v->page->segment[v->at], &fault)) {
            leave(v, PFL_VISIT_LEFT_MALFORMED, &fault);
        } else if (is_corrupt(v)) {
            leave(v, PFL_VISIT_LEFT_CORRUPT, &read_before);
        } else {
            v->offset = 0;
            v->step = PFL_VISIT_RESERVE;
            return;
        }
    }
    list_on(v);
}

static void pass(struct pfl_visit *v)
{
    v->at++;
    advance(v);
}

/* Gives back what was prepared for the current one; then passes. */
static void give_up(struct pfl_visit *v)
{
    if (v->has_object)
        v->step = PFL_VISIT_ABORT;
    else if (v->has_reservation)
        v->step = PFL_VISIT_DROP;
    else
        pass(v);
}

/* Leaves the current one at the host. */
static void skip_for(struct pfl_visit *v, enum pfl_visit_left why,
                     const struct pfl_segment_fault *fault)
{
    leave(v, why, fault);
    give_up(v);
}

static void skip(struct pfl_visit *v, enum pfl_visit_left why)
{
    skip_for(v, why, &no_fault);
}

/* Where its bytes end so far. It is not read again for a while. */
static void skip_corrupt(struct pfl_visit *v, const char *what, const char *field)
{
    const struct pfl_corrupt_segment_name name = name_of(v);

    pfl_corrupt_segments_note(v->conf.corrupt, &name, v->conf.now_ms);
    v->has_wasted = true;
    skip_for(v, PFL_VISIT_LEFT_CORRUPT,
             &(struct pfl_segment_fault){.what = what, .field = field, .value = v->offset});
}

static bool needs_stream(enum pfl_visit_step step)
{
    return step == PFL_VISIT_LIST || step == PFL_VISIT_READ || step == PFL_VISIT_RELEASE;
}

enum pfl_visit_step pfl_visit_take(struct pfl_visit *self)
{
    if (self->is_busy)
        return PFL_VISIT_WAIT;
    if (self->is_stopped && !self->is_ending)
        end(self, PFL_VISIT_LOST);
    self->is_busy = true;
    if (self->step == PFL_VISIT_READ && self->is_reading)
        return PFL_VISIT_READ_MORE;
    if (!needs_stream(self->step) || self->has_stream)
        return self->step;
    self->connects++;
    if (self->connects <= PFL_VISIT_CONNECTS_MAX)
        return PFL_VISIT_CONNECT;
    end(self, PFL_VISIT_LOST);
    return self->step;
}

/* ---- what came of it ---- */

static void on_connect(struct pfl_visit *v, int rc)
{
    v->has_stream = rc == 0;
    if (rc != 0 && rc != PFL_EAGAIN)
        end(v, PFL_VISIT_LOST);
}

static void on_commit(struct pfl_visit *v, int rc)
{
    v->has_object = false;
    if (rc == 0)
        v->step = PFL_VISIT_DESCRIBE;
    else if (rc == PFL_EPARSE)
        skip_corrupt(v, "the bytes do not have this SHA-256", "sha256");
    else
        end(v, PFL_VISIT_STUCK);
}

static void on_written(struct pfl_visit *v)
{
    v->offset += v->data_len;
    v->bytes += v->data_len;
    v->data_len = 0;
    v->connects = 0;
    if (v->offset == pfl_visit_get_segment(v)->bytes)
        v->step = PFL_VISIT_COMMIT;
    else
        v->step = PFL_VISIT_READ;
}

static void on_live(struct pfl_visit *v)
{
    const Perfleet__Segment *segment = pfl_visit_get_segment(v);

    v->has_reservation = false;
    v->figures.stored += segment->gap == NULL;
    v->figures.stored_bytes += segment->bytes;
    v->figures.gaps += segment->gap != NULL;
    v->step = PFL_VISIT_RELEASE;
}

static void on_abort(struct pfl_visit *v)
{
    v->has_object = false;
    if (v->is_ending)
        step_to_end(v);
    else
        give_up(v);
}

/* The numbers that a host has announced, and of which nothing came, are no rows of the index. */
static void on_drop(struct pfl_visit *v, int rc)
{
    v->has_reservation = false;
    if (rc != 0)
        end(v, PFL_VISIT_STUCK);
    else
        pass(v);
}

void pfl_visit_on_lease(struct pfl_visit *self, int rc, bool is_held)
{
    assert(self->is_busy && self->step == PFL_VISIT_LEASE);
    self->is_busy = false;
    self->has_lease = rc == 0 && is_held;
    if (self->has_lease)
        self->step = PFL_VISIT_LIST;
    else
        end(self, rc != 0 ? PFL_VISIT_STUCK : PFL_VISIT_LEASED);
}

void pfl_visit_on_done(struct pfl_visit *self, int rc)
{
    assert(self->is_busy);
    self->is_busy = false;
    if (needs_stream(self->step)) {
        on_connect(self, rc);
    } else if (self->step == PFL_VISIT_COMMIT) {
        on_commit(self, rc);
    } else if (self->step == PFL_VISIT_ABORT) {
        on_abort(self);
    } else if (self->step == PFL_VISIT_DROP) {
        on_drop(self, rc);
    } else if (self->step == PFL_VISIT_GIVE_LEASE) {
        self->step = PFL_VISIT_END; /* what was not given back ends by itself */
    } else if (rc != 0) {
        end(self, PFL_VISIT_STUCK);
    } else if (self->step == PFL_VISIT_BEGIN) {
        self->has_object = true;
        self->step = pfl_visit_get_segment(self)->bytes != 0 ? PFL_VISIT_READ : PFL_VISIT_COMMIT;
    } else if (self->step == PFL_VISIT_WRITE) {
        on_written(self);
    } else if (self->step == PFL_VISIT_DESCRIBE && pfl_visit_get_segment(self)->gap == NULL) {
        self->step = PFL_VISIT_SET_LIVE;
    } else {
        on_live(self);
    }
}

/* Larger priorities first; else in the order in which the host has them. */
static void sort(Perfleet__SpoolReply *page)
{
    for (size_t i = 1; i < page->n_segment; i++) {
        Perfleet__Segment *segment = page->segment[i];
        size_t at = i;

        for (; at > 0 && page->segment[at - 1]->priority < segment->priority; at--)
            page->segment[at] = page->segment[at - 1];
        page->segment[at] = segment;
    }
}

void pfl_visit_on_list(struct pfl_visit *self, Perfleet__SpoolReply *reply)
{
    const Perfleet__Segment *last;

    assert(self->is_busy && self->step == PFL_VISIT_LIST);
    self->is_busy = false;
    self->connects = 0;
    drop_page(self);
    self->page = reply;
    self->pages++;
    if (reply->status != 0 || self->pages > PFL_VISIT_PAGES_MAX ||
        reply->n_segment > PFL_VISIT_LIST_MAX) {
        end(self, PFL_VISIT_STUCK);
        return;
    }
    self->has_more = reply->has_more && reply->n_segment != 0;
    if (reply->n_segment != 0) {
        last = reply->segment[reply->n_segment - 1];
        (void)snprintf(self->after_incarnation, sizeof(self->after_incarnation), "%s",
                       last->incarnation != NULL ? last->incarnation : "");
        self->after_number = last->number;
    }
    sort(reply);
    advance(self);
}

/* The index has no room for more of this host, or other bytes there. To find out that a gap is so
 * costs a look at what it is over, so a host that has such gaps without end waits. */
static void on_refused(struct pfl_visit *v, enum pfl_visit_left why)
{
    v->gaps += pfl_visit_get_segment(v)->gap != NULL;
    if (v->gaps < PFL_VISIT_GAPS_MAX) {
        skip(v, why);
        return;
    }
    leave(v, why, &no_fault);
    end(v, PFL_VISIT_FULL);
}

void pfl_visit_on_reserve(struct pfl_visit *self, int rc, enum pfl_visit_reserve result)
{
    assert(self->is_busy && self->step == PFL_VISIT_RESERVE);
    self->is_busy = false;
    if (rc == PFL_ELIMIT)
        on_refused(self, PFL_VISIT_LEFT_LIMIT);
    else if (rc != 0)
        end(self, PFL_VISIT_STUCK);
    else if (result == PFL_VISIT_RESERVED && pfl_visit_get_segment(self)->gap != NULL)
        self->step = PFL_VISIT_DESCRIBE; /* it is live */
    else if (result == PFL_VISIT_IS_LIVE)
        self->step = PFL_VISIT_RELEASE;
    else if (result == PFL_VISIT_CONFLICT)
        on_refused(self, PFL_VISIT_LEFT_CONFLICT);
    else if (result == PFL_VISIT_BUSY)
        skip(self, PFL_VISIT_LEFT_BUSY);
    else
        self->step = PFL_VISIT_BEGIN;
    self->has_reservation = self->step == PFL_VISIT_BEGIN;
}

/* The host does not keep to the protocol: the next request has another stream. */
static void give_up_stream(struct pfl_visit *v)
{
    v->is_reading = false;
    v->has_stream = false;
    skip_corrupt(v, "the answer at this offset is not the bytes that were asked for", "data");
}

void pfl_visit_on_data(struct pfl_visit *self, struct pfl_span data, bool has_more)
{
    uint64_t missing = pfl_visit_get_segment(self)->bytes - self->offset;

    assert(self->is_busy && self->step == PFL_VISIT_READ);
    self->is_busy = false;
    if (data.len > missing || (data.len == missing && has_more) || data.len == 0) {
        give_up_stream(self);
        return;
    }
    self->is_reading = has_more;
    self->data_len = data.len;
    self->step = PFL_VISIT_WRITE;
}

static void on_released(struct pfl_visit *v, uint32_t status)
{
    if (status != 0 && status != STATUS_NOT_FOUND) {
        skip(v, PFL_VISIT_LEFT_REFUSED);
        return;
    }
    v->figures.released++;
    v->segments++;
    v->connects = 0;
    pass(v);
}

void pfl_visit_on_status(struct pfl_visit *self, uint32_t status)
{
    assert(self->is_busy && (self->step == PFL_VISIT_READ || self->step == PFL_VISIT_RELEASE));
    self->is_busy = false;
    if (self->step == PFL_VISIT_RELEASE) {
        on_released(self, status);
        return;
    }
    self->is_reading = false;
    if (status == STATUS_NOT_FOUND) { /* its quota was faster, and left a gap */
        self->left_len++;
        give_up(self);
    } else {
        skip(self, PFL_VISIT_LEFT_REFUSED);
    }
}

void pfl_visit_on_lost(struct pfl_visit *self)
{
    if (!self->has_stream)
        return;
    self->has_stream = false;
    self->is_reading = false;
    if (self->is_busy && needs_stream(self->step))
        self->is_busy = false;
}

void pfl_visit_stop(struct pfl_visit *self)
{
    self->is_stopped = true;
    if (self->is_busy && needs_stream(self->step))
        self->is_busy = false;
}

/* ---- what the steps are about ---- */

void pfl_visit_get_list(const struct pfl_visit *self,
                        Perfleet__SpoolRequest__ListSegments *ret_list)
{
    perfleet__spool_request__list_segments__init(ret_list);
    ret_list->has_newest_first = true;
    ret_list->newest_first = self->is_newest;
    if (self->after_incarnation[0] == '\0')
        return;
    ret_list->after_incarnation = (char *)(uintptr_t)self->after_incarnation;
    ret_list->has_after_number = true;
    ret_list->after_number = self->after_number;
}

Perfleet__Segment *pfl_visit_get_segment(const struct pfl_visit *self)
{
    return self->page->segment[self->at];
}

uint64_t pfl_visit_get_offset(const struct pfl_visit *self)
{
    return self->offset;
}

enum pfl_visit_end pfl_visit_get_end(const struct pfl_visit *self)
{
    return self->end;
}

const struct pfl_visit_figures *pfl_visit_get_figures(const struct pfl_visit *self)
{
    return &self->figures;
}

void pfl_visit_take_left(struct pfl_visit *self, struct pfl_visit_left_segment *ret_left)
{
    *ret_left = self->left;
    self->left.why = NULL;
}
