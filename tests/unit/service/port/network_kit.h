/* SPDX-License-Identifier: Apache-2.0 */
/* port_kit.h with a TCP producer socket on loopback that serves relays, and peers on it. */
#ifndef PFL_TESTS_SERVICE_NETWORK_KIT_H
#define PFL_TESTS_SERVICE_NETWORK_KIT_H

#include "base/message.h"
#include "tests/unit/service/port/role_kit.h"

#define BUFFER    "buffers { size_kb: 64 } "
#define SOURCE    "data_sources { config { name: \"kit.source\" } "
#define ALL       " trace_all_machines: true "
#define HINT      "hint-1"
#define MACHINE   1327768250u /* its id */
#define RELAY_ID  2u          /* of the service RelayPort */
#define MAX_BYTES 65536u

struct pfl_net {
    struct pfl_port_kit kit;
    struct pfl_kit_client consumer;
    struct pfl_kit_client producer;
    struct pfl_producer_port *tcp; /* the TCP port that pfl_net_connect uses */
    unsigned tcp_ports_open;
};
extern struct pfl_net pfl_net;

/* What the trace has of field `id`: how many packets, and the trusted fields of the last. */
struct pfl_net_found {
    unsigned packets;
    uint64_t machine_id;
    uint64_t uid;
    uint64_t pid;
    uint64_t sequence_id;
};

void pfl_net_open_port(bool has_relay);
int pfl_net_set_up(void **state);
int pfl_net_tear_down(void **state);
void pfl_net_connect(struct pfl_kit_client *self);
/* One IPCFrame of one member message. */
void pfl_net_put_identity(struct pfl_message *m, const char *hint, const char *name);
void pfl_net_put_bind(struct pfl_message *m, uint64_t id, const char *service);
void pfl_net_put_invoke(struct pfl_message *m, const uint64_t ids[3], struct pfl_span args);
void pfl_net_send(struct pfl_kit_client *self, struct pfl_buf *buf);
void pfl_net_identify(struct pfl_kit_client *self, const char *hint, const char *name);
void pfl_net_bind(struct pfl_kit_client *self, const char *service);
/* InitializeConnection, then the command stream; the reply's three answers are checked. */
void pfl_net_introduce(struct pfl_kit_client *self, bool wants_scraping);
void pfl_net_register_source(struct pfl_kit_client *self, bool is_no_flush);
struct pfl_session *pfl_net_get_session(void);
/* A commit of one chunk with one packet: for_testing.str = "x"; `flush_id` may be 0. */
void pfl_net_commit(struct pfl_kit_client *self, uint16_t buffer, uint64_t flush_id);
struct pfl_net_found pfl_net_find(struct pfl_span trace, uint32_t id);
void pfl_net_read(struct pfl_buf *ret_trace);
struct pfl_net_found pfl_net_read_and_find(uint32_t id);

#endif
