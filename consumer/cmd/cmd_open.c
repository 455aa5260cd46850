/* SPDX-License-Identifier: Apache-2.0 */
/* `perfleet open FILE...`, see open_trace.h, and `perfleet open --live`, see live_trace.h. */
#include "consumer/cmd/cmd.h"
#include "consumer/cmd/live_trace.h"
#include "consumer/cmd/open_trace.h"
#include "consumer/report/summary.h"

int pfl_cmd_open(struct pfl_args *args)
{
    if (!pfl_live_trace_is_usable(args))
        return PFL_EXIT_USAGE;
    if (args->live.is_wanted)
        return pfl_open_trace_is_address_usable(args) ? pfl_live_trace(args) : PFL_EXIT_USAGE;
    if (args->words_len == 0) {
        pfl_cmd_error("something is missing: perfleet open FILE... | --live --host HOST");
        return PFL_EXIT_USAGE;
    }
    return pfl_open_trace(args, args->words, args->words_len, 0);
}
