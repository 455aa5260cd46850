/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Trace Processor: see ask_program.h. Happy path: the option's, the variable's or PATH's
 * program is there. Failures: a sentence with the remedy, which the caller reports. Owns nothing.
 */
#include "consumer/cmd/ask_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/log.h"
#include "base/sandbox/guest.h"

#define PROGRAM          "trace_processor_shell"
#define DEFAULT_MIB      2048u
#define DEFAULT_TIME_MS  120000u
#define DEFAULT_JOBS_MAX 4

static bool is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static bool find_in_path(const char *name, char ret_path[PATH_MAX])
{
    const char *at = getenv("PATH");

    while (at != NULL && *at != '\0') {
        size_t len = strcspn(at, ":");
        int n = snprintf(ret_path, PATH_MAX, "%.*s/%s", (int)len, at, name);

        if (len != 0 && n < PATH_MAX && is_program(ret_path))
            return true;
        at += at[len] == ':' ? len + 1 : len;
    }
    return false;
}

static bool find_program(const char *given, struct pfl_ask_program *p)
{
    const char *variable = getenv("TRACE_PROCESSOR");
    const char *name = given != NULL                             ? given
                       : variable != NULL && variable[0] != '\0' ? variable
                                                                 : PROGRAM;
    char found[PATH_MAX];

    if (strchr(name, '/') == NULL
            ? find_in_path(name, found)
            : snprintf(found, sizeof(found), "%s", name) < PATH_MAX && is_program(found)) {
        if (realpath(found, p->path) != NULL)
            return true;
    }
    if (name == given || name == variable)
        (void)snprintf(p->why, sizeof(p->why), "%s %s: there is no such program",
                       name == given ? "--trace-processor" : "TRACE_PROCESSOR",
                       pfl_log_quote_str(name));
    else
        (void)snprintf(p->why, sizeof(p->why),
                       "there is no " PROGRAM " in PATH: it comes with Perfetto's releases; name "
                       "it with --trace-processor PROGRAM or TRACE_PROCESSOR");
    return false;
}

static uint32_t default_jobs(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    return cpus < 1 ? 1 : cpus > DEFAULT_JOBS_MAX ? DEFAULT_JOBS_MAX : (uint32_t)cpus;
}

static bool check_sandbox(enum pfl_sandbox_mode mode, struct pfl_ask_program *p)
{
    p->missing = mode != PFL_SANDBOX_OFF ? pfl_guest_find_missing() : NULL;
    if (p->missing == NULL || mode != PFL_SANDBOX_REQUIRE)
        return true;
    (void)snprintf(p->why, sizeof(p->why), "--sandbox require: this kernel has no %s", p->missing);
    return false;
}

bool pfl_ask_program_find(const struct pfl_ask_args *args, struct pfl_ask_program *ret_program)
{
    struct pfl_ask_program *p = ret_program;
    size_t size = sizeof(p->self);

    memset(p, 0, sizeof(*p));
    if (!find_program(args->program, p) || !check_sandbox(args->sandbox, p))
        return false;
    if (uv_exepath(p->self, &size) != 0) {
        (void)snprintf(p->why, sizeof(p->why),
                       "perfleet does not find its own program: /proc is not there");
        return false;
    }
    p->engine = (struct pfl_ask_engine){
        .sandbox = args->sandbox,
        .jobs = args->jobs != 0 ? args->jobs : default_jobs(),
        .max_mib = args->max_mib != 0 ? args->max_mib : DEFAULT_MIB,
        .max_time_ms = args->max_time_ms != 0 ? args->max_time_ms : DEFAULT_TIME_MS,
    };
    return true;
}

struct pfl_ask_engine pfl_ask_program_get_engine(const struct pfl_ask_program *self)
{
    struct pfl_ask_engine engine = self->engine;

    engine.program = self->why[0] == '\0' ? self->path : NULL;
    engine.self = self->self;
    return engine;
}
