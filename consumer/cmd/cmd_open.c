/* SPDX-License-Identifier: Apache-2.0 */
/* `perfleet open FILE...`: see open_trace.h. */
#include "consumer/cmd/cmd.h"
#include "consumer/cmd/open_trace.h"

int pfl_cmd_open(struct pfl_args *args)
{
    return pfl_open_trace(args, args->words, args->words_len, 0);
}
