/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that takes as long as somebody else likes, such as reading the files of a process in /proc
 * (docs/adr/0039). One thread does it, in steps, and the caller waits. A thread that sleeps too
 * long in one step is left alone, and another takes its place. From one thread.
 */
#ifndef PFL_PROBES_SLOW_WORK_H
#define PFL_PROBES_SLOW_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define PFL_SLOW_SLEEP_MS 100u  /* asleep in one step: it is stuck */
#define PFL_SLOW_STEP_MS  2000u /* at work in one step: likewise */
/* Steps that one user can hold up, and those of all users in sum: threads that are stuck, ms of
 * sleep at once, ms of it that come back in a second. */
#define PFL_SLOW_USER_THREADS  2u
#define PFL_SLOW_USER_MS       200u
#define PFL_SLOW_USER_PER_S    2u
#define PFL_SLOW_USERS_THREADS 16u
#define PFL_SLOW_USERS_MS      2000u
#define PFL_SLOW_USERS_PER_S   50u
/* The same for steps that any user can hold up, of each of the following. */
#define PFL_SLOW_NOBODY_THREADS 12u
#define PFL_SLOW_NOBODY_MS      500u
#define PFL_SLOW_NOBODY_PER_S   10u
/* Of all: more than their sum, so that nobody takes the last one. */
#define PFL_SLOW_THREADS 64u

#define PFL_SLOW_PROCESSES UINT32_MAX       /* folders of processes */
#define PFL_SLOW_SYSTEM    (UINT32_MAX - 1) /* all other folders */
#define PFL_SLOW_START     (UINT32_MAX - 2) /* a thread before its first step */
#define PFL_SLOW_USERS     (UINT32_MAX - 3) /* all users in sum; not for a step */

#define PFL_SLOW_PATH_BYTES 128u

struct pfl_slow_step {
    uint32_t uid;     /* who can hold it up, or PFL_SLOW_PROCESSES or _SYSTEM: anybody */
    int32_t pid;      /* whose file it is; 0: no process's */
    bool is_list;     /* when it is stuck all others of that pid can be read all the same */
    uint32_t tag;     /* the caller's */
    const char *path; /* copied; for the log */
};

/* Frees what threads that came back left. Spans into rooms end here. */
void pfl_slow_work_reap(void);
/* The room of the thread that works next, as it was left; `bytes` are the same in every call.
 * NULL: too many are stuck, or there is no memory. */
void *pfl_slow_work_get_room(size_t bytes);
/* Calls `run` with that room, on the thread. False: it is stuck in the step of *ret_tag; the room
 * stays readable where it was published, until the reaping. */
bool pfl_slow_work_run(void (*run)(void *room), uint32_t *ret_tag);

/* On the thread, in `run`. False: leave this step out. Its user has used up his share, one of this
 * process is stuck, or this thread has come back too late. */
bool pfl_slow_work_begin(const struct pfl_slow_step *step);
/* A step's result, in the room, for the caller to see. */
void pfl_slow_work_publish(struct pfl_span *where, struct pfl_span result);

/* How many are stuck. */
size_t pfl_slow_work_count_stuck(void);

#endif
