/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what could spoil a recording from what is known about its hosts. Pure. */
#ifndef PFL_CONSUMER_HEALTH_H
#define PFL_CONSUMER_HEALTH_H

#include "consumer/text.h"

enum pfl_health {
    PFL_HEALTH_GOOD,
    PFL_HEALTH_WARNING, /* it would work, but worse than possible, or not for long */
    PFL_HEALTH_BAD,     /* that host would be missing */
};

struct pfl_health_host {
    const char *name;
    const char *why;       /* "" or why it could not be asked */
    struct pfl_span state; /* serialized TracingServiceState */
    const char *tls;    /* version of its, or its agent's, connection; NULL, "": none, or unknown */
    int64_t cert_end_s; /* its own, or its agent's; UNIX time; 0: none */
    const char *agent;  /* its agent's version; "" without one */
    bool has_clock;
    int64_t offset_ns; /* its boot clock - ours */
    int64_t error_ns;
};

struct pfl_health_conf {
    const struct pfl_health_host *hosts;
    size_t hosts_len;
    struct pfl_span trace_config; /* serialized; empty: sources are not checked */
    int64_t now_s;                /* UNIX time */
    int64_t our_cert_end_s;       /* 0: none was needed */
    int64_t relay_cert_end_s;     /* 0: no relay */
    const char *own_version;      /* this program's; agents are compared with it */
};

/* The problems, a line each, then a line for each host without one, or JSON; the worst is
 * `ret_worst`. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_health_text(const struct pfl_health_conf *conf, struct pfl_buf *out,
                                 enum pfl_health *ret_worst);
PFL_MUST_USE int pfl_health_json(const struct pfl_health_conf *conf, struct pfl_buf *out,
                                 enum pfl_health *ret_worst);

#endif
