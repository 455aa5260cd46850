/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses one line of an agent's events (docs/protocol-tunnel.md, "Events"). The result has only
 * valid names, existing methods, and a text of the host's. Pure.
 */
#ifndef PFL_RELAY_HUB_AGENT_EVENT_H
#define PFL_RELAY_HUB_AGENT_EVENT_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/ulid.h"
#include "proto/tunnel/identity.h"
#include "proto/tunnel/tunnel.h"
#include "relay/hub/host_inventory.h"

#define PFL_AGENT_EVENT_LINE_BYTES   2048u /* a longer line ends the answer */
#define PFL_AGENT_EVENT_DETAIL_BYTES 320u
#define PFL_AGENT_EVENT_LOST_MAX     UINT32_MAX

enum pfl_agent_event_kind {
    PFL_AGENT_EVENT_NOTHING, /* no event, a malformed one, or a newer agent's */
    PFL_AGENT_EVENT_REQUEST,
    PFL_AGENT_EVENT_REFUSED,
    PFL_AGENT_EVENT_TRIGGER,
    PFL_AGENT_EVENT_LOST,
    PFL_AGENT_EVENT_SPOOL,
};

struct pfl_agent_event {
    enum pfl_agent_event_kind kind;
    char who[PFL_IDENTITY_NAME_BYTES];
    char stream[PFL_TUNNEL_STREAM_ID_BYTES]; /* of a request; "": without one */
    const char *method;                      /* of a request; static; "unknown": no known method */
    char detail[PFL_AGENT_EVENT_DETAIL_BYTES]; /* any bytes but NUL */
    char session[PFL_IDENTITY_NAME_BYTES];     /* of an alarm's trigger; "": it is an order's */
    char order[PFL_IDENTITY_NAME_BYTES];       /* of an order's trigger; "": it is an alarm's */
    char trigger[PFL_IDENTITY_NAME_BYTES];
    char trigger_id[PFL_ULID_BYTES]; /* of an order's trigger */
    bool has_at;
    uint64_t at_ms; /* the host's clock (PFL_TUNNEL_H_NOW) when it was raised */
    uint64_t count; /* of lost ones: 1 to PFL_AGENT_EVENT_LOST_MAX */
    struct pfl_host_spool spool;
    bool is_clock_wanted; /* of a SPOOL */
};

/* TRIGGER or SPOOL if it is probably one, else NOTHING. Cheap, and may be wrong. */
enum pfl_agent_event_kind pfl_agent_event_guess(struct pfl_span line_untrusted);
void pfl_agent_event_parse(struct pfl_span line_untrusted, struct pfl_agent_event *ret_event);

#endif
