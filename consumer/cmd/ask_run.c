/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run: see ask_run.h.
 *
 *     source (files, or a collector) -> asking (asking_port.h) -> rows -> output
 *
 * Happy path: all traces are asked; rows go to the output as they come. While the output is
 * congested, the asking waits.
 *
 * Failures: a trace that is passed over is named; the answer is partial then. An error of the
 * question itself ends the run, as does the output, the collector that leaves, and Ctrl-C. Limits:
 * PROBLEM_LINES, and those of the headers.
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
#include "consumer/ask/asking_port.h"
#include "consumer/cmd/ask_output.h"
#include "consumer/cmd/ask_source.h"
#include "consumer/report/progress_line.h"
#include "consumer/report/summary.h"

#define SHOW_MS       200u
#define PROBLEM_LINES 100u
#define SIGNALS       3u

struct ask {
    const struct pfl_ask_plan *plan;
    struct pfl_ask_source source;
    struct pfl_ask_output output;
    uv_loop_t own_loop; /* for files */
    uv_loop_t *loop;
    struct pfl_asking *asking; /* owned */
    uint64_t answered;
    uint64_t passed_over;
    uint64_t shown_ms;
    int code; /* that ended the run early; 0: none did */
    bool is_interrupted;
    bool is_over;
    uv_signal_t signals[SIGNALS];
    unsigned open; /* handles of ours */
};

/* ---- what is passed over ---- */

static void say_problem(struct ask *a, const struct pfl_asked_trace *t, const char *why)
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

/* ---- of the asking ---- */

static int on_columns(void *user, const struct pfl_span *names, size_t len)
{
    struct ask *a = user;

    return pfl_ask_output_take_columns(&a->output, names, len);
}

static int on_row(void *user, const struct pfl_asked_trace *trace, const struct pfl_answer_row *row,
                  size_t cells_len)
{
    struct ask *a = user;

    (void)trace;
    return pfl_ask_output_add_row(&a->output, row, cells_len);
}

static bool on_rows_end(void *user)
{
    struct ask *a = user;

    pfl_ask_output_push(&a->output);
    return pfl_ask_output_is_congested(&a->output);
}

static void on_writable(void *user)
{
    struct ask *a = user;

    if (a->asking != NULL)
        pfl_asking_resume(a->asking);
}

static void on_trace(void *user, const struct pfl_asked_trace *trace,
                     const struct pfl_answer_store_trace *end)
{
    struct ask *a = user;

    if (a->output.has_failed)
        end_run(a, PFL_EXIT_FILE);
    if (end->problem == NULL)
        a->answered++;
    else if (a->code != 0 || a->is_interrupted)
        return;
    else
        say_problem(a, trace, end->problem);
    if (pfl_ask_output_add_trace(&a->output, end) != 0)
        end_run(a, PFL_EXIT_FILE);
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

static void on_fault(void *user, enum pfl_trace_job_fault fault, const char *words)
{
    struct ask *a = user;

    if (a->output.has_failed)
        end_run(a, PFL_EXIT_FILE);
    if (a->code != 0)
        return;
    if (fault == PFL_TRACE_JOB_FAULT_QUESTION) {
        say_question_wrong(words);
        end_run(a, PFL_EXIT_USAGE);
    } else {
        /* Its words are perfleet's own, which has quoted what is in them. */
        pfl_cmd_error("Trace Processor: %s; see --trace-processor", pfl_log_quote_reason(words));
        end_run(a, PFL_EXIT_NOTHING);
    }
}

static void on_over(void *user)
{
    struct ask *a = user;

    a->is_over = true;
}

static void on_reply(void *user, const Perfleet__CollectorReply *reply)
{
    struct ask *a = user;

    if (a->asking != NULL)
        pfl_asking_take_reply(a->asking, reply);
}

static uint32_t request_piece(void *user, const struct pfl_asked_trace *trace, uint64_t offset,
                              size_t len)
{
    struct ask *a = user;
    struct pfl_collector_session *s = &a->source.session;
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__Get part = PERFLEET__COLLECTOR_REQUEST__GET__INIT;

    part.trace = trace->name;
    part.has_offset = part.has_length = 1;
    part.offset = offset;
    part.length = len;
    request.get = &part;
    if (s->conn == NULL || pfl_collector_conn_send(s->conn, &request) != 0)
        return 0;
    /* The time without a reply begins. */
    pfl_collector_session_hear(s, on_reply, a);
    return request.id;
}

/* ---- signals, progress ---- */

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

    (void)signal(SIGXFSZ, SIG_IGN);
    a->open = SIGNALS;
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
    if (now_ms - a->shown_ms < SHOW_MS)
        return;
    a->shown_ms = now_ms;
    (void)ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
    (void)snprintf(tail, sizeof(tail), "%" PRIu64 " of %zu traces", done, a->source.traces.len);
    pfl_progress_line(size.ws_col, "asking", (double)done / (double)a->source.traces.len, tail,
                      line);
    fprintf(stderr, "\r%s\033[K", line);
}

/* ---- all of it ---- */

static void check_collector(struct ask *a)
{
    struct pfl_collector_session *s = &a->source.session;
    bool is_waiting = pfl_asking_is_waiting(a->asking);

    if (a->source.is_files || a->code != 0)
        return;
    if (s->conn != NULL && !(s->is_late && is_waiting))
        return;
    if (s->conn == NULL && !pfl_asking_has_next(a->asking) && !is_waiting)
        return; /* all that was wanted of it came */
    pfl_cmd_error("collector %s: %s", s->name, s->conn == NULL ? s->why : "no answer in time");
    end_run(a, PFL_EXIT_PARTIAL);
}

static const struct pfl_asking_ops asking_ops = {.request_piece = request_piece,
                                                 .on_columns = on_columns,
                                                 .on_row = on_row,
                                                 .on_rows_end = on_rows_end,
                                                 .on_trace = on_trace,
                                                 .on_fault = on_fault,
                                                 .on_over = on_over};

static int open_asking(struct ask *a)
{
    const struct pfl_ask_plan *plan = a->plan;
    const struct pfl_asking_conf conf = {
        .question = {.text = plan->question,
                     .is_summary = plan->is_summary,
                     .is_binary = plan->is_binary,
                     .engine = pfl_ask_program_get_engine(&plan->program)},
        .traces = &a->source.traces,
        .is_files = a->source.is_files,
        .loop = a->loop,
        .ops = &asking_ops,
        .user = a};

    return pfl_asking_open(&conf, &a->asking);
}

static void ask_all(struct ask *a)
{
    if (open_asking(a) != 0) {
        pfl_cmd_error("%s", pfl_err_str(PFL_ENOMEM));
        end_run(a, PFL_EXIT_NOTHING);
        return;
    }
    if (!a->source.is_files)
        pfl_collector_session_hear(&a->source.session, on_reply, a);
    open_handles(a);
    while (!a->is_over) {
        show(a, false);
        uv_run(a->loop, UV_RUN_ONCE);
        check_collector(a);
        if (a->output.has_failed)
            end_run(a, PFL_EXIT_FILE);
        if ((a->code != 0 || a->is_interrupted) && !a->is_over)
            pfl_asking_stop(a->asking);
    }
    show(a, true);
    close_handles(a);
    if (!a->source.is_files)
        pfl_collector_session_hear(&a->source.session, NULL, NULL);
    pfl_asking_free(a->asking);
    a->asking = NULL;
}

/* The exit code of what was answered and what was not. */
static int judge(const struct ask *a)
{
    uint64_t left = a->source.traces.len - a->answered;

    if (a->code == PFL_EXIT_USAGE || a->code == PFL_EXIT_FILE || a->code == PFL_EXIT_NOTHING)
        return a->code;
    if (a->is_interrupted)
        pfl_cmd_error("interrupted");
    if (a->source.traces.missing != 0)
        pfl_cmd_error("%" PRIu64 " of the segments are missing: their hosts removed them before "
                      "they were read",
                      a->source.traces.missing);
    if (a->answered == 0)
        pfl_cmd_error("no trace is answered");
    else if (left != 0)
        pfl_cmd_error("the answer is partial: it lacks %" PRIu64 " of %zu traces", left,
                      a->source.traces.len);
    if (a->answered == 0 && !a->is_interrupted)
        return PFL_EXIT_NOTHING;
    return left + a->source.traces.missing + a->source.unknown != 0 ? PFL_EXIT_PARTIAL
                                                                    : PFL_EXIT_OK;
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
        ask_all(a);
        code = judge(a);
    }
    is_broken_off = a->is_interrupted || a->code != 0;
    code = pfl_ask_output_close(&a->output, code, is_broken_off);
    if (code != PFL_EXIT_USAGE && !args->is_quiet && a->answered != 0)
        fprintf(stderr, "perfleet: %" PRIu64 " of %zu traces answered, %" PRIu64 " row%s\n",
                a->answered, a->source.traces.len, a->output.rows, a->output.rows == 1 ? "" : "s");
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
