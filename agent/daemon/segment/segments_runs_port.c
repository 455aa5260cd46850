/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runs whose segments are in the folder: see segments_port.h.
 *
 * Happy path: a run is added with its note, and forgotten when all of it is taken and released: its
 * index goes, then its note, last its RELEASED file. Failures: the disk's; the next tick tries
 * again. Ownership: runs and their notes. Limits: those of the table.
 */
#include <string.h>

#include "agent/daemon/segment/segments_impl.h"
#include "base/mem.h"
#include "proto/unpack.h"

#define TEXT_BYTES (2 * PFL_SEGMENTS_INDEX_BYTES)

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
    pfl_buf_init(&r->text, TEXT_BYTES);
    pfl_list_append(&s->runs, &r->node);
    *ret_run = r;
    return 0;
}

void pfl_segments_free_run(struct pfl_segments_run *r)
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
        op->rc = pfl_segments_remove_file(op->s, PFL_SEGMENT_FILE_NEW_INDEX, op->entry.id, 0);
    if (op->rc == 0)
        op->rc = pfl_segments_remove_file(op->s, PFL_SEGMENT_FILE_RUN, op->entry.id, 0);
    if (op->rc == 0) /* last: without it a run would look as if it had had no segment */
        pfl_segments_set_marker(op->run, 0);
}

static void on_forgotten(struct pfl_segments_op *op)
{
    op->run->is_busy = false;
    if (op->rc == 0)
        pfl_segments_free_run(op->run);
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
