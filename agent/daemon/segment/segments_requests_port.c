/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments for collectors: see segments_port.h.
 *
 * Happy path: list, read in parts, release. Failures: a segment that is not there (any more), or
 * another collector's, is PFL_ENOENT; a release of what was not read is PFL_ESTATE. A release is a
 * rename first: after a kill the file goes at the next start. Owns ops until their on_done. Limits:
 * PFL_SEGMENTS_READ_BYTES a read, PFL_SEGMENTS_LIST_MAX and _BYTES a list.
 */
#include <string.h>

#include "agent/daemon/segment/segments_impl.h"
#include "base/mem.h"

static void give_result(struct pfl_segments_op *op)
{
    struct pfl_segments_result result = {
        .rc = op->rc, .bytes = pfl_buf_get(&op->buf), .has_more = op->has_more};

    if (op->done != NULL)
        op->done(op->user, &result);
}

void pfl_segments_cancel(struct pfl_segments_op *op)
{
    op->done = NULL;
}

static bool is_collectors(const struct pfl_segments *s, const char *id, const char *collector)
{
    const struct pfl_segment_run *run = pfl_segment_table_find_run(&s->table, id);

    return run != NULL && strcmp(run->collector, collector) == 0;
}

static void run_list(struct pfl_work *work)
{
    struct pfl_segments_op *op = pfl_segments_op_of(work);

    for (size_t i = 0; i < op->keys_len; i++) {
        struct pfl_segment_name name =
            pfl_segments_name_of(PFL_SEGMENT_FILE_NOTE, op->keys[i].id, op->keys[i].number);
        uint8_t *at = op->buf.data + op->buf.start + op->buf.len;
        size_t room = PFL_SEGMENTS_LIST_BYTES - op->buf.len;
        struct pfl_segment_part part = {
            .name = &name, .is_own = true, .dst = at + 4, .room = PFL_SEGMENT_NOTE_BYTES};
        struct pfl_writer w = pfl_writer_of(at, 4);
        size_t len = 0;

        if (room < PFL_SEGMENT_NOTE_BYTES + 4) {
            op->has_more = true;
            break;
        }
        /* One that was released meanwhile is left out. */
        if (pfl_segment_disk_read(op->s->dir, &part, &len) != 0 || len == 0)
            continue;
        pfl_writer_u32(&w, (uint32_t)len);
        pfl_buf_extend(&op->buf, len + 4);
    }
}

static void choose_keys(struct pfl_segments *s, const char *collector,
                        const struct pfl_segment_entry *after, bool is_newest_first,
                        struct pfl_segments_op *op)
{
    size_t at = after != NULL ? pfl_segment_table_seek(&s->table, after->id, after->number) : 0;
    size_t left = s->table.len - at;

    if (is_newest_first) {
        at = s->table.len;
        if (after != NULL) {
            at = pfl_segment_table_seek(&s->table, after->id, after->number);
            at -= pfl_segment_table_find(&s->table, after->id, after->number) != NULL;
        }
        left = at;
    }
    for (; left > 0; left--) {
        const struct pfl_segment_entry *e = &s->table.entries[is_newest_first ? left - 1 : at++];

        if (e->is_leaving || !is_collectors(s, e->id, collector))
            continue;
        if (op->keys_len == PFL_SEGMENTS_LIST_MAX) {
            op->has_more = true;
            return;
        }
        op->keys[op->keys_len++] = *e;
    }
}

int pfl_segments_list(struct pfl_segments *self, const struct pfl_segments_request *ask,
                      struct pfl_segments_op **ret_op)
{
    struct pfl_segments_op *op;
    int rc = pfl_segments_make_op(self, PFL_SEGMENTS_LIST_BYTES, &op);

    if (rc != 0)
        return rc;
    op->keys = pfl_mem_calloc(PFL_SEGMENTS_LIST_MAX, sizeof(*op->keys));
    if (op->keys == NULL) {
        pfl_segments_free_op(op);
        return PFL_ENOMEM;
    }
    choose_keys(self, ask->collector, ask->what.id[0] != '\0' ? &ask->what : NULL,
                ask->is_newest_first, op);
    op->done = ask->done;
    op->user = ask->user;
    *ret_op = op;
    return pfl_segments_submit(op, run_list, give_result);
}

static void run_read(struct pfl_work *work)
{
    struct pfl_segments_op *op = pfl_segments_op_of(work);
    struct pfl_segment_name name =
        pfl_segments_name_of(PFL_SEGMENT_FILE_TRACE, op->entry.id, op->entry.number);
    struct pfl_segment_part part = {
        .name = &name, .offset = op->offset, .dst = op->buf.data, .room = op->len};
    size_t len = 0;

    op->rc = pfl_segment_disk_read(op->s->dir, &part, &len);
    if (op->rc == 0)
        pfl_buf_extend(&op->buf, len);
}

static void run_nothing(struct pfl_work *work)
{
    (void)work;
}

int pfl_segments_read(struct pfl_segments *self, const struct pfl_segments_request *ask,
                      struct pfl_segments_op **ret_op)
{
    const struct pfl_segment_entry *which = &ask->what;
    const struct pfl_segment_entry *e =
        pfl_segment_table_find(&self->table, which->id, which->number);
    uint64_t offset = ask->offset;
    size_t len = ask->len;
    bool is_there = e != NULL && !e->is_gap && !e->is_leaving &&
                    is_collectors(self, which->id, ask->collector) && offset <= e->bytes;
    struct pfl_segments_op *op;
    int rc;

    if (len > PFL_SEGMENTS_READ_BYTES)
        len = PFL_SEGMENTS_READ_BYTES;
    if (is_there && len > e->bytes - offset)
        len = (size_t)(e->bytes - offset);
    rc = pfl_segments_make_op(self, len, &op);
    if (rc != 0)
        return rc;
    op->entry = *which;
    op->offset = offset;
    op->len = len;
    op->done = ask->done;
    op->user = ask->user;
    op->rc = is_there ? 0 : PFL_ENOENT;
    *ret_op = op;
    return pfl_segments_submit(op, is_there && len != 0 ? run_read : run_nothing, give_result);
}

static void run_release(struct pfl_work *work)
{
    struct pfl_segments_op *op = pfl_segments_op_of(work);
    struct pfl_segment_name note =
        pfl_segments_name_of(PFL_SEGMENT_FILE_NOTE, op->entry.id, op->entry.number);

    op->rc = pfl_segment_disk_release(op->s->dir, &note);
    if (op->rc == PFL_ENOENT)
        op->rc = 0; /* nobody has it any more */
    if (op->rc == 0)
        op->rc =
            pfl_segments_remove_file(op->s, PFL_SEGMENT_FILE_TRACE, op->entry.id, op->entry.number);
    if (op->rc == 0 && op->is_last)
        pfl_segments_set_marker(op->run, op->entry.number);
    else if (op->rc == 0)
        (void)pfl_segments_remove_file(op->s, PFL_SEGMENT_FILE_RELEASED, op->entry.id,
                                       op->entry.number);
}

static void on_released(struct pfl_segments_op *op)
{
    struct pfl_segments *s = op->s;
    struct pfl_segments_run *r = pfl_segments_find_run(s, op->entry.id);
    struct pfl_segment_entry *e = pfl_segment_table_find(&s->table, op->entry.id, op->entry.number);

    if (op->rc != 0) {
        if (e != NULL)
            e->is_leaving = false;
    } else {
        pfl_segment_table_remove(&s->table, op->entry.id, op->entry.number);
        s->figures.released++;
        pfl_segments_notify_changed(s);
    }
    give_result(op);
    if (r != NULL)
        pfl_segments_forget_if_done(r);
}

/* PFL_ENOENT; PFL_ESTATE: not what the collector has read. */
static int judge_release(const struct pfl_segments *s, const char *collector,
                         const struct pfl_segment_entry *which,
                         const struct pfl_segment_entry *entry)
{
    if (entry == NULL || !is_collectors(s, which->id, collector))
        return PFL_ENOENT;
    if (entry->is_leaving || entry->is_gap != which->is_gap || entry->last != which->last ||
        memcmp(entry->sha256, which->sha256, sizeof(entry->sha256)) != 0)
        return PFL_ESTATE;
    return 0;
}

int pfl_segments_release(struct pfl_segments *self, const struct pfl_segments_request *ask,
                         struct pfl_segments_op **ret_op)
{
    const struct pfl_segment_entry *which = &ask->what;
    struct pfl_segment_entry *e = pfl_segment_table_find(&self->table, which->id, which->number);
    struct pfl_segments_op *op;
    int rc = pfl_segments_make_op(self, 0, &op);

    if (rc != 0)
        return rc;
    op->done = ask->done;
    op->user = ask->user;
    op->entry = *which;
    op->rc = judge_release(self, ask->collector, which, e);
    *ret_op = op;
    if (op->rc != 0)
        return pfl_segments_submit(op, run_nothing, give_result);
    op->run = pfl_segments_find_run(self, e->id);
    /* The highest number of a run stays known. */
    op->is_last = e->last == pfl_segment_table_find_run(&self->table, e->id)->last;
    rc = pfl_segments_submit(op, run_release, on_released);
    if (rc == 0)
        e->is_leaving = true;
    return rc;
}
