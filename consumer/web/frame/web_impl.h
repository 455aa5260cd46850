/* SPDX-License-Identifier: Apache-2.0 */
/* The pages' owner, for web_port.c, web_answer.c, web_visit.c, host_question.c and bigtrace_visit.c
 * alone. */
#ifndef PFL_CONSUMER_WEB_FRAME_WEB_IMPL_H
#define PFL_CONSUMER_WEB_FRAME_WEB_IMPL_H

#include "base/list.h"
#include "base/log.h"
#include "consumer/web/frame/notices.h"
#include "consumer/web/frame/web_access.h"
#include "consumer/web/frame/web_conf.h"
#include "consumer/web/frame/web_visit.h"
#include "consumer/web/html/layout.h"

struct pfl_web {
    struct pfl_web_conf conf;
    const struct pfl_layout_tab *tabs; /* of the routes; static */
    size_t tabs_len;
    struct pfl_http_port *http;  /* owned; NULL once closed */
    struct pfl_host_rows *hosts; /* owned */
    struct pfl_web_access access;
    struct pfl_notices notices;
    struct pfl_list visits;
    unsigned visits_ending; /* not in the list any more, with their last callback under way */
    struct pfl_list parts;
    unsigned questions; /* to hosts: see host_question.h */
    bool is_relay_asked;
    uint64_t listed_ms;     /* when the relay listed its hosts last */
    uint64_t away_since_ms; /* 0: it is there */
    struct pfl_log_limit log;
    bool is_closing;
};

/* A visit, a part or the HTTP port ended: the pages are freed with the last of them. */
void pfl_web_free_if_gone(struct pfl_web *self);
/* Visits that wait for the relay's list continue when it is there, or when the relay is away. */
void pfl_web_visits_step(struct pfl_web *self);

#endif
