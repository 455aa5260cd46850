/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfleet-trigger: raises triggers from a script on a host.
 *
 * Happy path: connect as a producer, raise each trigger, wait until the service has them, exit.
 * Failures: wrong usage is exit 2; no service within --timeout, or a socket of an untrusted user,
 * is exit 1, with the socket and the remedy.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "producer/perfleet.h"

#define PRODUCER_NAME      "perfleet-trigger"
#define TIMEOUT_DEFAULT_MS 10000u
#define TRIGGERS_MAX       16 /* that the library keeps until they are sent */

static const char help[] =
    "usage: perfleet-trigger [--socket NAME] [--timeout-ms N] TRIGGER...\n"
    "\n"
    "Raises the TRIGGERs (16 at most) at the tracing service of this host: sessions with a\n"
    "trigger_config, and perfleet's alarms, wait for them.\n"
    "\n"
    "  --socket NAME     the service's socket for producers ($PERFETTO_PRODUCER_SOCK_NAME, else\n"
    "                    /run/perfetto/traced-producer.sock if that folder is there, else\n"
    "                    /tmp/perfetto-producer)\n"
    "  --timeout-ms N    how long to wait for the service (10000)\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0 the service has them, 1 it could not be reached, 2 wrong usage.\n";

struct wish {
    const char *socket;
    uint32_t timeout_ms;
};

static int refuse_usage(const char *what, const char *value)
{
    fprintf(stderr, "perfleet-trigger: %s%s%s\nTry 'perfleet-trigger --help'.\n", what,
            value != NULL ? ": " : "", value != NULL ? value : "");
    return 2;
}

static int take_timeout(const char *text, uint32_t *ret_ms)
{
    char *end;
    unsigned long ms;

    errno = 0;
    ms = strtoul(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || ms == 0 || ms > 3600000)
        return refuse_usage("--timeout-ms wants 1 to 3600000", text);
    *ret_ms = (uint32_t)ms;
    return -1;
}

/* -1: continue; else the exit code. */
static int read_options(int argc, char **argv, struct wish *wish)
{
    static const struct option options[] = {
        {"socket", required_argument, NULL, 's'},
        {"timeout-ms", required_argument, NULL, 't'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},
        {NULL, 0, NULL, 0},
    };
    int option;
    int code = -1;

    while (code < 0 && (option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 's') {
            wish->socket = optarg;
        } else if (option == 't') {
            code = take_timeout(optarg, &wish->timeout_ms);
        } else if (option == 'h' || option == 'v') {
            fputs(option == 'h' ? help : "perfleet-trigger " PFL_VERSION "\n", stdout);
            code = 0;
        } else {
            code = 2;
        }
    }
    if (code < 0 && optind == argc)
        code = refuse_usage("give at least one TRIGGER", NULL);
    if (code < 0 && argc - optind > TRIGGERS_MAX)
        code = refuse_usage("at most 16 triggers at a time", NULL);
    return code;
}

static int fail(const char *what, int err)
{
    fprintf(stderr, "perfleet-trigger: %s: %s\n", what, perfleet_err_str(err));
    return 1;
}

static int fail_unreachable(struct perfleet *tracing, const struct wish *wish)
{
    char why[512];

    if (perfleet_get_refusal(tracing, why, sizeof(why)))
        fprintf(stderr, "perfleet-trigger: %s\n", why);
    else
        fprintf(stderr,
                "perfleet-trigger: no tracing service answers within %u ms at %s: is perfleetd (or "
                "traced) running there?\n",
                wish->timeout_ms,
                wish->socket != NULL ? wish->socket : "this host's socket for producers");
    return 1;
}

static int raise_all(struct perfleet *tracing, const struct wish *wish, char *const *triggers)
{
    int rc = perfleet_wait_connected(tracing, wish->timeout_ms);

    if (rc != 0)
        return fail_unreachable(tracing, wish);
    for (; rc == 0 && *triggers != NULL; triggers++)
        rc = perfleet_trigger(tracing, *triggers);
    if (rc != 0)
        return fail(triggers[-1], rc);
    return perfleet_sync(tracing, wish->timeout_ms) == 0 ? 0 : fail_unreachable(tracing, wish);
}

int main(int argc, char **argv)
{
    struct wish wish = {.timeout_ms = TIMEOUT_DEFAULT_MS};
    struct perfleet_conf conf = {.producer_name = PRODUCER_NAME};
    struct perfleet *tracing;
    int code = read_options(argc, argv, &wish);
    int rc;

    if (code >= 0)
        return code;
    conf.socket = wish.socket;
    rc = perfleet_open(&conf, &tracing);
    if (rc != 0)
        return fail(wish.socket != NULL ? wish.socket : "PERFETTO_PRODUCER_SOCK_NAME", rc);
    code = raise_all(tracing, &wish, argv + optind);
    perfleet_close(tracing);
    return code;
}
