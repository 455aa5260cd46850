/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links in the user's browser: see open_link.h. Happy path: the command says which browser opens
 * them, and starts one for each. Failures: if no browser is to be started, it says what to do; if
 * the browser's command cannot be started or fails, it says so once. Owns the processes' handles.
 */
#include "consumer/cmd/open_link.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "consumer/cmd/cmd.h"

void pfl_open_link_init(struct pfl_open_link *self, const struct pfl_args *args, uv_loop_t *loop)
{
    const struct passwd *account = getpwuid(geteuid());

    *self = (struct pfl_open_link){.args = args, .loop = loop};
    self->env = (struct pfl_browser_env){
        .browser = getenv("BROWSER"),
        .display = getenv("DISPLAY"),
        .wayland_display = getenv("WAYLAND_DISPLAY"),
        .ssh_connection = getenv("SSH_CONNECTION"),
        .user = account != NULL ? account->pw_name : NULL,
        .is_root = geteuid() == 0,
        .is_refused = args->open.no_browser,
    };
    self->choice = pfl_browser_choose(&self->env);
}

void pfl_open_link_say(const struct pfl_open_link *self, uint16_t port)
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
    enum pfl_browser_choice choice = self->choice;
    struct pfl_buf hint;

    if (self->args->is_quiet || self->args->is_json)
        return;
    fprintf(stderr, "%s:\n", words[choice]);
    if (choice != PFL_BROWSER_SSH && choice != PFL_BROWSER_NO_DISPLAY)
        return;
    pfl_buf_init(&hint, PFL_OPEN_LINK_MAX_BYTES);
    if (pfl_browser_add_ssh_hint(&self->env, port, &hint) == 0)
        fprintf(stderr, "%.*s%s", (int)hint.len, (const char *)pfl_buf_get(&hint).data,
                choice == PFL_BROWSER_SSH ? "and follow this link there:\n" : "");
    pfl_buf_fini(&hint);
}

/* ---- the browser ---- */

static void on_start_closed(uv_handle_t *handle)
{
    struct pfl_open_link_start *s = handle->data;

    s->is_open = false;
    s->link->open--;
}

static void close_start(struct pfl_open_link_start *s)
{
    if (s->is_open && !uv_is_closing((uv_handle_t *)&s->process))
        uv_close((uv_handle_t *)&s->process, on_start_closed);
}

static void say_failed(struct pfl_open_link *l, const char *program, const char *why)
{
    if (!l->has_failed)
        pfl_cmd_error("%s does not open the link: %s; follow it in a browser", program, why);
    l->has_failed = true;
}

static void on_start_exit(uv_process_t *process, int64_t status, int term_signal)
{
    struct pfl_open_link_start *s = process->data;
    char why[64];

    if ((status != 0 || term_signal != 0) && !s->link->is_followed) {
        (void)snprintf(why, sizeof(why), term_signal != 0 ? "ended by signal %d" : "exit code %d",
                       term_signal != 0 ? term_signal : (int)status);
        say_failed(s->link, "the browser's command", why);
    }
    close_start(s);
}

/* In a session of its own: it outlives this program and its terminal's Ctrl-C. */
void pfl_open_link_start(struct pfl_open_link *self, size_t link, const char *url)
{
    struct pfl_open_link_start *s = &self->starts[link];
    struct pfl_browser_command command;
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_IGNORE}, {.flags = UV_IGNORE}, {.flags = UV_IGNORE}};
    uv_process_options_t options = {
        .exit_cb = on_start_exit, .flags = UV_PROCESS_DETACHED, .stdio = stdio, .stdio_count = 3};
    int rc;

    if (self->choice != PFL_BROWSER_START && self->choice != PFL_BROWSER_START_AS_ROOT)
        return;
    if (!pfl_browser_make_command(&self->env, url, &command)) {
        say_failed(self, "BROWSER", "it is no command, or too long");
        return;
    }
    options.file = command.words[0];
    options.args = command.words;
    s->process.data = s;
    s->link = self;
    s->is_open = true;
    self->open++;
    rc = uv_spawn(self->loop, &s->process, &options);
    if (rc == 0)
        return;
    say_failed(self, pfl_log_quote_str(command.words[0]), uv_strerror(rc));
    close_start(s);
}

void pfl_open_link_close(struct pfl_open_link *self)
{
    for (size_t i = 0; i < PFL_OPEN_LINK_MAX; i++)
        close_start(&self->starts[i]);
}
