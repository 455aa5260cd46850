/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State for the agent's next process, to continue a stream: see stream_memory.h.
 *
 * Happy path: publishes the stream's record after each change. At the start it stores the memfd and
 * the service connection with the service manager, later the spool file; at the end it removes
 * them. Failures: if storing fails, the stream ends with this process (logged). Ownership: nothing.
 * Limits: three descriptors a stream.
 */
#include <stdio.h>

#include "agent/daemon/stream/stream_impl.h"
#include "base/log.h"
#include "base/notify.h"
#include "proto/gate/gate.h"

#define NAME_BYTES (PFL_TUNNEL_STREAM_ID_BYTES + 16)

static const char *write_name(const struct pfl_agent_stream *s, const char *prefix, char *dst)
{
    (void)snprintf(dst, NAME_BYTES, "%s%s", prefix, s->facts.id);
    return dst;
}

/* Empty without a gate. Permitted requests may be large, and stay in their slot. */
static uint32_t save_gate(struct pfl_agent_stream *s)
{
    uint32_t slot = 1 - pfl_stream_memory_get_record(s->memory)->gate_slot;
    struct pfl_writer w = pfl_stream_memory_get_gate_room(s->memory);
    uint64_t version;
    int rc;

    if (s->gate == NULL)
        return 0;
    version = pfl_gate_get_version(s->gate);
    rc = s->gate_versions[slot] == version ? pfl_gate_save_again(s->gate, &w)
                                           : pfl_gate_save(s->gate, &w);
    s->gate_versions[slot] = rc == 0 ? version : 0;
    if (rc != 0)
        return 0; /* cannot be: there is room for all */
    return (uint32_t)(PFL_GATE_SAVED_MAX_BYTES - w.left);
}

void pfl_agent_stream_publish(struct pfl_agent_stream *self)
{
    const struct pfl_resume *resume = &self->resume;
    struct pfl_stream_record record = {
        .in_used = resume->in.base,
        .passing_bytes = self->passing_bytes,
        .passed_bytes = self->passed_bytes,
        .reads = self->reads,
        .writes = self->writes,
        .out_base = resume->out.base,
        .out_end = resume->out.end,
        .out_capacity = resume->out.capacity,
        .orphan_since_ms = self->h2_stream == NULL ? self->orphan_since_ms : 0,
        .h2_streams = self->h2_streams,
        .is_service_over = self->is_service_over,
        .is_in_over = resume->is_in_ended && pfl_resume_held(resume) == 0,
        .is_end_sent = resume->is_end_sent,
    };
    struct pfl_encode_state encode;

    if (self->is_dying)
        return;
    pfl_encode_port_get_state(self->encoder, &encode);
    record.pipe_begin = encode.begin;
    record.pipe_end = encode.end;
    record.is_frame_open = encode.is_frame_open;
    record.is_encoded = encode.is_over;
    if (self->spool != NULL)
        pfl_spool_note(self->spool, &record.spool);
    record.gate_bytes = save_gate(self);
    pfl_stream_memory_publish(self->memory, &record);
}

void pfl_agent_stream_keep(struct pfl_agent_stream *self)
{
    char memory[NAME_BYTES];
    char service[NAME_BYTES];
    int rc = pfl_notify_store(write_name(self, PFL_AGENT_KEPT_MEMORY, memory),
                              pfl_stream_memory_get_fd(self->memory));

    if (rc == 0)
        rc = pfl_notify_store(write_name(self, PFL_AGENT_KEPT_SERVICE, service),
                              pfl_service_socket_get_fd(self->service));
    self->is_kept = rc == 0;
    if (rc == 0)
        return;
    pfl_notify_unstore(memory);
    pfl_log_warn("stream-not-kept",
                 "stream=%s reason=\"%s\" effect=\"it ends if this process does\"", self->facts.id,
                 pfl_err_str(rc));
}

void pfl_agent_stream_keep_file(void *user, int fd)
{
    struct pfl_agent_stream *s = user;
    char name[NAME_BYTES];

    if (s->is_kept && pfl_notify_store(write_name(s, PFL_AGENT_KEPT_SPOOL, name), fd) != 0) {
        pfl_agent_stream_unkeep(s);
        pfl_log_warn("stream-not-kept", "stream=%s effect=\"it ends if this process does\"",
                     s->facts.id);
    }
}

void pfl_agent_stream_forget(const char *id)
{
    static const char *const prefixes[] = {PFL_AGENT_KEPT_MEMORY, PFL_AGENT_KEPT_SERVICE,
                                           PFL_AGENT_KEPT_SPOOL};
    char name[NAME_BYTES];

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        (void)snprintf(name, sizeof(name), "%s%s", prefixes[i], id);
        pfl_notify_unstore(name);
    }
}

void pfl_agent_stream_unkeep(struct pfl_agent_stream *self)
{
    if (self->is_kept)
        pfl_agent_stream_forget(self->facts.id);
    self->is_kept = false;
}
