/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoders of GetAsyncCommandResponse.
 *
 * The config of setup and start is the consumer's, byte for byte except the fields that the service
 * sets (proto/ipc/ds_config.h). Both commands carry the same bytes, encoded each time. A command is
 * at most one frame: a config that does not fit is not sent.
 */
#include "service/core/command.h"

#include "perfetto/producer_port.fields.h"
#include "proto/ipc/ds_config.h"
#include "proto/ipc/frame.h"

#define COMMAND_MAX_BYTES (PFL_FRAME_PAYLOAD_MAX - 64u)

static void send_command(struct pfl_producer *producer, struct pfl_message *m, int fd,
                         bool is_setup)
{
    if (m->rc == 0)
        producer->ops->send_command(producer->port, pfl_buf_get(m->buf), fd, is_setup);
    pfl_buf_fini(m->buf);
}

void pfl_command_setup_tracing(struct pfl_producer *producer)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    int fd = producer->smb.is_adopted ? -1 : producer->smb.fd;
    size_t command;

    pfl_buf_init(&buf, COMMAND_MAX_BYTES);
    command = pfl_message_begin(&m, GET_ASYNC_COMMAND_RESPONSE__SETUP_TRACING);
    if (!producer->smb.is_adopted)
        pfl_message_varint(&m,
                           GET_ASYNC_COMMAND_RESPONSE__SETUP_TRACING__SHARED_BUFFER_PAGE_SIZE_KB,
                           producer->smb.smb.page_bytes / 1024);
    pfl_message_end(&m, command);
    producer->is_setup = true;
    send_command(producer, &m, fd, true);
}

static void send_config(const struct pfl_instance *instance, uint32_t command_id)
{
    const struct pfl_session *session = instance->session;
    const struct pfl_session_plan *plan = session->plan;
    const struct pfl_plan_source *source = pfl_session_source_of(session, instance);
    const struct pfl_ds_config_overrides overrides = {
        .target_buffer = session->buffers[source->target_buffer].id,
        .trace_duration_ms = plan->duration_ms,
        .tracing_session_id = session->id,
        .stop_timeout_ms = plan->stop_timeout_ms,
        .enable_extra_guardrails = plan->extra_guardrails,
        .prefer_suspend_clock_for_duration = plan->duration_counts_suspend,
    };
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    size_t command;
    size_t config;

    pfl_buf_init(&buf, COMMAND_MAX_BYTES);
    command = pfl_message_begin(&m, command_id);
    pfl_message_varint(&m, GET_ASYNC_COMMAND_RESPONSE__SETUP_DATA_SOURCE__NEW_INSTANCE_ID,
                       instance->id);
    config = pfl_message_begin(&m, GET_ASYNC_COMMAND_RESPONSE__SETUP_DATA_SOURCE__CONFIG);
    if (m.rc == 0)
        m.rc = pfl_ds_config_rewrite(source->config, &overrides, &buf);
    pfl_message_end(&m, config);
    pfl_message_end(&m, command);
    send_command(instance->producer, &m, -1, false);
}

void pfl_command_setup_source(const struct pfl_instance *instance)
{
    send_config(instance, GET_ASYNC_COMMAND_RESPONSE__SETUP_DATA_SOURCE);
}

void pfl_command_start_source(const struct pfl_instance *instance)
{
    send_config(instance, GET_ASYNC_COMMAND_RESPONSE__START_DATA_SOURCE);
}

void pfl_command_stop_source(const struct pfl_instance *instance)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    size_t command;

    pfl_buf_init(&buf, COMMAND_MAX_BYTES);
    command = pfl_message_begin(&m, GET_ASYNC_COMMAND_RESPONSE__STOP_DATA_SOURCE);
    pfl_message_varint(&m, GET_ASYNC_COMMAND_RESPONSE__STOP_DATA_SOURCE__INSTANCE_ID, instance->id);
    pfl_message_end(&m, command);
    send_command(instance->producer, &m, -1, false);
}

static bool takes_part(const struct pfl_instance *instance, const struct pfl_session *session,
                       const struct pfl_command_flush *flush)
{
    const struct pfl_plan_source *source;

    if (instance->session != session)
        return false;
    if (flush != NULL && flush->scope != PFL_SCOPE_ALL) {
        source = pfl_session_source_of(session, instance);
        if (session->plan->buffers[source->target_buffer].transfer_on_clone !=
            (flush->scope == PFL_SCOPE_TRANSFERRED))
            return false;
    }
    if (flush != NULL)
        return (instance->flags & PFL_DATA_SOURCE_NO_FLUSH) == 0;
    return (instance->flags & PFL_DATA_SOURCE_CLEARS_STATE) != 0;
}

/* Only the producer can read its memory: a flush without data sources makes it scrape itself. */
static bool scrapes_itself(const struct pfl_producer *producer)
{
    return producer->is_emulated && producer->machine_id != 0 && producer->wants_scraping;
}

bool pfl_command_flush(struct pfl_producer *producer, const struct pfl_session *session,
                       const struct pfl_command_flush *flush)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    struct pfl_list *it;
    bool has_any = false;
    bool is_member = false;
    size_t command;

    pfl_buf_init(&buf, COMMAND_MAX_BYTES);
    command =
        pfl_message_begin(&m, flush != NULL ? GET_ASYNC_COMMAND_RESPONSE__FLUSH
                                            : GET_ASYNC_COMMAND_RESPONSE__CLEAR_INCREMENTAL_STATE);
    PFL_LIST_EACH (it, &producer->instances) {
        const struct pfl_instance *instance =
            PFL_CONTAINER_OF(it, struct pfl_instance, of_producer);

        is_member = is_member || instance->session == session;
        if (!takes_part(instance, session, flush))
            continue;
        has_any = true;
        pfl_message_varint(&m, GET_ASYNC_COMMAND_RESPONSE__FLUSH__DATA_SOURCE_IDS, instance->id);
    }
    if (!has_any && !(flush != NULL && is_member && scrapes_itself(producer))) {
        pfl_buf_fini(&buf);
        return false;
    }
    if (flush != NULL) {
        pfl_message_varint(&m, GET_ASYNC_COMMAND_RESPONSE__FLUSH__REQUEST_ID, flush->request_id);
        pfl_message_varint(&m, GET_ASYNC_COMMAND_RESPONSE__FLUSH__FLAGS, flush->flags);
    }
    pfl_message_end(&m, command);
    send_command(producer, &m, -1, false);
    return true;
}
