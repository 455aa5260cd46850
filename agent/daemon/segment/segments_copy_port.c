/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of rings in the folder of segments: see segments_port.h.
 *
 * Happy path: begin_run with a trigger in its note, bytes are appended, and the end makes the run's
 * one segment, as a line of perfleetd's index does. Failures: a copy that is given up becomes a gap
 * whose note has the trigger; the file of one whose process died is taken as LOST, and without a
 * file it is a gap, too. Owns ops until their on_done. Limits: PFL_SEGMENT_COPIES_MAX; the caller
 * bounds the bytes.
 */
#include <string.h>

#include "agent/daemon/segment/segments_impl.h"

static void run_append(struct pfl_work *work)
{
    struct pfl_segments_op *op = pfl_segments_op_of(work);
    struct pfl_segment_name trace = pfl_segments_name_of(PFL_SEGMENT_FILE_TRACE, op->entry.id, 1);

    op->rc = pfl_segment_disk_append(op->s->dir, &trace, pfl_buf_get(&op->buf));
}

static void on_appended(struct pfl_segments_op *op)
{
    struct pfl_segments_result result = {.rc = op->rc};

    if (op->done != NULL)
        op->done(op->user, &result);
}

int pfl_segments_append(struct pfl_segments *self, const struct pfl_segments_part *part,
                        struct pfl_segments_op **ret_op)
{
    struct pfl_segments_op *op;
    int rc = PFL_ENOENT;

    if (pfl_segments_find_run(self, part->id) != NULL)
        rc = pfl_segments_make_op(self, 0, &op);
    if (rc != 0)
        return rc;
    memcpy(op->entry.id, part->id, sizeof(op->entry.id));
    op->buf = *part->bytes;
    pfl_buf_init(part->bytes, op->buf.max_bytes);
    op->done = part->done;
    op->user = part->user;
    *ret_op = op;
    return pfl_segments_submit(op, run_append, on_appended);
}

void pfl_segments_end_copy(struct pfl_segments *self, const char *id,
                           const struct pfl_segments_copy_end *end)
{
    struct pfl_segments_run *r = pfl_segments_find_run(self, id);

    if (r == NULL || r->next != 1 || r->line.number != 0)
        return;
    r->line = (struct pfl_segment_line){.number = 1,
                                        .begin_ns = end->begin_boot_ns,
                                        .end_ns = end->end_boot_ns,
                                        .reason = PERFLEET__SEGMENT__REASON__COPY,
                                        .losses = end->losses};
    r->gap_why = end->why;
    pfl_segments_pump(r);
}
