/* SPDX-License-Identifier: Apache-2.0 */
/* A relay's own figures (GET /v1/relay, docs/protocol-tunnel.md section 2). Pure. */
#ifndef PFL_CONSUMER_WEB_FLEET_RELAY_FACTS_H
#define PFL_CONSUMER_WEB_FLEET_RELAY_FACTS_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define PFL_RELAY_FACTS_TEXT_MAX 80u

struct pfl_relay_facts {
    char name[PFL_RELAY_FACTS_TEXT_MAX];
    char version[PFL_RELAY_FACTS_TEXT_MAX];
    uint64_t up_ms;
    uint64_t cpu_ms;           /* of its process */
    int64_t certificate_end_s; /* UNIX time; 0: not known */
    int64_t crl_end_s;         /* of its revocation lists, the first; 0: it has none */
    uint64_t hosts_known;
    uint64_t hosts_connected;
    uint64_t collectors;
    uint64_t streams; /* now */
    uint64_t streams_begun;
    uint64_t streams_resumed;
    uint64_t streams_cut;
    uint64_t bytes_to_host; /* since its start */
    uint64_t bytes_to_operator;
    uint64_t held_bytes;   /* from one side, not yet sent to the other */
    uint64_t queued_bytes; /* for the kernel */
};

/* What is missing is 0 or "". PFL_EPARSE, also without memory. */
PFL_MUST_USE int pfl_relay_facts_parse(struct pfl_span body, struct pfl_relay_facts *ret_facts);

#endif
