/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client on this machine that asks for write_into_file and gives a descriptor: the descriptor
 * cannot cross the network, so write_into_file is removed from the request, and the file is
 * written here. Pure.
 */
#ifndef PFL_CONSUMER_FILE_REQUEST_H
#define PFL_CONSUMER_FILE_REQUEST_H

#include "base/buf.h"

struct pfl_file_request {
    bool is_requested;  /* write_into_file, without output_path */
    uint32_t period_ms; /* at least PFL_FILE_REQUEST_MIN_PERIOD_MS */
    uint64_t max_bytes; /* 0: no limit */
    uint64_t uuid_msb;  /* the trace's identity, which its clones share */
    uint64_t uuid_lsb;
};

#define PFL_FILE_REQUEST_PERIOD_MS     5000u /* docs/abi/service.md 5 */
#define PFL_FILE_REQUEST_MIN_PERIOD_MS 100u

/*
 * Parses an EnableTracingRequest. If it asks for a file, `out` gets the request without that,
 * without the buffers' options for a clone (buffers are emptied into the file, and a clone is made
 * from that), and with `random` as the trace's identity if it has none; otherwise nothing is
 * appended. PFL_EPARSE, PFL_ENOMEM, PFL_ELIMIT.
 */
PFL_MUST_USE int pfl_file_request_take(struct pfl_span request, const uint64_t random[2],
                                       struct pfl_buf *out,
                                       struct pfl_file_request *ret_file_request);

#endif
