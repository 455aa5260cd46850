/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handshakes take turns: see handshake_queue.h.
 *
 * Happy path: a step that may continue, while this loop turn has time left, is computed when its
 * bytes arrive, and its CPU time is charged. Otherwise it waits, and the check handle resumes
 * waiting steps after the sockets were served. While some may continue, an idle handle keeps the
 * loop from waiting; while none may, a timer checks again.
 * Failures: none. Ownership: the table of addresses and four handles, which keep no loop alive;
 * streams own their turns, and keep them while they are connected. Freed when it is closed, the
 * last turn is removed and the handles are closed.
 */
#include "base/io/handshake_queue.h"

#include <netdb.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"

#define LOOK_AGAIN_MS 10u
#define HANDLES       3u
#define NS_PER_S      1000000000u
#define NS_PER_US     1000u

struct pfl_handshake_queue {
    struct pfl_pending_handshakes *all; /* owned */
    struct pfl_input_turns *turns;      /* owned until close */
    uv_check_t turn_ends;
    uv_idle_t proceeds;
    uv_timer_t look_again;
    struct pfl_log_limit log;
    uint64_t spent_us; /* in this turn of the loop */
    uint64_t began_ns; /* the step that is being computed */
    unsigned max;
    unsigned handles_open;
    unsigned kept;  /* connections that keep their address proven */
    bool is_called; /* a step was granted by on_turn's caller */
    bool is_closing;
};

static uint64_t cpu_ns(void)
{
    struct timespec t = {0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static uint64_t now_ms(const struct pfl_handshake_queue *q)
{
    return uv_now(q->turn_ends.loop);
}

/* ---- the loop's turns ---- */

static void on_idle(uv_idle_t *handle)
{
    (void)handle; /* there is something to do after the sockets */
}

static void on_look(uv_timer_t *timer)
{
    (void)timer; /* the check comes after it */
}

static void call_next(struct pfl_handshake_queue *q, struct pfl_pending_handshake *next)
{
    struct pfl_handshake_turn *turn = PFL_CONTAINER_OF(next, struct pfl_handshake_turn, handshake);

    q->is_called = true;
    turn->on_turn(turn->user);
    q->is_called = false;
}

static void on_turn_end(uv_check_t *handle)
{
    struct pfl_handshake_queue *q = handle->data;
    struct pfl_pending_handshake *next = NULL;

    if (pfl_pending_handshakes_are_waiting(q->all))
        uv_update_time(handle->loop);
    while (q->spent_us < PFL_HANDSHAKE_TURN_US && pfl_pending_handshakes_are_waiting(q->all)) {
        next = pfl_pending_handshakes_next(q->all, now_ms(q));
        if (next == NULL) {
            (void)uv_timer_start(&q->look_again, on_look, LOOK_AGAIN_MS, 0);
            break;
        }
        call_next(q, next);
    }
    if (q->spent_us >= PFL_HANDSHAKE_TURN_US && pfl_pending_handshakes_are_waiting(q->all))
        (void)uv_idle_start(&q->proceeds, on_idle);
    else
        (void)uv_idle_stop(&q->proceeds);
    q->spent_us = 0;
}

bool pfl_handshake_queue_begin(struct pfl_handshake_queue *self, struct pfl_handshake_turn *turn)
{
    bool may_go = self->is_called;

    self->is_called = false;
    if (!may_go && self->spent_us < PFL_HANDSHAKE_TURN_US)
        may_go = pfl_pending_handshakes_try_step(self->all, &turn->handshake, now_ms(self));
    else if (!may_go)
        pfl_pending_handshakes_wait(self->all, &turn->handshake);
    if (may_go)
        self->began_ns = cpu_ns();
    return may_go;
}

void pfl_handshake_queue_end(struct pfl_handshake_queue *self, struct pfl_handshake_turn *turn)
{
    uint64_t cost_us = (cpu_ns() - self->began_ns) / NS_PER_US;

    self->spent_us += cost_us;
    pfl_pending_handshakes_charge(self->all, &turn->handshake, cost_us, now_ms(self));
}

/* ---- coming and going ---- */

static void tell_refusal(struct pfl_handshake_queue *q, const struct sockaddr_storage *peer,
                         socklen_t len, int rc)
{
    char host[64] = "unknown";

    if (!pfl_log_limit_take(&q->log, "handshake-refused", now_ms(q)))
        return;
    (void)getnameinfo((const struct sockaddr *)peer, len, host, sizeof(host), NULL, 0,
                      NI_NUMERICHOST);
    pfl_log_warn("handshake-refused", "address=%s reason=\"%s\" remedy=\"%s\"", host,
                 rc == PFL_ELIMIT ? "too many handshakes from there in a minute"
                                  : "too many handshakes from there are not finished",
                 rc == PFL_ELIMIT ? "see --max-handshakes-per-min"
                                  : "find out who connects from there without a certificate");
}

int pfl_handshake_queue_add(struct pfl_handshake_queue *self, struct pfl_handshake_turn *turn,
                            int fd)
{
    struct sockaddr_storage peer = {0};
    socklen_t len = sizeof(peer);
    struct pfl_pending_handshake *goes = NULL;
    struct pfl_handshake_turn *ousted;
    int rc;

    (void)getpeername(fd, (struct sockaddr *)&peer, &len);
    rc = pfl_pending_handshakes_add(self->all, &turn->handshake, &peer, now_ms(self), &goes);
    if (rc != 0) {
        tell_refusal(self, &peer, len, rc);
        return PFL_EAGAIN;
    }
    if (goes == NULL)
        return 0;
    ousted = PFL_CONTAINER_OF(goes, struct pfl_handshake_turn, handshake);
    ousted->on_evicted(ousted->user);
    return 0;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct pfl_handshake_queue *q = handle->data;

    if (--q->handles_open != 0)
        return;
    pfl_pending_handshakes_free(q->all);
    pfl_mem_free(q);
}

static void close_if_empty(struct pfl_handshake_queue *q)
{
    struct pfl_pending_handshakes_figures figures;

    pfl_pending_handshakes_get_figures(q->all, &figures);
    if (!q->is_closing || figures.unfinished != 0 || q->kept != 0)
        return;
    uv_close((uv_handle_t *)&q->turn_ends, on_handle_closed);
    uv_close((uv_handle_t *)&q->proceeds, on_handle_closed);
    uv_close((uv_handle_t *)&q->look_again, on_handle_closed);
}

void pfl_handshake_queue_remove(struct pfl_handshake_queue *self, struct pfl_handshake_turn *turn)
{
    if (turn->handshake.peer == NULL && !turn->is_kept)
        return;
    if (turn->is_kept) {
        turn->is_kept = false;
        self->kept--;
        pfl_pending_handshakes_renew(self->all, &turn->handshake, now_ms(self));
    }
    pfl_pending_handshakes_remove(self->all, &turn->handshake);
    close_if_empty(self);
}

static void tell_frequent(struct pfl_handshake_queue *q, const char *identity)
{
    if (pfl_log_limit_take(&q->log, "handshakes-too-frequent", now_ms(q)))
        pfl_log_warn("handshakes-too-frequent",
                     "uri=%s reason=\"it connects more than once a second: counted as unfinished "
                     "handshakes of its address\" remedy=\"find out what connects so often\"",
                     pfl_log_quote_str(identity));
}

bool pfl_handshake_queue_keep(struct pfl_handshake_queue *self, struct pfl_handshake_turn *turn,
                              const char *identity)
{
    if (turn->is_kept) {
        pfl_pending_handshakes_renew(self->all, &turn->handshake, now_ms(self));
        return true;
    }
    if (!pfl_pending_handshakes_finish(self->all, &turn->handshake, identity, now_ms(self))) {
        tell_frequent(self, identity);
        close_if_empty(self);
        return false;
    }
    turn->is_kept = true;
    self->kept++;
    return true;
}

/* ---- its own life ---- */

struct pfl_input_turns *pfl_handshake_queue_get_turns(const struct pfl_handshake_queue *self)
{
    return self->turns;
}

unsigned pfl_handshake_queue_get_max(const struct pfl_handshake_queue *self)
{
    return self->max;
}

void pfl_handshake_queue_collect(const struct pfl_handshake_queue *self,
                                 struct pfl_metrics *metrics)
{
    struct pfl_pending_handshakes_figures f;

    pfl_pending_handshakes_get_figures(self->all, &f);
    pfl_metrics_single(metrics, PFL_METRICS_GAUGE, "perfleet_handshakes_unfinished",
                       "TLS handshakes that peers have begun and not finished.", f.unfinished);
    pfl_metrics_single(metrics, PFL_METRICS_GAUGE, "perfleet_handshakes_waiting",
                       "Of them, those that wait for their turn.", f.waiting);
    pfl_metrics_single(metrics, PFL_METRICS_COUNTER, "perfleet_handshakes_refused_total",
                       "Connections closed before a handshake, for what their address left "
                       "unfinished or began in a minute.",
                       (double)f.refused);
    pfl_metrics_single(metrics, PFL_METRICS_COUNTER, "perfleet_handshakes_unrefunded_total",
                       "Handshakes that count as unfinished, as their certificate's holder "
                       "connects too often.",
                       (double)f.unrefunded);
    pfl_metrics_single(metrics, PFL_METRICS_COUNTER, "perfleet_handshakes_ousted_total",
                       "Unfinished handshakes that gave way to newer ones.", (double)f.ousted);
    pfl_metrics_single(metrics, PFL_METRICS_COUNTER, "perfleet_handshake_cpu_seconds_total",
                       "Processor time of handshakes, finished or not.", (double)f.cost_us / 1e6);
}

static unsigned find_max(unsigned max)
{
    struct rlimit limit = {.rlim_cur = 1024};

    (void)getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur / 4 < max)
        max = (unsigned)(limit.rlim_cur / 4);
    return max != 0 ? max : 1;
}

int pfl_handshake_queue_open(uv_loop_t *loop, unsigned max, unsigned per_min,
                             struct pfl_handshake_queue **ret_queue)
{
    struct pfl_handshake_queue *q = pfl_mem_zalloc(sizeof(*q));
    struct pfl_pending_handshakes_conf conf = {.max = find_max(max), .per_min = per_min};
    int rc;

    if (q == NULL)
        return PFL_ENOMEM;
    if (getrandom(&conf.seed, sizeof(conf.seed), GRND_NONBLOCK) < 0)
        conf.seed = (uint32_t)uv_hrtime();
    rc = pfl_pending_handshakes_new(&conf, uv_now(loop), &q->all);
    if (rc == 0)
        rc = pfl_input_turns_open(loop, &q->turns);
    if (rc != 0) {
        pfl_pending_handshakes_free(q->all);
        pfl_mem_free(q);
        return rc;
    }
    (void)uv_check_init(loop, &q->turn_ends);
    (void)uv_idle_init(loop, &q->proceeds);
    (void)uv_timer_init(loop, &q->look_again);
    q->handles_open = HANDLES;
    q->max = conf.max;
    q->turn_ends.data = q->proceeds.data = q->look_again.data = q;
    (void)uv_check_start(&q->turn_ends, on_turn_end);
    uv_unref((uv_handle_t *)&q->turn_ends);
    uv_unref((uv_handle_t *)&q->proceeds);
    uv_unref((uv_handle_t *)&q->look_again);
    *ret_queue = q;
    return 0;
}

void pfl_handshake_queue_close(struct pfl_handshake_queue *self)
{
    if (self == NULL || self->is_closing)
        return;
    self->is_closing = true;
    pfl_input_turns_close(self->turns);
    close_if_empty(self);
}
