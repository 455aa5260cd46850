/* SPDX-License-Identifier: Apache-2.0 */
/* A command's conversation with a collector: relay, the collector's name, stream, questions. */
#ifndef PFL_CONSUMER_COLLECTOR_SESSION_H
#define PFL_CONSUMER_COLLECTOR_SESSION_H

#include "consumer/cmd/cmd.h"
#include "consumer/collector/collector_conn.h"

struct pfl_collector_session {
    struct pfl_args *args;
    uv_loop_t loop;
    struct pfl_collector_conn *conn; /* NULL: closed */
    char name[PFL_HOST_NAME_MAX];
    char why[512];
    size_t found; /* collectors of the relay */
    bool has_answer;
    /* Of the question that is open. */
    uint32_t id; /* 0: none */
    uint32_t status;
    void (*on_reply)(void *user, const Perfleet__CollectorReply *reply);
    void *user;
    uv_timer_t timer;
    bool is_late;
};

/* 0 or the exit code: error reported on stderr, and nothing is open. */
int pfl_collector_session_open(struct pfl_collector_session *self, struct pfl_args *args);
void pfl_collector_session_close(struct pfl_collector_session *self);
/*
 * Sends a request and waits for its last reply; each part without an error goes to `on_reply`,
 * which may be NULL. 0 or the exit code: error reported on stderr.
 */
int pfl_collector_session_ask(struct pfl_collector_session *self,
                              Perfleet__CollectorRequest *request,
                              void (*on_reply)(void *user, const Perfleet__CollectorReply *reply),
                              void *user);
/* For a command that has several requests under way: each reply goes to `on_reply`, with errors,
 * until the caller sets it to NULL. The time without a reply begins. */
void pfl_collector_session_hear(struct pfl_collector_session *self,
                                void (*on_reply)(void *user, const Perfleet__CollectorReply *reply),
                                void *user);

#endif
