/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_agents RELAY KEYS SOCKET PREFIX FIRST COUNT [SPOOLS]: many of perfleet-agent's agents in
 * one process.
 *
 * RELAY is HOST:PORT, or :PORT for an address of its own for each agent: 127.1.x.y, which scale
 * routes so that the agent has that address, too. Each is the real one, with a certificate
 * (KEYS/host-PREFIX<n>.pem), a TLS connection, a back-off and streams of its own; they share the
 * loop and the consumer socket. With SPOOLS each has a folder of segments, SPOOLS/PREFIX<n>. Says
 * "open N". Ends with SIGTERM. Failures: in words, exit 1.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "agent/daemon/port.h"
#include "base/io/loop.h"
#include "base/log.h"
#include "base/mem.h"

#define SPOOL_PATH_BYTES 512u

static uv_loop_t loop;
static struct pfl_agent **agents;
static size_t agents_len;

static void on_closed(void *user)
{
    struct pfl_agent **slot = user;

    *slot = NULL;
}

static int open_agent(char **argv, unsigned number, struct pfl_agent **slot)
{
    static char paths[3][512];
    static char relay[64];
    char *spool = NULL;
    int rc;
    struct pfl_agent_conf conf = {
        .loop = &loop,
        .relays = {relay},
        .relays_len = 1,
        .files = {.ca_path = paths[0], .cert_path = paths[1], .key_path = paths[2]},
        .consumer_socket = argv[3],
        .spool_bytes = 16u << 20,
        .pool = {.max_bytes = 256u << 20},
        .max_streams = 64,
        .segments_quota = {.max_bytes = 64ull << 30, .max_age_ms = 7 * 86400000ull},
        .ttl_max_ms = 600000,
        .silence_ms = 15000,
        .on_closed = on_closed,
        .user = slot,
    };

    if (argv[1][0] != ':')
        (void)snprintf(relay, sizeof(relay), "%s", argv[1]);
    else
        (void)snprintf(relay, sizeof(relay), "127.1.%u.%u%s", number / 250, number % 250 + 1,
                       argv[1]);
    (void)snprintf(paths[0], sizeof(paths[0]), "%s/ca.pem", argv[2]);
    (void)snprintf(paths[1], sizeof(paths[1]), "%s/host-%s%u.pem", argv[2], argv[4], number);
    (void)snprintf(paths[2], sizeof(paths[2]), "%s/host-%s%u.key", argv[2], argv[4], number);
    if (argv[7] != NULL) {
        spool = pfl_mem_alloc(SPOOL_PATH_BYTES); /* as long as the process lives */
        if (spool == NULL)
            return PFL_ENOMEM;
        (void)snprintf(spool, SPOOL_PATH_BYTES, "%s/%s%u", argv[7], argv[4], number);
    }
    conf.segments_dir = spool;
    rc = pfl_agent_open(&conf, slot);
    return rc == 0 && spool != NULL ? pfl_agent_open_collect(*slot) : rc;
}

static void on_term(uv_signal_t *handle, int number)
{
    (void)handle;
    (void)number;
    exit(0); /* the connections with it: a crash of all of them */
}

int main(int argc, char **argv)
{
    uv_signal_t term;
    unsigned first;

    if (argc != 7 && argc != 8) {
        fprintf(stderr, "usage: bench_agents RELAY KEYS SOCKET PREFIX FIRST COUNT [SPOOLS]\n");
        return 1;
    }
    first = (unsigned)strtoul(argv[5], NULL, 10);
    agents_len = strtoul(argv[6], NULL, 10);
    agents = pfl_mem_calloc(agents_len, sizeof(*agents));
    (void)signal(SIGPIPE, SIG_IGN);
    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    pfl_log_set_level(PFL_LOG_ERROR);
    if (agents == NULL || pfl_loop_init(&loop) != 0)
        return 1;
    (void)uv_signal_init(&loop, &term);
    (void)uv_signal_start(&term, on_term, SIGTERM);
    for (size_t i = 0; i < agents_len; i++) {
        if (open_agent(argv, first + (unsigned)i, &agents[i]) != 0)
            return 1;
    }
    printf("open %zu\n", agents_len);
    return uv_run(&loop, UV_RUN_DEFAULT);
}
