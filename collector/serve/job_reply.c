/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replies of a request at work: see job.h. A reply is one frame: its status, and what the page
 * has of it that the operator may see. Failures: a reply that is too long, or for which there is no
 * memory, leaves the buffer as it was. Ownership: none. Limits: PFL_JOB_REPLY_BYTES.
 */
#include <string.h>

#include "base/message.h"
#include "collector/serve/job_impl.h"
#include "perfleet/collector.fields.h"
#include "perfleet/policy.fields.h"
#include "proto/ipc/frame.h"

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

static void write_traces(struct pfl_job *j, bool is_last, struct pfl_message *m)
{
    j->page_pos = 0;
    while (pfl_job_next_trace(j))
        pfl_message_bytes(m, COLLECTOR_REPLY__TRACE, j->trace.stored);
    if (is_last && j->cursor.len != 0)
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
    char host[PFL_INDEX_NAME_BYTES];
    struct pfl_span row;

    j->page_pos = 0;
    while (pfl_job_next_run(j, host, &row)) {
        if (may_see_host(j, hosts, host))
            pfl_message_bytes(m, COLLECTOR_REPLY__MISSING, row);
    }
}

static void write_states(struct pfl_job *j, const struct pfl_known_hosts *hosts,
                         struct pfl_reader *states, struct pfl_message *m)
{
    char host[PFL_INDEX_NAME_BYTES];
    struct pfl_span state;

    while (pfl_job_next_state(j, states, host, &state)) {
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
    while (pfl_job_next_state(j, &states, host, &state)) {
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
            while (pfl_job_next_state(j, &states, host, &state))
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

static void write_result(struct pfl_job *j, const struct pfl_known_hosts *hosts, bool is_last,
                         struct pfl_message *m)
{
    if (j->checked.kind == PFL_REQUEST_LIST)
        write_traces(j, is_last, m);
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
    else if (j->checked.kind == PFL_REQUEST_SUM)
        pfl_trace_sum_write(j->sum, COLLECTOR_REPLY__SUM, m);
    else
        pfl_message_varint(m, COLLECTOR_REPLY__COUNT, j->changed);
    if (is_last && j->looked_to_unix_ns != 0)
        pfl_message_varint(m, COLLECTOR_REPLY__LOOKED_TO_UNIX_NS, j->looked_to_unix_ns);
}

int pfl_job_write_reply(struct pfl_job *self, const struct pfl_known_hosts *hosts, bool is_last,
                        struct pfl_buf *out)
{
    struct frame f;

    (void)begin_frame(&f, out, self->id);
    pfl_message_varint(&f.m, COLLECTOR_REPLY__STATUS, self->status);
    if (!is_last)
        pfl_message_varint(&f.m, COLLECTOR_REPLY__HAS_MORE, 1);
    if (self->status != 0)
        pfl_message_str(&f.m, COLLECTOR_REPLY__WHY, self->why);
    else
        write_result(self, hosts, is_last, &f.m);
    return end_frame(&f);
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
