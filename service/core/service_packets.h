/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packets that the service itself puts into a trace (docs/abi/service.md section 7), appended
 * to a pfl_message as Trace.packet fields: one call, one packet. A core; facts are arguments.
 */
#ifndef PFL_SERVICE_SERVICE_PACKETS_H
#define PFL_SERVICE_SERVICE_PACKETS_H

#include "base/message.h"
#include "service/core/session_events.h"

/* Facts about this service and this host that do not change while the process lives. */
struct pfl_service_facts {
    uint32_t uid;
    const char *version; /* static */
    char sysname[65];
    char kernel_version[65];
    char kernel_release[65];
    char machine[65];
    char machine_name[256]; /* PERFETTO_MACHINE_NAME, else sysname */
    int64_t hz;
    uint32_t page_size;
    uint32_t cpus;
    int32_t timezone_minutes;
    uint64_t ram_bytes;
};

struct pfl_trace_uuid {
    uint64_t msb;
    uint64_t lsb;
};

/* A packet of the service: trusted_uid and sequence id 1; `content` follows as field `field`. */
void pfl_service_packet_clocks(struct pfl_message *m, const struct pfl_service_facts *facts,
                               const struct pfl_clock_snapshot *snapshot, uint32_t primary_clock);
void pfl_service_packet_sync_marker(struct pfl_message *m, const struct pfl_service_facts *facts);
void pfl_service_packet_config(struct pfl_message *m, const struct pfl_service_facts *facts,
                               struct pfl_span config);
void pfl_service_packet_uuid(struct pfl_message *m, const struct pfl_service_facts *facts,
                             const struct pfl_trace_uuid *uuid);
void pfl_service_packet_system_info(struct pfl_message *m, const struct pfl_service_facts *facts);
void pfl_service_packet_event(struct pfl_message *m, const struct pfl_service_facts *facts,
                              const struct pfl_session_event *event);

/* For packets whose content the caller writes: begin, the content's field, end. */
size_t pfl_service_packet_begin(struct pfl_message *m, const struct pfl_service_facts *facts);
void pfl_service_packet_end(struct pfl_message *m, size_t mark);

#endif
