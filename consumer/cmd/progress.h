/* SPDX-License-Identifier: Apache-2.0 */
/* What the operator sees during a recording: a bar on a terminal, lines otherwise. */
#ifndef PFL_CONSUMER_PROGRESS_H
#define PFL_CONSUMER_PROGRESS_H

#include "consumer/recording/recording.h"

enum pfl_progress_output {
    PFL_PROGRESS_QUIET,
    PFL_PROGRESS_LINES,
    PFL_PROGRESS_TERMINAL,
};

enum pfl_progress_timer {
    PFL_PROGRESS_UNOPENED,
    PFL_PROGRESS_OPEN,
    PFL_PROGRESS_CLOSING,
    PFL_PROGRESS_CLOSED,
};

struct pfl_progress {
    uv_timer_t timer;
    const struct pfl_recording *recording; /* borrowed */
    enum pfl_host_task task;
    uint64_t duration_ms;
    uint64_t run_began_ms;              /* of the loop; 0: not yet */
    uint64_t read_began_ms;             /* likewise */
    struct pfl_recording_absent absent; /* as last printed; not on a terminal */
    bool is_streamed;
    uint64_t losses;         /* of all hosts, as last printed */
    uint64_t losses_said_ms; /* of the loop */
    enum pfl_progress_output output;
    bool has_bar; /* the terminal's last line is the bar */
    enum pfl_progress_timer timer_state;
};

void pfl_progress_open(struct pfl_progress *self, const struct pfl_recording_conf *conf,
                       bool is_quiet);
/* The recording begins to connect; borrowed until close. */
void pfl_progress_begin(struct pfl_progress *self, const struct pfl_recording *recording);
/* As pfl_recording_conf.on_progress. */
void pfl_progress_update(struct pfl_progress *self, const struct pfl_recording *recording,
                         const struct pfl_host_recording *host_recording);
/* Call before the operator's `nth` Ctrl-C is handled. */
void pfl_progress_interrupt(struct pfl_progress *self, const struct pfl_recording *recording,
                            unsigned nth);
/* Clears the bar; the timer's memory must live until the loop has run. Idempotent. */
void pfl_progress_close(struct pfl_progress *self);
bool pfl_progress_is_closed(const struct pfl_progress *self);

#endif
