/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client on this machine that asks for write_into_file and gives a descriptor: the descriptor
 * cannot cross the network, so the wish is taken out of its request and fulfilled here. Pure.
 */
#ifndef PFL_CONSUMER_FILE_WISH_H
#define PFL_CONSUMER_FILE_WISH_H

#include "base/buf.h"

struct pfl_file_wish {
    bool is_wished;     /* write_into_file, without output_path */
    uint32_t period_ms; /* at least PFL_FILE_WISH_MIN_PERIOD_MS */
    uint64_t max_bytes; /* 0: no limit */
};

#define PFL_FILE_WISH_PERIOD_MS     5000u /* docs/abi/service.md 5 */
#define PFL_FILE_WISH_MIN_PERIOD_MS 100u

/*
 * Reads an EnableTracingRequest. When it wishes for a file, `out` gets the request without that;
 * otherwise nothing is appended. PFL_EPARSE, PFL_ENOMEM, PFL_ELIMIT.
 */
PFL_MUST_USE int pfl_file_wish_take(struct pfl_span request, struct pfl_buf *out,
                                    struct pfl_file_wish *ret_wish);

#endif
