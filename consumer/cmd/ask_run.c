/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run: see ask_run.h.
 *
 *     source (files, or a collector) -> pieces -> job's Trace Processor -> rows -> output
 *
 * Happy path: each of `jobs` places takes the next trace, starts a process, gives it the trace
 * piece by piece, the next one when it has taken the last, then the question; rows go to the output
 * as they come; then the process is killed, and the place takes another trace. While the output is
 * congested, no process is read from, and their time stands still.
 *
 * Failures: a trace that cannot be read, is too large or too slow, or whose process dies, is named
 * and passed over; the answer is partial then. An error of the question itself, shown by the
 * traces of two hosts if there are two, ends the run, as does the output, the collector that
 * leaves, and Ctrl-C. Ownership: a trace and its process belong to their place, which is an
 * ask_job. Limits: PROBLEM_LINES, and those of the headers.
 */
#include "consumer/cmd/ask_run.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/io/loop.h"
#include "base/log.h"
#include "base/mem.h"
#include "consumer/cmd/ask_job.h"
#include "consumer/report/progress_line.h"
#include "consumer/report/summary.h"

#define TICK_MS       200u
#define PROBLEM_LINES 100u
#define SIGNALS       3u

struct ask {
    const struct pfl_ask_plan *plan;
    struct pfl_ask_source source;
    struct pfl_ask_output output;
    uv_loop_t own_loop; /* for files */
    uv_loop_t *loop;
    struct pfl_ask_job jobs[PFL_ASK_JOBS_MAX];
    struct pfl_ask_job_conf job_conf;
    size_t next;                        /* trace */
    const struct pfl_ask_trace *faulty; /* the first one with a fault as of all; NULL: none */
    uint64_t answered;
    uint64_t passed_over;
    uint64_t shown_ms;
    uint64_t tick_ms;
    int code; /* that ended the run early; 0: none did */
    bool is_interrupted;
    bool is_paused;
    uv_timer_t timer;
    uv_signal_t signals[SIGNALS];
    unsigned open; /* handles of ours */
};

/* ---- what is passed over ---- */

static void say_problem(struct ask *a, const struct pfl_ask_trace *t, const char *why)
{
    if (a->passed_over == PROBLEM_LINES)
        pfl_cmd_error("and more; -o x.sqlite has all of them");
    if (a->passed_over++ >= PROBLEM_LINES)
        return;
    if (t->host[0] != '\0')
        pfl_cmd_error("trace %s of %s is passed over: %s", t->name, pfl_log_quote_str(t->host),
                      why);
    else
        pfl_cmd_error("%s is passed over: %s", pfl_log_quote_str(t->name), why);
}

/* Ends the run; the first reason counts. */
static void end_run(struct ask *a, int code)
{
    if (a->code == 0)
        a->code = code;
}

/* A trace's end. `why` NULL: it is answered. */
static void note_trace(struct ask *a, const struct pfl_ask_job *j, const char *why)
{
    const struct pfl_answer_store_trace row = {.trace = j->trace->name,
                                               .host = j->host,
                                               .start = j->start,
                                               .rows = j->rows,
                                               .problem = why};

    if (why != NULL)
        say_problem(a, j->trace, why);
    else
        a->answered++;
    if (pfl_ask_output_add_trace(&a->output, &row) != 0)
        end_run(a, PFL_EXIT_FILE);
}

static void pause_all(struct ask *a, bool is_paused)
{
    a->is_paused = is_paused;
    for (size_t i = 0; i < a->plan->jobs; i++)
        pfl_ask_job_pause(&a->jobs[i], is_paused);
}

static void on_writable(void *user)
{
    pause_all(user, false);
}

static void on_congested(void *user)
{
    struct ask *a = user;

    if (!a->is_paused)
        pause_all(a, true);
}

/* Of another host; each file counts as one. */
static bool is_of_other(const struct ask *a, const struct pfl_ask_trace *t,
                        const struct pfl_ask_trace *u)
{
    return a->source.is_files ? t != u : strcmp(t->host, u->host) != 0;
}

/* A fault that any trace would have, when none has been answered: one host could make it by what
 * is in its traces, and so end what is asked of the others; two have to show it. */
static bool is_fault_of_all(struct ask *a, const struct pfl_ask_job *j)
{
    if (a->answered != 0 || a->code != 0)
        return false;
    if (a->faulty != NULL)
        return is_of_other(a, j->trace, a->faulty);
    a->faulty = j->trace;
    for (size_t i = 0; i < a->source.len; i++)
        if (is_of_other(a, &a->source.traces[i], j->trace))
            return false;
    return true;
}

/* It shows the statement, the place in it and the error, in lines. */
static void say_question_wrong(const char *why)
{
    fputs("perfleet: the question has an error:\n  ", stderr);
    for (; *why != '\0'; why++) {
        if (*why == '\n')
            fputs("\n  ", stderr);
        else
            fputc(*why >= ' ' && *why <= '~' ? *why : '?', stderr);
    }
    fputc('\n', stderr);
}

static struct pfl_ask_job *find_job(struct ask *a, uint32_t request_id)
{
    for (size_t i = 0; request_id != 0 && i < a->plan->jobs; i++)
        if (a->jobs[i].request_id == request_id)
            return &a->jobs[i];
    return NULL;
}

static void on_reply(void *user, const Perfleet__CollectorReply *reply)
{
    struct pfl_ask_job *j = find_job(user, reply->id);

    if (j != NULL) /* else of a trace that was given up */
        pfl_ask_job_take_piece(j, reply);
}

/* ---- traces ---- */

static void judge_fault(struct ask *a, const struct pfl_ask_job *j, const char *words)
{
    if (j->fault == PFL_ASK_JOB_FAULT_NONE || !is_fault_of_all(a, j))
        return;
    if (j->fault == PFL_ASK_JOB_FAULT_QUESTION) {
        say_question_wrong(words);
        end_run(a, PFL_EXIT_USAGE);
    } else {
        /* Its words are perfleet's own, which has quoted what is in them. */
        pfl_cmd_error("Trace Processor: %s; see --trace-processor", pfl_log_quote_reason(words));
        end_run(a, PFL_EXIT_NOTHING);
    }
}

static void on_over(void *user, struct pfl_ask_job *job, const char *words)
{
    struct ask *a = user;

    if (a->output.has_failed)
        end_run(a, PFL_EXIT_FILE);
    judge_fault(a, job, words);
    if (job->why[0] != '\0' && a->code == 0 && !a->is_interrupted)
        note_trace(a, job, job->why);
    else if (job->is_answered)
        note_trace(a, job, NULL);
    pfl_ask_job_leave(job);
}

/* The next trace takes a free place, or is passed over. */
static void start_next(struct ask *a, struct pfl_ask_job *j)
{
    if (pfl_ask_job_start(j, &a->source.traces[a->next++])) {
        if (a->is_paused)
            pfl_ask_job_pause(j, true);
        return;
    }
    note_trace(a, j, j->why);
    pfl_ask_job_leave(j);
}

static void start_all(struct ask *a)
{
    for (size_t i = 0; i < a->plan->jobs; i++)
        while (a->jobs[i].trace == NULL && a->next < a->source.len && a->code == 0)
            start_next(a, &a->jobs[i]);
}

/* ---- time, signals, progress ---- */

static void on_tick(uv_timer_t *timer)
{
    struct ask *a = timer->data;
    uint64_t now_ms = uv_now(a->loop);
    uint64_t passed_ms = now_ms - a->tick_ms;
    char why[PFL_ASK_JOB_WHY_BYTES];

    a->tick_ms = now_ms;
    for (size_t i = 0; !a->is_paused && i < a->plan->jobs; i++) {
        struct pfl_ask_job *j = &a->jobs[i];

        if (j->port == NULL || j->request_id != 0)
            continue; /* the collector has a time limit of its own */
        j->active_ms += passed_ms;
        if (j->active_ms < a->plan->max_time_ms)
            continue;
        (void)snprintf(why, sizeof(why), "no answer within %" PRIu32 " s (--max-time)",
                       (a->plan->max_time_ms + 999) / 1000);
        pfl_ask_job_give_up(j, why);
    }
}

/* A second one ends the process. */
static void on_signal(uv_signal_t *handle, int number)
{
    struct ask *a = handle->data;

    (void)number;
    a->is_interrupted = true;
    for (size_t i = 0; i < SIGNALS; i++)
        uv_signal_stop(&a->signals[i]);
}

static void open_handles(struct ask *a)
{
    static const int numbers[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

    (void)uv_timer_init(a->loop, &a->timer);
    a->timer.data = a;
    a->tick_ms = uv_now(a->loop);
    (void)signal(SIGPIPE, SIG_IGN); /* a process may end while it is given its trace */
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)uv_timer_start(&a->timer, on_tick, TICK_MS, TICK_MS);
    a->open = 1 + SIGNALS;
    for (size_t i = 0; i < SIGNALS; i++) {
        struct sigaction old;
        bool is_ignored = sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN;

        (void)uv_signal_init(a->loop, &a->signals[i]);
        a->signals[i].data = a;
        if (!is_ignored)
            (void)uv_signal_start(&a->signals[i], on_signal, numbers[i]);
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    ((struct ask *)handle->data)->open--;
}

static void close_handles(struct ask *a)
{
    uv_close((uv_handle_t *)&a->timer, on_handle_closed);
    for (size_t i = 0; i < SIGNALS; i++)
        uv_close((uv_handle_t *)&a->signals[i], on_handle_closed);
    while (a->open != 0)
        uv_run(a->loop, UV_RUN_ONCE);
}

static void show(struct ask *a, bool is_end)
{
    uint64_t now_ms = uv_now(a->loop);
    uint64_t done = a->answered + a->passed_over;
    struct winsize size = {0};
    char line[PFL_PROGRESS_LINE_BYTES];
    char tail[64];

    if (a->plan->args->is_quiet || isatty(STDERR_FILENO) == 0 ||
        (strcmp(a->output.path, "-") == 0 && isatty(STDOUT_FILENO) != 0))
        return;
    if (is_end) {
        fputs("\r\033[K", stderr);
        return;
    }
    if (now_ms - a->shown_ms < TICK_MS)
        return;
    a->shown_ms = now_ms;
    (void)ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
    (void)snprintf(tail, sizeof(tail), "%" PRIu64 " of %zu traces", done, a->source.len);
    pfl_progress_line(size.ws_col, "asking", (double)done / (double)a->source.len, tail, line);
    fprintf(stderr, "\r%s\033[K", line);
}

/* ---- all of it ---- */

static bool has_jobs(const struct ask *a)
{
    for (size_t i = 0; i < a->plan->jobs; i++)
        if (a->jobs[i].trace != NULL)
            return true;
    return false;
}

static bool is_waiting_for_collector(const struct ask *a)
{
    for (size_t i = 0; i < a->plan->jobs; i++)
        if (a->jobs[i].request_id != 0)
            return true;
    return false;
}

static void check_collector(struct ask *a)
{
    struct pfl_collector_session *s = &a->source.session;

    if (a->source.is_files || a->code != 0)
        return;
    if (s->conn != NULL && !(s->is_late && is_waiting_for_collector(a)))
        return;
    if (s->conn == NULL && a->next == a->source.len && !is_waiting_for_collector(a))
        return; /* all that was wanted of it came */
    pfl_cmd_error("collector %s: %s", s->name, s->conn == NULL ? s->why : "no answer in time");
    end_run(a, PFL_EXIT_PARTIAL);
}

static void stop_jobs(struct ask *a)
{
    for (size_t i = 0; i < a->plan->jobs; i++)
        pfl_ask_job_stop(&a->jobs[i]);
}

static void run_jobs(struct ask *a)
{
    a->job_conf = (struct pfl_ask_job_conf){.plan = a->plan,
                                            .source = &a->source,
                                            .output = &a->output,
                                            .loop = a->loop,
                                            .on_congested = on_congested,
                                            .on_reply = on_reply,
                                            .on_over = on_over,
                                            .user = a};
    for (size_t i = 0; i < a->plan->jobs; i++)
        pfl_ask_job_init(&a->jobs[i], &a->job_conf);
    if (!a->source.is_files)
        pfl_collector_session_hear(&a->source.session, on_reply, a);
    open_handles(a);
    start_all(a);
    while (has_jobs(a)) {
        show(a, false);
        uv_run(a->loop, UV_RUN_ONCE);
        check_collector(a);
        if (a->output.has_failed)
            end_run(a, PFL_EXIT_FILE);
        if (a->code != 0 || a->is_interrupted)
            stop_jobs(a);
        else
            start_all(a);
    }
    show(a, true);
    close_handles(a);
    if (!a->source.is_files)
        pfl_collector_session_hear(&a->source.session, NULL, NULL);
}

/* The exit code of what was answered and what was not. */
static int judge(const struct ask *a)
{
    uint64_t left = a->source.len - a->answered;

    if (a->code == PFL_EXIT_USAGE || a->code == PFL_EXIT_FILE || a->code == PFL_EXIT_NOTHING)
        return a->code;
    if (a->is_interrupted)
        pfl_cmd_error("interrupted");
    if (a->source.missing != 0)
        pfl_cmd_error("%" PRIu64 " of the segments are missing: their hosts removed them before "
                      "they were read",
                      a->source.missing);
    if (a->answered == 0)
        pfl_cmd_error("no trace is answered");
    else if (left != 0)
        pfl_cmd_error("the answer is partial: it lacks %" PRIu64 " of %zu traces", left,
                      a->source.len);
    if (a->answered == 0 && !a->is_interrupted)
        return PFL_EXIT_NOTHING;
    return left + a->source.missing + a->source.unknown != 0 ? PFL_EXIT_PARTIAL : PFL_EXIT_OK;
}

static int run(struct ask *a)
{
    const struct pfl_args *args = a->plan->args;
    bool is_broken_off;
    int code;

    a->output = (struct pfl_ask_output){.loop = a->loop,
                                        .path = args->output != NULL ? args->output : "-",
                                        .form = a->plan->form,
                                        .is_sqlite = a->plan->is_sqlite,
                                        .question = a->plan->question,
                                        .no_clobber = args->no_clobber,
                                        .on_writable = on_writable,
                                        .user = a};
    code = pfl_ask_output_open(&a->output);
    if (code == PFL_EXIT_OK) {
        run_jobs(a);
        code = judge(a);
    }
    is_broken_off = a->is_interrupted || a->code != 0;
    code = pfl_ask_output_close(&a->output, code, is_broken_off);
    if (code != PFL_EXIT_USAGE && !args->is_quiet && a->answered != 0)
        fprintf(stderr, "perfleet: %" PRIu64 " of %zu traces answered, %" PRIu64 " row%s\n",
                a->answered, a->source.len, a->output.rows, a->output.rows == 1 ? "" : "s");
    return code;
}

int pfl_ask_run(const struct pfl_ask_plan *plan)
{
    struct ask *a = pfl_mem_zalloc(sizeof(*a));
    int code;

    if (a == NULL) {
        pfl_cmd_error("%s", pfl_err_str(PFL_ENOMEM));
        return PFL_EXIT_NOTHING;
    }
    a->plan = plan;
    code = pfl_ask_source_open(&a->source, plan->args);
    if (code == PFL_EXIT_OK && a->source.is_files && pfl_loop_init(&a->own_loop) != 0) {
        pfl_cmd_error("%s", pfl_err_str(PFL_ENOMEM));
        pfl_ask_source_close(&a->source);
        code = PFL_EXIT_NOTHING;
    }
    if (code == PFL_EXIT_OK) {
        plan->args->targets.is_past_options = true;
        a->loop = a->source.is_files ? &a->own_loop : &a->source.session.loop;
        code = run(a);
        if (a->source.is_files) {
            uv_run(a->loop, UV_RUN_DEFAULT);
            uv_loop_close(a->loop);
        }
        pfl_ask_source_close(&a->source);
    }
    pfl_mem_free(a);
    return code;
}
