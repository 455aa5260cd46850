/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hub without sockets, clocks or logs: its cores, a shell that writes down what it is asked, and
 * agents and operators at the far ends of HTTP/2 connections in memory.
 *
 * A run whose allocation fails continues as far as possible: `world_is_broken` says so, claims are
 * only made otherwise.
 */
#ifndef PFL_TESTS_UNIT_RELAY_HUB_HUB_WORLD_H
#define PFL_TESTS_UNIT_RELAY_HUB_HUB_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "relay/hub/agent_hello.h"
#include "relay/hub/audit_context.h"
#include "relay/hub/operator_requests.h"
#include "relay/hub/throttle.h"
#include "tests/support/sweep.h"

#define WORLD_PEERS   8u
#define WORLD_BOOT_ID "01234567-89ab-cdef-0123-456789abcdef"
#define WORLD_STREAM  "0123456789abcdef0123456789abcdef"
#define WORLD_OTHER   "fedcba9876543210fedcba9876543210"

/* One exchange of an operator's. */
struct world_answer {
    struct pfl_h2_stream *h2_stream; /* NULL once it is over */
    unsigned status;                 /* 0: none came */
    char problem[400];               /* "title: detail", "" without one */
    char type[40];                   /* of the body, "" without one */
    char body[32768];
    size_t body_len;
    size_t to_send; /* of a stream */
    uint32_t code;
    bool is_reading; /* credits what comes */
};

/* A stream of an operator's as the host's agent has it. */
struct world_service {
    struct pfl_h2_stream *h2_stream;
    size_t to_send;
    size_t got;
    uint32_t code;
};

struct world_peer {
    struct pfl_hub_peer peer;
    struct pfl_agent_hello hello;
    struct pfl_h2 *near; /* the relay's end */
    struct pfl_h2 *far;
    bool is_link_gone;
    bool is_paced; /* the shell was asked for a turn of what waits */
    /* Of an agent: what it answers, */
    const char *hello_text; /* NULL: 500 */
    const char *clock_text; /* NULL: offset 500 ns */
    bool is_clock_wavering; /* 100 and 900 ns in turn */
    unsigned events_status;
    const char *now_ms; /* NULL: it does not say */
    unsigned answer;    /* of any other request; 0: none until world_answer_now */
    const char *answer_body;
    const char *kept_role;
    /* and what it was asked: */
    char asked[4096]; /* a line a request: method, path, fields with the relay's prefix */
    unsigned hellos;
    unsigned clocks;
    char reported[2048]; /* a line for each clock exchange: what it has of the one before */
    struct pfl_h2_stream *waiting; /* the last one that was not answered */
    struct pfl_h2_stream *events;
    const char *event_lines; /* to be sent */
    struct world_service services[4];
    unsigned services_len;
};

struct world {
    struct pfl_hub_shell shell;
    struct pfl_quotas quotas;
    struct pfl_policy *policy;
    struct pfl_peer_table peers;
    struct pfl_stream_table streams;
    struct pfl_operator_requests requests;
    struct pfl_trigger_passing triggers;
    uint64_t now_ms;
    int64_t boot_ns;
    int64_t boot_step_ns; /* from one look at the clock to the next */
    struct pfl_relay_figures figures;
    char audited[8192];  /* a line each: action status who host stream bytes method detail */
    char reported[4096]; /* a line each: event who host stream number detail */
    struct world_peer peer[WORLD_PEERS];
    unsigned peers_len;
    uint32_t window_bytes; /* of those that connect from now on; 0: the usual */
    bool is_audit_full;
    bool is_broken;
};

extern struct world world;

/* `policy` NULL: everything is allowed. */
void world_open(const char *policy);
void world_set_policy(const char *policy);
void world_close(void);
int world_setup(void **state); /* without a policy */
int world_teardown(void **state);
/* What a sweep's body returns. */
int world_result(void);

/* A connection that is admitted, and settled; NULL: refused. It has the agent's defaults. */
struct world_peer *world_connect(enum pfl_identity_role role, const char *name);
/* An operator's connection that answers. It has the agent's defaults for CONNECT. */
struct world_peer *world_connect_collector(const char *name);
/* The same as world_connect without its settings: they come with the next world_pump. */
struct world_peer *world_begin(enum pfl_identity_role role, const char *name);
void world_disconnect(struct world_peer *p);
/* Moves bytes until there are none. */
void world_pump(void);
/* The shell's timers: throttled work continues. */
void world_run_paced(void);
void world_say_events(struct world_peer *agent, const char *lines);
void world_answer_now(struct world_peer *agent, unsigned status, const char *body);

/* An operator's request, pumped. */
void world_ask(struct world_peer *p, const char *method, const char *path,
               struct world_answer *ret_answer);
void world_ask_with(struct world_peer *p, const char *method, const char *path,
                    const struct pfl_h2_field *field, struct world_answer *ret_answer);
/* A stream to the host; `received` makes it a resume. */
void world_open_stream(struct world_peer *p, const char *host, const char *id, const char *received,
                       struct world_answer *ret_answer);
/* A stream with one life. `field` may be NULL. */
void world_dial(struct world_peer *p, const char *path, const char *protocol,
                const struct pfl_h2_field *field, struct world_answer *ret_answer);
void world_reset(struct world_answer *answer, enum pfl_h2_code code);

/* Claims about an answer, a line of the audit log, of the log. */
void world_assert_refused(const struct world_answer *answer, unsigned status, const char *problem);
void world_assert_audited(const char *line);
void world_assert_reported(const char *line);
unsigned world_count(const char *text, const char *part);

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

#endif
