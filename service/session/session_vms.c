/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VMs of a session's buffers.
 *
 * set_up is called for each match of a data source with a producer. It makes or joins a VM if the
 * producer's descriptor has a program and the config has a memory limit for it. encode writes the
 * packet that describes all of them for a trace's reader.
 * The work of programs per second is shared by the users of the sessions and of the producers. The
 * memory of a VM's state counts as the session's, as its buffers do.
 * Failures are logged, once each: the session continues. PFL_ENOMEM of encode sticks to the
 * message. Limits: a packet of PFL_SESSION_VMS_MAX_BYTES; service/vm has those of programs and
 * states.
 */
#include "service/session/session_vms.h"

#include "base/log.h"
#include "perfetto/trace_packet.fields.h"
#include "service/plan/session_plan.h"
#include "service/vm/vm_set.h"

static void complain(const struct pfl_session *session, const struct pfl_producer *producer,
                     struct pfl_span source, const char *why)
{
    pfl_log_warn("vm-not-set-up", "session=%llu producer=%s source=%s reason=\"%s\"",
                 (unsigned long long)session->id, pfl_log_quote_str(producer->name),
                 pfl_log_quote((const char *)source.data, source.len), why);
}

static uint64_t get_credit(void *user, uint64_t who)
{
    struct pfl_session *session = user;
    struct pfl_service *service = session->service;

    return pfl_loop_budget_begin(&service->vm_budget, session->who, who,
                                 pfl_service_now_ms(service));
}

static void spend_credit(void *user, uint64_t who, uint64_t units)
{
    struct pfl_session *session = user;

    pfl_loop_budget_end(&session->service->vm_budget, session->who, who, units);
}

/* A VM that is made holds the memory that its state may have. A producer that joins a VM needs
 * none. */
static int add_vm(struct pfl_service *service, struct pfl_session *session,
                  struct pfl_session_buffer *buffer, const struct pfl_vm_set_conf *conf)
{
    struct pfl_shares *shares = &service->shares.buffer_bytes;
    size_t before = pfl_vm_set_len(pfl_trace_buffer_get_vms(buffer->ring));
    uint64_t bytes = (uint64_t)conf->memory_limit_kb * 1024;
    uint64_t held = buffer->vm_bytes;
    int rc;

    if (bytes > PFL_VM_MEMORY_MAX_BYTES)
        bytes = PFL_VM_MEMORY_MAX_BYTES;
    bytes += conf->program.len;
    if (pfl_vm_set_has(pfl_trace_buffer_get_vms(buffer->ring), conf))
        bytes = 0;
    if (!pfl_shares_take(shares, session->who, bytes))
        return PFL_EPERM;
    rc = pfl_trace_buffer_add_vm(buffer->ring, conf);
    if (pfl_vm_set_len(pfl_trace_buffer_get_vms(buffer->ring)) == before)
        pfl_shares_give(shares, session->who, bytes);
    else
        buffer->vm_bytes += bytes;
    session->held_bytes += buffer->vm_bytes - held;
    return rc;
}

void pfl_session_vms_moved(struct pfl_service *service, struct pfl_session *session, size_t buffer)
{
    uint64_t *bytes = &session->buffers[buffer].vm_bytes;

    pfl_shares_give(&service->shares.buffer_bytes, session->who, *bytes);
    session->held_bytes -= *bytes;
    *bytes = 0;
}

void pfl_session_vms_set_up(struct pfl_service *service, struct pfl_session *session,
                            const struct pfl_producer *producer,
                            const struct pfl_data_source *source, size_t plan_source)
{
    const struct pfl_plan_source *plan = &session->plan->sources[plan_source];
    const struct pfl_vm_set_conf conf = {
        .source = plan->name,
        .program = source->info.vm_program,
        .memory_limit_kb = plan->vm_memory_kb,
        .producer_id = producer->id,
        .who = producer->who,
        .budget = {.get = get_credit, .spend = spend_credit, .user = session},
    };
    int rc;

    if (!plan->has_vm && !source->info.has_vm_program)
        return;
    if (!source->info.has_vm_program) {
        complain(session, producer, plan->name, "the producer has no protovm_program");
        return;
    }
    if (!plan->has_vm || !plan->has_vm_memory) {
        complain(session, producer, plan->name, "the config has no protovm_config.memory_limit_kb");
        return;
    }
    rc = add_vm(service, session, &session->buffers[plan->target_buffer], &conf);
    if (rc != 0)
        complain(session, producer, plan->name,
                 rc == PFL_EPERM ? "its memory is more than the share of the session's user"
                                 : pfl_err_str(rc));
}

static size_t get_max_bytes(const struct pfl_vm_set_member *member)
{
    return pfl_vm_get_state_max_bytes(member->vm) + pfl_vm_get_program(member->vm).len +
           4 * member->producers_len + 64;
}

static void encode_instance(struct pfl_message *m, const struct pfl_vm_set_member *member)
{
    size_t instance = pfl_message_begin(m, TRACE_PACKET__PROTO_VMS__INSTANCE);
    size_t state;

    pfl_message_bytes(m, TRACE_PACKET__PROTO_VMS__INSTANCE__PROGRAM,
                      pfl_vm_get_program(member->vm));
    state = pfl_message_begin(m, TRACE_PACKET__PROTO_VMS__INSTANCE__STATE);
    if (m->rc == 0)
        m->rc = pfl_vm_encode_state(member->vm, m->buf);
    pfl_message_end(m, state);
    pfl_message_varint(m, TRACE_PACKET__PROTO_VMS__INSTANCE__MEMORY_LIMIT_KB,
                       member->memory_limit_kb);
    for (size_t i = 0; i < member->producers_len; i++)
        pfl_message_varint(m, TRACE_PACKET__PROTO_VMS__INSTANCE__PRODUCER_ID,
                           member->producers[i].id);
    pfl_message_end(m, instance);
}

static void tell(struct pfl_message *m, const struct pfl_session *session,
                 const struct pfl_vm_set_member *member, size_t begin)
{
    if (member->counts.aborted != 0)
        pfl_log_warn("vm-aborted", "session=%llu source=%s packets=%llu of=%llu reason=\"%s\"",
                     (unsigned long long)session->id, pfl_log_quote_str(member->source),
                     (unsigned long long)member->counts.aborted,
                     (unsigned long long)(member->counts.aborted + member->counts.applied +
                                          member->counts.missed),
                     pfl_vm_get_why(member->vm) != NULL ? pfl_vm_get_why(member->vm)
                                                        : "a packet is too large");
    if (m->buf->len - begin + get_max_bytes(member) > PFL_SESSION_VMS_MAX_BYTES) {
        pfl_log_warn(
            "vm-left-out",
            "was=vm-not-told session=%llu source=%s reason=\"the packet would be too long\"",
            (unsigned long long)session->id, pfl_log_quote_str(member->source));
        return;
    }
    encode_instance(m, member);
}

static bool has_vms(const struct pfl_session *session)
{
    for (size_t i = 0; i < session->plan->buffers_len; i++) {
        if (pfl_vm_set_len(pfl_trace_buffer_get_vms(session->buffers[i].ring)) != 0)
            return true;
    }
    return false;
}

void pfl_session_vms_encode(struct pfl_message *m, const struct pfl_service *service,
                            const struct pfl_session *session)
{
    size_t begin = m->buf->len;
    size_t packet;
    size_t content;

    if (!has_vms(session))
        return;
    packet = pfl_service_packet_begin(m, service->conf.facts);
    content = pfl_message_begin(m, TRACE_PACKET__PROTOVMS);
    for (size_t i = 0; i < session->plan->buffers_len; i++) {
        const struct pfl_vm_set *vms = pfl_trace_buffer_get_vms(session->buffers[i].ring);

        for (size_t at = 0; at < pfl_vm_set_len(vms); at++)
            tell(m, session, pfl_vm_set_get(vms, at), begin);
    }
    pfl_message_end(m, content);
    pfl_service_packet_end(m, packet);
}
