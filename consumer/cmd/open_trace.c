/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands trace files to the Perfetto UI: see open_trace.h.
 *
 * Happy path: open the files, listen, print the link, start a browser, wait until the UI has them.
 * Failures: a file that is none, or a port that is taken, before anything is started; no browser:
 * it is said what to do; the UI does not come in time, or a signal: exit 1 or 130. Ownership: the
 * loop, the port and the browsers' handles (open_link.h), until the function returns; a browser
 * lives on. Limits: PFL_HAND_OVER_MAX_TRACES files.
 */
#include "consumer/cmd/open_trace.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io/loop.h"
#include "base/log.h"
#include "consumer/cmd/cmd.h"
#include "consumer/cmd/open_link.h"
#include "consumer/open/hand_over_port.h"
#include "consumer/report/summary.h"
#include "consumer/text.h"

#define SIGNALS         3u
#define DEFAULT_WAIT_MS (10u * 60 * 1000)
#define LINKS_MAX_BYTES (PFL_HAND_OVER_MAX_TRACES * PFL_OPEN_LINK_MAX_BYTES)

_Static_assert(PFL_HAND_OVER_MAX_TRACES <= PFL_OPEN_LINK_MAX, "PFL_OPEN_LINK_MAX");

struct opening {
    const struct pfl_args *args;
    const char *const *paths;
    uv_loop_t loop;
    struct pfl_hand_over_port *port; /* owned until on_closed; NULL: none */
    struct pfl_open_link link;
    uv_signal_t signals[SIGNALS];
    unsigned signals_open;
    size_t fetched;
    bool is_interrupted;
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

bool pfl_open_trace_is_address_usable(const struct pfl_args *args)
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
    if (find_way(open) == PFL_HAND_OVER_DIRECT && !args->live.is_wanted && open->has_port &&
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
    return pfl_open_trace_is_address_usable(args);
}

/* ---- what is said ---- */

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

    pfl_buf_init(&url, PFL_OPEN_LINK_MAX_BYTES);
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

static void start_browsers(struct opening *o)
{
    const struct pfl_hand_over *h = pfl_hand_over_port_get(o->port);

    for (size_t i = 0; i < pfl_hand_over_get_links(h); i++) {
        struct pfl_buf url;

        pfl_buf_init(&url, PFL_OPEN_LINK_MAX_BYTES);
        if (pfl_hand_over_add_link(h, i, &url) == 0 && pfl_buf_append(&url, "", 1) == 0)
            pfl_open_link_start(&o->link, i, (const char *)pfl_buf_get(&url).data);
        pfl_buf_fini(&url);
    }
}

/* ---- what happens meanwhile ---- */

static void on_fetched(void *user, size_t trace, const char *why)
{
    struct opening *o = user;
    const struct pfl_hand_over *h = pfl_hand_over_port_get(o->port);

    o->fetched = pfl_hand_over_count_fetched(h);
    o->link.is_followed = o->fetched != 0;
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

/* A page of ours has an address that no other user had: a service worker that another one left in
 * the browser there would read along. ui.perfetto.dev fetches from one port alone. */
static uint16_t choose_port(const struct opening *o)
{
    if (o->args->open.has_port)
        return o->args->ui_port;
    return find_way(&o->args->open) == PFL_HAND_OVER_DIRECT ? PFL_HAND_OVER_PORT : 0;
}

static bool make_port(struct opening *o)
{
    const struct pfl_open_args *open = &o->args->open;
    struct pfl_hand_over_port_conf conf = {
        .loop = &o->loop,
        .way = find_way(open),
        .ui_url = open->ui_url != NULL ? open->ui_url : PFL_HAND_OVER_UI,
        .ui_dir = open->ui_dir,
        .port = choose_port(o),
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
    unsigned port = choose_port(o);

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
    pfl_open_link_say(&o->link, pfl_hand_over_port_get(o->port)->port);
    if (!print_links(o))
        pfl_hand_over_port_close(o->port);
    say_wait(o);
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
    pfl_open_link_close(&o->link);
    while (o->port != NULL || o->signals_open != 0 || o->link.open != 0)
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

    if (!pfl_open_trace_is_address_usable(args))
        return PFL_EXIT_USAGE;
    if (len > PFL_HAND_OVER_MAX_TRACES) {
        pfl_cmd_error("at most %u files at once", PFL_HAND_OVER_MAX_TRACES);
        return PFL_EXIT_USAGE;
    }
    if (pfl_loop_init(&o.loop) != 0) {
        pfl_cmd_error("out of memory");
        return code;
    }
    pfl_open_link_init(&o.link, args, &o.loop);
    watch_signals(&o);
    if (make_port(&o) && add_files(&o, len, flags) && start_port(&o)) {
        run(&o);
        code = judge(&o, len);
    }
    close_all(&o);
    return code;
}
