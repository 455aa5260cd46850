/* SPDX-License-Identifier: Apache-2.0 */
/* The collector's process: relays, engines and what works on them, on one loop. */
#ifndef PFL_COLLECTOR_DAEMON_H
#define PFL_COLLECTOR_DAEMON_H

#include "base/sandbox/sandbox.h"
#include "collector/relay/relays_port.h"
#include "collector/retain/keep_rules.h"
#include "collector/store/store.h"

struct pfl_collector_conf {
    const char *relays[PFL_RELAYS_MAX];
    size_t relays_len;
    struct pfl_tls_files files;
    struct pfl_store_conf store;
    const char *index;    /* NULL: in the store's folder */
    const char *instance; /* NULL: the certificate's name */
    unsigned max_visits;
    char *const *newest_first;
    size_t newest_first_len;
    struct pfl_keep_rules keep;
    bool is_capacity_kept;      /* all traces: at most 80 % of the store's file system */
    const char *metrics_listen; /* NULL: none */
    const char *metrics_socket;
    const char *run_as;
    enum pfl_sandbox_mode sandbox;
};

/* Runs until a signal; errors of what it opens, which are logged. */
PFL_MUST_USE int pfl_collector_run(const struct pfl_collector_conf *conf);

#endif
