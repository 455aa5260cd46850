/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command that polls its hosts every 2 s until Ctrl-C, over one connection to the relay: on a
 * terminal with a screen of its own, elsewhere one report after the other.
 */
#ifndef PFL_CONSUMER_WATCH_H
#define PFL_CONSUMER_WATCH_H

#include "consumer/cmd/args.h"
#include "consumer/host/fan_out.h"

/* The size of the screen. */
struct pfl_watch_screen {
    unsigned columns;
    unsigned rows;
};

/* The results of one round. */
struct pfl_watch_round {
    struct pfl_fan_out *fan_out;     /* NULL: no query was made */
    struct pfl_host_spec *specs;     /* of `fan_out` */
    struct pfl_inventory *inventory; /* of that round; NULL: no relay */
};

struct pfl_watch_conf {
    void (*on_ready)(void *user,
                     struct pfl_fan_out_host *host); /* as in pfl_fan_out_conf; user: NULL */
    /* `screen` NULL: there is none. PFL_ENOMEM, PFL_ELIMIT. */
    int (*report)(const struct pfl_watch_round *round, const struct pfl_args *args,
                  const struct pfl_watch_screen *screen, struct pfl_buf *out);
};

/* The exit code: 0 after Ctrl-C, SIGTERM or SIGHUP. */
int pfl_watch_run(struct pfl_args *args, const struct pfl_watch_conf *conf);

#endif
