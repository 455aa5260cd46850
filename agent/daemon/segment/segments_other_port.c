/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files in the folder of segments that are none of a run: see segments_port.h.
 *
 * Happy path: the folder's thread writes the file beside its place, syncs and renames it, or
 * removes it. Failures: the file of before stays. Owns ops until their on_done. Limits: the
 * caller's buffer.
 */
#include <stdio.h>

#include "agent/daemon/segment/segments_impl.h"

static void run_write(struct pfl_work *work)
{
    struct pfl_segments_op *op = pfl_segments_op_of(work);

    op->rc = pfl_segment_disk_write_other(op->s->dir, op->other, pfl_buf_get(&op->buf));
}

static void run_remove(struct pfl_work *work)
{
    struct pfl_segments_op *op = pfl_segments_op_of(work);

    op->rc = pfl_segment_disk_remove_other(op->s->dir, op->other);
}

static void on_done(struct pfl_segments_op *op)
{
    struct pfl_segments_result result = {.rc = op->rc};

    if (op->done != NULL)
        op->done(op->user, &result);
}

int pfl_segments_write_other(struct pfl_segments *self, const struct pfl_segments_other *other,
                             struct pfl_segments_op **ret_op)
{
    struct pfl_segments_op *op;
    int rc = pfl_segments_make_op(self, 0, &op);

    if (rc != 0)
        return rc;
    (void)snprintf(op->other, sizeof(op->other), "%s", other->name);
    if (other->bytes != NULL) {
        op->buf = *other->bytes;
        pfl_buf_init(other->bytes, op->buf.max_bytes);
    }
    op->done = other->done;
    op->user = other->user;
    *ret_op = op;
    return pfl_segments_submit(op, other->bytes != NULL ? run_write : run_remove, on_done);
}
