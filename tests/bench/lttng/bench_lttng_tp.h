/* SPDX-License-Identifier: Apache-2.0 */
/* The tracepoint that tests/bench/lttng/bench_lttng.c hits: an instant with an integer argument. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER perfleet_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tests/bench/lttng/bench_lttng_tp.h"

#if !defined(PFL_BENCH_LTTNG_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PFL_BENCH_LTTNG_TP_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(perfleet_bench, instant, LTTNG_UST_TP_ARGS(uint64_t, seq),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, seq, seq)))

#endif

#include <lttng/tracepoint-event.h>
