/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the library's thread to the service: appends requests and commits to the connection's
 * queue.
 *
 * A method that the service lacks is not called. Almost all requests want no reply, because their
 * result would not matter. If a request does not fit into the queue, or memory is missing, the
 * connection ends (connection.has_failed); the next one starts again. Nothing here waits.
 */
#include "producer/ipc/requests.h"

#include <string.h>

#include "perfetto/data_source_descriptor.fields.h"
#include "perfetto/producer_port.fields.h"
#include "producer/platform/heap.h"

#define ARGS_MAX   1024u /* of the requests without free text */
#define FRAME_ROOM PFL_REQUESTS_FRAME_ROOM

/* Once there are writers, their threads send too (pfl_requests_try_commit). */
static void lock(struct perfleet *p)
{
    if (p->arbiter != NULL)
        pthread_mutex_lock(&p->arbiter->send_lock);
}

static void unlock(struct perfleet *p)
{
    if (p->arbiter != NULL)
        pthread_mutex_unlock(&p->arbiter->send_lock);
}

static uint64_t invoke(struct perfleet *p, enum pfl_ipc_method method, struct pfl_span args,
                       bool drop_reply)
{
    struct pfl_ipc_invoke call = {
        .service_id = p->service.service_id,
        .method_id = p->service.method_ids[method],
        .args = args,
        .drop_reply = drop_reply,
    };
    struct pfl_writer w;

    if (call.method_id == 0)
        return 0;
    call.request_id = ++p->last_request;
    w = pfl_connection_reserve(&p->connection, args.len + FRAME_ROOM);
    pfl_ipc_encode_invoke(&w, &call);
    pfl_connection_commit(&p->connection, &w);
    return call.request_id;
}

uint64_t pfl_requests_invoke(struct perfleet *p, enum pfl_ipc_method method, struct pfl_span args,
                             bool drop_reply)
{
    uint64_t id;

    lock(p);
    id = invoke(p, method, args, drop_reply);
    unlock(p);
    return id;
}

/* For requests whose only field is a number: it is the same field in each. */
static void invoke_number(struct perfleet *p, enum pfl_ipc_method method, uint64_t number)
{
    uint8_t bytes[16];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    pfl_writer_field_varint(&w, NOTIFY_DATA_SOURCE_STARTED_REQUEST__DATA_SOURCE_ID, number);
    invoke(p, method, pfl_span_of(bytes, sizeof(bytes) - w.left), true);
}

void pfl_requests_invoke_number(struct perfleet *p, enum pfl_ipc_method method, uint64_t number)
{
    lock(p);
    invoke_number(p, method, number);
    unlock(p);
}

static void register_writer(struct perfleet *p, const struct pfl_arbiter_writer_op *op)
{
    uint8_t bytes[32];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    pfl_writer_field_varint(&w, REGISTER_TRACE_WRITER_REQUEST__TRACE_WRITER_ID, op->writer_id);
    pfl_writer_field_varint(&w, REGISTER_TRACE_WRITER_REQUEST__TARGET_BUFFER, op->buffer);
    invoke(p, PFL_IPC_REGISTER_TRACE_WRITER, pfl_span_of(bytes, sizeof(bytes) - w.left), true);
}

void pfl_requests_greet(struct perfleet *p)
{
    static const char sdk[] = "libperfleet " PFL_VERSION;
    bool has_own = p->own_fd >= 0 && pfl_connection_can_send_fd(&p->connection);
    uint32_t smb_kb = has_own ? p->conf.own_smb_kb : p->conf.smb_kb;
    uint8_t bytes[ARGS_MAX];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    if (p->conf.page_kb != 0)
        pfl_writer_field_varint(&w,
                                INITIALIZE_CONNECTION_REQUEST__SHARED_MEMORY_PAGE_SIZE_HINT_BYTES,
                                (uint64_t)p->conf.page_kb * 1024);
    if (smb_kb != 0)
        pfl_writer_field_varint(&w, INITIALIZE_CONNECTION_REQUEST__SHARED_MEMORY_SIZE_HINT_BYTES,
                                (uint64_t)smb_kb * 1024);
    pfl_writer_field_bytes(&w, INITIALIZE_CONNECTION_REQUEST__PRODUCER_NAME, p->conf.producer_name,
                           strlen(p->conf.producer_name));
    pfl_writer_field_varint(&w, INITIALIZE_CONNECTION_REQUEST__SMB_SCRAPING_MODE,
                            p->conf.no_scraping
                                ? INITIALIZE_CONNECTION_REQUEST__SMB_SCRAPING_DISABLED
                                : INITIALIZE_CONNECTION_REQUEST__SMB_SCRAPING_ENABLED);
    if (has_own) {
        pfl_writer_field_varint(&w, INITIALIZE_CONNECTION_REQUEST__PRODUCER_PROVIDED_SHMEM, 1);
        pfl_connection_give_fd(&p->connection, p->own_fd);
    }
    pfl_writer_field_bytes(&w, INITIALIZE_CONNECTION_REQUEST__SDK_VERSION, sdk, sizeof(sdk) - 1);
    p->greeting_request = pfl_requests_invoke(p, PFL_IPC_INITIALIZE_CONNECTION,
                                              pfl_span_of(bytes, sizeof(bytes) - w.left), false);
    p->command_request =
        pfl_requests_invoke(p, PFL_IPC_GET_ASYNC_COMMAND, pfl_span_of(NULL, 0), false);
}

/* Descriptor: our own fields and what the program encoded. */
static void send_descriptor(struct perfleet *p, enum pfl_ipc_method method,
                            const struct pfl_source *s)
{
    uint8_t own[PFL_SOURCE_NAME_MAX + 64];
    struct pfl_writer d = pfl_writer_of(own, sizeof(own));
    struct pfl_writer w;
    size_t own_len, more;
    uint8_t *args;

    pthread_mutex_lock(&p->lock); /* perfleet_update may exchange the program's part */
    more = s->conf.descriptor_fields_bytes;
    args = pfl_heap_zalloc(sizeof(own) + more + 16);
    if (args == NULL) {
        p->connection.has_failed = true; /* the next connection tries again */
        pthread_mutex_unlock(&p->lock);
        return;
    }
    pfl_writer_field_bytes(&d, DATA_SOURCE_DESCRIPTOR__NAME, s->conf.name, strlen(s->conf.name));
    pfl_writer_field_varint(&d, DATA_SOURCE_DESCRIPTOR__WILL_NOTIFY_ON_STOP, 1);
    pfl_writer_field_varint(&d, DATA_SOURCE_DESCRIPTOR__WILL_NOTIFY_ON_START, 1);
    pfl_writer_field_varint(&d, DATA_SOURCE_DESCRIPTOR__HANDLES_INCREMENTAL_STATE_CLEAR, 1);
    pfl_writer_field_varint(&d, DATA_SOURCE_DESCRIPTOR__ID, s->slot + 1);
    if ((s->conf.flags & PERFLEET_NO_FLUSH) != 0)
        pfl_writer_field_varint(&d, DATA_SOURCE_DESCRIPTOR__NO_FLUSH, 1);
    own_len = sizeof(own) - d.left;
    w = pfl_writer_of(args, sizeof(own) + more + 16);
    pfl_writer_field_header(&w, REGISTER_DATA_SOURCE_REQUEST__DATA_SOURCE_DESCRIPTOR,
                            own_len + more);
    pfl_writer_bytes(&w, own, own_len);
    pfl_writer_bytes(&w, s->conf.descriptor_fields, more);
    pthread_mutex_unlock(&p->lock);
    pfl_requests_invoke(p, method, pfl_span_of(args, sizeof(own) + more + 16 - w.left), true);
    pfl_heap_free(args);
}

void pfl_requests_register_source(struct perfleet *p, const struct pfl_source *s)
{
    send_descriptor(p, PFL_IPC_REGISTER_DATA_SOURCE, s);
}

void pfl_requests_update_source(struct perfleet *p, const struct pfl_source *s)
{
    send_descriptor(p, PFL_IPC_UPDATE_DATA_SOURCE, s);
}

void pfl_requests_unregister_source(struct perfleet *p, const struct pfl_source *s)
{
    uint8_t bytes[PFL_SOURCE_NAME_MAX + 16];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    pfl_writer_field_bytes(&w, UNREGISTER_DATA_SOURCE_REQUEST__DATA_SOURCE_NAME, s->conf.name,
                           strlen(s->conf.name));
    pfl_requests_invoke(p, PFL_IPC_UNREGISTER_DATA_SOURCE,
                        pfl_span_of(bytes, sizeof(bytes) - w.left), true);
}

/* --- commits ----------------------------------------------------------------------------- */

static void send_commits(struct perfleet *p)
{
    struct pfl_ipc_commit_pos pos = {.emulated = p->is_emulated ? &p->arbiter->smb : NULL};
    uint8_t *args = p->commit_args; /* the thread may be a writer with a small stack */
    bool has_data = p->batch.moves.len > 0 || p->batch.patches.len > 0 || p->batch.flush_id != 0;
    bool has_more = has_data;

    while (has_more) {
        struct pfl_writer w = pfl_writer_of(args, sizeof(p->commit_args));
        size_t first = pos.moves;

        has_more = pfl_ipc_encode_commit(&w, &p->batch, &pos);
        invoke(p, PFL_IPC_COMMIT_DATA, pfl_span_of(args, sizeof(p->commit_args) - w.left), true);
        if (p->is_emulated)
            pfl_arbiter_free_moved(p->arbiter, &p->batch, first, pos.moves);
    }
}

/* Locked. */
static void commit(struct perfleet *p)
{
    pfl_arbiter_take(p->arbiter, &p->batch);
    for (size_t i = 0; i < p->batch.writers.len; i++) {
        if (!p->batch.writers.items[i].is_closed)
            register_writer(p, &p->batch.writers.items[i]);
    }
    send_commits(p);
    for (size_t i = 0; i < p->batch.writers.len; i++) {
        if (p->batch.writers.items[i].is_closed)
            invoke_number(p, PFL_IPC_UNREGISTER_TRACE_WRITER, p->batch.writers.items[i].writer_id);
    }
    pfl_arbiter_batch_clear(&p->batch);
}

void pfl_requests_commit(struct perfleet *p)
{
    if (p->arbiter == NULL)
        return;
    lock(p);
    if (p->arbiter->is_online)
        commit(p);
    unlock(p);
}

bool pfl_requests_try_commit(struct perfleet *p, bool *ret_is_rest)
{
    if (!p->arbiter->is_online || p->connection.has_failed ||
        pfl_connection_queued(&p->connection) > 0)
        return false;
    commit(p);
    pfl_connection_send(&p->connection);
    *ret_is_rest = p->connection.has_failed || pfl_connection_queued(&p->connection) > 0;
    return true;
}

size_t pfl_requests_send(struct perfleet *p)
{
    size_t queued;

    lock(p);
    pfl_connection_send(&p->connection);
    queued = pfl_connection_queued(&p->connection);
    unlock(p);
    return queued;
}

size_t pfl_requests_queued(struct perfleet *p)
{
    size_t queued;

    lock(p);
    queued = pfl_connection_queued(&p->connection);
    unlock(p);
    return queued;
}
