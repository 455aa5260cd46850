/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoders of the service's own packets.
 *
 * Every packet starts with the fields that only a service may set (trusted_uid and sequence 1),
 * followed by its content. The synchronization marker must be the last field of its packet: readers
 * look for its bytes in a damaged file. Failures stick in the message.
 */
#include "service/core/service_packets.h"

#include "perfetto/clocks.fields.h"
#include "perfetto/service_packets.fields.h"
#include "perfetto/system_info.fields.h"
#include "perfetto/trace_packet.fields.h"

#define SERVICE_SEQUENCE_ID 1u

static const uint8_t sync_marker[16] = {0x82, 0x47, 0x7a, 0x76, 0xb2, 0x8d, 0x42, 0xba,
                                        0x81, 0xdc, 0x33, 0x32, 0x6d, 0x57, 0xa0, 0x79};

size_t pfl_service_packet_begin(struct pfl_message *m, const struct pfl_service_facts *facts)
{
    size_t mark = pfl_message_begin(m, TRACE__PACKET);

    pfl_message_varint(m, TRACE_PACKET__TRUSTED_UID, (uint64_t)(int64_t)(int32_t)facts->uid);
    pfl_message_varint(m, TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID, SERVICE_SEQUENCE_ID);
    return mark;
}

void pfl_service_packet_end(struct pfl_message *m, size_t mark)
{
    pfl_message_end(m, mark);
}

void pfl_service_packet_clocks(struct pfl_message *m, const struct pfl_service_facts *facts,
                               const struct pfl_clock_snapshot *snapshot, uint32_t primary_clock)
{
    size_t packet = pfl_service_packet_begin(m, facts);
    size_t content = pfl_message_begin(m, TRACE_PACKET__CLOCK_SNAPSHOT);

    pfl_message_varint(m, CLOCK_SNAPSHOT__PRIMARY_TRACE_CLOCK, primary_clock);
    for (size_t i = 0; i < snapshot->clocks_len; i++) {
        size_t clock = pfl_message_begin(m, CLOCK_SNAPSHOT__CLOCKS);

        pfl_message_varint(m, CLOCK_SNAPSHOT__CLOCK__CLOCK_ID, snapshot->clocks[i].clock_id);
        pfl_message_varint(m, CLOCK_SNAPSHOT__CLOCK__TIMESTAMP, snapshot->clocks[i].value);
        pfl_message_end(m, clock);
    }
    pfl_message_end(m, content);
    pfl_service_packet_end(m, packet);
}

void pfl_service_packet_sync_marker(struct pfl_message *m, const struct pfl_service_facts *facts)
{
    size_t packet = pfl_service_packet_begin(m, facts);

    pfl_message_bytes(m, TRACE_PACKET__SYNCHRONIZATION_MARKER,
                      pfl_span_of(sync_marker, sizeof(sync_marker)));
    pfl_service_packet_end(m, packet);
}

void pfl_service_packet_config(struct pfl_message *m, const struct pfl_service_facts *facts,
                               struct pfl_span config)
{
    size_t packet = pfl_service_packet_begin(m, facts);

    pfl_message_bytes(m, TRACE_PACKET__TRACE_CONFIG, config);
    pfl_service_packet_end(m, packet);
}

void pfl_service_packet_uuid(struct pfl_message *m, const struct pfl_service_facts *facts,
                             const struct pfl_trace_uuid *uuid)
{
    size_t packet = pfl_service_packet_begin(m, facts);
    size_t content = pfl_message_begin(m, TRACE_PACKET__TRACE_UUID);

    pfl_message_varint(m, TRACE_UUID__LSB, uuid->lsb);
    pfl_message_varint(m, TRACE_UUID__MSB, uuid->msb);
    pfl_message_end(m, content);
    pfl_service_packet_end(m, packet);
}

void pfl_service_packet_system_info(struct pfl_message *m, const struct pfl_service_facts *facts)
{
    size_t packet = pfl_service_packet_begin(m, facts);
    size_t content = pfl_message_begin(m, TRACE_PACKET__SYSTEM_INFO);
    size_t uts = pfl_message_begin(m, SYSTEM_INFO__UTSNAME);

    pfl_message_str(m, UTSNAME__SYSNAME, facts->sysname);
    pfl_message_str(m, UTSNAME__VERSION, facts->kernel_version);
    pfl_message_str(m, UTSNAME__RELEASE, facts->kernel_release);
    pfl_message_str(m, UTSNAME__MACHINE, facts->machine);
    pfl_message_end(m, uts);
    if (facts->hz > 0)
        pfl_message_varint(m, SYSTEM_INFO__HZ, (uint64_t)facts->hz);
    pfl_message_str(m, SYSTEM_INFO__TRACING_SERVICE_VERSION, facts->version);
    pfl_message_varint(m, SYSTEM_INFO__PAGE_SIZE, facts->page_size);
    pfl_message_varint(m, SYSTEM_INFO__TIMEZONE_OFF_MINS,
                       (uint64_t)(int64_t)facts->timezone_minutes);
    pfl_message_varint(m, SYSTEM_INFO__NUM_CPUS, facts->cpus);
    pfl_message_varint(m, SYSTEM_INFO__SYSTEM_RAM_BYTES, facts->ram_bytes);
    pfl_message_str(m, SYSTEM_INFO__MACHINE_NAME, facts->machine_name);
    pfl_message_end(m, content);
    pfl_service_packet_end(m, packet);
}

void pfl_service_packet_event(struct pfl_message *m, const struct pfl_service_facts *facts,
                              const struct pfl_session_event *event)
{
    size_t packet = pfl_service_packet_begin(m, facts);
    size_t content;

    pfl_message_varint(m, TRACE_PACKET__TIMESTAMP, event->boottime_ns);
    content = pfl_message_begin(m, TRACE_PACKET__SERVICE_EVENT);
    if (event->payload != NULL)
        pfl_message_bytes(m, (uint32_t)event->kind,
                          pfl_span_of(event->payload, event->payload_len));
    else
        pfl_message_varint(m, (uint32_t)event->kind, event->value);
    pfl_message_end(m, content);
    pfl_service_packet_end(m, packet);
}
