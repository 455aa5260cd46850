/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TraceConfig.trace_filter: keeps only the fields of a packet that the config allows
 * (docs/abi/service.md section 8). Bytes in, bytes out. It allocates only in new, so a worker may
 * run it, one at a time.
 */
#ifndef PFL_SERVICE_TRACE_FILTER_H
#define PFL_SERVICE_TRACE_FILTER_H

#include "base/shares.h"
#include "service/output/filter_strings.h"

/* Nesting of messages; a deeper packet is malformed. */
#define PFL_TRACE_FILTER_MAX_DEPTH 128u

struct pfl_trace_filter;

/* `config`: a TraceFilter message. PFL_EPARSE: `ret_why` names the field and what is wrong with it.
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_trace_filter_new(struct pfl_span config, struct pfl_trace_filter **ret_filter,
                                      char ret_why[PFL_FILTER_WHY_BYTES]);
/* Shares what is compiled with `from`, which may be in use in another thread. Filters that share
 * are made and freed in one thread. PFL_ENOMEM. */
PFL_MUST_USE int pfl_trace_filter_copy(const struct pfl_trace_filter *from,
                                       struct pfl_trace_filter **ret_filter);
void pfl_trace_filter_free(struct pfl_trace_filter *self); /* NULL is legal */
/* Charges what it shares with its copies, once for all of them, until the last one is freed.
 * `charged` is borrowed until then. False: the user's share is used up. */
PFL_MUST_USE bool pfl_trace_filter_charge(struct pfl_trace_filter *self, struct pfl_shares *charged,
                                          uint64_t who);
/* Bytes that it has besides. */
size_t pfl_trace_filter_get_own_bytes(const struct pfl_trace_filter *self);

/* While `is_cancelled` is true (any thread may set it), packets fail soon. Borrowed. */
void pfl_trace_filter_set_cancel(struct pfl_trace_filter *self, const atomic_bool *is_cancelled);

/* Filters one TracePacket into `out`, which has room for packet.len bytes and may be the packet's
 * own memory. PFL_EPARSE: malformed, PFL_EAGAIN: cancelled; `out` is undefined then. */
PFL_MUST_USE int pfl_trace_filter_packet(struct pfl_trace_filter *self, struct pfl_span packet,
                                         uint8_t *out, size_t *ret_len);

#endif
