/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's packets -> its trace file (docs/abi/service.md section 7).
 *
 *   period or flush done -> wants_pass -> pass: batch, job, batch, job ... -> idle
 *   session DISABLED     -> LAST_PASS  -> last pass, fdatasync, close -> on_file_closed
 *
 * A pass takes packets out of the buffers until a batch is full, gives it to the disk, and
 * continues when it is written. If the disk is slow, data stays in the buffers, whose policy
 * decides what is lost, and counts it. A packet that would make the file reach max_file_size_bytes,
 * and all after it, are not written; the file is closed then and the session disabled. The same
 * happens when the disk fails: the batch in flight is lost and its size logged; the rest can still
 * be read.
 *
 * Owns its disk file and the batch. Limits: one batch, or one packet of up to
 * PFL_SESSION_FILE_PACKET_MAX bytes; without memory for it the writing ends as if the disk failed.
 */
#include "service/session/session_file.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "service/buffer/gather.h"
#include "service/session/session_file_create.h"
#include "service/session/session_flush.h"
#include "service/session/session_instances.h"
#include "service/session/session_record.h"
#include "service/session/stats.h"
#include "service/session/trigger_state.h"

#define TRACE_PACKET_TAG 0x0au
#define OUT_KEPT_BYTES   (4u << 20)
#define LONG_ROOM_BYTES  (PFL_SESSION_FILE_BATCH_BYTES + 2 * PFL_GATHER_STEP_BYTES)

static void pump(struct pfl_session_file *self);
static void flush(struct pfl_session_file *self, enum pfl_flush_then then);
static bool begin_cut_if_due(struct pfl_session_file *self);

static uint64_t next_multiple(uint64_t now_ms, uint32_t period_ms)
{
    return now_ms + period_ms - now_ms % period_ms;
}

bool pfl_session_file_is_open(const struct pfl_session_file *self)
{
    return self != NULL && self->disk != NULL;
}

static void log_end(const struct pfl_session_file *self, const char *why)
{
    pfl_log_info("trace-file-closed", "session=%llu bytes=%llu reason=\"%s\"",
                 (unsigned long long)self->session->id, (unsigned long long)self->written_bytes,
                 why);
}

/* ---- end of the file ---- */

static bool is_over(const struct pfl_session_file *self)
{
    return self->stage >= PFL_SESSION_FILE_OVER;
}

static void close_disk(struct pfl_session_file *self)
{
    pfl_session_read_stop(&self->read);
    self->is_reading = false;
    self->next_write_ms = PFL_SESSION_NEVER;
    self->service->conf.disk->close(self->disk);
    self->disk = NULL;
    pfl_buf_fini(&self->out);
    self->session->ops->on_file_closed(self->service, self->session); /* may free self */
}

static void fail(struct pfl_session_file *self, const char *why, uint64_t lost_bytes)
{
    pfl_log_error("trace-file-failed", "session=%llu bytes=%llu lost_bytes=%llu reason=\"%s\"",
                  (unsigned long long)self->session->id, (unsigned long long)self->written_bytes,
                  (unsigned long long)lost_bytes, why);
    if (self->trouble == PFL_SESSION_FILE_WELL)
        self->trouble = PFL_SESSION_FILE_FAILED;
    self->stage = PFL_SESSION_FILE_OVER;
}

/* ---- a batch ---- */

static size_t get_waiting_bytes(const struct pfl_session_file *self)
{
    return self->out.len + (self->rotation != NULL ? self->rotation->next.len : 0);
}

/* The packet at the end of the batch: to its segment. */
static int sort_packet(struct pfl_session_file *self, size_t begin, size_t head_len)
{
    struct pfl_span all = pfl_buf_get(&self->out);
    struct pfl_span framed = pfl_span_of(all.data + begin, all.len - begin);
    int rc;

    if (!pfl_rotation_goes_next(self->rotation,
                                pfl_span_of(framed.data + head_len, framed.len - head_len)))
        return 0;
    rc = pfl_buf_append(&self->rotation->next, framed.data, framed.len);
    if (rc == 0)
        self->out.len = begin;
    return rc;
}

struct head {
    size_t len;
    uint8_t bytes[1 + PFL_VARINT_MAX_BYTES];
};

static struct head make_head(size_t bytes)
{
    struct head head = {.bytes = {TRACE_PACKET_TAG}};

    head.len = 1 + pfl_varint_put(head.bytes + 1, bytes);
    return head;
}

/* Would the file be too large with so much more? */
static bool is_too_much(const struct pfl_session_file *self, size_t bytes)
{
    uint64_t max_bytes = self->session->plan->file.max_bytes;

    return max_bytes != 0 && self->written_bytes + get_waiting_bytes(self) + bytes >= max_bytes;
}

/* With the first part of a long packet: its place, and memory that all parts need between two
 * batches, so that a packet that was begun does not end for lack of memory. */
static int begin_long(struct pfl_session_file *self, const struct pfl_readback_packet *part)
{
    bool goes_next = self->rotation != NULL &&
                     pfl_rotation_long_goes_next(self->rotation, part->tail, part->trusted);
    size_t all = part->bytes + part->more;
    uint8_t *room;

    self->long_to = goes_next ? &self->rotation->next : &self->out;
    return pfl_buf_reserve(self->long_to,
                           all < LONG_ROOM_BYTES ? all + PFL_VARINT_MAX_BYTES + 1 : LONG_ROOM_BYTES,
                           &room);
}

/* A part of a long packet. */
static int append_part(struct pfl_session_file *self, const struct pfl_readback_packet *part)
{
    bool is_first = self->long_left == 0;
    struct head head = make_head(part->bytes + part->more);
    int rc = 0;

    if (is_first && is_too_much(self, head.len + part->bytes + part->more))
        return PFL_ELIMIT;
    if (is_first)
        rc = begin_long(self, part);
    if (rc == 0 && is_first)
        rc = pfl_buf_append(self->long_to, head.bytes, head.len);
    if (rc == 0)
        rc = pfl_buf_append(self->long_to, part->tail.data, part->tail.len);
    self->long_left = part->more;
    return rc;
}

static int append_packet(struct pfl_session_file *self, const struct pfl_readback_packet *packet)
{
    size_t begin = self->out.len;
    struct head head = make_head(packet->bytes);
    uint8_t *room;
    int rc;

    if (packet->more != 0 || self->long_left != 0)
        return append_part(self, packet);
    if (is_too_much(self, head.len + packet->bytes))
        return PFL_ELIMIT;
    rc = pfl_buf_reserve(&self->out, head.len + packet->bytes, &room);
    if (rc != 0)
        return PFL_ENOMEM;
    rc = pfl_buf_append(&self->out, head.bytes, head.len);
    for (size_t i = 0; rc == 0 && i < packet->slices_len; i++)
        rc = pfl_buf_append(&self->out, packet->slices[i].iov_base, packet->slices[i].iov_len);
    if (rc == 0 && packet->tail.len != 0)
        rc = pfl_buf_append(&self->out, packet->tail.data, packet->tail.len);
    return rc != 0 || self->rotation == NULL ? rc : sort_packet(self, begin, head.len);
}

/* PFL_EEOF: the pass is over. PFL_EAGAIN: its packets are with a worker, or it is paused.
 * PFL_ELIMIT: full. */
static int fill_batch(struct pfl_session_file *self)
{
    struct pfl_readback_packet packet;
    int rc = 0;

    while (rc == 0 && get_waiting_bytes(self) < PFL_SESSION_FILE_BATCH_BYTES) {
        rc = pfl_session_read_next_packet(&self->read, &packet);
        if (rc == 0)
            rc = append_packet(self, &packet);
    }
    return rc;
}

static void on_job_done(void *user, const struct pfl_disk_result *result)
{
    struct pfl_session_file *self = user;
    uint64_t written = result->written[0] + result->written[1];
    uint64_t lost_bytes = get_waiting_bytes(self) - written;
    enum pfl_session_file_job job = self->job;

    self->job = PFL_SESSION_FILE_NO_JOB;
    self->written_bytes += written;
    if (self->rotation != NULL)
        pfl_rotation_on_written(self->rotation, result, self->long_left != 0);
    if (job == PFL_SESSION_FILE_END_SEGMENT)
        pfl_rotation_end_cut(self->rotation);
    if (result->shorten_error != 0)
        pfl_log_warn("trace-index-not-shortened", "session=%llu reason=\"%s\"",
                     (unsigned long long)self->session->id, strerror(result->shorten_error));
    if (result->error != 0 && self->trouble != PFL_SESSION_FILE_BROKEN) {
        fail(self, strerror(result->error), lost_bytes);
        self->trouble = PFL_SESSION_FILE_BROKEN;
    }
    if (self->out.capacity > OUT_KEPT_BYTES && self->long_left == 0)
        pfl_buf_fini(&self->out);
    pfl_buf_clear(&self->out);
    if (job == PFL_SESSION_FILE_CLOSE && self->trouble == PFL_SESSION_FILE_WELL)
        log_end(self, self->stage == PFL_SESSION_FILE_FULL ? "max_file_size_bytes"
                                                           : "the session is over");
    if (job == PFL_SESSION_FILE_CLOSE)
        close_disk(self);
    else
        pump(self);
}

static struct pfl_disk_job make_job(struct pfl_session_file *self, bool wants_sync)
{
    struct pfl_disk_job job = {0};

    if (self->out.len != 0)
        pfl_disk_job_add(
            &job, (struct pfl_disk_step){.kind = PFL_DISK_WRITE, .bytes = pfl_buf_get(&self->out)});
    if (wants_sync)
        pfl_disk_job_add(&job, (struct pfl_disk_step){.kind = PFL_DISK_SYNC});
    if (is_over(self))
        pfl_disk_job_add(&job, (struct pfl_disk_step){.kind = PFL_DISK_CLOSE});
    self->job = is_over(self) ? PFL_SESSION_FILE_CLOSE : PFL_SESSION_FILE_WRITE;
    return job;
}

static void add_segment_end(struct pfl_session_file *self, struct pfl_disk_job *job)
{
    const struct pfl_rotation_end end = {.boottime_ns = pfl_service_boottime_ns(self->service),
                                         .bytes = self->out.len,
                                         .losses = pfl_stats_count_losses(self->session)};

    pfl_rotation_add_end(self->rotation, job, &end);
}

/* A cut ends with its last pass; the end of the last segment is a job of its own then. */
static struct pfl_disk_job make_segment_job(struct pfl_session_file *self, bool is_pass_over)
{
    struct pfl_disk_job job = {0};
    bool is_cutting = self->rotation->phase == PFL_ROTATION_CUTTING;

    pfl_rotation_add_steps(self->rotation, &job, pfl_buf_get(&self->out));
    if (is_cutting && ((is_pass_over && self->rotation->is_last_pass) || is_over(self)))
        self->job = PFL_SESSION_FILE_END_SEGMENT;
    else
        self->job = is_over(self) && !is_cutting ? PFL_SESSION_FILE_CLOSE : PFL_SESSION_FILE_WRITE;
    if (self->job != PFL_SESSION_FILE_WRITE)
        add_segment_end(self, &job);
    else if (is_pass_over && self->session->plan->file.wants_sync)
        pfl_disk_job_add(
            &job, (struct pfl_disk_step){.kind = PFL_DISK_SYNC, .slot = self->rotation->slot});
    return job;
}

/* A segment that the disk cut short gets no line in the index. */
static struct pfl_disk_job make_closing_job(struct pfl_session_file *self)
{
    struct pfl_disk_job job = {0};

    for (unsigned slot = 0; slot < PFL_DISK_SLOTS; slot++)
        pfl_disk_job_add(&job, (struct pfl_disk_step){.kind = PFL_DISK_CLOSE, .slot = slot});
    self->job = PFL_SESSION_FILE_CLOSE;
    return job;
}

static struct pfl_disk_job make_next_job(struct pfl_session_file *self, bool is_pass_over)
{
    bool wants_sync = is_over(self) || (is_pass_over && self->session->plan->file.wants_sync);

    if (self->trouble == PFL_SESSION_FILE_BROKEN)
        return make_closing_job(self);
    return self->rotation != NULL ? make_segment_job(self, is_pass_over)
                                  : make_job(self, wants_sync);
}

static void submit(struct pfl_session_file *self, bool is_pass_over)
{
    struct pfl_disk_job job = make_next_job(self, is_pass_over);

    self->service->conf.disk->submit(self->disk, &job);
}

/* ---- a pass ---- */

static void on_ready(void *user)
{
    pfl_session_file_resume(user);
}

static void on_packet(void *user, const struct pfl_readback_packet *packet)
{
    struct pfl_session_file *self = user;

    if (packet->more != 0)
        (void)pfl_rotation_long_goes_next(self->rotation, packet->tail, packet->trusted);
    else
        pfl_rotation_note(self->rotation, packet->slices, packet->slices_len, packet->tail);
}

static bool is_compressed(const struct pfl_session_file *self)
{
    return self->session->plan->codec != PFL_CODEC_NONE;
}

/* Compressed packets cannot be sorted: those of a cut are not compressed, which are few, as a pass
 * comes before it, unless producers are slow to flush. All others are noted before compression. */
static void follow_packets(struct pfl_session_file *self, bool is_cutting)
{
    if (self->rotation == NULL || !is_compressed(self))
        return;
    pfl_pipeline_set_plain(self->session->output->pipeline, is_cutting);
    self->read.on_packet = is_cutting ? NULL : on_packet;
}

/* The cut comes next: until then nothing is read, as a sequence whose state is cleared meanwhile
 * belongs to the next segment. */
static void end_drain(struct pfl_session_file *self)
{
    if (self->drain != PFL_SESSION_FILE_DRAINING || self->stage != PFL_SESSION_FILE_GOES_ON)
        return;
    self->drain = PFL_SESSION_FILE_DRAINED;
    self->wants_pass = false;
}

static bool is_cutting(const struct pfl_session_file *self)
{
    return self->rotation != NULL && self->rotation->phase == PFL_ROTATION_CUTTING;
}

static void begin_pass(struct pfl_session_file *self)
{
    bool is_last = self->stage == PFL_SESSION_FILE_LAST_PASS;
    int rc;

    self->wants_pass = false;
    self->long_left = 0;
    if (self->drain == PFL_SESSION_FILE_WANTS_DRAIN)
        self->drain = PFL_SESSION_FILE_DRAINING;
    if (is_cutting(self) && (self->wants_cut || is_last)) {
        pfl_rotation_begin_last_pass(self->rotation, pfl_service_boottime_ns(self->service));
        self->wants_pass = is_last; /* that of the segment which is open then */
    }
    self->wants_cut = false;
    if (is_last)
        self->session->pending.stats = true;
    rc = pfl_session_read_start(&self->read, self->service, self->session, 0);
    self->is_reading = rc == 0;
    if (rc == 0) {
        self->read.on_ready = on_ready;
        self->read.user = self;
        follow_packets(self, is_cutting(self));
        return;
    }
    if (is_last)
        fail(self, pfl_err_str(rc), 0);
    else
        pfl_log_warn("trace-file-pass-skipped", "session=%llu reason=\"%s\"",
                     (unsigned long long)self->session->id, pfl_err_str(rc));
    end_drain(self);
    if (is_cutting(self) && self->rotation->is_last_pass && !is_last)
        submit(self, true); /* the cut ends without it */
}

static void end_pass(struct pfl_session_file *self)
{
    pfl_session_read_stop(&self->read);
    self->is_reading = false;
    end_drain(self);
    /* A pass that began before the session was over is not the last. */
    if (self->stage == PFL_SESSION_FILE_LAST_PASS && !self->wants_pass)
        self->stage = PFL_SESSION_FILE_OVER;
}

/* One batch of the pass that runs. False: it waits for packets. */
static bool step_pass(struct pfl_session_file *self)
{
    int rc = fill_batch(self);
    bool is_pass_over = rc == PFL_EEOF;
    bool is_paused = rc == PFL_EAGAIN && pfl_session_read_is_paused(&self->read);

    if (rc == PFL_EAGAIN && get_waiting_bytes(self) == 0 && !is_paused)
        return false;
    if (rc == PFL_ELIMIT) {
        pfl_session_read_stop(&self->read);
        self->is_reading = false;
        self->stage = PFL_SESSION_FILE_FULL;
    } else if (rc == PFL_EEOF) {
        end_pass(self);
    } else if (rc != 0 && rc != PFL_EAGAIN) {
        fail(self, pfl_err_str(rc), 0);
    }
    /* After a pause, others are served until even an empty job is done. */
    if (get_waiting_bytes(self) != 0 || is_over(self) || is_cutting(self) || is_paused)
        submit(self, is_pass_over);
    return true;
}

static void ask_for_cut(struct pfl_session_file *self)
{
    self->drain = PFL_SESSION_FILE_NO_DRAIN;
    if (self->session->state != PFL_SESSION_STARTED)
        return; /* it ends */
    pfl_session_tell_again(self->service, self->session);
    pfl_rotation_begin_cut(self->rotation, pfl_service_boottime_ns(self->service));
    pfl_session_clear_state(self->service, self->session);
    flush(self, PFL_FLUSH_THEN_CUT);
}

bool pfl_session_file_is_idle(const struct pfl_session_file *self)
{
    return self->job == PFL_SESSION_FILE_NO_JOB && !self->is_reading && !self->wants_pass &&
           !is_over(self) && !is_cutting(self);
}

static void pump(struct pfl_session_file *self)
{
    bool can_proceed = true;

    while (can_proceed && self->job == PFL_SESSION_FILE_NO_JOB) {
        if (is_over(self))
            submit(self, true);
        else if (self->is_reading)
            can_proceed = step_pass(self);
        else if (self->wants_pass && !self->session->is_copied)
            begin_pass(self);
        else
            can_proceed = false;
    }
    if (self->drain == PFL_SESSION_FILE_DRAINED && !is_over(self)) {
        ask_for_cut(self); /* which may pump */
        return;
    }
    if (begin_cut_if_due(self)) /* likewise */
        return;
    if (pfl_session_file_is_idle(self))
        self->session->ops->on_file_idle(self->service, self->session);
}

/* ---- from outside ---- */

static int open_disk(struct pfl_session_file *file, int fd, char *why)
{
    const struct pfl_disk_ops *disk = file->service->conf.disk;
    struct pfl_span path = file->session->plan->file.path;
    int fds[PFL_DISK_SLOTS] = {fd, -1, -1, -1};
    char *name;
    int rc;

    if (fd >= 0)
        return disk->open(file->service->conf.disk_user, fds, on_job_done, file, &file->disk);
    name = pfl_mem_strndup((const char *)path.data, path.len);
    if (name == NULL)
        return PFL_ENOMEM;
    rc = pfl_session_file_create(file, name, fds, why);
    if (rc == 0)
        rc = disk->open(file->service->conf.disk_user, fds, on_job_done, file, &file->disk);
    if (rc != 0)
        pfl_session_file_discard(file, name, fds);
    pfl_mem_free(name);
    return rc;
}

static int make_rotation(struct pfl_session_file *file)
{
    const struct pfl_plan_file *plan = &file->session->plan->file;

    if (plan->segment_max_bytes == 0 && plan->segment_period_ms == 0)
        return 0;
    return pfl_rotation_new(plan, pfl_service_boottime_ns(file->service), &file->rotation);
}

static struct pfl_session_file *make_file(struct pfl_service *service, struct pfl_session *session)
{
    struct pfl_session_file *file = pfl_mem_zalloc(sizeof(*file));

    if (file == NULL)
        return NULL;
    file->service = service;
    file->session = session;
    file->next_write_ms = PFL_SESSION_NEVER;
    pfl_buf_init(&file->out, PFL_SESSION_FILE_PACKET_MAX);
    return file;
}

int pfl_session_file_open(struct pfl_service *service, struct pfl_session *session, int fd,
                          char ret_why[PFL_PLAN_WHY_BYTES])
{
    struct pfl_session_file *file = make_file(service, session);
    int rc;

    if (file == NULL)
        return PFL_ENOMEM;
    rc = make_rotation(file);
    if (rc == 0)
        rc = open_disk(file, fd, ret_why);
    if (rc != 0) {
        pfl_session_file_free(file);
        return rc;
    }
    session->file = file;
    return 0;
}

int pfl_session_file_copy(struct pfl_service *service, struct pfl_session *clone,
                          const struct pfl_session_file *source, int fd)
{
    const struct pfl_disk_ops *disk = service->conf.disk;
    unsigned slot = source->rotation != NULL ? source->rotation->slot : 0;
    struct pfl_disk_step copy = {.kind = PFL_DISK_COPY, .from = 1};
    struct pfl_session_file *file = make_file(service, clone);
    int fds[PFL_DISK_SLOTS] = {fd, -1, -1, -1};
    struct pfl_disk_job job = {0};
    int rc = PFL_EIO;

    if (file == NULL)
        return PFL_ENOMEM;
    if (disk->share(source->disk, slot, &fds[1], &copy.copy_bytes) == 0)
        rc = disk->open(service->conf.disk_user, fds, on_job_done, file, &file->disk);
    if (rc != 0) {
        if (fds[1] >= 0)
            disk->discard(service->conf.disk_user, -1, NULL, fds[1]);
        pfl_session_file_free(file);
        return rc;
    }
    clone->file = file;
    file->is_copy = true;
    file->stage = PFL_SESSION_FILE_LAST_PASS;
    file->wants_pass = true;
    file->job = PFL_SESSION_FILE_WRITE;
    pfl_disk_job_add(&job, copy);
    pfl_disk_job_add(&job, (struct pfl_disk_step){.kind = PFL_DISK_CLOSE, .slot = 1});
    disk->submit(file->disk, &job);
    return 0;
}

void pfl_session_file_free(struct pfl_session_file *self)
{
    if (self == NULL)
        return;
    if (self->disk != NULL)
        self->service->conf.disk->close(self->disk);
    pfl_session_read_stop(&self->read);
    pfl_buf_fini(&self->out);
    pfl_rotation_free(self->rotation);
    pfl_mem_free(self);
}

void pfl_session_file_start(struct pfl_session_file *self)
{
    if (!pfl_session_file_is_open(self))
        return;
    self->next_write_ms =
        next_multiple(pfl_service_now_ms(self->service), self->session->plan->file.period_ms);
    pfl_service_look_at(self->service, self->next_write_ms);
}

static void flush(struct pfl_session_file *self, enum pfl_flush_then then)
{
    const struct pfl_session_flush_conf conf = {
        .timeout_ms = self->session->plan->flush_timeout_ms,
        .flags = PFL_FLUSH_PERIODIC | PFL_FLUSH_INITIATOR_SERVICE,
        .then = then,
    };

    pfl_session_flush(self->service, self->session, &conf);
}

static void begin_cut(struct pfl_session_file *self)
{
    if (is_compressed(self)) {
        self->drain = PFL_SESSION_FILE_WANTS_DRAIN;
        flush(self, PFL_FLUSH_THEN_WRITE);
    } else if (self->is_reading) {
        self->drain = PFL_SESSION_FILE_DRAINING;
    } else {
        ask_for_cut(self);
    }
}

static bool is_cut_due(struct pfl_session_file *self)
{
    return self->rotation != NULL && self->session->state == PFL_SESSION_STARTED &&
           self->stage == PFL_SESSION_FILE_GOES_ON && !pfl_trigger_is_awaited(self->session) &&
           pfl_rotation_is_due(self->rotation, pfl_service_boottime_ns(self->service));
}

/* After the pass of a write period, and once: a head that is larger than a segment may be does not
 * make cut follow upon cut. */
static bool begin_cut_if_due(struct pfl_session_file *self)
{
    if (!self->is_period || !pfl_session_file_is_idle(self))
        return false;
    self->is_period = false;
    if (!is_cut_due(self))
        return false;
    begin_cut(self);
    return true;
}

void pfl_session_file_run(struct pfl_session_file *self)
{
    bool is_started = self->session->state == PFL_SESSION_STARTED;

    self->next_write_ms =
        next_multiple(pfl_service_now_ms(self->service), self->session->plan->file.period_ms);
    if (is_cut_due(self)) {
        begin_cut(self);
    } else if (self->session->plan->file.flush_first && is_started) {
        self->is_period = true;
        flush(self, PFL_FLUSH_THEN_WRITE);
    } else {
        self->is_period = true;
        pfl_session_file_write(self);
    }
}

void pfl_session_file_write(struct pfl_session_file *self)
{
    if (!pfl_session_file_is_open(self) || self->stage != PFL_SESSION_FILE_GOES_ON ||
        pfl_trigger_is_awaited(self->session))
        return;
    self->wants_pass = true;
    pump(self);
}

void pfl_session_file_cut(struct pfl_session_file *self)
{
    if (!pfl_session_file_is_open(self))
        return;
    self->wants_cut = true;
    pfl_session_file_write(self);
}

void pfl_session_file_finish(struct pfl_session_file *self)
{
    self->next_write_ms = PFL_SESSION_NEVER;
    if (!is_over(self)) {
        self->wants_pass = !pfl_trigger_is_awaited(self->session);
        self->stage = self->wants_pass ? PFL_SESSION_FILE_LAST_PASS : PFL_SESSION_FILE_OVER;
    }
    pump(self);
}

void pfl_session_file_resume(struct pfl_session_file *self)
{
    if (pfl_session_file_is_open(self))
        pump(self);
}
