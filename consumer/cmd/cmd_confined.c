/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet confined MODE BYTES SECONDS PROGRAM ARGUMENT...`: enters the sandbox of a guest
 * (base/sandbox/guest.h) and becomes PROGRAM. It is a process of its own, as what the sandbox does
 * is not for a process with threads. Failures: one line, and exit 126.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/sandbox/guest.h"
#include "consumer/cmd/cmd.h"
#include "consumer/report/summary.h"

#define FAILED    126
#define ARGUMENTS 4 /* before the program's own */

static const char *why(int rc)
{
    return rc == PFL_ESTATE ? "this kernel has not all of its sandbox"
           : rc == PFL_EIO  ? strerror(errno)
                            : pfl_err_str(rc);
}

int pfl_cmd_confined(int argc, char **argv)
{
    struct pfl_guest_conf conf = {0};
    int rc;

    if (argc <= ARGUMENTS || !pfl_sandbox_mode_parse(argv[1], &conf.mode))
        return PFL_EXIT_USAGE;
    conf.max_bytes = strtoull(argv[2], NULL, 10);
    conf.max_seconds = strtoull(argv[3], NULL, 10);
    conf.program = argv[ARGUMENTS];
    rc = pfl_guest_run(&conf, argv + ARGUMENTS);
    pfl_cmd_error("%s cannot be run: %s", pfl_log_quote_str(conf.program), why(rc));
    return FAILED;
}
