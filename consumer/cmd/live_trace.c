/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live view of one host: see live_trace.h.
 *
 *     first copy -> listen, print the link, start a browser -> while its page wants one: a copy
 *
 * Happy path: a copy is a snapshot as `perfleet snapshot` makes it, into a file that is removed as
 * soon as it is open. Failures: if the first copy fails, the command ends with the reason and what
 * to type, before it starts a browser; if a later one fails, the page says so, and the next try
 * follows. A signal ends the command, and a copy under way is aborted. Ownership: targets, port,
 * recording and temporary folder until the function returns; one copy at a time. Limits:
 * PFL_LIVE_VIEW_MAX_MIB for each copy, unless an option says otherwise.
 */
#include "consumer/cmd/live_trace.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "consumer/cmd/cmd.h"
#include "consumer/cmd/open_link.h"
#include "consumer/cmd/open_trace.h"
#include "consumer/cmd/temporary.h"
#include "consumer/open/live_port.h"
#include "consumer/recording/recording.h"
#include "consumer/report/summary.h"
#include "consumer/text.h"

#define SIGNALS         3u
#define STEP_MS         5000u /* the protocol's default time for flushing */
#define DEFAULT_WAIT_MS (10u * 60 * 1000)

struct live {
    struct pfl_args *args;
    struct pfl_recording_conf conf;
    uv_loop_t loop;
    struct pfl_open_link link;
    struct pfl_live_port *port;      /* owned until on_closed; NULL: none */
    struct pfl_recording *recording; /* owned; NULL: no copy is made */
    bool is_copied;                  /* it is over */
    char path[PFL_TEMPORARY_MAX];    /* of the copy */
    char host[PFL_HOST_NAME_MAX];
    char said[PFL_LIVE_VIEW_WHY_BYTES]; /* the last failure */
    enum pfl_host_recording_state failed_in;
    uv_signal_t signals[SIGNALS];
    unsigned signals_open;
    bool is_interrupted;
};

/* ---- options ---- */

static bool has_any(const struct pfl_args *args)
{
    const struct pfl_live_args *live = &args->live;

    return live->session != NULL || live->every_ms != 0 || args->ask.max_time_ms != 0 ||
           args->has_max_host_mib || args->targets.hosts_len != 0 ||
           args->targets.selection != NULL;
}

bool pfl_live_trace_is_usable(const struct pfl_args *args)
{
    const struct pfl_live_args *live = &args->live;

    if (!live->is_wanted && has_any(args)) {
        pfl_cmd_error("--host, --select, --session, --every, --max-time and --max-host-mib need "
                      "--live");
        return false;
    }
    if (!live->is_wanted)
        return true;
    if (args->words_len != 0) {
        pfl_cmd_error("open --live shows what a host has now: leave out %s",
                      pfl_log_quote_str(args->words[0]));
        return false;
    }
    if (live->session != NULL && !pfl_cmd_is_session_name(live->session))
        return false;
    if (live->every_ms != 0 && (live->every_ms < PFL_LIVE_VIEW_MIN_EVERY_MS ||
                                live->every_ms > PFL_LIVE_VIEW_MAX_EVERY_MS)) {
        pfl_cmd_error("--every: give 2s to 10m: each view costs the host a copy of its buffers");
        return false;
    }
    return true;
}

static bool has_one_host(const struct pfl_targets *t)
{
    if (t->specs_len == 1)
        return true;
    pfl_cmd_error("open --live shows one host, and %zu are chosen: give one --host", t->specs_len);
    return false;
}

/* ---- copies ---- */

static void on_copied(void *user)
{
    ((struct live *)user)->is_copied = true;
}

static void on_progress(void *user, const struct pfl_recording *recording,
                        const struct pfl_host_recording *host_recording)
{
    (void)user;
    (void)recording;
    (void)host_recording;
}

/* NULL: the copy is whole. */
static const char *find_problem(const struct live *l, const struct pfl_recording_host *h)
{
    const struct pfl_recording *r = l->recording;

    if (pfl_recording_has_file_failed(r) || pfl_recording_get_partial(r) != NULL)
        return "it cannot be written below $TMPDIR or /var/tmp: make room there, or set TMPDIR";
    if (h->report->why[0] != '\0')
        return h->report->why;
    if (pfl_recording_get_why(r)[0] != '\0')
        return pfl_recording_get_why(r);
    return pfl_recording_get_file_bytes(r) == 0 ? "it is empty" : NULL;
}

/* What is wrong is said once. */
static void say_problem(struct live *l, const char *why)
{
    if (why != NULL && strcmp(why, l->said) != 0)
        pfl_cmd_error("%s: %s", l->host[0] != '\0' ? pfl_text_name(l->host) : "open --live", why);
    else if (why == NULL && l->said[0] != '\0' && !l->args->is_quiet)
        fprintf(stderr, "%s: is there again\n", pfl_text_name(l->host));
    (void)snprintf(l->said, sizeof(l->said), "%s", why != NULL ? why : "");
}

static void fail_copy(struct live *l, const char *why)
{
    pfl_live_port_fail(l->port, 0, why);
    say_problem(l, why);
}

static void give_copy(struct live *l)
{
    struct pfl_hand_over_problem problem = {0};
    struct pfl_recording_host h;
    const char *why;
    int rc = 0;

    pfl_recording_get_host(l->recording, 0, &h);
    if (l->host[0] == '\0')
        (void)snprintf(l->host, sizeof(l->host), "%.*s", (int)sizeof(l->host) - 1,
                       h.report->name[0] != '\0' ? h.report->name : h.spec->text);
    l->failed_in = h.report->failed_in;
    why = find_problem(l, &h);
    if (why == NULL) {
        rc = pfl_live_port_give(l->port, l->path, h.report->bytes_read, &problem);
        why = rc == PFL_EINVAL ? problem.why : rc != 0 ? pfl_err_str(rc) : NULL;
    }
    if (why != NULL)
        pfl_live_port_fail(l->port, h.report->bytes_read, why);
    say_problem(l, why);
}

/* One that was under way at the end goes nowhere. */
static void take_copy(struct live *l)
{
    if (l->port != NULL && !l->is_interrupted && pfl_recording_get_hosts_len(l->recording) != 0)
        give_copy(l);
    else if (l->port != NULL && !l->is_interrupted)
        fail_copy(l, pfl_recording_get_why(l->recording));
    (void)unlink(l->path);
    pfl_recording_free(l->recording);
    l->recording = NULL;
}

static void begin_copy(struct live *l)
{
    l->is_copied = false;
    if (pfl_recording_new(&l->conf, &l->recording) != 0)
        fail_copy(l, pfl_err_str(PFL_ENOMEM));
}

static void on_wanted(void *user)
{
    begin_copy(user);
}

static void run_once(struct live *l)
{
    uv_run(&l->loop, UV_RUN_ONCE);
    if (l->recording != NULL && l->is_copied)
        take_copy(l);
}

/* Before a browser is started: is there anything to see? */
static bool make_first(struct live *l)
{
    pfl_live_port_begin(l->port);
    begin_copy(l);
    while (l->recording != NULL)
        run_once(l);
    if (l->is_interrupted) /* the port may be gone */
        return false;
    if (pfl_live_port_get_view(l->port)->number != 0)
        return true;
    if (l->failed_in == PFL_HOST_CLONING || l->failed_in == PFL_HOST_SETUP)
        pfl_cmd_error("--live shows a flight recorder, a session that runs there: perfleet ps "
                      "lists them, --session NAME names one, and perfleet start flight --preset "
                      "system --host %s starts one",
                      l->args->targets.hosts_len != 0 ? l->args->targets.hosts[0] : l->host);
    return false;
}

/* ---- the port ---- */

static void on_refused(void *user, const char *why)
{
    (void)user;
    pfl_cmd_error("a request was refused: %s", why);
}

static void on_done(void *user, enum pfl_live_view_end end)
{
    struct live *l = user;

    (void)end;
    pfl_live_port_close(l->port);
}

static void on_closed(void *user)
{
    ((struct live *)user)->port = NULL;
}

static bool make_port(struct live *l)
{
    const struct pfl_args *args = l->args;
    const struct pfl_open_args *open = &args->open;
    const struct pfl_live_port_conf conf = {
        .loop = &l->loop,
        .view = {.host = l->host,
                 .every_ms =
                     args->live.every_ms != 0 ? args->live.every_ms : PFL_LIVE_VIEW_EVERY_MS,
                 .max_time_ms =
                     args->ask.max_time_ms != 0 ? args->ask.max_time_ms : PFL_LIVE_VIEW_MAX_TIME_MS,
                 .wait_ms = open->serve_ms != 0 ? open->serve_ms : DEFAULT_WAIT_MS},
        .way = open->ui_dir != NULL ? PFL_HAND_OVER_OWN : PFL_HAND_OVER_PAGE,
        .ui_url = open->ui_url != NULL ? open->ui_url : PFL_HAND_OVER_UI,
        .ui_dir = open->ui_dir,
        .port = open->has_port ? args->ui_port : 0,
        .on_wanted = on_wanted,
        .on_refused = on_refused,
        .on_done = on_done,
        .on_closed = on_closed,
        .user = l};
    struct pfl_hand_over_problem problem;
    int rc = pfl_live_port_new(&conf, &l->port, &problem);

    if (rc == PFL_EINVAL)
        pfl_cmd_error("--ui-dir %s: %s", pfl_log_quote_str(open->ui_dir), problem.why);
    else if (rc != 0)
        pfl_cmd_error("%s", pfl_err_str(rc));
    return rc == 0;
}

static bool start_port(struct live *l)
{
    if (pfl_live_port_start(l->port) == 0)
        return true;
    pfl_cmd_error("cannot listen on 127.0.0.1:%u: another program may be there (ss -ltnp shows "
                  "it); without --ui-port it is any port",
                  l->args->ui_port);
    return false;
}

/* ---- what is said ---- */

/* "340 KiB", "12.5 MiB". */
static const char *show_bytes(uint64_t bytes, char ret_text[32])
{
    if (bytes < 1u << 20)
        (void)snprintf(ret_text, 32, "%.0f KiB", (double)bytes / 1024);
    else
        (void)snprintf(ret_text, 32, "%.1f MiB", (double)bytes / (1 << 20));
    return ret_text;
}

static bool print_link(struct live *l, const char *url)
{
    struct pfl_buf out;
    int rc;

    pfl_buf_init(&out, PFL_OPEN_LINK_MAX_BYTES + PFL_TEXT_LINE_MAX_BYTES);
    if (l->args->is_json)
        rc = pfl_text_dump_json_line(
            json_pack("{s:s, s:o}", "url", url, "host", pfl_text_json_peer(l->host)), &out);
    else
        rc = pfl_text_add(&out, "%s\n", url);
    if (rc == 0)
        pfl_cmd_print(l->args, pfl_buf_get(&out), stdout);
    else
        pfl_cmd_error("%s", pfl_err_str(rc));
    pfl_buf_fini(&out);
    return rc == 0 && fflush(stdout) == 0;
}

static bool print_and_open(struct live *l)
{
    const struct pfl_hand_over *h = pfl_live_port_get(l->port);
    const struct pfl_live_view *view = pfl_live_port_get_view(l->port);
    struct pfl_buf url;
    char bytes[32];
    bool is_good;

    pfl_open_link_say(&l->link, h->port);
    pfl_buf_init(&url, PFL_OPEN_LINK_MAX_BYTES);
    is_good = pfl_hand_over_add_link(h, 0, &url) == 0 && pfl_buf_append(&url, "", 1) == 0 &&
              print_link(l, (const char *)pfl_buf_get(&url).data);
    if (is_good && !l->args->is_quiet && !l->args->is_json)
        fprintf(stderr,
                "The page has a button, which opens the UI. Each view reads some\n"
                "%s of the host's buffers, at most every %.0f s. Ctrl-C ends.\n",
                show_bytes(view->bytes, bytes), (double)view->conf.every_ms / 1000);
    if (is_good)
        pfl_open_link_start(&l->link, 0, (const char *)pfl_buf_get(&url).data);
    pfl_buf_fini(&url);
    return is_good;
}

static int judge(const struct live *l, const struct pfl_live_view *view)
{
    bool was_seen = view->shown_ms != 0;
    char bytes[32];

    if (!l->args->is_quiet && was_seen)
        fprintf(stderr, "%s: %u view%s, %s read of its buffers, %u failed%s%s\n",
                pfl_text_name(l->host), view->number, view->number == 1 ? "" : "s",
                show_bytes(view->total_bytes, bytes), view->failures,
                view->end != PFL_LIVE_VIEW_RUNS ? "; " : "", pfl_live_view_end_str(view->end));
    if (was_seen)
        return PFL_EXIT_OK;
    if (l->is_interrupted)
        return PFL_EXIT_ABORT;
    pfl_cmd_error("%s", pfl_live_view_end_str(view->end));
    return PFL_EXIT_NOTHING;
}

/* ---- signals ---- */

static void on_signal(uv_signal_t *handle, int number)
{
    struct live *l = handle->data;

    (void)number;
    l->is_interrupted = true;
    if (l->recording != NULL)
        pfl_recording_abort(l->recording, "interrupted");
    if (l->port != NULL)
        pfl_live_port_close(l->port);
}

static void on_signal_closed(uv_handle_t *handle)
{
    ((struct live *)handle->data)->signals_open--;
}

static void watch_signals(struct live *l)
{
    static const int numbers[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

    for (size_t i = 0; i < SIGNALS; i++) {
        (void)uv_signal_init(&l->loop, &l->signals[i]);
        l->signals[i].data = l;
        l->signals_open++;
        (void)uv_signal_start(&l->signals[i], on_signal, numbers[i]);
    }
}

/* ---- all of it ---- */

static void make_conf(struct live *l)
{
    struct pfl_targets *t = &l->args->targets;

    l->conf = (struct pfl_recording_conf){
        .each_host = {.task = PFL_HOST_TASK_SNAPSHOT,
                      .session = l->args->live.session != NULL ? l->args->live.session : "",
                      .kept_key = "perfleet-live.kept",
                      .flush_timeout_ms = STEP_MS,
                      .stop_timeout_ms = STEP_MS,
                      .step_timeout_ms = t->timeout_ms,
                      .has_read_limit = true,
                      .read_limit_bytes =
                          (uint64_t)(l->args->has_max_host_mib ? l->args->max_host_mib
                                                               : PFL_LIVE_VIEW_MAX_MIB)
                          << 20},
        .specs = t->specs,
        .specs_len = t->specs_len,
        .output_path = l->path,
        .has_wait = true,
        .wait_ms = t->timeout_ms,
        .quorum = 1,
        .on_progress = on_progress,
        .on_over = on_copied,
        .user = l};
    pfl_targets_fill_conn(t, &l->conf.each_host.conn);
}

/* Also when the port was closed meanwhile: a copy is over first. */
static void close_all(struct live *l)
{
    if (l->recording != NULL)
        pfl_recording_abort(l->recording, "it is over");
    while (l->recording != NULL)
        run_once(l);
    if (l->port != NULL)
        pfl_live_port_close(l->port);
    for (size_t i = 0; i < SIGNALS && l->signals_open != 0; i++)
        uv_close((uv_handle_t *)&l->signals[i], on_signal_closed);
    pfl_open_link_close(&l->link);
    while (l->port != NULL || l->signals_open != 0 || l->link.open != 0)
        uv_run(&l->loop, UV_RUN_ONCE);
}

static int show(struct live *l)
{
    struct pfl_live_view view = {0};
    int code;

    if (!make_port(l))
        return PFL_EXIT_NOTHING;
    if (!make_first(l))
        return l->is_interrupted ? PFL_EXIT_ABORT : PFL_EXIT_NOTHING;
    if (!start_port(l) || !print_and_open(l))
        return PFL_EXIT_NOTHING;
    while (l->port != NULL) {
        view = *pfl_live_port_get_view(l->port);
        l->link.is_followed = view.has_page;
        run_once(l);
    }
    code = judge(l, &view);
    return code;
}

int pfl_live_trace(struct pfl_args *args)
{
    struct live l = {.args = args};
    int code = pfl_targets_open(&args->targets, &l.loop);

    if (code != PFL_EXIT_OK)
        return code;
    args->targets.is_past_options = true;
    pfl_open_link_init(&l.link, args, &l.loop);
    watch_signals(&l);
    make_conf(&l);
    code = PFL_EXIT_USAGE;
    if (!has_one_host(&args->targets)) {
        args->targets.is_past_options = false;
    } else if (!pfl_temporary_make("live.pftrace", l.path)) {
        pfl_cmd_error("open --live: no folder can be made in $TMPDIR or /var/tmp");
        code = PFL_EXIT_FILE;
    } else {
        code = show(&l);
    }
    close_all(&l);
    if (l.path[0] != '\0')
        pfl_temporary_remove(l.path);
    pfl_targets_close(&args->targets);
    return code;
}
