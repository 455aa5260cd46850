/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator's trace config: text or binary in, what every host gets out. Pure.
 */
#ifndef PFL_CONSUMER_CONFIG_H
#define PFL_CONSUMER_CONFIG_H

#include <stdbool.h>

#include "base/buf.h"

#define PFL_CONFIG_MAX_BYTES (1u << 20)

struct pfl_config_info {
    uint32_t duration_ms;      /* 0: until stopped */
    uint32_t flush_timeout_ms; /* the protocol's default where the config has none */
    uint32_t stop_timeout_ms;
    uint32_t buffers;
    uint32_t data_sources;
    uint32_t smallest_buffer_kb;
    uint32_t clear_period_ms; /* of incremental state; 0: it is never cleared */
    bool has_ring;    /* a buffer says RING_BUFFER: its last part may be all that is wanted */
    bool has_discard; /* a buffer says DISCARD: likewise its first part */
    bool has_triggers;
    bool was_limited;    /* a duration was asked for and is left out */
    bool was_compressed; /* compression was asked for and is left out */
    /* Track events go to a ring, and producers are never asked to send interned data again. */
    bool loses_interned;
    bool has_no_snapshots; /* clock snapshots are off: clocks but BOOTTIME cannot be placed */
};

/* Why a config is not taken, in words for the operator; "" when it is. */
struct pfl_config_why {
    char text[512];
};

/*
 * The file's bytes as a serialized TraceConfig at the end of `out`; text (.pbtx) is distinguished
 * from binary by its bytes. PFL_EPARSE with `ret_why` = "name:line:column: what" , PFL_ELIMIT,
 * PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_config_read(struct pfl_span file, const char *name, struct pfl_buf *out,
                                 struct pfl_config_why *ret_why);

/* What the operator wants beside the config. */
struct pfl_config_overrides {
    uint32_t duration_ms; /* 0: the config's */
    const char *session;  /* the session's unique name, for one that is left running; NULL: none */
    uint32_t clear_period_ms; /* of incremental state, where the config has none; 0: none */
};

/*
 * Checks a serialized config for what a fleet recording cannot do and appends it to `out` as it
 * goes to the hosts: deferred start, duration and name as wished, without compression. A session
 * that is left running has no duration (the service would free it unread). PFL_EINVAL with
 * `ret_why` = reason and remedy, PFL_ELIMIT, PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_config_prepare(struct pfl_span config,
                                    const struct pfl_config_overrides *overrides,
                                    struct pfl_buf *out, struct pfl_config_info *ret_info,
                                    struct pfl_config_why *ret_why);

#endif
