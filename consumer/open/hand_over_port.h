/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves trace files to the Perfetto UI of this user's browser, on 127.0.0.1, each once.
 */
#ifndef PFL_CONSUMER_OPEN_HAND_OVER_PORT_H
#define PFL_CONSUMER_OPEN_HAND_OVER_PORT_H

#include <uv.h>

#include "consumer/http/http_port.h"
#include "consumer/open/file_kind.h"
#include "consumer/open/hand_over.h"

/* With the UI's own files: it is served for so long after the last request, when all traces are
 * fetched. */
#define PFL_HAND_OVER_QUIET_MS 10000u

struct pfl_hand_over_port;

struct pfl_hand_over_port_conf {
    uv_loop_t *loop;
    enum pfl_hand_over_way way;
    const char *ui_url; /* unless the way is OWN */
    const char *ui_dir; /* if it is: the folder that has index.html */
    uint16_t port;      /* 0: any */
    uint64_t wait_ms;   /* in which all must be fetched; not of a live view */
    /* NULL, or it is a live view: its page asks for a newer view. The exchange is the callee's.
     * on_done is not called then. */
    void (*on_next)(void *user, struct pfl_http_exchange *exchange, const char *query);
    /* The UI has all of it; or `why` it has not, and may ask again. */
    void (*on_fetched)(void *user, size_t trace, const char *why);
    void (*on_refused)(void *user, const char *why); /* a request was; at most 50 in 10 s */
    /* All are fetched, or time is over: close it. */
    void (*on_done)(void *user);
    void (*on_closed)(void *user); /* last callback */
    void *user;
};

/* What is wrong with a file, or a folder; "" if it is the port. */
struct pfl_hand_over_problem {
    const char *path; /* NULL: none has a problem */
    const char *why;
};

/* PFL_ENOMEM, PFL_EINVAL (`ui_dir`, see problem). No listening yet. */
PFL_MUST_USE int pfl_hand_over_port_new(const struct pfl_hand_over_port_conf *conf,
                                        struct pfl_hand_over_port **ret_port,
                                        struct pfl_hand_over_problem *ret_problem);
/* A file; `path` is borrowed until on_closed. PFL_EINVAL (see problem), PFL_ELIMIT, PFL_EIO. */
PFL_MUST_USE int pfl_hand_over_port_add(struct pfl_hand_over_port *self, const char *path,
                                        enum pfl_file_kind *ret_kind,
                                        struct pfl_hand_over_problem *ret_problem);
/* Of a live view: the file takes the place of the last one, whose link ends. PFL_ESTATE: that is
 * being fetched. Else as pfl_hand_over_port_add; on failure the last one stays. */
PFL_MUST_USE int pfl_hand_over_port_replace(struct pfl_hand_over_port *self, const char *path,
                                            struct pfl_hand_over_problem *ret_problem);
/* A file that is open already: takes `fd`, also on failure. `title` is the file's name, borrowed
 * until on_closed. PFL_ELIMIT, PFL_EIO. */
PFL_MUST_USE int pfl_hand_over_port_add_file(struct pfl_hand_over_port *self, int fd,
                                             const char *title);
/* Listens. PFL_EIO (the port is taken; logged), PFL_ENOMEM. */
PFL_MUST_USE int pfl_hand_over_port_start(struct pfl_hand_over_port *self);
const struct pfl_hand_over *pfl_hand_over_port_get(const struct pfl_hand_over_port *self);
/* Asynchronous, idempotent: on_closed follows, from the loop. */
void pfl_hand_over_port_close(struct pfl_hand_over_port *self);

#endif
