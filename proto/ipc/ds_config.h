/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A data source's config as raw bytes: taken out of a serialized TraceConfig and given its
 * service-owned fields, with every other field, known or not, byte for byte as the consumer sent
 * it (docs/abi/service.md section 3, gotcha 18).
 */
#ifndef PFL_PROTO_IPC_DS_CONFIG_H
#define PFL_PROTO_IPC_DS_CONFIG_H

#include "base/buf.h"

/*
 * The last (and only legal) occurrence of length-delimited field `id` in a serialized message:
 * e.g. EnableTracingRequest.trace_config (1). PFL_ENOENT, PFL_EPARSE (malformed, or there twice).
 */
PFL_MUST_USE int pfl_ds_config_find(struct pfl_span message, uint32_t id, struct pfl_span *ret);

/*
 * Walks TraceConfig.data_sources: the i-th call gives the raw `config` of data_sources[i] (empty
 * when it has none). PFL_EEOF after the last; PFL_EPARSE.
 *
 *     struct pfl_reader r = pfl_reader_of(trace_config);
 *     while ((rc = pfl_ds_config_next(&r, &config)) == 0) ...
 */
PFL_MUST_USE int pfl_ds_config_next(struct pfl_reader *trace_config, struct pfl_span *ret_config);

/* The fields that the service sets in a producer's config. */
struct pfl_ds_config_overrides {
    uint32_t target_buffer; /* global buffer id */
    uint32_t trace_duration_ms;
    uint64_t tracing_session_id;
    uint32_t stop_timeout_ms;
    uint32_t session_initiator;
    bool enable_extra_guardrails;
    bool prefer_suspend_clock_for_duration; /* false keeps the consumer's own */
};

/* Appends the rewritten config to `out`. PFL_EPARSE, PFL_ELIMIT, PFL_ENOMEM; then `out` is
 * unchanged. */
PFL_MUST_USE int pfl_ds_config_rewrite(struct pfl_span raw,
                                       const struct pfl_ds_config_overrides *overrides,
                                       struct pfl_buf *out);

#endif
