/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process: see processor_port.h.
 *
 * Happy path: perfleet starts itself as `perfleet confined ...`, which enters the sandbox and
 * becomes the program; two pipes to it and one from it; when it ended and its output is read, all
 * handles are closed and on_ended is called. It gets none of the operator's environment, and a
 * session of its own, so that Ctrl-C reaches perfleet alone. Failures: it cannot be started; it
 * ends early, which on_ended says with the last line of its standard error. Ownership: handles
 * belong to the port until the last is closed. Limits: PFL_PROCESSOR_PORT_WORDS_BYTES.
 */
#include "consumer/ask/processor_port.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define READ_BYTES 65536u
#define PIPES      3u /* standard input, output and error */

struct pfl_processor_port {
    struct pfl_processor_port_conf conf; /* self and program not valid */
    uv_process_t process;
    uv_pipe_t pipes[PIPES];
    unsigned open;   /* handles */
    unsigned writes; /* under way */
    bool has_exited;
    bool has_output_end;
    bool is_paused;
    bool is_closing;
    bool was_closed;
    int signal;
    int status;
    size_t words_len;
    char words[PFL_PROCESSOR_PORT_WORDS_BYTES + 1]; /* the end of its standard error */
    char room[READ_BYTES];
};

struct write {
    uv_write_t request;
    struct pfl_processor_port *port;
    struct pfl_buf bytes; /* owned */
};

/* ---- the end ---- */

/* The last line that is not empty. */
static const char *find_last_words(struct pfl_processor_port *p)
{
    size_t end = p->words_len;
    size_t begin;

    while (end != 0 && (p->words[end - 1] == '\n' || p->words[end - 1] == '\r'))
        end--;
    p->words[end] = '\0';
    for (begin = end; begin != 0 && p->words[begin - 1] != '\n';)
        begin--;
    return p->words + begin;
}

static void on_closed(uv_handle_t *handle)
{
    struct pfl_processor_port *p = handle->data;
    struct pfl_processor_port_end end;

    if (--p->open != 0)
        return;
    end = (struct pfl_processor_port_end){.was_closed = p->was_closed,
                                          .signal = p->signal,
                                          .status = p->status,
                                          .last_words = find_last_words(p)};
    p->conf.on_ended(p->conf.user, &end);
    pfl_mem_free(p);
}

static void close_handles(struct pfl_processor_port *p)
{
    if (p->is_closing)
        return;
    p->is_closing = true;
    uv_close((uv_handle_t *)&p->process, on_closed);
    for (size_t i = 0; i < PIPES; i++)
        uv_close((uv_handle_t *)&p->pipes[i], on_closed);
}

static void close_if_ended(struct pfl_processor_port *p)
{
    if (p->has_exited && p->has_output_end)
        close_handles(p);
}

static void on_process_exit(uv_process_t *process, int64_t status, int number)
{
    struct pfl_processor_port *p = process->data;

    p->has_exited = true;
    p->status = (int)status;
    p->signal = number;
    if (p->was_closed)
        close_handles(p);
    else
        close_if_ended(p);
}

void pfl_processor_port_close(struct pfl_processor_port *self)
{
    if (self->was_closed || self->is_closing)
        return;
    self->was_closed = true;
    if (self->has_exited)
        close_handles(self);
    else
        (void)uv_process_kill(&self->process, SIGKILL);
}

/* ---- what it writes ---- */

static void give_room(uv_handle_t *handle, size_t wanted, uv_buf_t *ret_buf)
{
    struct pfl_processor_port *p = handle->data;

    (void)wanted;
    *ret_buf = uv_buf_init(p->room, sizeof(p->room));
}

static void on_output(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct pfl_processor_port *p = stream->data;

    if (len < 0) {
        (void)uv_read_stop(stream);
        p->has_output_end = true;
        close_if_ended(p);
    } else if (len > 0 && !p->was_closed) {
        p->conf.on_data(p->conf.user, pfl_span_of(buf->base, (size_t)len));
    }
}

static void on_error_output(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct pfl_processor_port *p = stream->data;
    size_t taken = len > 0 ? (size_t)len : 0;
    size_t kept;

    if (len < 0)
        (void)uv_read_stop(stream);
    if (taken > PFL_PROCESSOR_PORT_WORDS_BYTES)
        taken = PFL_PROCESSOR_PORT_WORDS_BYTES;
    if (taken == 0)
        return;
    kept = PFL_PROCESSOR_PORT_WORDS_BYTES - taken;
    if (p->words_len > kept) {
        memmove(p->words, p->words + p->words_len - kept, kept);
        p->words_len = kept;
    }
    memcpy(p->words + p->words_len, buf->base + (size_t)len - taken, taken);
    p->words_len += taken;
}

void pfl_processor_port_pause(struct pfl_processor_port *self, bool is_paused)
{
    if (self->is_paused == is_paused || self->is_closing || self->has_output_end)
        return;
    self->is_paused = is_paused;
    if (is_paused)
        (void)uv_read_stop((uv_stream_t *)&self->pipes[1]);
    else
        (void)uv_read_start((uv_stream_t *)&self->pipes[1], give_room, on_output);
}

/* ---- what it reads ---- */

static void on_sent(uv_write_t *request, int status)
{
    struct write *w = (struct write *)request;
    struct pfl_processor_port *p = w->port;

    pfl_buf_fini(&w->bytes);
    pfl_mem_free(w);
    p->writes--;
    if (status == 0 && p->writes == 0 && !p->was_closed && !p->is_closing)
        p->conf.on_written(p->conf.user);
}

int pfl_processor_port_write(struct pfl_processor_port *self, struct pfl_buf *bytes)
{
    struct pfl_span span = pfl_buf_get(bytes);
    struct write *w;
    uv_buf_t buf;

    if (self->was_closed || self->is_closing || span.len == 0) {
        pfl_buf_clear(bytes);
        return 0;
    }
    w = pfl_mem_zalloc(sizeof(*w));
    if (w == NULL)
        return PFL_ENOMEM;
    w->port = self;
    w->bytes = *bytes;
    pfl_buf_init(bytes, bytes->max_bytes);
    buf = uv_buf_init((char *)(uintptr_t)span.data, (unsigned)span.len);
    if (uv_write(&w->request, (uv_stream_t *)&self->pipes[0], &buf, 1, on_sent) == 0) {
        self->writes++;
        return 0;
    }
    pfl_buf_fini(&w->bytes); /* it died: on_ended says why */
    pfl_mem_free(w);
    return 0;
}

bool pfl_processor_port_is_written(const struct pfl_processor_port *self)
{
    return self->writes == 0;
}

/* ---- its threads ---- */

/* The number behind "Threads:"; 0: it is not known. */
static unsigned long count_threads(int pid)
{
    char path[32];
    char text[4096];
    ssize_t len;
    const char *at;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    len = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    text[len > 0 ? len : 0] = '\0';
    at = strstr(text, "\nThreads:");
    return at != NULL ? strtoul(at + sizeof("\nThreads:") - 1, NULL, 10) : 0;
}

bool pfl_processor_port_has_too_many_threads(const struct pfl_processor_port *self)
{
    return !self->has_exited && count_threads(self->process.pid) > PFL_PROCESSOR_PORT_MAX_THREADS;
}

/* ---- the beginning ---- */

static int spawn(struct pfl_processor_port *p, const struct pfl_processor_port_conf *conf)
{
    static const char *const modes[] = {
        [PFL_SANDBOX_AUTO] = "auto", [PFL_SANDBOX_REQUIRE] = "require", [PFL_SANDBOX_OFF] = "off"};
    static const char *const environment[] = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", NULL};
    char bytes[24];
    char seconds[24];
    const char *args[] = {conf->self, "confined",    modes[conf->mode], bytes,
                          seconds,    conf->program, "--stdiod",        NULL};
    uv_stdio_container_t stdio[PIPES];
    uv_process_options_t options = {.exit_cb = on_process_exit,
                                    .file = conf->self,
                                    .args = (char **)(uintptr_t)args,
                                    .env = (char **)(uintptr_t)environment,
                                    .cwd = "/",
                                    .flags = UV_PROCESS_DETACHED,
                                    .stdio = stdio,
                                    .stdio_count = PIPES};

    (void)snprintf(bytes, sizeof(bytes), "%" PRIu64, (uint64_t)conf->max_mib << 20);
    (void)snprintf(seconds, sizeof(seconds), "%" PRIu32, conf->max_seconds);
    for (size_t i = 0; i < PIPES; i++) {
        stdio[i].flags = UV_CREATE_PIPE | (i == 0 ? UV_READABLE_PIPE : UV_WRITABLE_PIPE);
        stdio[i].data.stream = (uv_stream_t *)&p->pipes[i];
    }
    return uv_spawn(conf->loop, &p->process, &options);
}

static void on_failed_closed(uv_handle_t *handle)
{
    struct pfl_processor_port *p = handle->data;

    if (--p->open == 0)
        pfl_mem_free(p);
}

int pfl_processor_port_open(const struct pfl_processor_port_conf *conf,
                            struct pfl_processor_port **ret_port)
{
    struct pfl_processor_port *p = pfl_mem_zalloc(sizeof(*p));
    int rc;

    if (p == NULL)
        return PFL_ENOMEM;
    p->conf = *conf;
    p->process.data = p;
    for (size_t i = 0; i < PIPES; i++) {
        (void)uv_pipe_init(conf->loop, &p->pipes[i], 0);
        p->pipes[i].data = p;
    }
    p->open = PIPES + 1;
    rc = spawn(p, conf);
    if (rc != 0) {
        errno = -rc;
        uv_close((uv_handle_t *)&p->process, on_failed_closed);
        for (size_t i = 0; i < PIPES; i++)
            uv_close((uv_handle_t *)&p->pipes[i], on_failed_closed);
        return PFL_EIO;
    }
    (void)uv_read_start((uv_stream_t *)&p->pipes[1], give_room, on_output);
    (void)uv_read_start((uv_stream_t *)&p->pipes[2], give_room, on_error_output);
    *ret_port = p;
    return 0;
}
