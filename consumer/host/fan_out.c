/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries many hosts in parallel. Happy path: open all connections, let the owner make requests as
 * each is bound, close finished ones, return when all are closed. Failures end their host, with a
 * sentence: no connection, no answer before the deadline, a request that cannot be made, an answer
 * that is too long. A kept connection that ends between two fan-outs is opened again by the next.
 * Ownership: connections, timers and answers; a host's memory lives until pfl_fan_out_free. Limits:
 * those of the header, for each answer and for all.
 */
#include "consumer/host/fan_out.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

struct pfl_fan_out {
    struct pfl_fan_out_conf conf;
    struct pfl_fan_out_host *hosts; /* owned */
    size_t open;                    /* connections and timers that are not closed */
    size_t kept;                    /* connections that wait for the next fan-out */
    size_t kept_bytes;              /* of all answers */
};

void *pfl_fan_out_get_user(const struct pfl_fan_out_host *host)
{
    return host->owner->conf.user;
}

void pfl_fan_out_fail(struct pfl_fan_out_host *host, const char *why)
{
    if (host->why[0] == '\0' && !host->is_done)
        snprintf(host->why, sizeof(host->why), "%s", why);
    if (host->conn != NULL)
        pfl_host_conn_close(host->conn);
}

void pfl_fan_out_request(struct pfl_fan_out_host *host, const char *method, struct pfl_span args,
                         pfl_rpc_reply_cb cb)
{
    int rc =
        host->conn != NULL ? pfl_host_conn_invoke(host->conn, method, args, cb, host) : PFL_ESTATE;

    if (rc == PFL_ENOENT)
        pfl_fan_out_fail(host, "its service is too old: it lacks a method");
    else if (rc != 0)
        pfl_fan_out_fail(host, pfl_err_str(rc));
}

void pfl_fan_out_cork(struct pfl_fan_out_host *host)
{
    if (host->conn != NULL)
        pfl_host_conn_cork(host->conn);
}

void pfl_fan_out_uncork(struct pfl_fan_out_host *host)
{
    int rc = host->conn != NULL ? pfl_host_conn_uncork(host->conn) : PFL_ESTATE;

    if (rc != 0)
        pfl_fan_out_fail(host, pfl_err_str(rc));
}

/* ---- answers ---- */

void pfl_fan_out_drop_answer(struct pfl_fan_out_host *host)
{
    pfl_buf_fini(&host->answer);
    host->owner->kept_bytes -= host->counted_bytes;
    host->counted_bytes = 0;
}

static struct pfl_fan_out_host *find_longest(struct pfl_fan_out *a)
{
    struct pfl_fan_out_host *longest = &a->hosts[0];

    for (size_t i = 1; i < a->conf.specs_len; i++)
        if (a->hosts[i].counted_bytes > longest->counted_bytes)
            longest = &a->hosts[i];
    return longest;
}

/* Also for one that had succeeded: nobody has read its answer. */
static void fail_answer(struct pfl_fan_out_host *host, const char *why)
{
    pfl_fan_out_drop_answer(host);
    host->is_done = false;
    pfl_fan_out_fail(host, why);
}

bool pfl_fan_out_add(struct pfl_fan_out_host *host, struct pfl_span body,
                     int (*take)(struct pfl_span body, struct pfl_buf *out))
{
    struct pfl_fan_out *a = host->owner;
    char why[160];
    int rc;

    if (host->why[0] != '\0')
        return false;
    rc = take(body, &host->answer);
    a->kept_bytes += host->answer.capacity - host->counted_bytes;
    host->counted_bytes = host->answer.capacity;
    if (rc == PFL_ELIMIT) {
        (void)snprintf(why, sizeof(why), "its answer has more than %u MiB",
                       PFL_FAN_OUT_ANSWER_MAX_BYTES >> 20);
        fail_answer(host, why);
    } else if (rc != 0) {
        fail_answer(host, pfl_err_str(rc));
    }
    (void)snprintf(why, sizeof(why),
                   "its answer is the longest, and the answers of all %zu hosts have more than "
                   "%zu MiB: query fewer hosts at once",
                   a->conf.specs_len, a->conf.max_bytes >> 20);
    while (a->kept_bytes > a->conf.max_bytes)
        fail_answer(find_longest(a), why);
    return host->why[0] == '\0';
}

/* ---- the hosts ---- */

static void on_ready(void *user)
{
    struct pfl_fan_out_host *h = user;

    snprintf(h->name, sizeof(h->name), "%s",
             h->spec->is_named ? h->spec->name : pfl_host_conn_get_name(h->conn));
    h->owner->conf.on_ready(h->owner->conf.user, h);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_fan_out_host *h = handle->data;
    struct pfl_fan_out *a = h->owner;

    a->open--;
    if (a->open == 0 && a->conf.on_over != NULL)
        a->conf.on_over(a->conf.user);
}

static void end_timer(struct pfl_fan_out_host *h)
{
    h->owner->open--;
    uv_close((uv_handle_t *)&h->timer, on_timer_closed);
}

void pfl_fan_out_done(struct pfl_fan_out_host *host)
{
    host->is_done = host->why[0] == '\0';
    if (host->conn == NULL || host->is_kept)
        return;
    if (!host->is_done || !host->owner->conf.keeps) {
        pfl_host_conn_close(host->conn);
        return;
    }
    host->is_kept = true;
    host->owner->kept++;
    end_timer(host);
}

static void on_closed(void *user, const char *why)
{
    struct pfl_fan_out_host *h = user;

    h->conn = NULL;
    if (h->is_kept) {
        h->owner->kept--;
        return;
    }
    if (!h->is_done && h->why[0] == '\0')
        snprintf(h->why, sizeof(h->why), "%s",
                 why[0] != '\0' ? why : "the host closed the connection");
    end_timer(h);
}

static uint64_t get_left_ms(const struct pfl_fan_out_host *h)
{
    uint64_t now_ms = uv_now(h->owner->conf.conn.loop);

    return now_ms < h->ends_by_ms ? h->ends_by_ms - now_ms : 0;
}

static void on_timer(uv_timer_t *timer)
{
    struct pfl_fan_out_host *h = timer->data;
    void (*next)(struct pfl_fan_out_host * host) = h->next;

    h->next = NULL;
    if (next == NULL || get_left_ms(h) == 0) {
        pfl_fan_out_fail(h, "no answer in time: check address, port and firewall");
        return;
    }
    uv_timer_start(timer, on_timer, get_left_ms(h), 0);
    next(h);
}

void pfl_fan_out_later(struct pfl_fan_out_host *host, uint64_t ms,
                       void (*next)(struct pfl_fan_out_host *host))
{
    uint64_t left_ms = get_left_ms(host);

    if (host->conn == NULL || host->is_kept)
        return;
    host->next = next;
    uv_timer_start(&host->timer, on_timer, ms < left_ms ? ms : left_ms, 0);
}

/* ---- beginning ---- */

/* Of a host that both have; it is this host's from now on. NULL: there is none. */
static struct pfl_host_conn *take_kept(struct pfl_fan_out *former, struct pfl_fan_out_host *host)
{
    struct pfl_fan_out_host *found = NULL;
    struct pfl_host_conn *conn;
    size_t len = former != NULL && former->kept != 0 ? former->conf.specs_len : 0;

    /* Lists of hosts are mostly the same: begin at the same place. */
    for (size_t i = 0; i < len && found == NULL; i++) {
        struct pfl_fan_out_host *h = &former->hosts[(host->index + i) % len];

        if (h->is_kept && h->conn != NULL && strcmp(h->spec->text, host->spec->text) == 0)
            found = h;
    }
    if (found == NULL || !pfl_host_conn_pass(found->conn, host->spec, host))
        return NULL;
    conn = found->conn;
    found->conn = NULL;
    former->kept--;
    return conn;
}

static int connect_host(struct pfl_fan_out_host *h)
{
    struct pfl_host_conn_conf conf = h->owner->conf.conn;

    conf.spec = h->spec;
    conf.on_ready = on_ready;
    conf.on_closed = on_closed;
    conf.user = h;
    return pfl_host_conn_open(&conf, &h->conn);
}

static void on_kept_ready(struct pfl_fan_out_host *host)
{
    on_ready(host);
}

static void open_host(struct pfl_fan_out *a, size_t i)
{
    struct pfl_fan_out_host *h = &a->hosts[i];
    bool is_kept;

    h->owner = a;
    h->index = i;
    h->spec = &a->conf.specs[i];
    snprintf(h->name, sizeof(h->name), "%s", h->spec->name);
    pfl_buf_init(&h->answer, PFL_FAN_OUT_ANSWER_MAX_BYTES);
    h->conn = take_kept(a->conf.former, h);
    is_kept = h->conn != NULL;
    if (!is_kept && connect_host(h) != 0) {
        snprintf(h->why, sizeof(h->why), "out of memory");
        return;
    }
    uv_timer_init(a->conf.conn.loop, &h->timer);
    h->timer.data = h;
    h->ends_by_ms = uv_now(a->conf.conn.loop) + a->conf.timeout_ms;
    uv_timer_start(&h->timer, on_timer, a->conf.timeout_ms, 0);
    a->open += 2;
    if (is_kept)
        pfl_fan_out_later(h, 0, on_kept_ready);
}

static int start(const struct pfl_fan_out_conf *conf, struct pfl_fan_out **ret_fan_out)
{
    struct pfl_fan_out *a = pfl_mem_zalloc(sizeof(*a));

    if (a == NULL)
        return PFL_ENOMEM;
    a->conf = *conf;
    if (a->conf.max_bytes == 0)
        a->conf.max_bytes = PFL_FAN_OUT_MAX_BYTES;
    a->hosts = pfl_mem_calloc(conf->specs_len, sizeof(*a->hosts));
    if (a->hosts == NULL) {
        pfl_mem_free(a);
        return PFL_ENOMEM;
    }
    for (size_t i = 0; i < conf->specs_len; i++)
        open_host(a, i);
    pfl_fan_out_close_kept(conf->former);
    *ret_fan_out = a;
    return 0;
}

int pfl_fan_out_run(const struct pfl_fan_out_conf *conf, struct pfl_fan_out **ret_fan_out)
{
    struct pfl_fan_out_conf own = *conf;
    int rc;

    own.on_over = NULL;
    rc = start(&own, ret_fan_out);
    while (rc == 0 && (*ret_fan_out)->open > 0)
        uv_run(conf->conn.loop, UV_RUN_ONCE);
    return rc;
}

int pfl_fan_out_open(const struct pfl_fan_out_conf *conf, struct pfl_fan_out **ret_fan_out)
{
    struct pfl_fan_out *a;
    int rc = start(conf, &a);

    if (rc != 0)
        return rc;
    if (a->open == 0) { /* nothing is to come */
        pfl_fan_out_free(a);
        return PFL_ENOMEM;
    }
    *ret_fan_out = a;
    return 0;
}

void pfl_fan_out_abort(struct pfl_fan_out *self, const char *why)
{
    for (size_t i = 0; i < self->conf.specs_len; i++)
        pfl_fan_out_fail(&self->hosts[i], why);
}

void pfl_fan_out_close_kept(struct pfl_fan_out *self)
{
    for (size_t i = 0; self != NULL && self->kept != 0 && i < self->conf.specs_len; i++)
        if (self->hosts[i].is_kept && self->hosts[i].conn != NULL)
            pfl_host_conn_close(self->hosts[i].conn);
}

bool pfl_fan_out_is_closed(const struct pfl_fan_out *self)
{
    return self == NULL || (self->open == 0 && self->kept == 0);
}

void pfl_fan_out_free(struct pfl_fan_out *self)
{
    if (self == NULL)
        return;
    for (size_t i = 0; i < self->conf.specs_len; i++)
        pfl_buf_fini(&self->hosts[i].answer);
    pfl_mem_free(self->hosts);
    pfl_mem_free(self);
}

size_t pfl_fan_out_get_len(const struct pfl_fan_out *self)
{
    return self->conf.specs_len;
}

const struct pfl_fan_out_host *pfl_fan_out_get_host(const struct pfl_fan_out *self, size_t host)
{
    return &self->hosts[host];
}

size_t pfl_fan_out_count_failed(const struct pfl_fan_out *self)
{
    size_t n = 0;

    for (size_t i = 0; i < self->conf.specs_len; i++)
        n += self->hosts[i].why[0] != '\0';
    return n;
}
