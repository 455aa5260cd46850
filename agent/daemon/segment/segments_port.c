/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of segments: see segments_port.h.
 *
 *     tick -> SCAN a run's index -> a line -> TAKE (hash, note) -> the table
 *     the table is too full or too old -> GAP (note, files away) -> the table
 *     a collector: LIST, READ, RELEASE
 *
 * Happy path: every line of the index becomes a note; after the line of the end the run is over,
 * and forgotten when all is released. Failures: a file that is not there when its line is becomes a
 * gap; an index that makes no sense is not read on, and what files there are is taken as LOST when
 * they no longer change; a disk that is full, or fails, is tried again with the next tick. At any
 * kill the folder tells what is taken: a note is renamed into place, a gap's note comes before the
 * files that it covers go, a release is a rename before the file goes. Ownership: the table, the
 * runs, ops until their on_done; one thread does the work in order. Limits: those of the table.
 */
#include "agent/daemon/segment/segments_port.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/segment/segments_impl.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/ulid.h"
#include "proto/unpack.h"

#define TICK_MS       1000u
#define INDEX_BYTES   16384u
#define CLOCK_WAIT_MS 3000u
#define NS_PER_MS     UINT64_C(1000000)

static void enforce(struct pfl_segments *s);

static void on_gap_made(struct pfl_segments_run *r)
{
    pfl_segments_pump(r);
    enforce(r->s);
}

/* ---- ops ---- */

static void finish(struct pfl_segments *s)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (!s->is_closing || s->ops != 0 || s->is_timer_open)
        return;
    PFL_LIST_EACH_SAFE (it, tmp, &s->runs) {
        struct pfl_segments_run *r = PFL_CONTAINER_OF(it, struct pfl_segments_run, node);

        pfl_list_remove(&r->node);
        pfl_buf_fini(&r->text);
        pfl_proto_free(&r->note->base);
        pfl_mem_free(r);
    }
    pfl_clock_points_fini(&s->clock);
    pfl_sha256_free(s->sha256);
    pfl_segment_table_fini(&s->table);
    if (s->dir >= 0)
        (void)close(s->dir);
    if (s->conf.on_closed != NULL)
        s->conf.on_closed(s->conf.user);
    pfl_mem_free(s);
}

void pfl_segments_free_op(struct pfl_segments_op *op)
{
    pfl_buf_fini(&op->buf);
    pfl_mem_free(op->keys);
    pfl_mem_free(op);
}

static void on_op_done(struct pfl_work *work)
{
    struct pfl_segments_op *op = PFL_CONTAINER_OF(work, struct pfl_segments_op, work);
    struct pfl_segments *s = op->s;

    s->ops--;
    op->on_done(op);
    pfl_segments_free_op(op);
    finish(s);
}

int pfl_segments_make_op(struct pfl_segments *s, size_t bytes, struct pfl_segments_op **ret_op)
{
    struct pfl_segments_op *op = pfl_mem_zalloc(sizeof(*op));
    uint8_t *room;
    int rc;

    if (op == NULL)
        return PFL_ENOMEM;
    op->s = s;
    pfl_buf_init(&op->buf, bytes != 0 ? bytes : 1);
    rc = bytes != 0 ? pfl_buf_reserve(&op->buf, bytes, &room) : 0;
    if (rc != 0) {
        pfl_segments_free_op(op);
        return rc;
    }
    *ret_op = op;
    return 0;
}

int pfl_segments_submit(struct pfl_segments_op *op, void (*run)(struct pfl_work *work),
                        void (*on_done)(struct pfl_segments_op *op))
{
    int rc;

    op->work.run = run;
    op->work.on_done = on_op_done;
    op->on_done = on_done;
    rc = pfl_worker_submit(op->s->worker, &op->work);
    if (rc == 0)
        op->s->ops++;
    else
        pfl_segments_free_op(op);
    return rc;
}

struct pfl_segments_op *pfl_segments_op_of(struct pfl_work *work)
{
    return PFL_CONTAINER_OF(work, struct pfl_segments_op, work);
}

struct pfl_segment_name pfl_segments_name_of(enum pfl_segment_file file, const char *id,
                                             uint32_t number)
{
    struct pfl_segment_name name = {.file = file, .number = number};

    memcpy(name.id, id, sizeof(name.id));
    return name;
}

int pfl_segments_remove_file(struct pfl_segments *s, enum pfl_segment_file file, const char *id,
                             uint32_t number)
{
    struct pfl_segment_name name = pfl_segments_name_of(file, id, number);

    return pfl_segment_disk_remove(s->dir, &name);
}

void pfl_segments_notify_changed(struct pfl_segments *s)
{
    if (!s->is_closing && s->conf.on_changed != NULL)
        s->conf.on_changed(s->conf.user);
}

/* ---- runs ---- */

void pfl_segments_set_marker(struct pfl_segments_run *run, uint32_t number)
{
    if (run->marker != 0 && run->marker != number)
        (void)pfl_segments_remove_file(run->s, PFL_SEGMENT_FILE_RELEASED, run->id, run->marker);
    run->marker = number;
}

struct pfl_segments_run *pfl_segments_find_run(const struct pfl_segments *s, const char *id)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &s->runs) {
        struct pfl_segments_run *r = PFL_CONTAINER_OF(it, struct pfl_segments_run, node);

        if (strcmp(r->id, id) == 0)
            return r;
    }
    return NULL;
}

/* Takes the note. */
int pfl_segments_add_run(struct pfl_segments *s, Perfleet__Segment *note,
                         enum pfl_segments_run_state state, struct pfl_segments_run **ret_run)
{
    struct pfl_segment_run in_table;
    struct pfl_segments_run *r = pfl_mem_zalloc(sizeof(*r));
    int rc = r != NULL ? PFL_EPARSE : PFL_ENOMEM;

    if (r != NULL && pfl_segment_note_get_run(note, &in_table))
        rc = pfl_segment_table_add_run(&s->table, &in_table);
    if (rc != 0) {
        pfl_mem_free(r);
        pfl_proto_free(&note->base);
        return rc;
    }
    r->s = s;
    r->state = state;
    r->note = note;
    r->next = 1;
    r->quiet_since_ms = uv_now(s->conf.loop);
    memcpy(r->id, in_table.id, sizeof(r->id));
    pfl_buf_init(&r->text, 2 * INDEX_BYTES);
    pfl_list_append(&s->runs, &r->node);
    *ret_run = r;
    return 0;
}

static void free_run(struct pfl_segments_run *r)
{
    pfl_segment_table_remove_run(&r->s->table, r->id);
    pfl_list_remove(&r->node);
    pfl_buf_fini(&r->text);
    pfl_proto_free(&r->note->base);
    pfl_mem_free(r);
}

static void run_forget(struct pfl_work *work)
{
    struct pfl_segments_op *op = pfl_segments_op_of(work);

    op->rc = pfl_segments_remove_file(op->s, PFL_SEGMENT_FILE_INDEX, op->entry.id, 0);
    if (op->rc == 0)
        op->rc = pfl_segments_remove_file(op->s, PFL_SEGMENT_FILE_RUN, op->entry.id, 0);
    if (op->rc == 0) /* last: without it a run would look as if it had had no segment */
        pfl_segments_set_marker(op->run, 0);
}

static void on_forgotten(struct pfl_segments_op *op)
{
    op->run->is_busy = false;
    if (op->rc == 0)
        free_run(op->run);
    else
        op->run->is_kept_back = true;
}

/* All is taken, and released. */
void pfl_segments_forget_if_done(struct pfl_segments_run *r)
{
    struct pfl_segments_op *op;

    if (r->state != PFL_SEGMENTS_RUN_OVER || r->is_busy || r->is_kept_back || r->s->is_closing ||
        r->s->is_removing || pfl_segment_table_find_run(&r->s->table, r->id)->count != 0 ||
        pfl_segments_make_op(r->s, 0, &op) != 0)
        return;
    op->run = r;
    memcpy(op->entry.id, r->id, sizeof(op->entry.id));
    r->is_busy = true;
    if (pfl_segments_submit(op, run_forget, on_forgotten) != 0)
        r->is_busy = false;
}

/* ---- what the clocks say ---- */

static bool is_of_this_boot(const struct pfl_segments_run *r)
{
    return r->note->boot_id != NULL && strcmp(r->note->boot_id, r->s->boot_id) == 0;
}

/* The wall clock at a moment of the boot clock; of another boot as its run noted them. */
static uint64_t to_unix_ns(const struct pfl_segments_run *r, uint64_t boot_ns)
{
    uint64_t now_boot_ns = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    uint64_t now_unix_ns = pfl_clock_now_ns(PFL_CLOCK_REALTIME);

    if (!is_of_this_boot(r)) {
        now_boot_ns = r->note->begin_boot_ns;
        now_unix_ns = r->note->begin_unix_ns;
    }
    return now_unix_ns + (boot_ns - now_boot_ns);
}

void pfl_segments_add_clock(struct pfl_segments *self, const Perfleet__ClockPoint *point)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (self->is_closing)
        return;
    pfl_clock_points_add(&self->clock, point);
    PFL_LIST_EACH_SAFE (it, tmp, &self->runs) {
        struct pfl_segments_run *r = PFL_CONTAINER_OF(it, struct pfl_segments_run, node);

        if (r->waiting != 0 && r->waiting == r->next)
            pfl_segments_pump(r);
    }
}

/* A point after its end bounds the clock over the whole segment. One that does not come in time is
 * done without. */
static bool waits_for_clock(struct pfl_segments_run *r)
{
    struct pfl_segments *s = r->s;
    uint64_t now_ms = uv_now(s->conf.loop);

    if (s->conf.ask_clock == NULL || !is_of_this_boot(r) || s->clock.newest_ns >= r->line.end_ns)
        return false;
    if (r->waiting != r->line.number) {
        r->waiting = r->line.number;
        r->waiting_until = now_ms + s->conf.clock_wait_ms;
    }
    return now_ms < r->waiting_until && s->conf.ask_clock(s->conf.user);
}

/* ---- quota ---- */

static void enforce(struct pfl_segments *s)
{
    struct pfl_segment_entry *victim;
    struct pfl_segment_entry copy;
    uint8_t why;

    if (s->is_removing || s->is_closing)
        return;
    victim = pfl_segment_table_choose(&s->table, pfl_clock_now_ns(PFL_CLOCK_REALTIME), true, &why);
    if (victim == NULL)
        return;
    copy = *victim;
    if (pfl_segments_make_gap(pfl_segments_find_run(s, copy.id), &copy, why, on_gap_made) == 0) {
        pfl_log_warn("segment-removed", "incarnation=%s number=%u bytes=%llu reason=%s", copy.id,
                     copy.number, (unsigned long long)copy.bytes,
                     why == PERFLEET__SEGMENT_GAP__WHY__AGE ? "age" : "quota");
    }
}

/* ---- taking a segment ---- */

static void run_take(struct pfl_work *work)
{
    struct pfl_segments_op *op = pfl_segments_op_of(work);
    struct pfl_segment_entry *e = &op->entry;
    struct pfl_segment_name trace = pfl_segments_name_of(PFL_SEGMENT_FILE_TRACE, e->id, e->number);
    struct pfl_segment_name note = pfl_segments_name_of(PFL_SEGMENT_FILE_NOTE, e->id, e->number);
    uint8_t *tail = op->buf.data + op->buf.start + op->buf.len;

    op->rc = pfl_segment_disk_hash(op->s->dir, &trace, op->s->sha256, &e->bytes, e->sha256);
    if (op->rc == 0 && e->bytes == 0)
        op->rc = pfl_segments_remove_file(op->s, PFL_SEGMENT_FILE_TRACE, e->id, e->number) == 0
                     ? PFL_ENOENT
                     : PFL_EIO;
    if (op->rc != 0)
        return;
    pfl_buf_extend(&op->buf, pfl_segment_note_put_tail(tail, e->bytes, e->sha256));
    op->rc = pfl_segment_disk_write(op->s->dir, &note, pfl_buf_get(&op->buf));
    if (op->rc == 0)
        pfl_segments_set_marker(op->run, 0);
}

/* A copy of which there is nothing. */
static void take_failed_copy(struct pfl_segments_run *r, const struct pfl_segment_entry *entry,
                             uint8_t why)
{
    r->line = (struct pfl_segment_line){.number = r->next,
                                        .begin_ns = entry->begin_boot_ns,
                                        .end_ns = entry->end_boot_ns,
                                        .reason = PERFLEET__SEGMENT__REASON__COPY};
    r->gap_why = why;
    r->is_kept_back = false;
    pfl_segments_pump(r);
}

/* There is no such file: it is a gap if the index says that there was one. */
static void on_untaken(struct pfl_segments_run *r, struct pfl_segments_op *op)
{
    bool is_gone = op->rc == PFL_ENOENT || op->rc == PFL_EPERM;

    r->is_kept_back = true;
    if (is_gone && op->is_last && r->note->trigger != NULL && r->next == 1) {
        take_failed_copy(r, &op->entry, PERFLEET__SEGMENT_GAP__WHY__SERVICE_DIED);
        return;
    }
    if (is_gone && op->is_last) {
        r->state = PFL_SEGMENTS_RUN_OVER;
        r->is_kept_back = false;
        pfl_segments_forget_if_done(r);
        return;
    }
    if (is_gone && !r->s->is_removing)
        (void)pfl_segments_make_gap(r, &op->entry, PERFLEET__SEGMENT_GAP__WHY__REMOVED,
                                    on_gap_made);
    else if (!is_gone)
        pfl_log_warn("segment-not-taken", "incarnation=%s number=%u reason=\"%s\"", r->id, r->next,
                     op->rc == PFL_ELIMIT ? "the disk is full" : pfl_err_str(op->rc));
}

static void on_taken(struct pfl_segments_op *op)
{
    struct pfl_segments_run *r = op->run;
    struct pfl_segments *s = op->s;

    r->is_busy = false;
    if (op->rc == 0)
        op->rc = pfl_segment_table_add(&s->table, &op->entry);
    if (op->rc == PFL_ELIMIT)
        enforce(s);
    if (op->rc != 0) {
        on_untaken(r, op);
        return;
    }
    r->next = op->entry.number + 1;
    r->end_boot_ns = op->entry.end_boot_ns;
    r->end_unix_ns = op->entry.end_unix_ns;
    r->has_end = pfl_segments_is_end(r->line.reason) && !op->is_last;
    r->line.number = 0;
    s->figures.taken++;
    s->figures.taken_bytes += op->entry.bytes;
    pfl_segments_notify_changed(s);
    enforce(s);
    pfl_segments_pump(r);
}

static struct pfl_segment_entry entry_of(const struct pfl_segments_run *r,
                                         const struct pfl_segment_line *line)
{
    struct pfl_segment_entry entry = {.number = line->number,
                                      .last = line->number,
                                      .begin_boot_ns = line->begin_ns,
                                      .end_boot_ns = line->end_ns,
                                      .begin_unix_ns = to_unix_ns(r, line->begin_ns)};

    /* Not a second look at the clocks: an end before the begin is refused by collectors. */
    entry.end_unix_ns = entry.begin_unix_ns + (line->end_ns - line->begin_ns);
    memcpy(entry.id, r->id, sizeof(entry.id));
    return entry;
}

static int take(struct pfl_segments_run *r, const struct pfl_segment_line *line, bool is_last)
{
    struct pfl_segments *s = r->s;
    Perfleet__ClockPoint *points[PFL_CLOCK_POINTS_OF_ONE];
    Perfleet__SegmentLoss loss = PERFLEET__SEGMENT_LOSS__INIT;
    Perfleet__SegmentLoss *losses[1] = {&loss};
    Perfleet__Segment note = *r->note;
    struct pfl_segments_op *op;
    char cause[] = "buffer";
    int rc = pfl_segments_make_op(s, PFL_SEGMENT_NOTE_BYTES, &op);

    if (rc != 0)
        return rc;
    op->run = r;
    op->is_last = is_last;
    op->entry = entry_of(r, line);
    note.has_reason = 1;
    note.reason = line->reason;
    note.has_unresolved = 1;
    note.unresolved = line->unresolved;
    loss.cause = cause;
    loss.has_count = 1;
    loss.count = line->losses;
    note.loss = losses;
    note.n_loss = line->losses != 0;
    note.clock = points;
    note.n_clock = is_of_this_boot(r) ? pfl_clock_points_choose(&s->clock, op->entry.begin_boot_ns,
                                                                op->entry.end_boot_ns, points)
                                      : 0;
    rc = pfl_segment_note_encode(&note, &op->entry, &op->buf);
    if (rc == 0 && op->buf.capacity - op->buf.start - op->buf.len < PFL_SEGMENT_TAIL_BYTES)
        rc = PFL_ELIMIT;
    if (rc != 0) {
        pfl_segments_free_op(op);
        return rc;
    }
    r->is_busy = true;
    rc = pfl_segments_submit(op, run_take, on_taken);
    if (rc != 0)
        r->is_busy = false;
    return rc;
}

/* ---- the index ---- */

/* False: no whole line is there. */
static bool parse_line(struct pfl_segments_run *r)
{
    struct pfl_span text = pfl_buf_get(&r->text);
    const uint8_t *end = text.len != 0 ? memchr(text.data, '\n', text.len) : NULL;
    struct pfl_segment_line line;
    size_t len;

    if (end == NULL)
        return false;
    len = (size_t)(end - text.data);
    if (pfl_segment_line_parse(pfl_span_of(text.data, len), &line) != 0 || line.number > r->next)
        r->is_index_broken = true;
    else if (line.number == r->next)
        r->line = line;
    else if (line.reason == PERFLEET__SEGMENT__REASON__END)
        r->has_end = true;
    pfl_buf_consume(&r->text, len + 1);
    return true;
}

/* Nobody ends it any more: what is there without a line is taken as it is. */
static void take_lost(struct pfl_segments_run *r)
{
    struct pfl_segment_line line = {.number = r->next, .reason = PERFLEET__SEGMENT__REASON__LOST};
    uint64_t begin_unix_ns;

    line.begin_ns = r->end_boot_ns != 0 ? r->end_boot_ns : r->note->begin_boot_ns;
    line.end_ns = line.begin_ns;
    begin_unix_ns = to_unix_ns(r, line.begin_ns);
    if (r->signature > begin_unix_ns)
        line.end_ns += r->signature - begin_unix_ns;
    if (take(r, &line, true) != 0)
        r->is_kept_back = true;
}

static bool is_settled(const struct pfl_segments_run *r)
{
    return r->state == PFL_SEGMENTS_RUN_SETTLING &&
           uv_now(r->s->conf.loop) - r->quiet_since_ms >= r->s->conf.settle_ms;
}

/* A line of the index, or of a copy. */
static void take_line(struct pfl_segments_run *r)
{
    struct pfl_segment_entry entry = entry_of(r, &r->line);
    int rc;

    if (r->gap_why == 0 && waits_for_clock(r))
        return; /* until the point comes, or a tick finds it too late */
    if (r->gap_why == 0)
        rc = take(r, &r->line, false);
    else if (r->s->is_removing)
        rc = PFL_ESTATE; /* with the next tick */
    else
        rc = pfl_segments_make_gap(r, &entry, r->gap_why, on_gap_made);
    if (rc != 0)
        r->is_kept_back = true;
}

void pfl_segments_pump(struct pfl_segments_run *r)
{
    if (r->is_busy || r->is_kept_back || r->s->is_closing || r->state == PFL_SEGMENTS_RUN_OVER)
        return;
    while (r->line.number != r->next && !r->is_index_broken && !r->has_end && parse_line(r))
        ;
    if (r->line.number == r->next && r->line.number != 0) {
        take_line(r);
    } else if (r->has_end) {
        r->state = PFL_SEGMENTS_RUN_OVER;
        pfl_segments_forget_if_done(r);
    } else if (is_settled(r)) {
        take_lost(r);
    }
}

/* The newest change of the run's files, on the wall clock. */
static uint64_t stat_files(struct pfl_segments *s, const char *id, uint32_t next)
{
    struct pfl_segment_name names[3] = {pfl_segments_name_of(PFL_SEGMENT_FILE_INDEX, id, 0),
                                        pfl_segments_name_of(PFL_SEGMENT_FILE_TRACE, id, next),
                                        pfl_segments_name_of(PFL_SEGMENT_FILE_TRACE, id, next + 1)};
    uint64_t newest = 0;

    for (size_t i = 0; i < 3; i++) {
        uint64_t bytes;
        uint64_t unix_ns;

        if (pfl_segment_disk_stat(s->dir, &names[i], &bytes, &unix_ns) && unix_ns > newest)
            newest = unix_ns;
    }
    return newest;
}

static void run_scan(struct pfl_work *work)
{
    struct pfl_segments_op *op = pfl_segments_op_of(work);
    struct pfl_segment_name index = pfl_segments_name_of(PFL_SEGMENT_FILE_INDEX, op->entry.id, 0);
    struct pfl_segment_part part = {
        .name = &index, .offset = op->offset, .dst = op->buf.data, .room = INDEX_BYTES};
    size_t len = 0;

    op->signature = stat_files(op->s, op->entry.id, op->entry.number);
    op->rc = pfl_segment_disk_read(op->s->dir, &part, &len);
    if (op->rc == 0)
        pfl_buf_extend(&op->buf, len);
}

static void on_scanned(struct pfl_segments_op *op)
{
    struct pfl_segments_run *r = op->run;
    struct pfl_span text = pfl_buf_get(&op->buf);

    r->is_busy = false;
    if (op->rc == 0 && text.len != 0 && !r->is_index_broken) {
        if (pfl_buf_append(&r->text, text.data, text.len) == 0)
            r->index_at += text.len;
        else if (r->text.len >= INDEX_BYTES)
            r->is_index_broken = true; /* no line is that long */
    }
    if (op->signature != r->signature || text.len != 0)
        r->quiet_since_ms = uv_now(r->s->conf.loop);
    r->signature = op->signature;
    pfl_segments_pump(r);
}

static void scan(struct pfl_segments_run *r)
{
    struct pfl_segments_op *op;

    if (pfl_segments_make_op(r->s, INDEX_BYTES, &op) != 0)
        return;
    op->run = r;
    op->offset = r->index_at;
    op->entry.number = r->next;
    memcpy(op->entry.id, r->id, sizeof(op->entry.id));
    r->is_busy = true;
    if (pfl_segments_submit(op, run_scan, on_scanned) != 0)
        r->is_busy = false;
}

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
            scan(r);
    }
    enforce(s);
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
        free_run(r);
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
        free_run(r);
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

static int prepare(struct pfl_segments *s)
{
    int rc = pfl_sha256_new(&s->sha256);

    if (rc != 0)
        return rc;
    s->dir = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->dir < 0)
        return PFL_EIO;
    s->has_room = pfl_segment_disk_has_room(s->dir);
    return pfl_segments_read_folder(s);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_segments *s = handle->data;

    s->is_timer_open = false;
    finish(s);
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
    s->worker = conf->worker;
    (void)snprintf(s->boot_id, sizeof(s->boot_id), "%s", conf->boot_id);
    rc = prepare(s);
    if (rc != 0) {
        int error = errno;

        s->conf.on_closed = NULL;
        s->is_closing = true;
        finish(s);
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
