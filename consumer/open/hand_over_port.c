/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace files over HTTP: see hand_over_port.h.
 *
 * Happy path: files are opened at once, so that nobody replaces them before they are fetched; a
 * request is judged (hand_over.h); a file is read as the browser takes it, and its size was
 * announced. When all are fetched, on_done. Failures: a file that became shorter, or cannot be
 * read, ends its answer early, which the browser notices; one that changed meanwhile is reported.
 * Ownership: the descriptors, the HTTP port and a timer until on_closed; an answer (struct sending)
 * until it is gone. Limits: one answer at a time for each trace, MAX_FILES for files of the UI;
 * BLOCK_BYTES for each, and what the HTTP port queues. Files are read on the loop: nothing else
 * waits for it.
 */
#include "consumer/open/hand_over_port.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "consumer/open/page_assets.h"
#include "consumer/ui/ui_owner.h"

#define BLOCK_BYTES    (64u << 10)
#define LIST_MAX_BYTES (64u << 10)
#define FIELDS_BYTES   1024u
#define MOVING_MS      10000u /* a browser that takes nothing for so long is not waited for */

/* The page runs its own script alone, and talks to nobody but us and the tab that it opens. */
#define PAGE_POLICY                                                                                \
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "           \
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "                     \
    "frame-ancestors 'none'\r\n"
/* The UI has inline scripts, and compiles WebAssembly; it is kept from other machines. Ports of
 * loopback are those that its own policy has: Trace Processor, adb, this program's WebSocket. */
#define UI_POLICY                                                                                  \
    "Content-Security-Policy: default-src 'self' data: blob:; "                                    \
    "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "                                      \
    "style-src 'self' 'unsafe-inline'; worker-src 'self' blob:; "                                  \
    "connect-src 'self' data: blob: http://127.0.0.1:9001 ws://127.0.0.1:9001 "                    \
    "ws://127.0.0.1:8037; base-uri 'self'; form-action 'self'; frame-ancestors 'none'\r\n"

struct file {
    const char *path; /* borrowed */
    int fd;
};

struct pfl_hand_over_port {
    struct pfl_hand_over_port_conf conf;
    struct pfl_hand_over hand_over;
    struct file files[PFL_HAND_OVER_MAX_TRACES]; /* as in hand_over */
    int ui_fd;                                   /* -1: none */
    struct pfl_http_port *http;                  /* owned until on_http_closed; NULL: none */
    uv_timer_t timer;
    bool is_timer_open;
    bool is_closing;
    bool is_done; /* on_done was called */
    uint64_t sent_bytes;
    uint64_t seen_bytes; /* of them, when the timer was last there */
    struct pfl_log_limit refusals;
};

/* An answer that reads a file. */
struct sending {
    struct pfl_hand_over_port *port; /* borrowed: outlives us */
    struct pfl_http_exchange *exchange;
    int fd;          /* borrowed from files, or owned */
    bool is_ui_file; /* owned */
    bool is_head;
    size_t trace;
    uint64_t at;
    uint64_t bytes;
    struct stat before;
    const char *why; /* NULL, or why it is not whole */
};

/* ---- the end ---- */

static void free_if_gone(struct pfl_hand_over_port *p)
{
    void (*on_closed)(void *user) = p->conf.on_closed;
    void *user = p->conf.user;

    if (!p->is_closing || p->http != NULL || p->is_timer_open)
        return;
    for (size_t i = 0; i < p->hand_over.traces_len; i++)
        (void)close(p->files[i].fd);
    if (p->ui_fd >= 0)
        (void)close(p->ui_fd);
    pfl_mem_free(p);
    on_closed(user);
}

static void on_http_closed(void *user)
{
    struct pfl_hand_over_port *p = user;

    p->http = NULL;
    free_if_gone(p);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_hand_over_port *p = handle->data;

    p->is_timer_open = false;
    free_if_gone(p);
}

void pfl_hand_over_port_close(struct pfl_hand_over_port *self)
{
    if (self->is_closing)
        return;
    self->is_closing = true;
    if (self->http != NULL)
        pfl_http_port_close(self->http);
    uv_close((uv_handle_t *)&self->timer, on_timer_closed);
}

static void on_time(uv_timer_t *timer)
{
    struct pfl_hand_over_port *p = timer->data;

    if (p->is_done || p->is_closing)
        return;
    if (p->sent_bytes != p->seen_bytes) { /* a browser is reading */
        p->seen_bytes = p->sent_bytes;
        (void)uv_timer_start(timer, on_time, MOVING_MS, 0);
        return;
    }
    p->is_done = true;
    p->conf.on_done(p->conf.user);
}

/* With the UI's own files it may still ask for some of them. */
static void finish_if_fetched(struct pfl_hand_over_port *p)
{
    if (p->is_closing || p->hand_over.is_live ||
        pfl_hand_over_count_fetched(&p->hand_over) < p->hand_over.traces_len)
        return;
    p->seen_bytes = p->sent_bytes;
    (void)uv_timer_start(&p->timer, on_time,
                         p->hand_over.way == PFL_HAND_OVER_OWN ? PFL_HAND_OVER_QUIET_MS : 0, 0);
}

/* ---- files ---- */

static void send_more(void *user)
{
    static uint8_t block[BLOCK_BYTES];
    struct sending *s = user;

    while (s->at < s->bytes) {
        size_t wanted =
            s->bytes - s->at < sizeof(block) ? (size_t)(s->bytes - s->at) : sizeof(block);
        ssize_t n = pread(s->fd, block, wanted, (off_t)s->at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            s->why = n == 0 ? "the file became shorter while it was read" : strerror(errno);
            pfl_http_exchange_break(s->exchange);
            return;
        }
        if (pfl_http_exchange_write(s->exchange, pfl_span_of(block, (size_t)n)) != 0)
            return; /* on_writable or on_gone follows */
        s->at += (uint64_t)n;
        s->port->sent_bytes += (uint64_t)n;
    }
    pfl_http_exchange_end(s->exchange);
}

static bool has_changed(const struct sending *s)
{
    struct stat now;

    return fstat(s->fd, &now) != 0 || now.st_size != s->before.st_size ||
           now.st_mtim.tv_sec != s->before.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != s->before.st_mtim.tv_nsec;
}

static void end_trace(struct sending *s, bool is_whole)
{
    struct pfl_hand_over_port *p = s->port;

    pfl_hand_over_end(&p->hand_over, s->trace, is_whole);
    if (p->is_closing)
        return;
    if (!is_whole)
        p->conf.on_fetched(p->conf.user, s->trace,
                           s->why != NULL ? s->why : "the browser did not take all of it");
    else if (has_changed(s))
        p->conf.on_fetched(p->conf.user, s->trace,
                           "the file was written to while it was read: the UI may have parts of "
                           "both contents");
    else
        p->conf.on_fetched(p->conf.user, s->trace, NULL);
}

static void on_gone(void *user, bool is_whole)
{
    struct sending *s = user;
    struct pfl_hand_over_port *p = s->port;

    if (s->is_ui_file)
        (void)close(s->fd);
    else if (!s->is_head)
        end_trace(s, is_whole && s->at == s->bytes);
    pfl_mem_free(s);
    finish_if_fetched(p);
}

static const struct pfl_http_body_ops body_ops = {.on_writable = send_more, .on_gone = on_gone};

/* Answers without a body. */
static void answer_empty(struct pfl_http_exchange *exchange, unsigned status, const char *fields)
{
    pfl_http_exchange_answer(
        exchange, &(struct pfl_http_answer){
                      .status = status, .type = "text/plain; charset=utf-8", .fields = fields});
}

/* `s->fd` is open. Takes s. */
static void begin_sending(struct sending *s, const char *type, const char *fields)
{
    struct pfl_http_answer answer = {.status = 200, .type = type, .fields = fields};
    struct pfl_hand_over_port *p = s->port;
    bool is_get = !s->is_ui_file && !s->is_head;

    s->bytes = (uint64_t)s->before.st_size;
    if (is_get)
        pfl_hand_over_begin(&p->hand_over, s->trace);
    if (pfl_http_exchange_begin(s->exchange, &answer, (int64_t)s->bytes, &body_ops, s) != 0) {
        on_gone(s, false);
        return;
    }
    if (s->is_head)
        pfl_http_exchange_end(s->exchange);
    else
        send_more(s);
}

/* Below the folder, wherever symbolic links lead. */
static int open_below(int folder, const char *name)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};

    return (int)syscall(SYS_openat2, folder, name, &how, sizeof(how));
}

static struct sending *new_sending(struct pfl_hand_over_port *p, struct pfl_http_exchange *exchange,
                                   const struct pfl_http_request *request)
{
    struct sending *s = pfl_mem_zalloc(sizeof(*s));

    if (s == NULL) {
        answer_empty(exchange, 503, NULL);
        return NULL;
    }
    s->port = p;
    s->exchange = exchange;
    s->is_head = strcmp(request->method, "HEAD") == 0;
    return s;
}

static void send_trace(struct pfl_hand_over_port *p, struct pfl_http_exchange *exchange,
                       const struct pfl_http_request *request, size_t trace, const char *fields)
{
    struct sending *s = new_sending(p, exchange, request);

    if (s == NULL)
        return;
    s->trace = trace;
    s->fd = p->files[trace].fd;
    if (fstat(s->fd, &s->before) == 0) {
        begin_sending(s, "application/octet-stream", fields);
        return;
    }
    pfl_mem_free(s);
    answer_empty(exchange, 500, fields);
}

static void send_ui_file(struct pfl_hand_over_port *p, struct pfl_http_exchange *exchange,
                         const struct pfl_http_request *request)
{
    struct sending *s = new_sending(p, exchange, request);
    const char *name;
    const char *type;

    if (s == NULL)
        return;
    s->is_ui_file = true;
    s->fd =
        pfl_hand_over_name_ui_file(request->path, &name, &type) ? open_below(p->ui_fd, name) : -1;
    if (s->fd >= 0 && fstat(s->fd, &s->before) == 0 && S_ISREG(s->before.st_mode)) {
        begin_sending(s, type, UI_POLICY);
        return;
    }
    if (s->fd >= 0)
        (void)close(s->fd);
    pfl_mem_free(s);
    answer_empty(exchange, 404, NULL);
}

/* ---- the page ---- */

static void send_asset(struct pfl_http_exchange *exchange, const char *name)
{
    for (size_t i = 0; i < pfl_open_page_len; i++) {
        const struct pfl_http_asset *asset = &pfl_open_page[i];

        if (strcmp(asset->path, name) != 0)
            continue;
        pfl_http_exchange_answer(
            exchange, &(struct pfl_http_answer){.status = 200,
                                                .type = asset->type,
                                                .fields = PAGE_POLICY,
                                                .body = pfl_span_of(asset->bytes, asset->len)});
        return;
    }
    answer_empty(exchange, 500, NULL);
}

static void send_list(struct pfl_hand_over_port *p, struct pfl_http_exchange *exchange)
{
    struct pfl_buf out;

    pfl_buf_init(&out, LIST_MAX_BYTES);
    if (pfl_hand_over_add_list(&p->hand_over, &out) != 0)
        answer_empty(exchange, 503, NULL);
    else
        pfl_http_exchange_answer(exchange, &(struct pfl_http_answer){.status = 200,
                                                                     .type = "application/json",
                                                                     .body = pfl_buf_get(&out)});
    pfl_buf_fini(&out);
}

/* ---- requests ---- */

static void add_fields(const struct pfl_hand_over_answer *a, char *ret_fields)
{
    ret_fields[0] = '\0';
    if (a->allow_origin == NULL)
        return;
    (void)snprintf(ret_fields, FIELDS_BYTES,
                   "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n%s", a->allow_origin,
                   a->is_preflight ? "Access-Control-Allow-Methods: GET\r\n"
                                     "Access-Control-Allow-Private-Network: true\r\n"
                                   : "");
}

static void report_refusal(struct pfl_hand_over_port *p, const char *why)
{
    if (why != NULL && pfl_log_limit_take(&p->refusals, "browser-refused", uv_now(p->conf.loop)))
        p->conf.on_refused(p->conf.user, why);
}

static void on_request(void *user, struct pfl_http_exchange *exchange,
                       const struct pfl_http_request *r)
{
    struct pfl_hand_over_port *p = user;
    const struct pfl_hand_over_request request = {.method = r->method,
                                                  .path = r->path,
                                                  .host = r->host,
                                                  .origin = r->origin,
                                                  .fetch_site = r->fetch_site};
    struct pfl_hand_over_answer a;
    char fields[FIELDS_BYTES];

    pfl_hand_over_judge(&p->hand_over, &request, &a);
    add_fields(&a, fields);
    switch (a.what) {
    case PFL_HAND_OVER_TRACE:
        send_trace(p, exchange, r, a.trace, fields);
        break;
    case PFL_HAND_OVER_UI_FILE:
        send_ui_file(p, exchange, r);
        break;
    case PFL_HAND_OVER_HTML:
        send_asset(exchange, p->hand_over.is_live ? "/live.html" : "/hand-over.html");
        break;
    case PFL_HAND_OVER_SCRIPT:
        send_asset(exchange, p->hand_over.is_live ? "/live.js" : "/hand-over.js");
        break;
    case PFL_HAND_OVER_STYLE:
        send_asset(exchange, "/hand-over.css");
        break;
    case PFL_HAND_OVER_LIST:
        send_list(p, exchange);
        break;
    case PFL_HAND_OVER_NEXT:
        p->conf.on_next(p->conf.user, exchange, r->query);
        break;
    default:
        answer_empty(exchange, a.status, fields);
        report_refusal(p, a.why);
    }
}

/* ---- opening ---- */

/* `sudo perfleet open`: the browser is that user's, who is root already. */
static bool is_peer_ours(int fd, uint16_t own_port)
{
    const char *sudo = geteuid() == 0 ? getenv("SUDO_UID") : NULL;
    char *end = NULL;
    unsigned long uid = sudo != NULL && *sudo >= '0' && *sudo <= '9' ? strtoul(sudo, &end, 10) : 0;

    if (end != NULL && *end == '\0' && uid <= UINT32_MAX &&
        pfl_ui_owner_is(fd, own_port, (uint32_t)uid))
        return true;
    return pfl_ui_owner_is_ours(fd, own_port);
}

static int open_ui(struct pfl_hand_over_port *p, struct pfl_hand_over_problem *ret_problem)
{
    int index;

    p->ui_fd = open(p->conf.ui_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ret_problem->path = p->conf.ui_dir;
    if (p->ui_fd < 0) {
        ret_problem->why = strerror(errno);
        return PFL_EINVAL;
    }
    index = open_below(p->ui_fd, "index.html");
    ret_problem->why = "it has no index.html, as the folder of an unpacked UI has";
    if (index < 0)
        return PFL_EINVAL;
    (void)close(index);
    ret_problem->path = NULL;
    return 0;
}

static void on_nothing(void *user)
{
    (void)user;
}

int pfl_hand_over_port_new(const struct pfl_hand_over_port_conf *conf,
                           struct pfl_hand_over_port **ret_port,
                           struct pfl_hand_over_problem *ret_problem)
{
    struct pfl_hand_over_port *p = pfl_mem_zalloc(sizeof(*p));
    uint8_t key[PFL_HAND_OVER_KEY_BYTES];
    int rc = 0;

    *ret_problem = (struct pfl_hand_over_problem){0};
    if (p == NULL)
        return PFL_ENOMEM;
    p->conf = *conf;
    p->ui_fd = -1;
    (void)uv_timer_init(conf->loop, &p->timer);
    p->timer.data = p;
    p->is_timer_open = true;
    if (getrandom(key, sizeof(key), 0) != (ssize_t)sizeof(key))
        rc = PFL_EIO;
    if (rc == 0) {
        pfl_hand_over_init(&p->hand_over, conf->way, conf->ui_url, key);
        if (conf->on_next != NULL)
            pfl_hand_over_set_live(&p->hand_over);
        if (conf->way == PFL_HAND_OVER_OWN)
            rc = open_ui(p, ret_problem);
    }
    if (rc != 0) {
        p->conf.on_closed = on_nothing;
        pfl_hand_over_port_close(p);
        return rc;
    }
    *ret_port = p;
    return 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* Neither waits for a pipe's writer nor reads a device. */
static int open_file(const char *path, struct stat *ret_stat, const char **ret_why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0 || fstat(fd, ret_stat) != 0)
        *ret_why = strerror(errno);
    else if (S_ISDIR(ret_stat->st_mode))
        *ret_why = "it is a folder";
    else if (!S_ISREG(ret_stat->st_mode))
        *ret_why = "it is no file";
    else if (ret_stat->st_size == 0)
        *ret_why = "it is empty";
    else
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

int pfl_hand_over_port_add(struct pfl_hand_over_port *self, const char *path,
                           enum pfl_file_kind *ret_kind, struct pfl_hand_over_problem *ret_problem)
{
    uint8_t key[PFL_HAND_OVER_KEY_BYTES];
    uint8_t head[PFL_FILE_KIND_BYTES];
    struct file *file = &self->files[self->hand_over.traces_len];
    struct stat st;
    ssize_t n;
    int fd;
    int rc;

    if (self->hand_over.traces_len == PFL_HAND_OVER_MAX_TRACES)
        return PFL_ELIMIT;
    ret_problem->path = path;
    fd = open_file(path, &st, &ret_problem->why);
    if (fd < 0)
        return PFL_EINVAL;
    n = pread(fd, head, sizeof(head), 0);
    if (n < 0) {
        ret_problem->why = strerror(errno);
        (void)close(fd);
        return PFL_EINVAL;
    }
    rc = getrandom(key, sizeof(key), 0) == (ssize_t)sizeof(key)
             ? pfl_hand_over_add(&self->hand_over, base_name(path), (uint64_t)st.st_size, key)
             : PFL_EIO;
    if (rc != 0) {
        (void)close(fd);
        return rc;
    }
    *file = (struct file){.path = path, .fd = fd};
    *ret_kind = pfl_file_kind_find(pfl_span_of(head, (size_t)n));
    ret_problem->path = NULL;
    return 0;
}

int pfl_hand_over_port_replace(struct pfl_hand_over_port *self, const char *path,
                               struct pfl_hand_over_problem *ret_problem)
{
    struct pfl_hand_over was = self->hand_over;
    struct file old = self->files[0];
    enum pfl_file_kind kind;
    int rc;

    if (was.traces_len != 0 && was.traces[0].is_under_way)
        return PFL_ESTATE;
    pfl_hand_over_clear(&self->hand_over);
    rc = pfl_hand_over_port_add(self, path, &kind, ret_problem);
    if (rc == 0 && was.traces_len != 0) {
        (void)close(old.fd);
    } else if (rc != 0) {
        self->hand_over = was;
        self->files[0] = old;
    }
    return rc;
}

int pfl_hand_over_port_add_file(struct pfl_hand_over_port *self, int fd, const char *title)
{
    uint8_t key[PFL_HAND_OVER_KEY_BYTES];
    struct stat st;
    int rc = PFL_EIO;

    if (fstat(fd, &st) == 0 && getrandom(key, sizeof(key), 0) == (ssize_t)sizeof(key))
        rc = pfl_hand_over_add(&self->hand_over, title, (uint64_t)st.st_size, key);
    if (rc == 0)
        self->files[self->hand_over.traces_len - 1] = (struct file){.path = title, .fd = fd};
    else
        (void)close(fd);
    return rc;
}

int pfl_hand_over_port_start(struct pfl_hand_over_port *self)
{
    const struct pfl_http_port_conf conf = {.loop = self->conf.loop,
                                            .port = self->conf.port,
                                            .body_max_bytes = 0,
                                            .is_peer_ours = is_peer_ours,
                                            .on_request = on_request,
                                            .on_closed = on_http_closed,
                                            .user = self};
    int rc = pfl_http_port_open(&conf, &self->http);

    if (rc != 0)
        return rc;
    pfl_hand_over_set_port(&self->hand_over, pfl_http_port_get_number(self->http));
    if (!self->hand_over.is_live)
        (void)uv_timer_start(&self->timer, on_time, self->conf.wait_ms, 0);
    return 0;
}

const struct pfl_hand_over *pfl_hand_over_port_get(const struct pfl_hand_over_port *self)
{
    return &self->hand_over;
}
