/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gaps in the folder of segments: see segments_port.h.
 *
 * Happy path: the gap's note is written, then the files that it covers are removed: after a kill in
 * between the note stands, and the next start removes them. Failures: on a full disk the trace
 * makes room for its note; otherwise the next tick tries again. Owns the op. Limits: one gap at a
 * time; it covers one segment and the gaps on both sides.
 */
#include <string.h>

#include "agent/daemon/segment/segments_impl.h"
#include "base/mem.h"

#define COVERED_MAX 3u

static void run_gap(struct pfl_work *work)
{
    struct pfl_segments_op *op = pfl_segments_op_of(work);
    struct pfl_segments *s = op->s;
    const struct pfl_segment_entry *gap = &op->entry;
    struct pfl_segment_name note =
        pfl_segments_name_of(PFL_SEGMENT_FILE_NOTE, gap->id, gap->number);

    op->rc = pfl_segment_disk_write(s->dir, &note, pfl_buf_get(&op->buf));
    if (op->rc == PFL_ELIMIT) { /* the trace makes room for its note */
        op->rc = pfl_segments_remove_file(s, PFL_SEGMENT_FILE_TRACE, gap->id, (uint32_t)op->offset);
        if (op->rc == 0)
            op->rc = pfl_segment_disk_write(s->dir, &note, pfl_buf_get(&op->buf));
    }
    if (op->rc == 0)
        op->rc = pfl_segments_remove_file(s, PFL_SEGMENT_FILE_TRACE, gap->id, (uint32_t)op->offset);
    for (size_t i = 0; op->rc == 0 && i < op->keys_len; i++) {
        const struct pfl_segment_entry *key = &op->keys[i];

        op->rc = pfl_segments_remove_file(s, PFL_SEGMENT_FILE_TRACE, gap->id, key->number);
        if (op->rc == 0 && key->number != gap->number)
            op->rc = pfl_segments_remove_file(s, PFL_SEGMENT_FILE_NOTE, gap->id, key->number);
    }
    if (op->rc == 0 && op->is_last)
        pfl_segments_set_marker(op->run, 0);
}

/* Marks what the gap covers, and lists it. */
static void cover(struct pfl_segments *s, const struct pfl_segment_entry *gap, bool is_leaving,
                  struct pfl_segments_op *op)
{
    size_t at = pfl_segment_table_seek(&s->table, gap->id, gap->number - 1);

    for (; at < s->table.len && strcmp(s->table.entries[at].id, gap->id) == 0 &&
           s->table.entries[at].number <= gap->last;
         at++) {
        s->table.entries[at].is_leaving = is_leaving;
        if (op != NULL && op->keys_len < COVERED_MAX)
            op->keys[op->keys_len++] = s->table.entries[at];
    }
}

/* Segments alone: gaps that the new one covers were counted when they were made. */
static void count_removed(const struct pfl_segments_op *op)
{
    for (size_t i = 0; i < op->keys_len; i++) {
        if (op->keys[i].is_gap)
            continue;
        op->s->figures.removed++;
        op->s->figures.removed_bytes += op->keys[i].bytes;
    }
}

static void on_gap(struct pfl_segments_op *op)
{
    struct pfl_segments *s = op->s;
    struct pfl_segments_run *r = op->run;

    s->is_removing = false;
    if (op->is_last)
        r->is_busy = false;
    if (op->rc == 0)
        op->rc = pfl_segment_table_put_gap(&s->table, &op->entry);
    if (op->rc != 0) {
        cover(s, &op->entry, false, NULL);
        r->is_kept_back = true;
        return;
    }
    if (op->entry.last >= r->next) {
        r->has_end |= r->line.number == r->next && pfl_segments_is_end(r->line.reason);
        r->next = op->entry.last + 1;
    }
    count_removed(op);
    pfl_segments_notify_changed(s);
    op->on_gap(r);
}

int pfl_segments_make_gap(struct pfl_segments_run *run, const struct pfl_segment_entry *entry,
                          uint8_t why, void (*on_gap_made)(struct pfl_segments_run *run))
{
    struct pfl_segments_run *r = run;
    struct pfl_segments *s = r->s;
    struct pfl_segment_entry gap;
    struct pfl_segments_op *op;
    bool is_next = entry->last >= r->next;
    int rc = pfl_segments_make_op(s, PFL_SEGMENT_NOTE_BYTES, &op);

    if (rc != 0)
        return rc;
    op->run = r;
    op->on_gap = on_gap_made;
    op->offset = entry->number;
    op->is_last = is_next; /* of the run: nothing of it is taken meanwhile */
    pfl_segment_table_plan_gap(&s->table, entry, why, &op->entry);
    op->keys = pfl_mem_calloc(COVERED_MAX, sizeof(*op->keys));
    rc = op->keys != NULL ? pfl_segment_note_encode(r->note, &op->entry, &op->buf) : PFL_ENOMEM;
    if (rc != 0) {
        pfl_segments_free_op(op);
        return rc;
    }
    cover(s, &op->entry, true, op);
    op->entry.is_leaving = false;
    gap = op->entry;
    rc = pfl_segments_submit(op, run_gap, on_gap);
    if (rc != 0) {
        cover(s, &gap, false, NULL);
        return rc;
    }
    s->is_removing = true;
    r->is_busy |= is_next;
    return 0;
}
