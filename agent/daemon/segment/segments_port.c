/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of segments: see segments_port.h.
 *
 *     tick -> each run's index is read (segments_take_port.c)
 *     a collector: LIST, READ, RELEASE (segments_requests_port.c)
 *
 * Happy path: a run is begun, its segments are taken, and it is forgotten when all are released. At
 * any kill the folder tells what is taken: a note is renamed into place, a gap's note comes before
 * the files that it covers go, a release is a rename before the file goes. Failures: a disk that is
 * full, or fails, is tried again with the next tick. Ownership: the table, the runs, ops until
 * their on_done; one thread does the work in order. Limits: those of the table.
 */
#include "agent/daemon/segment/segments_port.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "agent/daemon/segment/segments_impl.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/ulid.h"
#include "proto/unpack.h"

#define TICK_MS       1000u
#define CLOCK_WAIT_MS 3000u
#define NS_PER_MS     UINT64_C(1000000)

/* ---- ticks ---- */

static void run_look(struct pfl_work *work)
{
    struct pfl_segments_op *op = pfl_segments_op_of(work);

    op->has_room = pfl_segment_disk_has_room(op->s->dir);
}

static void on_looked(struct pfl_segments_op *op)
{
    struct pfl_segments *s = op->s;

    s->is_looking = false;
    if (s->has_room == op->has_room)
        return;
    s->has_room = op->has_room;
    if (s->has_room)
        pfl_log_info("segments-have-room", "folder=%s", pfl_log_quote_str(s->path));
    else
        pfl_log_warn("segments-disk-full", "folder=%s effect=\"no run begins until there is room\"",
                     pfl_log_quote_str(s->path));
    pfl_segments_notify_changed(s);
}

/* Is there room on the disk? */
static void look(struct pfl_segments *s)
{
    struct pfl_segments_op *op;

    if (s->is_looking || pfl_segments_make_op(s, 0, &op) != 0)
        return;
    s->is_looking = pfl_segments_submit(op, run_look, on_looked) == 0;
}

static void on_tick(uv_timer_t *timer)
{
    struct pfl_segments *s = timer->data;
    struct pfl_list *it;
    struct pfl_list *tmp;

    look(s);
    PFL_LIST_EACH_SAFE (it, tmp, &s->runs) {
        struct pfl_segments_run *r = PFL_CONTAINER_OF(it, struct pfl_segments_run, node);

        r->is_kept_back = false;
        if (r->is_busy)
            continue;
        if (r->state == PFL_SEGMENTS_RUN_OVER)
            pfl_segments_forget_if_done(r);
        else if (r->line.number == r->next)
            pfl_segments_pump(r);
        else
            pfl_segments_scan(r);
    }
    pfl_segments_enforce(s);
}

/* ---- a run from begin to end ---- */

/* A copy leaves room for sessions, and for the copies of other orders. */
static bool has_room_for_copy(const struct pfl_segments *s, const Perfleet__Segment *note)
{
    unsigned of_order = 0;

    for (size_t i = 0; i < s->table.runs_len; i++)
        of_order += strcmp(s->table.runs[i].orderer, note->orderer) == 0 &&
                    strcmp(s->table.runs[i].order, note->order) == 0;
    return s->table.runs_len < PFL_SEGMENT_COPIES_MAX && of_order < PFL_SEGMENT_COPIES_OF_ORDER;
}

static void run_begin(struct pfl_work *work)
{
    struct pfl_segments_op *op = pfl_segments_op_of(work);
    struct pfl_segment_name name = pfl_segments_name_of(PFL_SEGMENT_FILE_RUN, op->entry.id, 0);

    op->rc = pfl_segment_disk_write(op->s->dir, &name, pfl_buf_get(&op->buf));
}

/* A copy stays without its note: that of the gap, which it becomes, has the same. */
static void on_begun(struct pfl_segments_op *op)
{
    struct pfl_segments_run *r = op->run;
    struct pfl_segments_result result = {.rc = op->rc};

    r->is_busy = false;
    if (op->rc != 0 && r->note->trigger == NULL)
        pfl_segments_free_run(r);
    else
        pfl_segments_pump(r);
    if (op->done != NULL)
        op->done(op->user, &result);
}

/* Frees the run when it fails. */
static int submit_begin(struct pfl_segments_run *r, const struct pfl_segments_begin *begin,
                        struct pfl_segments_op **ret_op)
{
    struct pfl_segments_op *op = NULL;
    int rc = pfl_segments_make_op(r->s, PFL_SEGMENT_NOTE_BYTES, &op);

    if (rc == 0) {
        op->run = r;
        op->done = begin->done;
        op->user = begin->user;
        memcpy(op->entry.id, r->id, sizeof(op->entry.id));
        rc = pfl_proto_pack(&r->note->base, &op->buf);
        if (rc == 0)
            rc = pfl_segments_submit(op, run_begin, on_begun);
        else
            pfl_segments_free_op(op);
    }
    if (rc != 0) {
        pfl_segments_free_run(r);
        return rc;
    }
    r->is_busy = true;
    *ret_op = op;
    return 0;
}

static int copy_note(const Perfleet__Segment *note, Perfleet__Segment **ret_copy)
{
    struct pfl_buf bytes;
    ProtobufCMessage *copy = NULL;
    int rc;

    pfl_buf_init(&bytes, PFL_SEGMENT_NOTE_BYTES);
    rc = pfl_proto_pack(&note->base, &bytes);
    if (rc == 0)
        rc = pfl_proto_unpack(&perfleet__segment__descriptor, pfl_buf_get(&bytes), &copy);
    pfl_buf_fini(&bytes);
    *ret_copy = (Perfleet__Segment *)copy;
    return rc;
}

int pfl_segments_begin_run(struct pfl_segments *self, const struct pfl_segments_begin *begin,
                           char ret_id[PFL_SEGMENT_ID_BYTES], struct pfl_segments_op **ret_op)
{
    Perfleet__Segment *note = begin->note;
    char id[PFL_SEGMENT_ID_BYTES];
    Perfleet__Segment *copy;
    struct pfl_segments_run *r;
    int rc;

    if (note->trigger != NULL && !has_room_for_copy(self, note))
        return PFL_ELIMIT;
    (void)pfl_ulid_make(pfl_clock_now_ns(PFL_CLOCK_REALTIME) / NS_PER_MS, id);
    note->incarnation = id;
    note->boot_id = self->boot_id;
    note->has_begin_boot_ns = note->has_begin_unix_ns = 1;
    note->begin_boot_ns = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    note->begin_unix_ns = pfl_clock_now_ns(PFL_CLOCK_REALTIME);
    rc = copy_note(note, &copy);
    note->incarnation = note->boot_id = NULL;
    if (rc == 0)
        rc = pfl_segments_add_run(self, copy, PFL_SEGMENTS_RUN_LIVE, &r);
    if (rc != 0)
        return rc;
    rc = submit_begin(r, begin, ret_op);
    if (rc != 0)
        return rc;
    pfl_segments_set_quota(self, copy->orderer, copy->order, &begin->quota);
    memcpy(ret_id, id, sizeof(id));
    return 0;
}

void pfl_segments_end_run(struct pfl_segments *self, const char *id)
{
    struct pfl_segments_run *r = pfl_segments_find_run(self, id);

    if (r == NULL || r->state != PFL_SEGMENTS_RUN_LIVE)
        return;
    r->state = PFL_SEGMENTS_RUN_SETTLING;
    r->quiet_since_ms = uv_now(self->conf.loop);
}

void pfl_segments_get_path(const struct pfl_segments *self, const char *id, char *dst, size_t room)
{
    (void)snprintf(dst, room, "%s/%s.pftrace", self->path, id);
}

void pfl_segments_set_quota(struct pfl_segments *self, const char *orderer, const char *order,
                            const struct pfl_segment_quota *quota)
{
    for (size_t i = 0; i < self->table.runs_len; i++) {
        struct pfl_segment_run *r = &self->table.runs[i];

        if (strcmp(r->orderer, orderer) == 0 && strcmp(r->order, order) == 0)
            r->quota = *quota;
    }
}

uint64_t pfl_segments_get_quota_bytes(const struct pfl_segments *self)
{
    return self->table.quota.max_bytes;
}

bool pfl_segments_has_room(const struct pfl_segments *self)
{
    return self->has_room;
}

/* ---- the folder ---- */

/* The earliest time that it may be now, as segments have it that earlier processes took: those of
 * this boot and the boot clock; those of another boot, and what passed since this one began. One
 * that was taken while the clock was ahead does not make it later. 0: there is none. */
static uint64_t find_earliest_unix_ns(const struct pfl_segments *s, uint64_t boot_ns)
{
    const struct pfl_segments_run *run = NULL;
    uint64_t earliest = UINT64_MAX;
    uint64_t newest = 0; /* of other boots */

    for (size_t i = 0; i < s->table.len; i++) {
        const struct pfl_segment_entry *e = &s->table.entries[i];
        uint64_t passed_ns = boot_ns > e->end_boot_ns ? boot_ns - e->end_boot_ns : 0;

        if (e->is_gap)
            continue;
        if (run == NULL || strcmp(run->id, e->id) != 0)
            run = pfl_segments_find_run(s, e->id);
        if (!pfl_segments_is_of_this_boot(run))
            newest = e->end_unix_ns > newest ? e->end_unix_ns : newest;
        else if (e->end_unix_ns + passed_ns < earliest)
            earliest = e->end_unix_ns + passed_ns;
    }
    if (newest != 0 && newest + boot_ns < earliest)
        earliest = newest + boot_ns;
    return earliest != UINT64_MAX ? earliest : 0;
}

static int prepare(struct pfl_segments *s)
{
    int rc = pfl_sha256_new(&s->sha256);

    if (rc != 0)
        return rc;
    s->dir = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->dir < 0)
        return PFL_EIO;
    s->has_room = pfl_segment_disk_has_room(s->dir);
    rc = pfl_segments_read_folder(s);
    s->age.boot_ns = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    s->age.wall_ns = find_earliest_unix_ns(s, s->age.boot_ns);
    return rc;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_segments *s = handle->data;

    s->is_timer_open = false;
    pfl_segments_finish(s);
}

int pfl_segments_open(const struct pfl_segments_conf *conf, struct pfl_segments **ret_segments)
{
    struct pfl_segments *s = pfl_mem_zalloc(sizeof(*s));
    int rc;

    if (s == NULL)
        return PFL_ENOMEM;
    s->conf = *conf;
    s->conf.tick_ms = conf->tick_ms != 0 ? conf->tick_ms : TICK_MS;
    s->conf.settle_ms = conf->settle_ms != 0 ? conf->settle_ms : PFL_SEGMENTS_SETTLE_MS;
    s->conf.clock_wait_ms = conf->clock_wait_ms != 0 ? conf->clock_wait_ms : CLOCK_WAIT_MS;
    s->dir = -1;
    (void)snprintf(s->path, sizeof(s->path), "%s", conf->dir);
    pfl_list_init(&s->runs);
    pfl_segment_table_init(&s->table, &conf->quota);
    if (conf->segments_max != 0)
        s->table.max = conf->segments_max;
    if (conf->runs_max != 0)
        s->table.runs_max = conf->runs_max;
    s->worker = conf->worker;
    (void)snprintf(s->boot_id, sizeof(s->boot_id), "%s", conf->boot_id);
    rc = prepare(s);
    if (rc != 0) {
        int error = errno;

        s->conf.on_closed = NULL;
        s->is_closing = true;
        pfl_segments_finish(s);
        errno = error;
        return rc;
    }
    (void)uv_timer_init(conf->loop, &s->timer);
    s->timer.data = s;
    s->is_timer_open = true;
    (void)uv_timer_start(&s->timer, on_tick, 0, s->conf.tick_ms);
    *ret_segments = s;
    return 0;
}

void pfl_segments_close(struct pfl_segments *self)
{
    if (self->is_closing)
        return;
    self->is_closing = true;
    uv_close((uv_handle_t *)&self->timer, on_timer_closed);
}

/* ---- figures ---- */

void pfl_segments_sum(const struct pfl_segments *self, const char *orderer, const char *order,
                      struct pfl_segment_sums *ret_sums)
{
    pfl_segment_table_sum(&self->table, orderer, order, ret_sums);
}

void pfl_segments_get_figures(const struct pfl_segments *self,
                              struct pfl_segments_figures *ret_figures)
{
    *ret_figures = self->figures;
    pfl_segment_table_sum(&self->table, NULL, NULL, &ret_figures->sums);
    ret_figures->gaps = self->table.gaps;
    ret_figures->runs = self->table.runs_len;
    ret_figures->has_room = self->has_room;
}
