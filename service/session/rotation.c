/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts a trace without loss, so that both parts can be read alone.
 *
 * Producers keep state (names by number, timestamps as differences) that later packets refer to. A
 * cut therefore begins with a request to all producers to clear that state and flush. From then on
 * every pass over the buffers sorts: the packets of a sequence belong to the old segment until one
 * has SEQ_INCREMENTAL_STATE_CLEARED, and from there on to the next. The first such pass begins the
 * next segment with its head (clocks, config, uuid, system info). The pass after the flush is the
 * last: the old segment gets the statistics and is complete. If a producer is slow to flush, the
 * passes of the write periods sort as well, so what others have cleared is in the next segment.
 * Between two segments no packet is lost or duplicated.
 *
 * A sequence that does not clear its state, although its packets need it, is counted in the index
 * as unresolved. Slices that are open at the cut have their two ends in two segments.
 * Failures: those of the disk, which session_file.c handles. Limits: a sequence past
 * PFL_ROTATION_SEQUENCES in a segment is not sorted and stays in the old segment.
 */
#include "service/session/rotation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "perfetto/trace_packet.fields.h"

#define SUFFIX_BYTES     16u
#define SERVICE_SEQUENCE 1u
#define NEXT_MAX_BYTES   ((size_t)1 << 29)
#define NOTE_MAX_BYTES   (1u << 20)
#define NEXT_KEPT_BYTES  ((size_t)4 << 20)

enum sequence_state {
    SEQUENCE_UNSEEN = 0, /* in the open segment */
    SEQUENCE_SEEN = 1,
    SEQUENCE_MOVED = 2, /* in the current cut: belongs to the next segment */
};

static char *copy_path(const struct pfl_plan_file *plan)
{
    char *path = pfl_mem_zalloc(plan->path.len + SUFFIX_BYTES);

    if (path != NULL && plan->path.len != 0)
        memcpy(path, plan->path.data, plan->path.len);
    return path;
}

int pfl_rotation_new(const struct pfl_plan_file *plan, uint64_t boottime_ns,
                     struct pfl_rotation **ret_rotation)
{
    struct pfl_rotation *self = pfl_mem_zalloc(sizeof(*self));

    if (self == NULL)
        return PFL_ENOMEM;
    self->plan = plan;
    self->number = 1;
    self->begin_ns = boottime_ns;
    pfl_buf_init(&self->next, NEXT_MAX_BYTES);
    self->path = copy_path(plan);
    self->next_path = copy_path(plan);
    self->old_path = copy_path(plan);
    self->index_path = copy_path(plan);
    if (self->path == NULL || self->next_path == NULL || self->old_path == NULL ||
        self->index_path == NULL) {
        pfl_rotation_free(self);
        return PFL_ENOMEM;
    }
    *ret_rotation = self;
    return 0;
}

void pfl_rotation_free(struct pfl_rotation *self)
{
    if (self == NULL)
        return;
    pfl_buf_fini(&self->next);
    pfl_rotation_sequences_fini(&self->sequences);
    pfl_mem_free(self->path);
    pfl_mem_free(self->next_path);
    pfl_mem_free(self->old_path);
    pfl_mem_free(self->index_path);
    pfl_mem_free(self);
}

/* ---- names ---- */

static const char *put_number(const struct pfl_rotation *self, char *path, uint32_t number)
{
    (void)snprintf(path + self->plan->path.len, SUFFIX_BYTES, ".%06" PRIu32, number);
    return path;
}

const char *pfl_rotation_get_index_path(struct pfl_rotation *self)
{
    (void)snprintf(self->index_path + self->plan->path.len, SUFFIX_BYTES, ".index");
    return self->index_path;
}

const char *pfl_rotation_get_path(struct pfl_rotation *self, uint32_t number)
{
    return put_number(self, self->path, number);
}

bool pfl_rotation_may_name(struct pfl_span path)
{
    static const char index[] = ".index";
    size_t digits = 0;

    while (digits < path.len && path.data[path.len - 1 - digits] >= '0' &&
           path.data[path.len - 1 - digits] <= '9')
        digits++;
    if (digits >= PFL_ROTATION_NUMBER_DIGITS && digits < path.len)
        return path.data[path.len - 1 - digits] == '.';
    return path.len >= sizeof(index) - 1 &&
           memcmp(path.data + path.len - (sizeof(index) - 1), index, sizeof(index) - 1) == 0;
}

static const char *get_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* ---- when, and which side ---- */

bool pfl_rotation_is_due(struct pfl_rotation *self, uint64_t boottime_ns)
{
    bool is_full =
        self->plan->segment_max_bytes != 0 && self->bytes >= self->plan->segment_max_bytes;
    bool is_old = self->plan->segment_period_ms != 0 &&
                  boottime_ns - self->begin_ns >= (uint64_t)self->plan->segment_period_ms * 1000000;

    if (self->phase != PFL_ROTATION_WRITING || !(is_full || is_old))
        return false;
    self->reason = is_full ? PFL_ROTATION_BY_SIZE : PFL_ROTATION_BY_TIME;
    self->phase = PFL_ROTATION_DUE;
    return true;
}

void pfl_rotation_begin_cut(struct pfl_rotation *self, uint64_t boottime_ns)
{
    self->phase = PFL_ROTATION_CUTTING;
    self->next_begin_ns = boottime_ns;
    self->next_bytes = 0;
}

void pfl_rotation_begin_last_pass(struct pfl_rotation *self, uint64_t boottime_ns)
{
    self->is_last_pass = true;
    self->next_begin_ns = boottime_ns;
}

struct facts {
    uint64_t sequence;
    uint64_t flags;
    bool is_stats;
};

static struct facts read_facts(struct pfl_span packet)
{
    struct facts facts = {0};
    struct pfl_reader r = pfl_reader_of(packet);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID)
            facts.sequence = f.value;
        else if (f.id == TRACE_PACKET__SEQUENCE_FLAGS)
            facts.flags |= f.value;
        else if (f.id == TRACE_PACKET__INCREMENTAL_STATE_CLEARED && f.value != 0)
            facts.flags |= TRACE_PACKET__SEQ_INCREMENTAL_STATE_CLEARED;
        else if (f.id == TRACE_PACKET__TRACE_STATS)
            facts.is_stats = true;
    }
    return facts;
}

static bool sort(struct pfl_rotation *self, struct facts facts)
{
    bool is_cutting = self->phase == PFL_ROTATION_CUTTING;
    bool is_unresolved = false;
    uint8_t known;
    uint8_t state;

    if (facts.sequence <= SERVICE_SEQUENCE)
        return is_cutting && facts.sequence == SERVICE_SEQUENCE && !facts.is_stats;
    if (facts.sequence > UINT32_MAX)
        return false;
    known = state = pfl_rotation_sequences_get(&self->sequences, (uint32_t)facts.sequence);
    if (is_cutting && (facts.flags & TRACE_PACKET__SEQ_INCREMENTAL_STATE_CLEARED) != 0)
        state = SEQUENCE_MOVED;
    if (state == SEQUENCE_UNSEEN) {
        state = SEQUENCE_SEEN;
        is_unresolved = (facts.flags & (TRACE_PACKET__SEQ_INCREMENTAL_STATE_CLEARED |
                                        TRACE_PACKET__SEQ_NEEDS_INCREMENTAL_STATE)) ==
                        TRACE_PACKET__SEQ_NEEDS_INCREMENTAL_STATE;
    }
    if (state != known &&
        pfl_rotation_sequences_set(&self->sequences, (uint32_t)facts.sequence, state) != 0)
        return false;
    self->unresolved += is_unresolved;
    return is_cutting && state == SEQUENCE_MOVED;
}

bool pfl_rotation_goes_next(struct pfl_rotation *self, struct pfl_span packet)
{
    return sort(self, read_facts(packet));
}

bool pfl_rotation_long_goes_next(struct pfl_rotation *self, struct pfl_span begin,
                                 struct pfl_span trusted)
{
    struct facts facts = read_facts(begin);

    facts.sequence = read_facts(trusted).sequence;
    return sort(self, facts);
}

void pfl_rotation_note(struct pfl_rotation *self, const struct iovec *slices, size_t slices_len,
                       struct pfl_span tail)
{
    uint64_t sequence = read_facts(tail).sequence; /* of producers' packets it is there */
    struct pfl_buf packet;
    int rc = 0;

    if (sequence <= SERVICE_SEQUENCE || sequence > UINT32_MAX ||
        pfl_rotation_sequences_get(&self->sequences, (uint32_t)sequence) != SEQUENCE_UNSEEN)
        return;
    pfl_buf_init(&packet, NOTE_MAX_BYTES);
    for (size_t i = 0; rc == 0 && i < slices_len; i++)
        rc = pfl_buf_append(&packet, slices[i].iov_base, slices[i].iov_len);
    if (rc == 0)
        rc = pfl_buf_append(&packet, tail.data, tail.len);
    if (rc == 0) /* otherwise it does not count as one that needs earlier data */
        (void)pfl_rotation_goes_next(self, pfl_buf_get(&packet));
    pfl_buf_fini(&packet);
}

void pfl_rotation_end_cut(struct pfl_rotation *self)
{
    pfl_rotation_sequences_turn(&self->sequences, SEQUENCE_MOVED, SEQUENCE_SEEN);
    self->phase = PFL_ROTATION_WRITING;
    self->slot ^= 1;
    self->number++;
    self->begin_ns = self->next_begin_ns;
    self->bytes = self->next_bytes;
    self->unresolved = 0;
    self->is_last_pass = false;
    self->has_next = false;
}

/* ---- what the disk does ---- */

void pfl_rotation_add_steps(struct pfl_rotation *self, struct pfl_disk_job *job,
                            struct pfl_span packets)
{
    if (packets.len != 0)
        pfl_disk_job_add(job, (struct pfl_disk_step){
                                  .kind = PFL_DISK_WRITE, .slot = self->slot, .bytes = packets});
    if (self->phase != PFL_ROTATION_CUTTING)
        return;
    if (!self->has_next)
        pfl_disk_job_add(job, (struct pfl_disk_step){
                                  .kind = PFL_DISK_CREATE,
                                  .slot = self->slot ^ 1,
                                  .path = put_number(self, self->next_path, self->number + 1)});
    self->has_next = true;
    if (self->next.len != 0)
        pfl_disk_job_add(job, (struct pfl_disk_step){.kind = PFL_DISK_WRITE,
                                                     .slot = self->slot ^ 1,
                                                     .bytes = pfl_buf_get(&self->next)});
}

void pfl_rotation_add_end(struct pfl_rotation *self, struct pfl_disk_job *job,
                          const struct pfl_rotation_end *end)
{
    static const char *const reasons[] = {"size", "time", "end"};
    uint32_t keep = self->plan->max_segments;
    uint64_t end_ns = self->phase == PFL_ROTATION_CUTTING ? self->next_begin_ns : end->boottime_ns;
    uint64_t losses = end->losses - self->losses;
    int len;

    self->losses = end->losses;
    if (self->phase != PFL_ROTATION_CUTTING)
        self->reason = PFL_ROTATION_AT_END;
    len = snprintf(self->line, sizeof(self->line),
                   "{\"segment\":%" PRIu32 ",\"file\":\"%s\",\"bytes\":%" PRIu64
                   ",\"begin_ns\":%" PRIu64 ",\"end_ns\":%" PRIu64
                   ",\"reason\":\"%s\",\"unresolved\":%" PRIu32 ",\"losses\":%" PRIu64 "}\n",
                   self->number, get_base_name(pfl_rotation_get_path(self, self->number)),
                   self->bytes + end->bytes, self->begin_ns, end_ns, reasons[self->reason],
                   self->unresolved, losses);
    pfl_disk_job_add(job, (struct pfl_disk_step){.kind = PFL_DISK_SYNC, .slot = self->slot});
    pfl_disk_job_add(job, (struct pfl_disk_step){.kind = PFL_DISK_CLOSE, .slot = self->slot});
    pfl_disk_job_add(
        job, (struct pfl_disk_step){.kind = PFL_DISK_WRITE,
                                    .slot = PFL_ROTATION_INDEX_SLOT,
                                    .bytes = pfl_span_of(self->line, len > 0 ? (size_t)len : 0)});
    pfl_disk_job_add(
        job, (struct pfl_disk_step){.kind = PFL_DISK_SYNC, .slot = PFL_ROTATION_INDEX_SLOT});
    if (self->phase == PFL_ROTATION_CUTTING && keep != 0 && self->number + 1 > keep)
        pfl_disk_job_add(job, (struct pfl_disk_step){.kind = PFL_DISK_REMOVE,
                                                     .path = put_number(self, self->old_path,
                                                                        self->number + 1 - keep)});
    self->lines++;
    if (self->plan->shorten_index_every == 0 || self->lines < self->plan->shorten_index_every)
        return;
    self->lines = 0;
    pfl_disk_job_add(job, (struct pfl_disk_step){.kind = PFL_DISK_SHORTEN,
                                                 .slot = PFL_ROTATION_INDEX_SLOT,
                                                 .path = pfl_rotation_get_index_path(self)});
}

void pfl_rotation_on_written(struct pfl_rotation *self, const struct pfl_disk_result *result,
                             bool is_in_packet)
{
    self->bytes += result->written[self->slot];
    self->next_bytes += result->written[self->slot ^ 1];
    if (self->next.capacity > NEXT_KEPT_BYTES && !is_in_packet)
        pfl_buf_fini(&self->next);
    pfl_buf_clear(&self->next);
}
