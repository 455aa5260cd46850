/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks hosts for their services' state, for a visit, and notes in the host rows what they answer;
 * or has hosts do something.
 */
#ifndef PFL_CONSUMER_WEB_FRAME_HOST_QUESTION_H
#define PFL_CONSUMER_WEB_FRAME_HOST_QUESTION_H

#include "consumer/host/fan_out.h"
#include "consumer/web/frame/web_visit.h"

/* Of all answers to one question; PFL_WEB_MAX_QUESTIONS may be open. */
#define PFL_HOST_QUESTION_MAX_BYTES (64u << 20)

struct pfl_host_question {
    struct pfl_web_visit *visit; /* borrowed: it is held meanwhile */
    struct pfl_host_spec *specs; /* owned */
    struct pfl_fan_out *fan_out; /* owned; NULL: nobody is asked */
    bool is_open;
    bool is_act;     /* answers are no service's state */
    const char *why; /* NULL, or why nobody is asked, for the page; static */
    void (*on_over)(struct pfl_web_visit *visit);
    /* Set before open: what each host does, as in struct pfl_fan_out_conf, with the question as
     * `user`. NULL: it says its service's state. */
    void (*on_ready)(void *user, struct pfl_fan_out_host *host);
};

/* Takes the specs. Nobody is asked if there are none, without memory, or when too many questions
 * are open; else on_over follows if the visit is not answered by then, and the visit is released.
 */
void pfl_host_question_open(struct pfl_host_question *self, struct pfl_web_visit *visit,
                            struct pfl_host_spec *specs, size_t specs_len,
                            void (*on_over)(struct pfl_web_visit *visit));
/* The same for the hosts that are not known to be away, at most `max` of them. */
void pfl_host_question_open_all(struct pfl_host_question *self, struct pfl_web_visit *visit,
                                size_t max, void (*on_over)(struct pfl_web_visit *visit));
/* Of how many hosts; 0: nobody is asked. */
size_t pfl_host_question_get_len(const struct pfl_host_question *self);
/* Notes the answers that have come so far. */
void pfl_host_question_take(struct pfl_host_question *self);
void pfl_host_question_abort(struct pfl_host_question *self);
void pfl_host_question_fini(struct pfl_host_question *self); /* not while it is open */

/* How a row's host is reached. */
void pfl_host_question_set_spec(const struct pfl_host_row *row, struct pfl_host_spec *spec);

#endif
