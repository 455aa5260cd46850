/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work on a thread that is replaced when it is stuck: see slow_work.h.
 *
 * Happy path: run wakes the thread, which does the steps and wakes the caller: two switches for any
 * number of steps. Only if that takes longer than LOOK_MS, the caller checks the thread every
 * LOOK_MS: its sleep is charged to the user of the step.
 *
 *     IDLE --run--> ASKED --(thread)--> DONE --> IDLE
 *                     \--(caller)--> STUCK --(thread)--> ENDED --reap--> freed
 *
 * A thread sleeps if it neither runs nor waits for a processor, so that a busy machine does not
 * make it stuck. Its CPU time is charged, too, after each step. A user and its subordinate ids
 * count as one. Failures: without a thread or memory
 * there is no room. Ownership: a worker belongs to the caller's thread; the worker's thread touches
 * nothing after ENDED. Limits: PFL_SLOW_*; USERS users, of more the one with the least debt is
 * forgotten.
 */
#include "agent/probes/procfs/slow_work.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if __has_include(<linux/close_range.h>)
#include <linux/close_range.h>
#endif

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/subuids.h"
#include "base/token_bucket.h"

#define USERS       64u
#define LOOK_MS     10u
#define STACK_BYTES (256u * 1024u)
#define US_PER_MS   1000u
#define SAY_MS      10000u /* how often it is said that files are left out */

enum state { IDLE, ASKED, DONE, STUCK, ENDED };

struct worker {
    enum state state; /* under the lock, as is what follows up to the room */
    pthread_cond_t wake;
    void (*run)(void *room);
    uint32_t steps;  /* begun */
    uint64_t cpu_us; /* of the thread, when the step began */
    struct pfl_slow_step step;
    char path[PFL_SLOW_PATH_BYTES];
    int stat_fd; /* owned; the thread's own file; -1: not yet */
    void *room;  /* owned; the thread's while ASKED and STUCK */
};

struct user {
    uint32_t uid;
    struct pfl_token_bucket time; /* ms; per_s 0: a free place */
    struct pfl_token_bucket work; /* us */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t done; /* by CLOCK_MONOTONIC */
    bool is_ready;
    struct worker *worker; /* NULL: none */
    struct worker *stuck[PFL_SLOW_THREADS];
    struct user users[USERS];
    uint32_t left_out; /* whose steps were skipped for their work */
    bool has_left_out;
    uint64_t said_ms;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct worker *own; /* the thread's */

static uint64_t now_ms(void)
{
    return pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) / 1000000;
}

/* --- shares, locked ---------------------------------------------------------------------- */

/* Of the calling thread. */
static uint64_t get_cpu_us(void)
{
    struct timespec ts = {.tv_sec = 0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static bool is_of_nobody(uint32_t uid)
{
    return uid >= PFL_SLOW_START;
}

static void set_work(struct user *u, uint64_t ms_per_s, uint64_t ms, uint64_t now)
{
    pfl_token_bucket_set(&u->work, ms_per_s * US_PER_MS, ms * US_PER_MS, now);
}

static void fill(struct user *u, uint64_t now)
{
    if (is_of_nobody(u->uid)) {
        pfl_token_bucket_set(&u->time, PFL_SLOW_NOBODY_PER_S, PFL_SLOW_NOBODY_MS, now);
        set_work(u, PFL_SLOW_NOBODY_WORK_PER_S, PFL_SLOW_NOBODY_WORK_MS, now);
    } else if (u->uid == PFL_SLOW_USERS) {
        pfl_token_bucket_set(&u->time, PFL_SLOW_USERS_PER_S, PFL_SLOW_USERS_MS, now);
        set_work(u, PFL_SLOW_USERS_WORK_PER_S, PFL_SLOW_USERS_WORK_MS, now);
    } else {
        pfl_token_bucket_set(&u->time, PFL_SLOW_USER_PER_S, PFL_SLOW_USER_MS, now);
        set_work(u, PFL_SLOW_USER_WORK_PER_S, PFL_SLOW_USER_WORK_MS, now);
    }
}

/* Valid until the next call. */
static struct user *find_user(uint32_t uid)
{
    struct user *best = &all.users[0];
    uint64_t now = now_ms();

    for (size_t i = 0; i < USERS; i++) {
        struct user *u = &all.users[i];

        if (u->time.per_s != 0 && u->uid == uid)
            return u;
        if (best->time.per_s != 0 &&
            (u->time.per_s == 0 ||
             pfl_token_bucket_get(&u->time, now) > pfl_token_bucket_get(&best->time, now)))
            best = u;
    }
    *best = (struct user){.uid = uid};
    fill(best, now);
    return best;
}

static bool has_time(uint32_t uid)
{
    return pfl_token_bucket_get(&find_user(uid)->time, now_ms()) > 0 &&
           (is_of_nobody(uid) ||
            pfl_token_bucket_get(&find_user(PFL_SLOW_USERS)->time, now_ms()) > 0);
}

static bool has_work(uint32_t uid)
{
    return pfl_token_bucket_get(&find_user(uid)->work, now_ms()) > 0 &&
           (is_of_nobody(uid) ||
            pfl_token_bucket_get(&find_user(PFL_SLOW_USERS)->work, now_ms()) > 0);
}

static void charge(uint32_t uid, uint64_t ms)
{
    pfl_token_bucket_take(&find_user(uid)->time, ms);
    if (!is_of_nobody(uid))
        pfl_token_bucket_take(&find_user(PFL_SLOW_USERS)->time, ms);
}

/* Any user may watch a file of /proc (inotify): who reads it wakes all that wait for that. Without
 * them it is light. */
static void charge_work(uint32_t uid, uint64_t us)
{
    if (is_of_nobody(uid) && us < PFL_SLOW_NOBODY_LIGHT_US)
        return;
    if (us >= PFL_SLOW_SLEEP_MS * US_PER_MS) {
        charge(uid, us / US_PER_MS);
        return;
    }
    pfl_token_bucket_take(&find_user(uid)->work, us);
    if (!is_of_nobody(uid))
        pfl_token_bucket_take(&find_user(PFL_SLOW_USERS)->work, us);
}

/* Would the step be stuck where this one is? */
static bool is_behind(const struct pfl_slow_step *step, const struct pfl_slow_step *stuck)
{
    if (stuck->pid != step->pid)
        return false;
    if (stuck->is_list)
        return strcmp(stuck->path, step->path) == 0;
    return is_of_nobody(stuck->uid) || !is_of_nobody(step->uid);
}

static bool is_allowed(const struct pfl_slow_step *step)
{
    size_t max = is_of_nobody(step->uid) ? PFL_SLOW_NOBODY_THREADS : PFL_SLOW_USER_THREADS;
    size_t of_users = 0;
    size_t of_user = 0;

    for (size_t i = 0; i < PFL_SLOW_THREADS; i++) {
        const struct worker *w = all.stuck[i];

        if (w == NULL || w->state != STUCK)
            continue;
        of_user += w->step.uid == step->uid;
        of_users += !is_of_nobody(w->step.uid);
        if (is_behind(step, &w->step))
            return false;
    }
    return of_user < max && has_time(step->uid) &&
           (is_of_nobody(step->uid) || of_users < PFL_SLOW_USERS_THREADS);
}

/* --- the thread -------------------------------------------------------------------------- */

/* Locked. The work of the step before. */
static void end_step(struct worker *w)
{
    uint64_t cpu_us = get_cpu_us();

    charge_work(w->step.uid, cpu_us - w->cpu_us);
    w->cpu_us = cpu_us;
}

/* Locked. */
static bool may_begin(const struct pfl_slow_step *step)
{
    if (!is_allowed(step))
        return false;
    if (has_work(step->uid))
        return true;
    all.has_left_out = true;
    all.left_out = step->uid;
    return false;
}

bool pfl_slow_work_begin(const struct pfl_slow_step *step)
{
    struct pfl_slow_step s = *step;
    bool can_begin;

    if (!is_of_nobody(s.uid))
        s.uid = pfl_subuids_find(s.uid);
    (void)pthread_mutex_lock(&all.lock);
    end_step(own);
    can_begin = own->state == ASKED && may_begin(&s);
    if (can_begin) {
        own->step = s;
        own->step.path = own->path;
        (void)snprintf(own->path, sizeof(own->path), "%s", step->path);
        own->steps++;
    }
    (void)pthread_mutex_unlock(&all.lock);
    return can_begin;
}

void pfl_slow_work_publish(struct pfl_span *where, struct pfl_span result)
{
    (void)pthread_mutex_lock(&all.lock);
    if (own->state == ASKED)
        *where = result;
    (void)pthread_mutex_unlock(&all.lock);
}

/* A thread that no kill ends would keep the program's descriptors: its guardian would not see the
 * end, nor the service. From here on it has its own. A kernel before 5.9 refuses. ThreadSanitizer
 * takes equal numbers in two tables for one descriptor. */
static void leave_descriptors(void)
{
#if defined(SYS_close_range) && defined(CLOSE_RANGE_UNSHARE) && !defined(PFL_SANITIZED_THREADS)
    (void)syscall(SYS_close_range, STDERR_FILENO + 1u, ~0u, CLOSE_RANGE_UNSHARE);
#endif
}

static void *run_thread(void *argument)
{
    struct worker *w = argument;
    int fd = open("/proc/thread-self/stat", O_RDONLY | O_CLOEXEC);

    leave_descriptors();
    own = w;
    (void)pthread_mutex_lock(&all.lock);
    w->stat_fd = fd;
    while (w->state != STUCK) {
        while (w->state != ASKED && w->state != STUCK)
            (void)pthread_cond_wait(&w->wake, &all.lock);
        (void)pthread_mutex_unlock(&all.lock);
        w->cpu_us = get_cpu_us();
        w->run(w->room);
        (void)pthread_mutex_lock(&all.lock);
        end_step(w);
        if (w->state == ASKED) {
            w->state = DONE;
            (void)pthread_cond_signal(&all.done);
        }
    }
    w->state = ENDED;
    (void)pthread_mutex_unlock(&all.lock);
    return NULL;
}

static bool start_thread(struct worker *w)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t every;
    sigset_t before;
    int error;

    if (pthread_attr_init(&attr) != 0)
        return false;
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    (void)sigfillset(&every);
    (void)pthread_sigmask(SIG_SETMASK, &every, &before);
    error = pthread_create(&thread, &attr, run_thread, w);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return error == 0;
}

/* --- the caller -------------------------------------------------------------------------- */

static void free_worker(struct worker *w)
{
    if (w->stat_fd >= 0)
        close(w->stat_fd);
    (void)pthread_cond_destroy(&w->wake);
    pfl_mem_free(w->room);
    pfl_mem_free(w);
}

void pfl_slow_work_reap(void)
{
    for (size_t i = 0; i < PFL_SLOW_THREADS; i++) {
        struct worker *w = all.stuck[i];
        bool has_ended = false;

        if (w == NULL)
            continue;
        (void)pthread_mutex_lock(&all.lock);
        has_ended = w->state == ENDED;
        if (has_ended)
            all.stuck[i] = NULL;
        (void)pthread_mutex_unlock(&all.lock);
        if (has_ended)
            free_worker(w);
    }
}

size_t pfl_slow_work_count_stuck(void)
{
    size_t count = 0;

    for (size_t i = 0; i < PFL_SLOW_THREADS; i++)
        count += all.stuck[i] != NULL;
    return count;
}

static const struct pfl_slow_step start = {.uid = PFL_SLOW_START, .is_list = true, .path = "start"};

static bool can_start(void)
{
    struct pfl_slow_step step = start;
    bool can;

    step.path = ""; /* after a stuck one the next one need not be stuck */
    (void)pthread_mutex_lock(&all.lock);
    can = is_allowed(&step);
    (void)pthread_mutex_unlock(&all.lock);
    return can && pfl_slow_work_count_stuck() < PFL_SLOW_THREADS;
}

static void init_done(void)
{
    pthread_condattr_t clock;

    if (all.is_ready)
        return;
    (void)pthread_condattr_init(&clock);
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&all.done, &clock);
    (void)pthread_condattr_destroy(&clock);
    all.is_ready = true;
}

void *pfl_slow_work_get_room(size_t bytes)
{
    struct worker *w = all.worker;

    if (w != NULL)
        return w->room;
    init_done();
    if (can_start())
        w = pfl_mem_zalloc(sizeof(*w));
    if (w == NULL)
        return NULL;
    w->stat_fd = -1;
    (void)pthread_cond_init(&w->wake, NULL);
    w->room = pfl_mem_zalloc(bytes);
    if (w->room == NULL || !start_thread(w)) {
        free_worker(w);
        return NULL;
    }
    all.worker = w;
    return w->room;
}

/* Neither running nor ready to run. Of a thread that has just begun it is not known. */
static bool is_asleep(const struct worker *w)
{
    char text[128];
    ssize_t n = w->stat_fd >= 0 ? pread(w->stat_fd, text, sizeof(text), 0) : -1;
    const char *end = n > 0 ? memrchr(text, ')', (size_t)n) : NULL;

    return end != NULL && end + 2 < text + n && end[2] != 'R';
}

/* Locked. False: it is stuck. */
static bool wait_for(struct worker *w)
{
    uint32_t step = w->steps;
    uint64_t begin_ms = now_ms();
    uint32_t asleep_ms = 0;

    while (w->state == ASKED) {
        uint64_t end_ms = now_ms() + LOOK_MS;
        struct timespec end = {.tv_sec = (time_t)(end_ms / 1000),
                               .tv_nsec = (long)(end_ms % 1000) * 1000000};

        if (pthread_cond_timedwait(&all.done, &all.lock, &end) != ETIMEDOUT || w->state != ASKED)
            continue;
        if (w->steps != step) {
            step = w->steps;
            begin_ms = now_ms();
            asleep_ms = 0;
        }
        if (is_asleep(w)) {
            asleep_ms += LOOK_MS;
            charge(w->step.uid, LOOK_MS);
        }
        if (asleep_ms >= PFL_SLOW_SLEEP_MS)
            return false;
        if (now_ms() - begin_ms >= PFL_SLOW_STEP_MS) {
            charge(w->step.uid, PFL_SLOW_STEP_MS);
            return false;
        }
    }
    return true;
}

/* Locked. */
static void leave(struct worker *w)
{
    size_t i = 0;

    while (all.stuck[i] != NULL) /* there is a place: get_room looked */
        i++;
    all.stuck[i] = w;
    all.worker = NULL;
    w->state = STUCK;
}

static void say_left_out(void)
{
    uint64_t now = now_ms();
    bool is_said;
    uint32_t uid;

    (void)pthread_mutex_lock(&all.lock);
    is_said = all.has_left_out && (all.said_ms == 0 || now - all.said_ms >= SAY_MS);
    uid = all.left_out;
    if (is_said) {
        all.has_left_out = false;
        all.said_ms = now;
    }
    (void)pthread_mutex_unlock(&all.lock);
    if (is_said && is_of_nobody(uid))
        pfl_log_warn("files-left-out", "what=%s reason=\"to read these files takes long\"",
                     uid == PFL_SLOW_SYSTEM ? "system" : "processes");
    else if (is_said)
        pfl_log_warn("files-left-out",
                     "uid=%u reason=\"to read cmdline and smaps_rollup of these processes takes "
                     "long\"",
                     uid);
}

bool pfl_slow_work_run(void (*run)(void *room), uint32_t *ret_tag)
{
    struct worker *w = all.worker;
    struct pfl_slow_step step;
    char path[PFL_SLOW_PATH_BYTES];
    bool is_done;

    (void)pthread_mutex_lock(&all.lock);
    w->run = run;
    w->step = start;
    w->step.path = w->path;
    (void)snprintf(w->path, sizeof(w->path), "%s", start.path);
    w->state = ASKED;
    (void)pthread_cond_signal(&w->wake);
    is_done = wait_for(w);
    if (is_done)
        w->state = IDLE;
    else
        leave(w);
    step = w->step;
    memcpy(path, w->path, sizeof(path));
    (void)pthread_mutex_unlock(&all.lock);
    say_left_out();
    if (!is_done) {
        *ret_tag = step.tag;
        if (is_of_nobody(step.uid))
            pfl_log_warn("read-stuck", "path=\"%s\" threads=%zu", path,
                         pfl_slow_work_count_stuck());
        else
            pfl_log_warn("read-stuck", "path=\"%s\" uid=%u threads=%zu", path, step.uid,
                         pfl_slow_work_count_stuck());
    }
    return is_done;
}
