/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request at work: see job.h.
 *
 *     list     FIND REPLY ...                      get      LOOK_UP READ REPLY ...
 *     presign  FIND (LINK REPLY)... ...            verify   FIND (HASH... [REPLY])... ...
 *     pin ...  FIND CHANGE... ...                  missing  RUNS REPLY ...
 *     orders   ORDERS REPLY ..., or SET_ORDER
 *
 * and a last REPLY, then END. A failure of a step makes its status and sentence the last reply.
 * Sentences of engines that fail are for the log: an operator gets one of here. Ownership: the
 * request and the pages. Limits: those of the header.
 */
#include "collector/serve/job.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/message.h"
#include "perfleet/collector.fields.h"
#include "perfleet/order.fields.h"
#include "perfleet/policy.fields.h"
#include "proto/ipc/frame.h"
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
    else if (j->page_len != 0)
        j->step = PFL_JOB_CHANGE;
    else
        end_page(j);
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

/* ---- pages ---- */

static size_t room_of(const struct pfl_job *j)
{
    return j->page_room - j->page_len;
}

static bool has_right(const struct pfl_job *j, uint32_t right, const struct pfl_index_row *row)
{
    struct pfl_scope_host host = {.name = row->host, .labels = row->segment};

    return pfl_scope_gives(j->scope, right, &host);
}

bool pfl_job_may_see(void *user, const struct pfl_index_row *row)
{
    const struct pfl_job *j = user;

    return has_right(j, j->checked.right, row);
}

bool pfl_job_add_trace(void *user, const struct pfl_index_row *row)
{
    struct pfl_job *j = user;
    uint8_t *at = j->page + j->page_len;
    struct pfl_writer w = pfl_writer_of(at, room_of(j));
    uint8_t sha256[32] = {0};
    size_t len = 0;

    if (row->sha256.len == sizeof(sha256))
        memcpy(sha256, row->sha256.data, sizeof(sha256));
    j->rc = pfl_index_row_encode(row, at + sizeof(uint32_t), w.left - sizeof(uint32_t), &len);
    if (j->rc != 0)
        return false;
    pfl_writer_u32(&w, (uint32_t)len);
    w.pos += len;
    w.left -= len;
    pfl_writer_u32(&w, (uint32_t)strlen(row->id));
    pfl_writer_bytes(&w, row->id, strlen(row->id));
    pfl_writer_u32(&w, (uint32_t)strlen(row->key));
    pfl_writer_bytes(&w, row->key, strlen(row->key));
    pfl_writer_u64(&w, row->bytes);
    pfl_writer_bytes(&w, sha256, sizeof(sha256));
    j->page_len = j->page_room - w.left;
    j->rows++;
    return w.left >= PFL_JOB_ROW_BYTES;
}

static void read_text(struct pfl_reader *r, char *dst, size_t room)
{
    struct pfl_span text = pfl_reader_bytes(r, pfl_reader_u32(r));
    size_t len = text.len < room - 1 ? text.len : room - 1;

    if (len != 0)
        memcpy(dst, text.data, len);
    dst[len] = '\0';
}

static struct pfl_reader read_page(const struct pfl_job *j)
{
    return pfl_reader_of(pfl_span_of(j->page + j->page_pos, j->page_len - j->page_pos));
}

bool pfl_job_next_trace(struct pfl_job *self)
{
    struct pfl_reader r = read_page(self);
    struct pfl_job_trace *t = &self->trace;
    struct pfl_span sha256;

    if (r.left == 0)
        return false;
    t->stored = pfl_reader_bytes(&r, pfl_reader_u32(&r));
    read_text(&r, t->id, sizeof(t->id));
    read_text(&r, t->key, sizeof(t->key));
    t->bytes = pfl_reader_u64(&r);
    sha256 = pfl_reader_bytes(&r, sizeof(t->sha256));
    assert(!r.failed);
    memcpy(t->sha256, sha256.data, sizeof(t->sha256));
    self->page_pos = self->page_len - r.left;
    return true;
}

bool pfl_job_take_trace(void *user, const struct pfl_index_row *row)
{
    struct pfl_job *j = user;

    if (row->state != PFL_INDEX_LIVE || !pfl_job_may_see(j, row))
        return true;
    (void)snprintf(j->trace.id, sizeof(j->trace.id), "%s", row->id);
    (void)snprintf(j->trace.key, sizeof(j->trace.key), "%s", row->key);
    j->trace.bytes = row->bytes;
    j->may_keep = has_right(j, ROLE__MANAGE_TRACES, row);
    return true;
}

static void copy_name(char dst[PFL_INDEX_NAME_BYTES], const char *name)
{
    (void)snprintf(dst, PFL_INDEX_NAME_BYTES, "%s", name);
}

static void set_place(struct pfl_job_place *place, const struct pfl_index_run *run)
{
    copy_name(place->host, run->host);
    copy_name(place->incarnation, run->incarnation);
    copy_name(place->orderer, run->orderer);
    copy_name(place->order, run->order);
}

bool pfl_job_add_run(void *user, const struct pfl_index_run *run)
{
    struct pfl_job *j = user;
    uint8_t row[4 * PFL_INDEX_NAME_BYTES + 128];
    struct pfl_writer m = pfl_writer_of(row, sizeof(row));
    struct pfl_writer w = pfl_writer_of(j->page + j->page_len, room_of(j));

    j->seen++;
    pfl_writer_field_bytes(&m, MISSING_ROW__HOST, run->host, strlen(run->host));
    pfl_writer_field_bytes(&m, MISSING_ROW__ORDERER, run->orderer, strlen(run->orderer));
    pfl_writer_field_bytes(&m, MISSING_ROW__ORDER, run->order, strlen(run->order));
    pfl_writer_field_bytes(&m, MISSING_ROW__INCARNATION, run->incarnation,
                           strlen(run->incarnation));
    pfl_writer_field_varint(&m, MISSING_ROW__FIRST, run->last != 0 ? 1 : 0);
    pfl_writer_field_varint(&m, MISSING_ROW__LAST, run->last);
    pfl_writer_field_varint(&m, MISSING_ROW__STORED, run->stored);
    pfl_writer_field_varint(&m, MISSING_ROW__IN_GAPS, run->in_gaps);
    pfl_writer_field_varint(&m, MISSING_ROW__HOLES, run->holes);
    pfl_writer_u32(&w, (uint32_t)strlen(run->host));
    pfl_writer_bytes(&w, run->host, strlen(run->host));
    pfl_writer_u32(&w, (uint32_t)(sizeof(row) - m.left));
    pfl_writer_bytes(&w, row, sizeof(row) - m.left);
    if (w.failed)
        return false;
    j->page_len = j->page_room - w.left;
    j->rows++;
    set_place(&j->after, run);
    return true;
}

static bool is_wanted(const struct pfl_job *j, const struct pfl_index_order *order)
{
    const Perfleet__CollectorRequest__OrderRef *q = j->checked.order;
    const char *orderer =
        q->orderer != NULL && q->orderer[0] != '\0' ? q->orderer : j->operator_name;

    return q->name == NULL || q->name[0] == '\0' ||
           (strcmp(q->name, order->name) == 0 && strcmp(orderer, order->orderer) == 0);
}

bool pfl_job_is_at(const struct pfl_job *self, const char *orderer, const char *order)
{
    return strcmp(self->after.orderer, orderer) == 0 && strcmp(self->after.order, order) == 0;
}

/* The order as it is; in a list of all without its config, which may be large. */
static void write_order(struct pfl_writer *w, const struct pfl_index_order *order, bool is_whole)
{
    struct pfl_reader r = pfl_reader_of(order->order);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if ((is_whole || f.id != ORDER__CONFIG) && f.id != ORDER__PAUSED)
            pfl_writer_bytes(w, f.raw.data, f.raw.len);
    }
    if (order->is_paused)
        pfl_writer_field_varint(w, ORDER__PAUSED, 1);
}

/* Its length is not known before it is written: a u32 is left free for it. */
bool pfl_job_add_order(void *user, const struct pfl_index_order *order)
{
    struct pfl_job *j = user;
    bool is_whole = j->checked.order->name != NULL && j->checked.order->name[0] != '\0';
    struct pfl_writer w = pfl_writer_of(j->page + j->page_len, room_of(j));
    struct pfl_writer len;

    j->seen++;
    if (!is_wanted(j, order) || (!j->is_inside && pfl_job_is_at(j, order->orderer, order->name)))
        return true;
    pfl_writer_u32(&w, (uint32_t)strlen(order->orderer));
    pfl_writer_bytes(&w, order->orderer, strlen(order->orderer));
    pfl_writer_u32(&w, (uint32_t)strlen(order->name));
    pfl_writer_bytes(&w, order->name, strlen(order->name));
    pfl_writer_u32(&w, order->generation);
    len = w;
    pfl_writer_u32(&w, 0);
    write_order(&w, order, is_whole);
    j->is_cut = w.failed;
    if (w.failed)
        return false;
    pfl_writer_u32(&len, (uint32_t)(len.left - sizeof(uint32_t) - w.left));
    j->page_len = j->page_room - w.left;
    j->rows++;
    return true;
}

bool pfl_job_next_order(struct pfl_job *self, struct pfl_job_order *ret_order)
{
    struct pfl_reader r = read_page(self);

    if (r.left == 0)
        return false;
    read_text(&r, ret_order->orderer, sizeof(ret_order->orderer));
    read_text(&r, ret_order->name, sizeof(ret_order->name));
    ret_order->generation = pfl_reader_u32(&r);
    ret_order->order = pfl_reader_bytes(&r, pfl_reader_u32(&r));
    assert(!r.failed);
    self->page_pos = self->page_len - r.left;
    return true;
}

bool pfl_job_add_state(void *user, const struct pfl_index_host_state *state)
{
    struct pfl_job *j = user;
    struct pfl_writer w = pfl_writer_of(j->extra + j->extra_len, j->extra_room - j->extra_len);

    j->seen++;
    pfl_writer_u32(&w, (uint32_t)j->page_pos); /* the end of its order */
    pfl_writer_u32(&w, (uint32_t)strlen(state->host));
    pfl_writer_bytes(&w, state->host, strlen(state->host));
    pfl_writer_u32(&w, (uint32_t)state->state.len);
    pfl_writer_bytes(&w, state->state.data, state->state.len);
    j->is_cut = w.failed;
    if (w.failed)
        return false;
    j->extra_len = j->extra_room - w.left;
    copy_name(j->after.host, state->host);
    return true;
}

/* ---- replies ---- */

struct frame {
    struct pfl_buf *out;
    size_t len; /* of `out` before */
    struct pfl_message m;
};

static int begin_frame(struct frame *f, struct pfl_buf *out, uint32_t id)
{
    static const uint8_t prefix[PFL_FRAME_PREFIX_BYTES];

    *f = (struct frame){out, out->len, pfl_message_of(out)};
    f->m.rc = pfl_buf_append(out, prefix, sizeof(prefix));
    pfl_message_varint(&f->m, COLLECTOR_REPLY__ID, id);
    return f->m.rc;
}

static int end_frame(struct frame *f)
{
    size_t len = f->out->len - f->len;
    struct pfl_writer w;

    if (f->m.rc == 0 && len > PFL_JOB_REPLY_BYTES)
        f->m.rc = PFL_ELIMIT;
    if (f->m.rc != 0) {
        f->out->len = f->len;
        return f->m.rc;
    }
    w = pfl_writer_of(f->out->data + f->out->start + f->len, PFL_FRAME_PREFIX_BYTES);
    pfl_writer_u32(&w, (uint32_t)(len - PFL_FRAME_PREFIX_BYTES));
    return 0;
}

static void write_traces(struct pfl_job *j, struct pfl_message *m)
{
    j->page_pos = 0;
    while (pfl_job_next_trace(j))
        pfl_message_bytes(m, COLLECTOR_REPLY__TRACE, j->trace.stored);
    if (is_last(j) && j->cursor.len != 0)
        pfl_message_bytes(m, COLLECTOR_REPLY__CURSOR, pfl_span_of(j->cursor.bytes, j->cursor.len));
}

/* A run does not say which labels its host had: those that it has now. */
static bool may_see_host(const struct pfl_job *j, const struct pfl_known_hosts *hosts,
                         const char *name)
{
    struct pfl_scope_host host = {.name = name};

    host.has_no_labels = !pfl_known_hosts_get_labels(hosts, name, &host.labels);
    return pfl_scope_gives(j->scope, j->checked.right, &host) ||
           (j->checked.kind == PFL_REQUEST_SHOW_ORDER &&
            pfl_scope_gives(j->scope, ROLE__TRACES, &host));
}

static void write_runs(struct pfl_job *j, const struct pfl_known_hosts *hosts,
                       struct pfl_message *m)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(j->page, j->page_len));
    char host[PFL_INDEX_NAME_BYTES];

    while (r.left != 0) {
        struct pfl_span row;

        read_text(&r, host, sizeof(host));
        row = pfl_reader_bytes(&r, pfl_reader_u32(&r));
        if (may_see_host(j, hosts, host))
            pfl_message_bytes(m, COLLECTOR_REPLY__MISSING, row);
    }
}

/* Of the order that pfl_job_next_order gave last. False: there are no more. */
static bool next_state(const struct pfl_job *j, struct pfl_reader *states,
                       char ret_host[PFL_INDEX_NAME_BYTES], struct pfl_span *ret_state)
{
    struct pfl_reader r = *states;

    if (r.left == 0 || pfl_reader_u32(&r) != j->page_pos)
        return false;
    read_text(&r, ret_host, PFL_INDEX_NAME_BYTES);
    *ret_state = pfl_reader_bytes(&r, pfl_reader_u32(&r));
    *states = r;
    return true;
}

static void write_states(struct pfl_job *j, const struct pfl_known_hosts *hosts,
                         struct pfl_reader *states, struct pfl_message *m)
{
    char host[PFL_INDEX_NAME_BYTES];
    struct pfl_span state;

    while (next_state(j, states, host, &state)) {
        size_t mark;

        if (!may_see_host(j, hosts, host))
            continue;
        mark = pfl_message_begin(m, ORDER_STATUS__HOST);
        pfl_message_str(m, ORDER_STATUS__HOST__NAME, host);
        pfl_message_bytes(m, ORDER_STATUS__HOST__STATE, state);
        pfl_message_varint(m, ORDER_STATUS__HOST__IS_CONNECTED,
                           pfl_known_hosts_is_connected(hosts, host));
        pfl_message_end(m, mark);
    }
}

/* Another's order is there only for who may see one of the hosts that have it. */
static bool may_see_order(const struct pfl_job *j, const struct pfl_known_hosts *hosts,
                          const struct pfl_job_order *order, struct pfl_reader states)
{
    char host[PFL_INDEX_NAME_BYTES];
    struct pfl_span state;

    if (strcmp(order->orderer, j->operator_name) == 0 ||
        pfl_scope_gives_everywhere(j->scope, ROLE__ORDER) ||
        pfl_scope_gives_everywhere(j->scope, ROLE__TRACES))
        return true;
    while (next_state(j, &states, host, &state)) {
        if (may_see_host(j, hosts, host))
            return true;
    }
    return false;
}

static void write_orders(struct pfl_job *j, const struct pfl_known_hosts *hosts,
                         struct pfl_message *m)
{
    struct pfl_reader states = pfl_reader_of(pfl_span_of(j->extra, j->extra_len));
    struct pfl_job_order order;
    struct pfl_span state;
    char host[PFL_INDEX_NAME_BYTES];

    j->page_pos = 0;
    while (pfl_job_next_order(j, &order)) {
        size_t mark;

        if (!may_see_order(j, hosts, &order, states)) {
            while (next_state(j, &states, host, &state))
                ;
            continue;
        }
        mark = pfl_message_begin(m, COLLECTOR_REPLY__ORDER);
        pfl_message_bytes(m, ORDER_STATUS__ORDER, order.order);
        pfl_message_str(m, ORDER_STATUS__ORDERER, order.orderer);
        pfl_message_varint(m, ORDER_STATUS__GENERATION, order.generation);
        write_states(j, hosts, &states, m);
        pfl_message_end(m, mark);
    }
}

static void write_result(struct pfl_job *j, const struct pfl_known_hosts *hosts,
                         struct pfl_message *m)
{
    if (j->checked.kind == PFL_REQUEST_LIST)
        write_traces(j, m);
    else if (j->checked.kind == PFL_REQUEST_GET)
        pfl_message_bytes(m, COLLECTOR_REPLY__DATA, pfl_span_of(j->page, j->page_len));
    else if (j->checked.kind == PFL_REQUEST_PRESIGN && j->has_part)
        pfl_message_bytes(m, COLLECTOR_REPLY__URL, pfl_span_of(j->extra, j->extra_len));
    else if (j->checked.kind == PFL_REQUEST_VERIFY && j->has_part)
        pfl_message_bytes(m, COLLECTOR_REPLY__TRACE, j->trace.stored);
    else if (j->checked.kind == PFL_REQUEST_MISSING)
        write_runs(j, hosts, m);
    else if (j->checked.kind == PFL_REQUEST_SHOW_ORDER)
        write_orders(j, hosts, m);
    else
        pfl_message_varint(m, COLLECTOR_REPLY__COUNT, j->changed);
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
    struct frame f;
    bool is_end;

    judge_removal(self);
    is_end = is_last(self);
    (void)begin_frame(&f, out, self->id);
    pfl_message_varint(&f.m, COLLECTOR_REPLY__STATUS, self->status);
    if (!is_end)
        pfl_message_varint(&f.m, COLLECTOR_REPLY__HAS_MORE, 1);
    if (self->status != 0)
        pfl_message_str(&f.m, COLLECTOR_REPLY__WHY, self->why);
    else
        write_result(self, hosts, &f.m);
    if (end_frame(&f) != 0)
        return f.m.rc;
    self->is_running = false;
    if (is_end)
        self->step = PFL_JOB_END;
    else
        advance(self);
    return 0;
}

int pfl_job_reply_empty(const struct pfl_job *self, struct pfl_buf *out)
{
    struct frame f;

    (void)begin_frame(&f, out, self->id);
    pfl_message_varint(&f.m, COLLECTOR_REPLY__STATUS, 0);
    pfl_message_varint(&f.m, COLLECTOR_REPLY__HAS_MORE, 1);
    return end_frame(&f);
}

int pfl_job_reply_refusal(uint32_t id, unsigned status, const char *why, struct pfl_buf *out)
{
    struct frame f;

    (void)begin_frame(&f, out, id);
    pfl_message_varint(&f.m, COLLECTOR_REPLY__STATUS, status);
    pfl_message_str(&f.m, COLLECTOR_REPLY__WHY, why);
    return end_frame(&f);
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
        rc = make_pages(j);
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
    pfl_mem_free(self);
}
