/* SPDX-License-Identifier: Apache-2.0 */
/* The operator's trace config: text or binary in, the hosts' config out. Pure. */
#ifndef PFL_CONSUMER_CONFIG_H
#define PFL_CONSUMER_CONFIG_H

#include <stdbool.h>

#include "base/buf.h"

#define PFL_CONFIG_MAX_BYTES (1u << 20)

struct pfl_config_info {
    uint32_t duration_ms;      /* 0: until stopped */
    uint32_t flush_timeout_ms; /* the protocol's default if the config has none */
    uint32_t stop_timeout_ms;
    uint32_t buffers;
    uint32_t data_sources;
    uint32_t smallest_buffer_kb;
    uint32_t clear_period_ms; /* of incremental state; 0: it is never cleared */
    bool has_ring;            /* a buffer has RING_BUFFER: perhaps only its last part is wanted */
    bool has_discard;         /* a buffer has DISCARD: perhaps only its first part is wanted */
    bool has_triggers;
    bool was_limited;    /* a duration was requested and omitted */
    bool was_compressed; /* compression was requested and omitted */
    /* Track events go to a ring, and producers are never asked to resend interned data. */
    bool loses_interned;
    bool has_no_snapshots; /* clock snapshots are off: only BOOTTIME can be aligned */
};

/* Why a config is refused, as text for the operator; "" if it is not. */
struct pfl_config_why {
    char text[512];
};

/*
 * Appends the file's bytes as a serialized TraceConfig to `out`; its bytes distinguish text (.pbtx)
 * from binary. PFL_EPARSE with `ret_why` = "name:line:column: what" , PFL_ELIMIT, PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_config_read(struct pfl_span file, const char *name, struct pfl_buf *out,
                                 struct pfl_config_why *ret_why);

/* The operator's changes to the config. */
struct pfl_config_overrides {
    uint32_t duration_ms;     /* 0: the config's */
    const char *session;      /* unique name of a session that is left running; NULL: none */
    uint32_t clear_period_ms; /* of incremental state, if the config has none; 0: none */
};

/*
 * Checks a serialized config for what a fleet recording does not support, and appends the hosts'
 * form of it to `out`: deferred start, duration and name as requested, without compression. A
 * session that is left running has no duration (the service would free it unread). PFL_EINVAL with
 * `ret_why` = reason and remedy, PFL_ELIMIT, PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_config_prepare(struct pfl_span config,
                                    const struct pfl_config_overrides *overrides,
                                    struct pfl_buf *out, struct pfl_config_info *ret_info,
                                    struct pfl_config_why *ret_why);
/* It lasts longer than buffers usually hold: more than a minute, or until it is stopped. */
bool pfl_config_is_long(const struct pfl_config_info *info);
/* It is long, and does not ask for a part of it: all of it is wanted, so it is read while it
 * records. */
bool pfl_config_needs_stream(const struct pfl_config_info *info);

#endif
