/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the folder of segments asks of the disk: see segments_port.h.
 *
 * Happy path: an op is made, submitted, done by the thread, and freed behind its on_done. Failures:
 * no memory, or no thread: nothing follows. When the folder closes, the last op frees it.
 * Ownership: an op until its on_done; at the end all that the folder has.
 */
#include <string.h>
#include <unistd.h>

#include "agent/daemon/segment/segments_impl.h"
#include "base/mem.h"
#include "proto/unpack.h"

void pfl_segments_finish(struct pfl_segments *s)
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
    pfl_segments_finish(s);
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
