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
 * leaves, and Ctrl-C. Ownership: processes belong to their places until on_ended. Limits:
 * PIECE_BYTES for each place, PROBLEM_LINES, and those of the header.
 */
#include "consumer/cmd/ask_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io/loop.h"
#include "base/log.h"
#include "base/mem.h"
#include "consumer/ask/processor_port.h"
#include "consumer/ask/trace_question.h"
#include "consumer/cmd/ask_output.h"
#include "consumer/cmd/ask_source.h"
#include "consumer/report/progress_line.h"
#include "consumer/report/summary.h"

#define PIECE_BYTES   (1u << 20)
#define TICK_MS       200u
#define PROBLEM_LINES 100u
#define SIGNALS       3u
#define WHY_BYTES     480u
#define HOST_BYTES    256u
#define CANNOT_RUN    126 /* see cmd_confined.c */

struct ask;

/* A place for a trace. */
struct job {
    struct ask *ask;
    const struct pfl_ask_trace *trace; /* NULL: it is free */
    struct pfl_trace_question *question;
    struct pfl_processor_port *port; /* NULL: it ended */
    int fd;                          /* of a file; -1 */
    uint64_t offset;                 /* of the next piece */
    uint64_t left;                   /* bytes of the trace that were not asked for yet */
    uint32_t request_id;             /* of the piece that comes; 0: none */
    uint64_t piece_left;             /* of it */
    bool is_asked;                   /* the question is with the process */
    uint64_t active_ms;
    uint64_t answer_left; /* bytes that may still be answered */
    uint64_t rows;
    char host[HOST_BYTES]; /* of files: what the trace says; "": nothing */
    char start[PFL_ANSWER_START_BYTES];
    char why[WHY_BYTES]; /* it is passed over; "": not yet */
};

struct ask {
    const struct pfl_ask_plan *plan;
    struct pfl_ask_source source;
    struct pfl_ask_output output;
    uv_loop_t own_loop; /* for files */
    uv_loop_t *loop;
    struct job jobs[PFL_ASK_JOBS_MAX];
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
static void note_trace(struct job *j, const char *why)
{
    const struct pfl_answer_store_trace row = {.trace = j->trace->name,
                                               .host = j->host,
                                               .start = j->start,
                                               .rows = j->rows,
                                               .problem = why};
    struct ask *a = j->ask;

    if (why != NULL)
        say_problem(a, j->trace, why);
    else
        a->answered++;
    if (pfl_ask_output_add_trace(&a->output, &row) != 0)
        end_run(a, PFL_EXIT_FILE);
}

/* Its process is killed; on_ended does the rest. */
static void give_up(struct job *j, const char *why)
{
    if (j->why[0] == '\0')
        (void)snprintf(j->why, sizeof(j->why), "%s", why);
    if (j->port != NULL)
        pfl_processor_port_close(j->port);
}

static void give_up_for(struct job *j, int rc)
{
    give_up(j, pfl_err_str(rc));
}

/* ---- rows ---- */

static int on_columns(void *user, const struct pfl_span *names, size_t len)
{
    struct job *j = user;

    return pfl_ask_output_take_columns(&j->ask->output, names, len);
}

static int on_row(void *user, const struct pfl_cell *cells, size_t len)
{
    struct job *j = user;
    const struct pfl_answer_row row = {
        .host = j->host, .start = j->start, .trace = j->trace->name, .cells = cells};

    j->rows++;
    return pfl_ask_output_add_row(&j->ask->output, &row, len);
}

static void on_about(void *user, const struct pfl_cell cells[PFL_TRACE_QUESTION_ABOUT])
{
    struct job *j = user;

    if (cells[0].type == PFL_CELL_TEXT)
        (void)snprintf(j->host, sizeof(j->host), "%.*s",
                       (int)(cells[0].bytes.len < HOST_BYTES ? cells[0].bytes.len : HOST_BYTES),
                       (const char *)cells[0].bytes.data);
    if (cells[1].type == PFL_CELL_INTEGER && cells[1].integer > 0)
        pfl_answer_format_start((uint64_t)cells[1].integer, j->start);
}

static void pause_all(struct ask *a, bool is_paused)
{
    a->is_paused = is_paused;
    for (size_t i = 0; i < a->plan->jobs; i++)
        if (a->jobs[i].port != NULL)
            pfl_processor_port_pause(a->jobs[i].port, is_paused);
}

static void on_writable(void *user)
{
    pause_all(user, false);
}

/* Of another host; each file counts as one. */
static bool is_of_other(const struct ask *a, const struct pfl_ask_trace *t,
                        const struct pfl_ask_trace *u)
{
    return a->source.is_files ? t != u : strcmp(t->host, u->host) != 0;
}

/* A fault that any trace would have, when none has been answered: one host could make it by what
 * is in its traces, and so end what is asked of the others; two have to show it. */
static bool is_fault_of_all(struct job *j)
{
    struct ask *a = j->ask;

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

static bool is_question_wrong(struct job *j)
{
    return pfl_trace_question_get(j->question) == PFL_TRACE_QUESTION_REFUSED &&
           !pfl_trace_question_has_columns(j->question) && is_fault_of_all(j);
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

/* The error itself is the last one. */
static const char *find_last_line(const char *why)
{
    const char *line = strrchr(why, '\n');

    return line != NULL && line[1] != '\0' ? line + 1 : why;
}

static void take_outcome(struct job *j)
{
    const char *words = pfl_trace_question_get_why(j->question);
    const char *said = pfl_log_quote_reason(find_last_line(words));
    char why[WHY_BYTES];

    switch (pfl_trace_question_get(j->question)) {
    case PFL_TRACE_QUESTION_OPEN:
        return;
    case PFL_TRACE_QUESTION_ANSWERED:
        pfl_processor_port_close(j->port);
        return;
    case PFL_TRACE_QUESTION_UNREADABLE:
        (void)snprintf(why, sizeof(why), "it cannot be read: %s", said);
        break;
    case PFL_TRACE_QUESTION_REFUSED:
        if (is_question_wrong(j)) {
            say_question_wrong(words);
            end_run(j->ask, PFL_EXIT_USAGE);
        }
        (void)snprintf(why, sizeof(why), "the question has an error there: %s", said);
        break;
    default:
        (void)snprintf(why, sizeof(why), "its Trace Processor: %s", said);
        break;
    }
    give_up(j, why);
}

static void on_data(void *user, struct pfl_span bytes)
{
    struct job *j = user;
    struct ask *a = j->ask;
    int rc = bytes.len <= j->answer_left ? pfl_trace_question_feed(j->question, bytes) : PFL_EFULL;

    j->answer_left -= rc == PFL_EFULL ? j->answer_left : bytes.len;
    if (rc == PFL_EFULL) {
        give_up(j, "its answer has more than 16 MiB and 64 times the trace's bytes");
    } else if (rc == PFL_ESTATE) {
        give_up(j, "its columns are not those of the first trace");
    } else if (rc != 0) {
        if (a->output.has_failed)
            end_run(a, PFL_EXIT_FILE);
        give_up_for(j, rc);
    } else {
        take_outcome(j);
    }
    pfl_ask_output_push(&a->output);
    if (!a->is_paused && pfl_ask_output_is_congested(&a->output))
        pause_all(a, true);
}

/* ---- the trace, piece by piece ---- */

static void give_piece(struct job *j, struct pfl_span data)
{
    struct pfl_buf out;
    int rc;

    pfl_buf_init(&out, 2 * PIECE_BYTES);
    rc = pfl_trace_question_load(j->question, data, &out);
    if (rc == 0)
        rc = pfl_processor_port_write(j->port, &out);
    pfl_buf_fini(&out);
    if (rc != 0)
        give_up_for(j, rc);
}

static void give_question(struct job *j)
{
    struct pfl_buf out;
    int rc;

    pfl_buf_init(&out, 2 * j->ask->plan->question.len + PIECE_BYTES);
    rc = pfl_trace_question_ask(j->question, &out);
    if (rc == 0)
        rc = pfl_processor_port_write(j->port, &out);
    pfl_buf_fini(&out);
    j->is_asked = true;
    if (rc != 0)
        give_up_for(j, rc);
}

static void read_piece(struct job *j, size_t len)
{
    uint8_t *room = pfl_mem_alloc(len);
    ssize_t n = room != NULL ? pread(j->fd, room, len, (off_t)j->offset) : -1;

    if (n <= 0) {
        give_up(j, room == NULL ? pfl_err_str(PFL_ENOMEM)
                   : n == 0     ? "it became shorter"
                                : strerror(errno));
    } else {
        j->offset += (uint64_t)n;
        j->left -= (uint64_t)n;
        give_piece(j, pfl_span_of(room, (size_t)n));
    }
    pfl_mem_free(room);
}

static void on_piece(void *user, const Perfleet__CollectorReply *reply);

static void request_piece(struct job *j, size_t len)
{
    struct pfl_collector_session *s = &j->ask->source.session;
    Perfleet__CollectorRequest request = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__Get part = PERFLEET__COLLECTOR_REQUEST__GET__INIT;
    int rc;

    part.trace = j->trace->name;
    part.has_offset = part.has_length = 1;
    part.offset = j->offset;
    part.length = len;
    request.get = &part;
    rc = s->conn != NULL ? pfl_collector_conn_send(s->conn, &request) : PFL_ECLOSED;
    if (rc != 0) {
        give_up_for(j, rc);
        return;
    }
    pfl_collector_session_hear(s, on_piece, j->ask); /* the time without a reply begins */
    j->request_id = request.id;
    j->piece_left = len;
    j->offset += len;
    j->left -= len;
}

/* What the process is to have next. */
static void feed(struct job *j)
{
    size_t len = j->left < PIECE_BYTES ? (size_t)j->left : PIECE_BYTES;

    if (j->request_id != 0 || j->is_asked || j->why[0] != '\0')
        return;
    if (len == 0)
        give_question(j);
    else if (j->fd >= 0)
        read_piece(j, len);
    else
        request_piece(j, len);
}

static void on_written(void *user)
{
    feed(user);
}

static struct job *find_job(struct ask *a, uint32_t request_id)
{
    for (size_t i = 0; request_id != 0 && i < a->plan->jobs; i++)
        if (a->jobs[i].request_id == request_id)
            return &a->jobs[i];
    return NULL;
}

static void on_piece(void *user, const Perfleet__CollectorReply *reply)
{
    struct job *j = find_job(user, reply->id);
    char why[WHY_BYTES];

    if (j == NULL)
        return; /* of a trace that was given up */
    if (!reply->has_more)
        j->request_id = 0;
    if (reply->status != 0) {
        (void)snprintf(why, sizeof(why), "the collector: %s",
                       reply->why != NULL ? pfl_log_quote_reason(reply->why) : "it refuses");
        give_up(j, why);
        return;
    }
    if (reply->data.len > j->piece_left || (!reply->has_more && reply->data.len != j->piece_left)) {
        give_up(j, "it has another length than it had");
        return;
    }
    j->piece_left -= reply->data.len;
    if (j->port != NULL && j->why[0] == '\0' && reply->data.len != 0)
        give_piece(j, pfl_span_of(reply->data.data, reply->data.len));
}

/* ---- a place ---- */

static void explain_death(struct job *j, const struct pfl_processor_port_end *end)
{
    const char *words =
        end->last_words[0] != '\0' ? pfl_log_quote_reason(end->last_words) : "it said nothing";

    if (end->signal != 0)
        (void)snprintf(j->why, sizeof(j->why),
                       "its Trace Processor died of signal %d (it had %" PRIu32
                       " MiB: --max-mib): %s",
                       end->signal, j->ask->plan->max_mib, words);
    else
        (void)snprintf(j->why, sizeof(j->why), "its Trace Processor ended with %d: %s", end->status,
                       words);
}

/* The program does not start at all: no trace will do. */
static bool is_program_wrong(struct job *j, const struct pfl_processor_port_end *end)
{
    return !end->was_closed && end->signal == 0 && end->status == CANNOT_RUN && is_fault_of_all(j);
}

static void leave(struct job *j)
{
    if (j->fd >= 0)
        (void)close(j->fd);
    pfl_trace_question_free(j->question);
    *j = (struct job){.ask = j->ask, .fd = -1};
}

static void on_ended(void *user, const struct pfl_processor_port_end *end)
{
    struct job *j = user;
    struct ask *a = j->ask;
    bool is_answered = pfl_trace_question_get(j->question) == PFL_TRACE_QUESTION_ANSWERED;
    size_t len;

    j->port = NULL;
    if (is_program_wrong(j, end)) {
        /* Its words are perfleet's own, which has quoted what is in them. */
        pfl_cmd_error("Trace Processor: %s; see --trace-processor",
                      pfl_log_quote_reason(end->last_words));
        end_run(a, PFL_EXIT_NOTHING);
    } else if (!is_answered && j->why[0] == '\0' && !end->was_closed) {
        explain_death(j, end);
    }
    len = strlen(j->why);
    if (len != 0 && j->rows != 0)
        (void)snprintf(j->why + len, sizeof(j->why) - len, "; %" PRIu64 " rows of it came",
                       j->rows);
    if (j->why[0] != '\0' && a->code == 0 && !a->is_interrupted)
        note_trace(j, j->why);
    else if (is_answered)
        note_trace(j, NULL);
    leave(j);
}

/* Of a file: what there is of it. False: it is passed over. */
static bool open_trace(struct job *j)
{
    struct stat st;

    if (!j->ask->source.is_files) {
        j->left = j->trace->bytes;
        return true;
    }
    j->fd = open(j->trace->name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (j->fd < 0 || fstat(j->fd, &st) != 0) {
        (void)snprintf(j->why, sizeof(j->why), "%s", strerror(errno));
        return false;
    }
    if (!S_ISREG(st.st_mode)) {
        (void)snprintf(j->why, sizeof(j->why), "it is no file");
        return false;
    }
    j->left = (uint64_t)st.st_size;
    return true;
}

/* A Trace Processor takes two to four times the bytes of a trace. */
static bool has_room(struct job *j)
{
    uint64_t mib = j->left >> 20;

    if (mib <= j->ask->plan->max_mib / 2)
        return true;
    (void)snprintf(j->why, sizeof(j->why),
                   "it is too large: it has %" PRIu64 " MiB, and a Trace Processor %" PRIu32
                   " (--max-mib)",
                   mib, j->ask->plan->max_mib);
    return false;
}

static bool start_process(struct job *j)
{
    const struct pfl_ask_plan *plan = j->ask->plan;
    const struct pfl_trace_question_conf question = {.text = plan->question,
                                                     .is_summary = plan->is_summary,
                                                     .is_binary = plan->is_binary,
                                                     .on_columns = on_columns,
                                                     .on_row = on_row,
                                                     .on_about =
                                                         j->ask->source.is_files ? on_about : NULL,
                                                     .user = j};
    const struct pfl_processor_port_conf port = {.loop = j->ask->loop,
                                                 .self = plan->self,
                                                 .program = plan->program,
                                                 .mode = plan->args->ask.sandbox,
                                                 .max_mib = plan->max_mib,
                                                 .max_seconds = plan->max_time_ms / 1000 + 2,
                                                 .on_data = on_data,
                                                 .on_written = on_written,
                                                 .on_ended = on_ended,
                                                 .user = j};
    int rc = pfl_trace_question_new(&question, &j->question);

    if (rc == 0)
        rc = pfl_processor_port_open(&port, &j->port);
    if (rc == 0)
        return true;
    (void)snprintf(j->why, sizeof(j->why), "no process can be started: %s",
                   rc == PFL_EIO ? strerror(errno) : pfl_err_str(rc));
    return false;
}

/* The next trace takes a free place, or is passed over. */
static void start_next(struct job *j)
{
    struct ask *a = j->ask;

    j->trace = &a->source.traces[a->next++];
    (void)snprintf(j->host, sizeof(j->host), "%s", j->trace->host);
    pfl_answer_format_start(j->trace->begin_unix_ns, j->start);
    if (open_trace(j) && has_room(j) && start_process(j)) {
        j->answer_left = PFL_ASK_ANSWER_BYTES + PFL_ASK_ANSWER_RATIO * j->left;
        if (a->is_paused)
            pfl_processor_port_pause(j->port, true);
        feed(j);
        return;
    }
    note_trace(j, j->why);
    leave(j);
}

static void start_all(struct ask *a)
{
    for (size_t i = 0; i < a->plan->jobs; i++)
        while (a->jobs[i].trace == NULL && a->next < a->source.len && a->code == 0)
            start_next(&a->jobs[i]);
}

/* ---- time, signals, progress ---- */

static void on_tick(uv_timer_t *timer)
{
    struct ask *a = timer->data;
    uint64_t now_ms = uv_now(a->loop);
    uint64_t passed_ms = now_ms - a->tick_ms;
    char why[WHY_BYTES];

    a->tick_ms = now_ms;
    for (size_t i = 0; !a->is_paused && i < a->plan->jobs; i++) {
        struct job *j = &a->jobs[i];

        if (j->port == NULL || j->request_id != 0)
            continue; /* the collector has a time limit of its own */
        j->active_ms += passed_ms;
        if (j->active_ms < a->plan->max_time_ms)
            continue;
        (void)snprintf(why, sizeof(why), "no answer within %" PRIu32 " s (--max-time)",
                       (a->plan->max_time_ms + 999) / 1000);
        give_up(j, why);
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
        if (a->jobs[i].port != NULL)
            pfl_processor_port_close(a->jobs[i].port);
}

static void run_jobs(struct ask *a)
{
    for (size_t i = 0; i < a->plan->jobs; i++)
        a->jobs[i] = (struct job){.ask = a, .fd = -1};
    if (!a->source.is_files)
        pfl_collector_session_hear(&a->source.session, on_piece, a);
    open_handles(a);
    start_all(a);
    while (has_jobs(a)) {
        show(a, false);
        uv_run(a->loop, UV_RUN_ONCE);
        check_collector(a);
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
