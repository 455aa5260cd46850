/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a run's index to its segments: see segments_port.h.
 *
 *     SCAN a run's index -> a line -> TAKE (hash, note) -> the table
 *     the table is too full or too old -> GAP (note, files away) -> the table
 *
 * Happy path: every line of the index becomes a note; after the line of the end the run is over.
 * Failures: a file that is not there when its line is becomes a gap; an index that makes no sense
 * is not read on, and what files there are is taken as LOST when they no longer change; a disk that
 * is full, or fails, is tried again with the next tick. Owns nothing. Limits: those of the table.
 */
#include <string.h>

#include "agent/daemon/segment/segments_impl.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

/* ---- what the clocks say ---- */

bool pfl_segments_is_of_this_boot(const struct pfl_segments_run *r)
{
    return r->note->boot_id != NULL && strcmp(r->note->boot_id, r->s->boot_id) == 0;
}

static uint64_t get_unix_ns(const struct pfl_segments *s)
{
    return s->conf.get_unix_ns != NULL ? s->conf.get_unix_ns(s->conf.user)
                                       : pfl_clock_now_ns(PFL_CLOCK_REALTIME);
}

/* The wall clock at a moment of the boot clock; of another boot as its run noted them. */
static uint64_t to_unix_ns(const struct pfl_segments_run *r, uint64_t boot_ns)
{
    uint64_t now_boot_ns = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    uint64_t now_unix_ns = get_unix_ns(r->s);

    if (!pfl_segments_is_of_this_boot(r)) {
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

    if (s->conf.ask_clock == NULL || !pfl_segments_is_of_this_boot(r) ||
        s->clock.newest_ns >= r->line.end_ns)
        return false;
    if (r->waiting != r->line.number) {
        r->waiting = r->line.number;
        r->waiting_until = now_ms + s->conf.clock_wait_ms;
    }
    return now_ms < r->waiting_until && s->conf.ask_clock(s->conf.user);
}

/* ---- quota ---- */

static void on_gap_made(struct pfl_segments_run *r)
{
    pfl_segments_pump(r);
    pfl_segments_enforce(r->s);
}

/* A clock that is set wrong makes no segment too old: see retention_clock.h. */
static uint64_t get_unix_ns_for_age(struct pfl_segments *s)
{
    uint64_t unix_ns = get_unix_ns(s);
    bool has_jumped;
    uint64_t taken_ns = pfl_retention_clock_take(&s->age, unix_ns,
                                                 pfl_clock_now_ns(PFL_CLOCK_BOOTTIME), &has_jumped);

    if (has_jumped)
        pfl_log_warn("clock-jumped-ahead",
                     "seconds=%llu effect=\"the age of segments ignores it for a day\" "
                     "remedy=\"set the clock right, if it is wrong\"",
                     (unsigned long long)((unix_ns - taken_ns) / 1000000000));
    return taken_ns;
}

void pfl_segments_enforce(struct pfl_segments *s)
{
    struct pfl_segment_entry *victim;
    struct pfl_segment_entry copy;
    uint8_t why;

    if (s->is_removing || s->is_closing)
        return;
    victim = pfl_segment_table_choose(&s->table, get_unix_ns_for_age(s), true, &why);
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
static void on_untaken(struct pfl_segments_run *r, struct pfl_segments_op *op, const char *why)
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
    if (is_gone && r->left_out > op->entry.last)
        op->entry.last = r->left_out;
    if (is_gone && !r->s->is_removing)
        (void)pfl_segments_make_gap(r, &op->entry, PERFLEET__SEGMENT_GAP__WHY__REMOVED,
                                    on_gap_made);
    else if (!is_gone)
        pfl_log_warn("segment-not-taken", "incarnation=%s number=%u reason=\"%s\"", r->id, r->next,
                     why);
}

static void on_taken(struct pfl_segments_op *op)
{
    struct pfl_segments_run *r = op->run;
    struct pfl_segments *s = op->s;
    const char *why = op->rc == PFL_ELIMIT ? "the disk is full" : pfl_err_str(op->rc);

    r->is_busy = false;
    if (op->rc == 0) {
        op->rc = pfl_segment_table_add(&s->table, &op->entry);
        why = op->rc == PFL_ELIMIT ? "there are too many segments and gaps already: the oldest "
                                     "make room"
                                   : pfl_err_str(op->rc);
    }
    if (op->rc == PFL_ELIMIT)
        pfl_segments_enforce(s);
    if (op->rc != 0) {
        on_untaken(r, op, why);
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
    pfl_segments_enforce(s);
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
    note.n_clock = pfl_segments_is_of_this_boot(r)
                       ? pfl_clock_points_choose(&s->clock, op->entry.begin_boot_ns,
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

/* Lines of segments whose files are gone are left out when an index is shortened. If the file of
 * the next one is there, it is taken as it is; otherwise all that are left out are a gap. */
static void leave_out(struct pfl_segments_run *r, const struct pfl_segment_line *behind)
{
    r->line = (struct pfl_segment_line){.number = r->next,
                                        .begin_ns = r->end_boot_ns,
                                        .end_ns = behind->begin_ns,
                                        .reason = PERFLEET__SEGMENT__REASON__LOST};
    if (r->line.begin_ns == 0)
        r->line.begin_ns = r->note->begin_boot_ns;
    if (r->line.begin_ns > r->line.end_ns)
        r->line.begin_ns = r->line.end_ns;
    r->left_out = behind->number - 1;
}

/* False: no whole line is there. */
static bool parse_line(struct pfl_segments_run *r)
{
    struct pfl_span text = pfl_buf_get(&r->text);
    const uint8_t *end = text.len != 0 ? memchr(text.data, '\n', text.len) : NULL;
    struct pfl_segment_line line;
    size_t len;
    int rc;

    if (end == NULL)
        return false;
    len = (size_t)(end - text.data);
    rc = pfl_segment_line_parse(pfl_span_of(text.data, len), &line);
    if (rc == 0 && line.number > r->next) {
        leave_out(r, &line); /* it is parsed again when it is the next one */
        return true;
    }
    r->left_out = 0;
    if (rc == 0 && line.number == r->next)
        r->line = line;
    else if (rc == 0 && line.reason == PERFLEET__SEGMENT__REASON__END)
        r->has_end = true;
    else if (rc != 0 && rc != PFL_ESTATE)
        r->is_index_broken = true;
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
    } else if (r->has_more && !r->is_index_broken) {
        pfl_segments_scan(r);
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

/* The head is read last: if it is the one that is known, so was that of the text. */
static void run_scan(struct pfl_work *work)
{
    struct pfl_segments_op *op = pfl_segments_op_of(work);
    struct pfl_segment_name index = pfl_segments_name_of(PFL_SEGMENT_FILE_INDEX, op->entry.id, 0);
    uint8_t head[PFL_SEGMENT_INDEX_HEAD_BYTES];
    struct pfl_segment_part part = {.name = &index,
                                    .offset = op->offset,
                                    .dst = op->buf.data,
                                    .room = PFL_SEGMENTS_INDEX_BYTES};
    size_t len = 0;

    op->signature = stat_files(op->s, op->entry.id, op->entry.number);
    op->rc = pfl_segment_disk_read(op->s->dir, &part, &len);
    if (op->rc == 0)
        pfl_buf_extend(&op->buf, len);
    part = (struct pfl_segment_part){.name = &index, .dst = head, .room = sizeof(head)};
    if (op->rc == 0)
        op->rc = pfl_segment_disk_read(op->s->dir, &part, &len);
    if (op->rc == 0)
        op->generation = pfl_segment_index_get_generation(pfl_span_of(head, len));
}

static void on_scanned(struct pfl_segments_op *op)
{
    struct pfl_segments_run *r = op->run;
    struct pfl_span text = pfl_buf_get(&op->buf);
    bool is_other = op->rc == 0 && op->generation != r->generation;

    r->is_busy = false;
    r->has_more = is_other || (op->rc == 0 && text.len == PFL_SEGMENTS_INDEX_BYTES);
    if (is_other) { /* it is read from its begin */
        r->generation = op->generation;
        r->index_at = 0;
        pfl_buf_clear(&r->text);
    } else if (op->rc == 0 && text.len != 0 && !r->is_index_broken) {
        if (pfl_buf_append(&r->text, text.data, text.len) == 0)
            r->index_at += text.len;
        else if (r->text.len >= PFL_SEGMENTS_INDEX_BYTES)
            r->is_index_broken = true; /* no line is that long */
    }
    if (op->signature != r->signature || text.len != 0)
        r->quiet_since_ms = uv_now(r->s->conf.loop);
    r->signature = op->signature;
    pfl_segments_pump(r);
}

void pfl_segments_scan(struct pfl_segments_run *r)
{
    struct pfl_segments_op *op;

    if (pfl_segments_make_op(r->s, PFL_SEGMENTS_INDEX_BYTES, &op) != 0)
        return;
    op->run = r;
    op->offset = r->index_at;
    op->entry.number = r->next;
    memcpy(op->entry.id, r->id, sizeof(op->entry.id));
    r->is_busy = true;
    if (pfl_segments_submit(op, run_scan, on_scanned) != 0)
        r->is_busy = false;
}
