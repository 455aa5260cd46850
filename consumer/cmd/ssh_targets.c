/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts by the user's own ssh: one `ssh -N -L LOCAL-SOCKET:REMOTE-SOCKET` for each, in a private
 * folder; then the host is a local UNIX socket. The host needs only sshd and the service.
 *
 * Happy path: start all, wait until every local socket is there, and end the processes at the end.
 * Failures: if an ssh ends (with a message on stderr) or takes too long, the command ends. The
 * forwards ignore Ctrl-C, because data is read after it. Ownership: processes and the folder, until
 * close.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "consumer/cmd/cmd.h"
#include "consumer/cmd/targets.h"

#define POLL_MS    20u
#define MAX_ARGS   20
#define PATIENT_MS 60000u /* a person may have to type a passphrase */

struct pfl_ssh {
    uv_process_t process;
    char dir[64]; /* "": none */
    char socket[80];
    bool is_running;
    bool is_open; /* the handle */
};

struct waiting {
    uv_timer_t timer;
    uint64_t ticks;
    bool is_closed;
};

static void on_process_closed(uv_handle_t *handle)
{
    ((struct pfl_ssh *)handle->data)->is_open = false;
}

static void on_ssh_exit(uv_process_t *process, int64_t status, int signal)
{
    struct pfl_ssh *s = process->data;

    (void)status;
    (void)signal;
    s->is_running = false;
    uv_close((uv_handle_t *)process, on_process_closed);
}

static int spawn(struct pfl_targets *t, struct pfl_ssh *s, const struct pfl_host_spec *spec)
{
    char forward[256];
    /* Ignored signals stay ignored by what is executed. */
    const char *argv[MAX_ARGS] = {
        "sh", "-c",   "trap '' INT; exec ssh \"$@\"", "ssh", "-N",
        "-T", "-o",   "ExitOnForwardFailure=yes",     "-o",  "ServerAliveInterval=15",
        "-L", forward};
    size_t n = 12;
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_IGNORE}, {.flags = UV_IGNORE}, {.flags = UV_INHERIT_FD, .data.fd = 2}};
    uv_process_options_t options = {.exit_cb = on_ssh_exit,
                                    .file = "sh",
                                    .args = (char **)(uintptr_t)argv,
                                    .stdio = stdio,
                                    .stdio_count = 3};
    int rc;

    snprintf(forward, sizeof(forward), "%s:%s", s->socket, spec->socket);
    if (spec->port[0] != '\0') {
        argv[n++] = "-p";
        argv[n++] = spec->port;
    }
    argv[n++] = "--";
    argv[n] = spec->address;
    s->process.data = s;
    rc = uv_spawn(t->loop, &s->process, &options);
    s->is_running = rc == 0;
    s->is_open = true;
    if (rc != 0)
        uv_close((uv_handle_t *)&s->process, on_process_closed);
    return rc;
}

static bool start_ssh(struct pfl_targets *t, struct pfl_ssh *s, const struct pfl_host_spec *spec)
{
    static const char template[] = "/tmp/perfleet-ssh-XXXXXX";
    int rc;

    memcpy(s->dir, template, sizeof(template));
    if (mkdtemp(s->dir) == NULL) {
        s->dir[0] = '\0';
        pfl_cmd_error("--host %s: no folder can be made in /tmp", spec->text);
        return false;
    }
    snprintf(s->socket, sizeof(s->socket), "%s/consumer.sock", s->dir);
    rc = spawn(t, s, spec);
    if (rc != 0)
        pfl_cmd_error("--host %s: ssh cannot be started: %s", spec->text, uv_strerror(rc));
    return rc == 0;
}

static void on_tick(uv_timer_t *timer)
{
    ((struct waiting *)timer->data)->ticks++;
}

static void on_waiting_closed(uv_handle_t *handle)
{
    ((struct waiting *)handle->data)->is_closed = true;
}

/* True when its socket is there or its process is not. */
static bool is_settled(const struct pfl_ssh *s)
{
    return !s->is_running || access(s->socket, F_OK) == 0;
}

static void wait_for_all(struct pfl_targets *t)
{
    struct waiting w = {.timer.data = &w};
    bool is_all = false;

    uv_timer_init(t->loop, &w.timer);
    uv_timer_start(&w.timer, on_tick, POLL_MS, POLL_MS);
    while (!is_all && w.ticks * POLL_MS < t->timeout_ms + PATIENT_MS) {
        uv_run(t->loop, UV_RUN_ONCE);
        is_all = true;
        for (size_t i = 0; i < t->ssh_len; i++)
            is_all = is_all && is_settled(&t->ssh[i]);
    }
    uv_close((uv_handle_t *)&w.timer, on_waiting_closed);
    while (!w.is_closed)
        uv_run(t->loop, UV_RUN_ONCE);
}

static bool use_socket(const struct pfl_ssh *s, struct pfl_host_spec *spec)
{
    if (!s->is_running || access(s->socket, F_OK) != 0) {
        pfl_cmd_error("--host %s: ssh made no forward%s", spec->text,
                      s->is_running ? " in time" : ": it says above why");
        return false;
    }
    spec->kind = PFL_HOST_UNIX;
    snprintf(spec->address, sizeof(spec->address), "%s", s->socket);
    return true;
}

bool pfl_targets_open_ssh(struct pfl_targets *self)
{
    size_t wanted = 0;
    bool is_good = true;

    for (size_t i = 0; i < self->specs_len; i++)
        wanted += self->specs[i].kind == PFL_HOST_SSH;
    if (wanted == 0)
        return true;
    self->ssh = pfl_mem_calloc(wanted, sizeof(*self->ssh));
    if (self->ssh == NULL) {
        pfl_cmd_error("out of memory");
        return false;
    }
    for (size_t i = 0; is_good && i < self->specs_len; i++)
        if (self->specs[i].kind == PFL_HOST_SSH)
            is_good = start_ssh(self, &self->ssh[self->ssh_len++], &self->specs[i]);
    if (!is_good)
        return false;
    wait_for_all(self);
    for (size_t i = 0, n = 0; is_good && i < self->specs_len; i++)
        if (self->specs[i].kind == PFL_HOST_SSH)
            is_good = use_socket(&self->ssh[n++], &self->specs[i]);
    return is_good;
}

void pfl_targets_close_ssh(struct pfl_targets *self)
{
    bool is_any_open = true;

    for (size_t i = 0; i < self->ssh_len; i++)
        if (self->ssh[i].is_running)
            uv_process_kill(&self->ssh[i].process, SIGTERM);
    while (is_any_open) {
        is_any_open = false;
        for (size_t i = 0; i < self->ssh_len; i++)
            is_any_open = is_any_open || self->ssh[i].is_open;
        if (is_any_open)
            uv_run(self->loop, UV_RUN_ONCE);
    }
    for (size_t i = 0; i < self->ssh_len; i++) {
        if (self->ssh[i].dir[0] == '\0')
            continue;
        unlink(self->ssh[i].socket);
        rmdir(self->ssh[i].dir);
    }
    pfl_mem_free(self->ssh);
    self->ssh = NULL;
    self->ssh_len = 0;
}
