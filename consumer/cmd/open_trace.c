/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands trace files to the Perfetto UI: see open_trace.h.
 *
 * Happy path: open the files, listen, print the link, start a browser, wait until the UI has them.
 * Failures: a file that is none, or a port that is taken, before anything is started; no browser:
 * it is said what to do; the UI does not come in time, or a signal: exit 1 or 130. Ownership: the
 * loop, the port and the browser's handles, until the function returns; a browser lives on. Limits:
 * PFL_HAND_OVER_MAX_TRACES files.
 */
#include "consumer/cmd/open_trace.h"

#include <jansson.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io/loop.h"
#include "base/log.h"
#include "consumer/cmd/cmd.h"
#include "consumer/open/browser.h"
#include "consumer/open/hand_over_port.h"
#include "consumer/report/summary.h"
#include "consumer/text.h"

#define SIGNALS         3u
#define DEFAULT_WAIT_MS (10u * 60 * 1000)
#define LINK_MAX_BYTES  1024u
#define LINKS_MAX_BYTES (PFL_HAND_OVER_MAX_TRACES * LINK_MAX_BYTES)

struct start {
    uv_process_t process;
    struct opening *opening;
    bool is_open;
};

struct opening {
    const struct pfl_args *args;
    const char *const *paths;
    uv_loop_t loop;
    struct pfl_hand_over_port *port; /* owned until on_closed; NULL: none */
    struct pfl_browser_env env;
    uv_signal_t signals[SIGNALS];
    unsigned signals_open;
    struct start starts[PFL_HAND_OVER_MAX_TRACES]; /* browsers, one for each link */
    unsigned starts_open;
    size_t fetched;
    bool is_interrupted;
    bool has_failed; /* a browser could not be started: said once */
};

/* ---- what the options say ---- */

static enum pfl_hand_over_way find_way(const struct pfl_open_args *open)
{
    if (open->ui_dir != NULL)
        return PFL_HAND_OVER_OWN;
    return open->ui_url == NULL || strcmp(open->ui_url, PFL_HAND_OVER_UI) == 0
               ? PFL_HAND_OVER_DIRECT
               : PFL_HAND_OVER_PAGE;
}

static bool has_any(const struct pfl_args *args)
{
    const struct pfl_open_args *open = &args->open;

    return open->ui_dir != NULL || open->ui_url != NULL || open->no_browser || open->serve_ms != 0;
}

static bool is_address_usable(const struct pfl_args *args)
{
    const struct pfl_open_args *open = &args->open;

    if (open->ui_dir != NULL && open->ui_url != NULL) {
        pfl_cmd_error("--ui-dir and --ui-url: give one of them");
        return false;
    }
    if (open->ui_url != NULL && !pfl_hand_over_is_ui_url(open->ui_url)) {
        pfl_cmd_error("--ui-url %s: give an address such as https://ui.example.com, in small "
                      "letters, without ? and #",
                      pfl_log_quote_str(open->ui_url));
        return false;
    }
    if (find_way(open) == PFL_HAND_OVER_DIRECT && open->has_port &&
        args->ui_port != PFL_HAND_OVER_PORT) {
        pfl_cmd_error("--ui-port %u: ui.perfetto.dev fetches from port %u alone; --ui-dir and "
                      "--ui-url work with any",
                      args->ui_port, PFL_HAND_OVER_PORT);
        return false;
    }
    return true;
}

bool pfl_open_trace_is_usable(const struct pfl_args *args)
{
    if (!args->open.is_wanted) {
        if (has_any(args))
            pfl_cmd_error("--ui-dir, --ui-url, --no-browser and --serve-for are for --open: give "
                          "it, too");
        return !has_any(args);
    }
    if (args->output != NULL && strcmp(args->output, "-") == 0) {
        pfl_cmd_error("-o - and --open: the UI reads a file; give its name");
        return false;
    }
    if (pfl_args_has_rotation(args)) {
        pfl_cmd_error("--open and --rotate-time or --rotate-size: there are many files; perfleet "
                      "open takes those that you name");
        return false;
    }
    return is_address_usable(args);
}

/* ---- what is said ---- */

static void say_choice(const struct opening *o, enum pfl_browser_choice choice)
{
    static const char *const words[] = {
        [PFL_BROWSER_START] = "opening it in your browser; if nothing opens, follow\nthis link",
        [PFL_BROWSER_START_AS_ROOT] = "starting $BROWSER as root, as you set it; if nothing\n"
                                      "opens, follow this link",
        [PFL_BROWSER_NOT_WANTED] = "follow this link in a browser of this machine",
        [PFL_BROWSER_SSH] = "you came by ssh. At the machine with your browser type",
        [PFL_BROWSER_ROOT] = "you are root, so no browser is started. Follow this\n"
                             "link in a browser of root, or of the user who ran sudo;\n"
                             "else run perfleet open as the browser's user",
        [PFL_BROWSER_NO_DISPLAY] = "there is no display here. Follow this link in a browser\n"
                                   "of this machine; from another one, type first",
    };
    uint16_t port = pfl_hand_over_port_get(o->port)->port;
    struct pfl_buf hint;

    if (o->args->is_quiet || o->args->is_json)
        return;
    fprintf(stderr, "%s:\n", words[choice]);
    if (choice != PFL_BROWSER_SSH && choice != PFL_BROWSER_NO_DISPLAY)
        return;
    pfl_buf_init(&hint, LINK_MAX_BYTES);
    if (pfl_browser_add_ssh_hint(&o->env, port, &hint) == 0)
        fprintf(stderr, "%.*s%s", (int)hint.len, (const char *)pfl_buf_get(&hint).data,
                choice == PFL_BROWSER_SSH ? "and follow this link there:\n" : "");
    pfl_buf_fini(&hint);
}

static void say_wait(const struct opening *o)
{
    uint32_t ms = o->args->open.serve_ms != 0 ? o->args->open.serve_ms : DEFAULT_WAIT_MS;
    enum pfl_hand_over_way way = find_way(&o->args->open);

    if (o->args->is_quiet || o->args->is_json)
        return;
    if (way == PFL_HAND_OVER_DIRECT)
        fputs("If the browser asks whether ui.perfetto.dev may reach this\n"
              "device, allow it. Nothing is uploaded.\n",
              stderr);
    else if (way == PFL_HAND_OVER_PAGE)
        fputs("The page has a button for each trace, which opens the UI.\n", stderr);
    fprintf(stderr, "Waiting until the UI has it, at most %u s. Ctrl-C ends.\n", ms / 1000);
}

static int add_link(const struct opening *o, size_t link, struct pfl_buf *out)
{
    const struct pfl_hand_over *h = pfl_hand_over_port_get(o->port);
    struct pfl_buf url;
    json_t *row;
    int rc;

    pfl_buf_init(&url, LINK_MAX_BYTES);
    rc = pfl_hand_over_add_link(h, link, &url);
    if (rc == 0)
        rc = pfl_buf_append(&url, "", 1);
    if (rc == 0 && !o->args->is_json) {
        rc = pfl_text_add(out, "%s\n", (const char *)pfl_buf_get(&url).data);
    } else if (rc == 0) {
        row = json_pack("{s:s}", "url", (const char *)pfl_buf_get(&url).data);
        if (row != NULL && h->way != PFL_HAND_OVER_PAGE)
            (void)json_object_set_new(row, "trace", pfl_text_json_peer(o->paths[link]));
        rc = pfl_text_dump_json_line(row, out);
    }
    pfl_buf_fini(&url);
    return rc;
}

static bool print_links(const struct opening *o)
{
    size_t len = pfl_hand_over_get_links(pfl_hand_over_port_get(o->port));
    struct pfl_buf out;
    int rc = 0;

    pfl_buf_init(&out, LINKS_MAX_BYTES);
    for (size_t i = 0; rc == 0 && i < len; i++)
        rc = add_link(o, i, &out);
    if (rc == 0)
        pfl_cmd_print(o->args, pfl_buf_get(&out), stdout);
    else
        pfl_cmd_error("%s", pfl_err_str(rc));
    pfl_buf_fini(&out);
    return rc == 0 && fflush(stdout) == 0;
}

/* ---- the browser ---- */

static void find_env(struct opening *o)
{
    const struct passwd *account = getpwuid(geteuid());

    o->env = (struct pfl_browser_env){
        .browser = getenv("BROWSER"),
        .display = getenv("DISPLAY"),
        .wayland_display = getenv("WAYLAND_DISPLAY"),
        .ssh_connection = getenv("SSH_CONNECTION"),
        .user = account != NULL ? account->pw_name : NULL,
        .is_root = geteuid() == 0,
        .is_refused = o->args->open.no_browser,
    };
}

static void on_start_closed(uv_handle_t *handle)
{
    struct start *s = handle->data;

    s->is_open = false;
    s->opening->starts_open--;
}

static void close_start(struct start *s)
{
    if (s->is_open && !uv_is_closing((uv_handle_t *)&s->process))
        uv_close((uv_handle_t *)&s->process, on_start_closed);
}

static void say_failed(struct opening *o, const char *program, const char *why)
{
    if (!o->has_failed)
        pfl_cmd_error("%s does not open the link: %s; follow it in a browser", program, why);
    o->has_failed = true;
}

static void on_start_exit(uv_process_t *process, int64_t status, int term_signal)
{
    struct start *s = process->data;
    char why[64];

    if ((status != 0 || term_signal != 0) && s->opening->fetched == 0) {
        (void)snprintf(why, sizeof(why), term_signal != 0 ? "ended by signal %d" : "exit code %d",
                       term_signal != 0 ? term_signal : (int)status);
        say_failed(s->opening, "the browser's command", why);
    }
    close_start(s);
}

/* In a session of its own: it outlives this program and its terminal's Ctrl-C. */
static void start_browser(struct opening *o, size_t link, const char *url)
{
    struct start *s = &o->starts[link];
    struct pfl_browser_command command;
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_IGNORE}, {.flags = UV_IGNORE}, {.flags = UV_IGNORE}};
    uv_process_options_t options = {
        .exit_cb = on_start_exit, .flags = UV_PROCESS_DETACHED, .stdio = stdio, .stdio_count = 3};
    int rc;

    if (!pfl_browser_make_command(&o->env, url, &command)) {
        say_failed(o, "BROWSER", "it is no command, or too long");
        return;
    }
    options.file = command.words[0];
    options.args = command.words;
    s->process.data = s;
    s->opening = o;
    s->is_open = true;
    o->starts_open++;
    rc = uv_spawn(&o->loop, &s->process, &options);
    if (rc == 0)
        return;
    say_failed(o, pfl_log_quote_str(command.words[0]), uv_strerror(rc));
    close_start(s);
}

static void start_browsers(struct opening *o)
{
    const struct pfl_hand_over *h = pfl_hand_over_port_get(o->port);

    for (size_t i = 0; i < pfl_hand_over_get_links(h); i++) {
        struct pfl_buf url;

        pfl_buf_init(&url, LINK_MAX_BYTES);
        if (pfl_hand_over_add_link(h, i, &url) == 0 && pfl_buf_append(&url, "", 1) == 0)
            start_browser(o, i, (const char *)pfl_buf_get(&url).data);
        pfl_buf_fini(&url);
    }
}

/* ---- what happens meanwhile ---- */

static void on_fetched(void *user, size_t trace, const char *why)
{
    struct opening *o = user;
    const struct pfl_hand_over *h = pfl_hand_over_port_get(o->port);

    o->fetched = pfl_hand_over_count_fetched(h);
    if (why != NULL)
        pfl_cmd_error("%s: %s", pfl_log_quote_str(o->paths[trace]), why);
    else if (!o->args->is_quiet && !o->args->is_json)
        fprintf(stderr, "%s: the UI has it\n", pfl_log_quote_str(o->paths[trace]));
}

static void on_refused(void *user, const char *why)
{
    (void)user;
    pfl_cmd_error("a request was refused: %s", why);
}

static void on_done(void *user)
{
    struct opening *o = user;

    pfl_hand_over_port_close(o->port);
}

static void on_closed(void *user)
{
    struct opening *o = user;

    o->port = NULL;
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct opening *o = handle->data;

    (void)number;
    o->is_interrupted = true;
    if (o->port != NULL)
        pfl_hand_over_port_close(o->port);
}

static void on_signal_closed(uv_handle_t *handle)
{
    ((struct opening *)handle->data)->signals_open--;
}

static void watch_signals(struct opening *o)
{
    static const int numbers[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

    for (size_t i = 0; i < SIGNALS; i++) {
        struct sigaction old;
        bool is_ignored = sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN;

        (void)uv_signal_init(&o->loop, &o->signals[i]);
        o->signals[i].data = o;
        o->signals_open++;
        if (numbers[i] != SIGHUP || !is_ignored) /* nohup */
            (void)uv_signal_start(&o->signals[i], on_signal, numbers[i]);
    }
    (void)signal(SIGPIPE, SIG_IGN);
}

/* ---- all of it ---- */

static void warn_of_kind(const char *path, enum pfl_file_kind kind)
{
    if (kind == PFL_FILE_KIND_UNKNOWN)
        pfl_cmd_error("%s does not begin as a trace does: the UI may refuse it",
                      pfl_log_quote_str(path));
}

static bool add_files(struct opening *o, size_t len, unsigned flags)
{
    struct pfl_hand_over_problem problem;

    for (size_t i = 0; i < len; i++) {
        enum pfl_file_kind kind;
        int rc = pfl_hand_over_port_add(o->port, o->paths[i], &kind, &problem);

        if ((flags & PFL_OPEN_TRACE_REMOVE) != 0)
            (void)unlink(o->paths[i]);
        if (rc == PFL_EINVAL)
            pfl_cmd_error("%s cannot be opened: %s", pfl_log_quote_str(o->paths[i]), problem.why);
        else if (rc != 0)
            pfl_cmd_error("%s", pfl_err_str(rc));
        if (rc != 0)
            return false;
        warn_of_kind(o->paths[i], kind);
    }
    return true;
}

static bool make_port(struct opening *o)
{
    const struct pfl_open_args *open = &o->args->open;
    struct pfl_hand_over_port_conf conf = {
        .loop = &o->loop,
        .way = find_way(open),
        .ui_url = open->ui_url != NULL ? open->ui_url : PFL_HAND_OVER_UI,
        .ui_dir = open->ui_dir,
        .port = open->has_port ? o->args->ui_port : PFL_HAND_OVER_PORT,
        .wait_ms = open->serve_ms != 0 ? open->serve_ms : DEFAULT_WAIT_MS,
        .on_fetched = on_fetched,
        .on_refused = on_refused,
        .on_done = on_done,
        .on_closed = on_closed,
        .user = o};
    struct pfl_hand_over_problem problem;
    int rc = pfl_hand_over_port_new(&conf, &o->port, &problem);
    const char *dot = open->ui_dir != NULL ? strrchr(open->ui_dir, '.') : NULL;

    if (rc == PFL_EINVAL)
        pfl_cmd_error("--ui-dir %s: %s%s", pfl_log_quote_str(open->ui_dir), problem.why,
                      dot != NULL && strcmp(dot, ".zip") == 0 ? "; unpack it: unzip FILE -d DIR"
                                                              : "");
    else if (rc != 0)
        pfl_cmd_error("%s", pfl_err_str(rc));
    return rc == 0;
}

static bool start_port(struct opening *o)
{
    bool is_direct = find_way(&o->args->open) == PFL_HAND_OVER_DIRECT;
    unsigned port = o->args->open.has_port ? o->args->ui_port : PFL_HAND_OVER_PORT;

    if (pfl_hand_over_port_start(o->port) == 0)
        return true;
    pfl_cmd_error("cannot listen on 127.0.0.1:%u: another perfleet open or Trace Processor may be "
                  "there (ss -ltnp shows it); %s",
                  port,
                  is_direct ? "end it, as ui.perfetto.dev fetches from this port alone"
                            : "--ui-port gives another port");
    return false;
}

static void run(struct opening *o)
{
    enum pfl_browser_choice choice;

    find_env(o);
    choice = pfl_browser_choose(&o->env);
    say_choice(o, choice);
    if (!print_links(o))
        pfl_hand_over_port_close(o->port);
    say_wait(o);
    if (choice == PFL_BROWSER_START || choice == PFL_BROWSER_START_AS_ROOT)
        start_browsers(o);
    while (o->port != NULL)
        uv_run(&o->loop, UV_RUN_ONCE);
}

static void close_all(struct opening *o)
{
    if (o->port != NULL)
        pfl_hand_over_port_close(o->port);
    for (size_t i = 0; i < SIGNALS && o->signals_open != 0; i++)
        uv_close((uv_handle_t *)&o->signals[i], on_signal_closed);
    for (size_t i = 0; i < PFL_HAND_OVER_MAX_TRACES; i++)
        close_start(&o->starts[i]);
    while (o->port != NULL || o->signals_open != 0 || o->starts_open != 0)
        uv_run(&o->loop, UV_RUN_ONCE);
    (void)uv_loop_close(&o->loop);
}

static int judge(const struct opening *o, size_t len)
{
    if (o->fetched == len)
        return PFL_EXIT_OK;
    if (o->is_interrupted)
        return PFL_EXIT_ABORT;
    pfl_cmd_error("the UI fetched %zu of %zu in time; --serve-for waits longer", o->fetched, len);
    return PFL_EXIT_NOTHING;
}

int pfl_open_trace(const struct pfl_args *args, const char *const *paths, size_t len,
                   unsigned flags)
{
    struct opening o = {.args = args, .paths = paths};
    int code = PFL_EXIT_NOTHING;

    if (!is_address_usable(args))
        return PFL_EXIT_USAGE;
    if (len > PFL_HAND_OVER_MAX_TRACES) {
        pfl_cmd_error("at most %u files at once", PFL_HAND_OVER_MAX_TRACES);
        return PFL_EXIT_USAGE;
    }
    if (pfl_loop_init(&o.loop) != 0) {
        pfl_cmd_error("out of memory");
        return code;
    }
    watch_signals(&o);
    if (make_port(&o) && add_files(&o, len, flags) && start_port(&o)) {
        run(&o);
        code = judge(&o, len);
    }
    close_all(&o);
    return code;
}
