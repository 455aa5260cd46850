/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request at work: see job.h.
 *
 *     list     FIND REPLY ...                      get      LOOK_UP READ REPLY ...
 *     presign  FIND (LINK REPLY)... ...            verify   FIND (HASH... [REPLY])... ...
 *     pin ...  FIND CHANGE... ...                  missing  RUNS REPLY ...
 *     sum      FIND... REPLY
 *     orders   ORDERS REPLY ..., or SET_ORDER
 *
 * and a last REPLY, then END. A failure of a step makes its status and sentence the last reply.
 * Sentences of engines that fail are for the log: an operator gets one of here. Ownership: the
 * request and the pages. Limits: those of the header.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "collector/serve/job_impl.h"
#include "proto/unpack.h"

bool pfl_job_is_of_index(enum pfl_job_step step)
{
    return step >= PFL_JOB_FIND && step <= PFL_JOB_SET_ORDER;
}

bool pfl_job_is_of_store(enum pfl_job_step step)
{
    return step >= PFL_JOB_READ && step <= PFL_JOB_HASH;
}

/* ---- the state machine ---- */

static void refuse(struct pfl_job *j, unsigned status, const char *why)
{
    j->status = status;
    j->step = PFL_JOB_REPLY;
    if (why != j->why)
        (void)snprintf(j->why, sizeof(j->why), "%s", why);
}

static void refuse_trace(struct pfl_job *j, unsigned status, const char *why)
{
    (void)snprintf(j->why, sizeof(j->why), "trace %s: %s", j->trace.id, why);
    refuse(j, status, j->why);
}

/* Of a request for many traces the answer names the one at which the store failed. */
static void fail_trace(struct pfl_job *j)
{
    switch (j->rc) {
    case PFL_ENOENT:
        refuse_trace(j, 404, "its object is not in the store any more");
        return;
    case PFL_ENOTSUP:
        refuse(j, 501, "the store is a folder: there are no links to what is in it");
        return;
    case PFL_EAGAIN:
    case PFL_ENOMEM:
        refuse_trace(j, 503, "the collector's store is busy: try later");
        return;
    default:
        refuse_trace(j, 500, "the collector's store fails: its log has the reason");
        return;
    }
}

/* The engine's sentence is for an operator only where the request itself is the cause. */
static void fail(struct pfl_job *j)
{
    if (pfl_job_is_of_store(j->step)) {
        fail_trace(j);
        return;
    }
    switch (j->rc) {
    case PFL_EINVAL:
    case PFL_ELIMIT:
        refuse(j, 400, j->why[0] != '\0' ? j->why : pfl_err_str(j->rc));
        return;
    case PFL_ENOENT:
        refuse(j, 404,
               j->checked.order != NULL ? "you have no such order here" : "there is no such trace");
        return;
    case PFL_EFULL:
        refuse(j, 507, "the collector has no room: its log has the reason");
        return;
    case PFL_EAGAIN:
    case PFL_ENOMEM:
        refuse(j, 503, "the collector's index is busy: try later");
        return;
    default:
        refuse(j, 500, "the collector's index fails: its log has the reason");
        return;
    }
}

static void begin(struct pfl_job *j)
{
    const Perfleet__TraceQuery *q = j->checked.query;

    switch (j->checked.kind) {
    case PFL_REQUEST_GET:
        j->step = PFL_JOB_LOOK_UP;
        return;
    case PFL_REQUEST_MISSING:
        j->step = PFL_JOB_RUNS;
        return;
    case PFL_REQUEST_SHOW_ORDER:
        j->step = PFL_JOB_ORDERS;
        return;
    case PFL_REQUEST_PUT_ORDER:
    case PFL_REQUEST_PAUSE_ORDER:
    case PFL_REQUEST_RESUME_ORDER:
    case PFL_REQUEST_REMOVE_ORDER:
        j->step = PFL_JOB_SET_ORDER;
        return;
    default:
        break;
    }
    j->step = PFL_JOB_FIND;
    j->rows_left = UINT64_MAX;
    j->look_left = q->look_at != 0 ? q->look_at : UINT64_MAX;
    if (q->limit != 0)
        j->rows_left = q->limit;
    else if (j->checked.kind == PFL_REQUEST_LIST && q->n_id == 0)
        j->rows_left = PFL_INDEX_LIMIT;
    j->cursor.len = q->after.len;
    if (q->after.len != 0)
        memcpy(j->cursor.bytes, q->after.data, q->after.len);
}

/* All traces of the page are done with. */
static void end_page(struct pfl_job *j)
{
    j->step = j->is_over || j->rows_left == 0 ? PFL_JOB_REPLY : PFL_JOB_FIND;
    j->page_len = 0;
}

/* A gap has no bytes: there is nothing to verify, and no link to it. */
static void begin_trace(struct pfl_job *j)
{
    while (pfl_job_next_trace(j)) {
        if (j->trace.key[0] == '\0')
            continue;
        j->offset = 0;
        j->is_sound = false;
        j->step = j->checked.kind == PFL_REQUEST_VERIFY ? PFL_JOB_HASH : PFL_JOB_LINK;
        return;
    }
    end_page(j);
}

static void on_found(struct pfl_job *j)
{
    j->page_pos = 0;
    j->rows_left -= j->rows < j->rows_left ? j->rows : j->rows_left;
    if (j->checked.kind == PFL_REQUEST_LIST)
        j->step = PFL_JOB_REPLY;
    else if (j->checked.kind == PFL_REQUEST_PRESIGN || j->checked.kind == PFL_REQUEST_VERIFY)
        begin_trace(j);
    else if (j->checked.kind == PFL_REQUEST_SUM || j->page_len == 0)
        end_page(j);
    else
        j->step = PFL_JOB_CHANGE;
}

static void on_hashed(struct pfl_job *j)
{
    if (j->rc == 0 && j->offset < j->trace.bytes) {
        j->step = PFL_JOB_HASH;
    } else if (j->rc == 0 && j->is_sound) {
        j->changed++;
        begin_trace(j);
    } else {
        j->has_part = true;
        j->step = PFL_JOB_REPLY;
    }
}

static void on_linked(struct pfl_job *j)
{
    j->has_part = true;
    j->step = PFL_JOB_REPLY;
}

static void on_read(struct pfl_job *j)
{
    j->offset += j->page_len;
    j->left -= j->page_len < j->left ? j->page_len : j->left;
    if (j->page_len == 0 && j->left != 0)
        refuse_trace(j, 500, "its object is shorter than it was: see perfleet traces verify");
    else
        j->step = PFL_JOB_REPLY;
}

static void on_looked_up(struct pfl_job *j)
{
    const Perfleet__CollectorRequest__Get *q = j->request->get;

    if (j->trace.id[0] == '\0') {
        refuse(j, 404, "there is no such trace");
        return;
    }
    if (j->trace.key[0] == '\0') {
        refuse(j, 404, "it is a gap: the host removed it before it was read");
        return;
    }
    j->offset = q->offset;
    j->left = q->offset < j->trace.bytes ? j->trace.bytes - q->offset : 0;
    if (q->length != 0 && q->length < j->left)
        j->left = q->length;
    j->page_len = 0;
    j->step = j->left != 0 ? PFL_JOB_READ : PFL_JOB_REPLY;
}

/* Of these the failure of one trace is an answer. */
static bool is_about_trace(const struct pfl_job *j, enum pfl_job_step step)
{
    return step == PFL_JOB_HASH && j->rc == PFL_ENOENT;
}

void pfl_job_on_done(struct pfl_job *self)
{
    enum pfl_job_step step = self->step;

    self->is_running = false;
    if (self->rc != 0 && !is_about_trace(self, step))
        fail(self);
    else if (step == PFL_JOB_FIND)
        on_found(self);
    else if (step == PFL_JOB_CHANGE && self->page_pos == self->page_len)
        end_page(self);
    else if (step == PFL_JOB_HASH)
        on_hashed(self);
    else if (step == PFL_JOB_LOOK_UP)
        on_looked_up(self);
    else if (step == PFL_JOB_READ)
        on_read(self);
    else if (step == PFL_JOB_LINK)
        on_linked(self);
    else if (step != PFL_JOB_CHANGE)
        self->step = PFL_JOB_REPLY;
}

void pfl_job_fail(struct pfl_job *self, int rc)
{
    self->is_running = false;
    self->rc = rc;
    self->why[0] = '\0';
    fail(self);
}

enum pfl_job_step pfl_job_take(struct pfl_job *self)
{
    if (self->is_running)
        return PFL_JOB_WAIT;
    self->rc = 0;
    self->is_running = true;
    return self->step;
}

/* ---- replies: the state after them ---- */

static bool is_last(const struct pfl_job *j)
{
    if (j->status != 0)
        return true;
    switch (j->checked.kind) {
    case PFL_REQUEST_GET:
        return j->left == 0;
    case PFL_REQUEST_PRESIGN:
    case PFL_REQUEST_VERIFY:
        return !j->has_part;
    case PFL_REQUEST_LIST:
        return j->is_over || j->rows_left == 0;
    case PFL_REQUEST_MISSING:
    case PFL_REQUEST_SHOW_ORDER:
        return j->is_over;
    default:
        return true;
    }
}

static void advance(struct pfl_job *j)
{
    j->is_running = false;
    switch (j->checked.kind) {
    case PFL_REQUEST_GET:
        j->step = PFL_JOB_READ;
        return;
    case PFL_REQUEST_PRESIGN:
    case PFL_REQUEST_VERIFY:
        j->has_part = false;
        begin_trace(j);
        return;
    case PFL_REQUEST_LIST:
        j->step = PFL_JOB_FIND;
        return;
    case PFL_REQUEST_MISSING:
        j->step = PFL_JOB_RUNS;
        return;
    default:
        j->step = PFL_JOB_ORDERS;
        return;
    }
}

/* What is pinned stays, and is said. */
static void judge_removal(struct pfl_job *j)
{
    if (j->status != 0 || j->pinned == 0)
        return;
    j->status = 409;
    (void)snprintf(j->why, sizeof(j->why),
                   "%llu traces are removed; %llu are pinned: perfleet traces unpin",
                   (unsigned long long)j->changed, (unsigned long long)j->pinned);
}

int pfl_job_reply(struct pfl_job *self, const struct pfl_known_hosts *hosts, struct pfl_buf *out)
{
    bool is_end;
    int rc;

    judge_removal(self);
    is_end = is_last(self);
    rc = pfl_job_write_reply(self, hosts, is_end, out);
    if (rc != 0)
        return rc;
    self->is_running = false;
    if (is_end)
        self->step = PFL_JOB_END;
    else
        advance(self);
    return 0;
}

/* ---- the beginning and the end ---- */

static int make_pages(struct pfl_job *j)
{
    bool is_order = j->checked.kind == PFL_REQUEST_SHOW_ORDER;

    j->page_room = is_order ? PFL_JOB_ORDERS_BYTES : PFL_JOB_PAGE_BYTES;
    j->extra_room = is_order                                 ? PFL_JOB_ORDERS_BYTES
                    : j->checked.kind == PFL_REQUEST_PRESIGN ? PFL_JOB_LINK_BYTES
                                                             : 0;
    j->page = pfl_mem_alloc(j->page_room);
    if (j->page == NULL)
        return PFL_ENOMEM;
    if (j->extra_room != 0)
        j->extra = pfl_mem_alloc(j->extra_room);
    return j->extra_room == 0 || j->extra != NULL ? 0 : PFL_ENOMEM;
}

/* The last cell is the longest, by less than a nanosecond for each. */
static int make_sum(struct pfl_job *j)
{
    const Perfleet__CollectorRequest__SumRequest *q = j->request->sum;
    struct pfl_trace_sum_conf conf = {.label = q->label != NULL ? q->label : ""};

    conf.begin_unix_ns = q->what->begin_unix_ns;
    conf.cell_ns = (q->what->end_unix_ns - q->what->begin_unix_ns) / q->cells;
    conf.cells = q->cells;
    return pfl_trace_sum_new(&conf, &j->sum);
}

int pfl_job_new(const struct pfl_job_conf *conf, struct pfl_job **ret_job)
{
    struct pfl_job *j = pfl_mem_zalloc(sizeof(*j));
    int rc;

    if (j == NULL)
        return PFL_ENOMEM;
    j->scope = conf->scope;
    j->operator_name = conf->operator_name;
    j->now_unix_ns = conf->now_unix_ns;
    rc = pfl_proto_unpack(&perfleet__collector_request__descriptor, conf->packed,
                          (ProtobufCMessage **)&j->request);
    if (rc != 0)
        goto fail;
    j->id = j->request->id;
    j->status = pfl_request_check(j->request, j->scope, j->operator_name, &j->checked, j->why);
    if (j->status != 0) {
        j->step = PFL_JOB_REPLY;
    } else {
        rc = j->checked.kind == PFL_REQUEST_SUM ? make_sum(j) : make_pages(j);
        if (rc != 0)
            goto fail;
        begin(j);
    }
    *ret_job = j;
    return 0;

fail:
    pfl_job_free(j);
    return rc;
}

void pfl_job_free(struct pfl_job *self)
{
    if (self == NULL)
        return;
    if (self->request != NULL)
        pfl_proto_free(&self->request->base);
    pfl_mem_free(self->page);
    pfl_mem_free(self->extra);
    pfl_trace_sum_free(self->sum);
    pfl_mem_free(self);
}
