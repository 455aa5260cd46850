/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages of a request at work: see job.h. A step on a thread appends rows of the index to a
 * page; who writes the reply, or works on each trace, reads them in their order.
 *
 *     page, of traces   u32 len, StoredTrace; u32 len, id; u32 len, key; u64 bytes; 32 of SHA-256
 *           of runs     u32 len, host; u32 len, MissingRow
 *           of orders   u32 len, orderer; u32 len, name; u32 generation; u32 len, Order
 *     extra, of states  u32 end of its order in the page; u32 len, host; u32 len, state
 *
 * Failures: a row for which there is no room is not appended, and the step ends. Ownership: the
 * pages are the job's. Limits: those of the header.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "collector/serve/job_impl.h"
#include "perfleet/collector.fields.h"
#include "perfleet/order.fields.h"
#include "perfleet/policy.fields.h"

static size_t room_of(const struct pfl_job *j)
{
    return j->page_room - j->page_len;
}

/* `work`: see scope.h. */
static bool has_right(const struct pfl_job *j, uint32_t right, const struct pfl_index_row *row,
                      uint64_t *work)
{
    struct pfl_scope_host host = {.name = row->host, .labels = row->segment, .work = work};

    return pfl_scope_gives(j->scope, right, &host);
}

bool pfl_job_may_see(void *user, const struct pfl_index_row *row, uint64_t *work)
{
    const struct pfl_job *j = user;

    return has_right(j, j->checked.right, row, work);
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

bool pfl_job_sum_trace(void *user, const struct pfl_index_row *row)
{
    struct pfl_job *j = user;

    pfl_trace_sum_add(j->sum, row);
    return true;
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

    if (row->state != PFL_INDEX_LIVE || !pfl_job_may_see(j, row, NULL))
        return true;
    (void)snprintf(j->trace.id, sizeof(j->trace.id), "%s", row->id);
    (void)snprintf(j->trace.key, sizeof(j->trace.key), "%s", row->key);
    j->trace.bytes = row->bytes;
    j->may_keep = has_right(j, ROLE__MANAGE_TRACES, row, NULL);
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

bool pfl_job_next_run(struct pfl_job *self, char ret_host[PFL_INDEX_NAME_BYTES],
                      struct pfl_span *ret_row)
{
    struct pfl_reader r = read_page(self);

    if (r.left == 0)
        return false;
    read_text(&r, ret_host, PFL_INDEX_NAME_BYTES);
    *ret_row = pfl_reader_bytes(&r, pfl_reader_u32(&r));
    assert(!r.failed);
    self->page_pos = self->page_len - r.left;
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

bool pfl_job_next_state(const struct pfl_job *self, struct pfl_reader *states,
                        char ret_host[PFL_INDEX_NAME_BYTES], struct pfl_span *ret_state)
{
    struct pfl_reader r = *states;

    if (r.left == 0 || pfl_reader_u32(&r) != self->page_pos)
        return false;
    read_text(&r, ret_host, PFL_INDEX_NAME_BYTES);
    *ret_state = pfl_reader_bytes(&r, pfl_reader_u32(&r));
    *states = r;
    return true;
}
