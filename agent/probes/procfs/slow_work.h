/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs work that another user can block, such as reading the files of a process in /proc
 * (docs/adr/0039), on a thread, in steps. The caller waits. A thread that sleeps too long in one
 * step is abandoned and replaced. From one thread.
 */
#ifndef PFL_PROBES_SLOW_WORK_H
#define PFL_PROBES_SLOW_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define PFL_SLOW_SLEEP_MS 100u  /* sleeping in one step: it is stuck */
#define PFL_SLOW_STEP_MS  2000u /* running in one step: it is stuck; from 100 on it is as sleep */
/* For steps that one user can delay, and the sum for all users: stuck threads, ms of sleep at once,
 * ms of it that are refilled per second. */
#define PFL_SLOW_USER_THREADS  2u
#define PFL_SLOW_USER_MS       200u
#define PFL_SLOW_USER_PER_S    2u
#define PFL_SLOW_USERS_THREADS 16u
#define PFL_SLOW_USERS_MS      2000u
#define PFL_SLOW_USERS_PER_S   50u
/* Likewise the work of shorter steps, in ms of CPU time. */
#define PFL_SLOW_USER_WORK_MS     500u
#define PFL_SLOW_USER_WORK_PER_S  250u
#define PFL_SLOW_USERS_WORK_MS    1000u
#define PFL_SLOW_USERS_WORK_PER_S 500u
/* The same for steps that any user can delay, for each of the following. */
#define PFL_SLOW_NOBODY_THREADS 12u
#define PFL_SLOW_NOBODY_MS      500u
#define PFL_SLOW_NOBODY_PER_S   10u
/* Likewise their work, in ms of CPU time, but for steps of less than LIGHT_US. */
#define PFL_SLOW_NOBODY_WORK_MS    500u
#define PFL_SLOW_NOBODY_WORK_PER_S 200u
#define PFL_SLOW_NOBODY_LIGHT_US   1000u
/* Of all: more than their sum, so that the last one stays available. */
#define PFL_SLOW_THREADS 64u

#define PFL_SLOW_PROCESSES UINT32_MAX       /* folders of processes */
#define PFL_SLOW_SYSTEM    (UINT32_MAX - 1) /* all other folders */
#define PFL_SLOW_START     (UINT32_MAX - 2) /* a thread before its first step */
#define PFL_SLOW_USERS     (UINT32_MAX - 3) /* all users in sum; not for a step */

#define PFL_SLOW_PATH_BYTES 128u

struct pfl_slow_step {
    uint32_t uid;     /* the user that can delay it, or PFL_SLOW_PROCESSES or _SYSTEM: any user */
    int32_t pid;      /* the process of the file; 0: none */
    bool is_list;     /* if it is stuck all other files of that pid can still be read */
    uint32_t tag;     /* for the caller */
    const char *path; /* copied; for the log */
};

/* Frees what returned threads left. Spans into rooms end here. */
void pfl_slow_work_reap(void);
/* The room of the thread that works next, with its old content; `bytes` are the same in every call.
 * NULL: too many are stuck, or there is no memory. */
void *pfl_slow_work_get_room(size_t bytes);
/* Calls `run` with that room, on the thread. False: it is stuck in the step of *ret_tag; published
 * parts of the room stay readable until reap. */
bool pfl_slow_work_run(void (*run)(void *room), uint32_t *ret_tag);

/* On the thread, in `run`. False: skip this step. Its user's share is used up, a step of this
 * process is stuck, or this thread has returned too late. */
bool pfl_slow_work_begin(const struct pfl_slow_step *step);
/* Publishes a step's result, which is in the room, to the caller. */
void pfl_slow_work_publish(struct pfl_span *where, struct pfl_span result);

/* The number of stuck threads. */
size_t pfl_slow_work_count_stuck(void);

#endif
