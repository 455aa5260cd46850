/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about many hosts: see host_calls_port.h.
 *
 *     RUNNING --all answered, or no answer in time--> timer closing --> on_over
 *
 * Happy path: an answer makes room for the next request. Failures: each is its host's answer.
 * Ownership: the owner frees the calls after on_over. A request that the relay does not answer
 * outlives them, up to the connection's end; it has no owner then. Limits: those of the header.
 */
#include "consumer/host/host_calls_port.h"

#include <jansson.h>
#include <stdio.h>

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/tunnel/identity.h"

#define PATH_BYTES (2 * PFL_IDENTITY_NAME_BYTES + 64)

struct request {
    struct pfl_list node;
    struct pfl_host_calls *calls; /* NULL: they ended before, and it is in no list */
    size_t host;
};

struct pfl_host_calls {
    struct pfl_host_calls_conf conf;
    uv_timer_t timer;
    struct pfl_list open;
    size_t open_len;
    size_t next;
    bool is_over;
};

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_host_calls *c = handle->data;

    c->conf.on_over(c->conf.user);
}

static void finish(struct pfl_host_calls *c)
{
    if (c->is_over)
        return;
    c->is_over = true;
    uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}

/* All that have not answered, or were not asked yet. */
static void give_up(struct pfl_host_calls *c, int err)
{
    struct pfl_list *it;
    struct pfl_list *next;

    PFL_LIST_EACH_SAFE (it, next, &c->open) {
        struct request *r = PFL_CONTAINER_OF(it, struct request, node);

        pfl_list_remove(&r->node);
        r->calls = NULL;
        c->conf.on_answer(c->conf.user, r->host, err, 0, pfl_span_of(NULL, 0));
    }
    for (; c->next < c->conf.hosts_len; c->next++)
        if (c->conf.get_host(c->conf.user, c->next) != NULL)
            c->conf.on_answer(c->conf.user, c->next, err, 0, pfl_span_of(NULL, 0));
    finish(c);
}

static void on_late(uv_timer_t *timer)
{
    give_up(timer->data, PFL_ETIMEOUT);
}

static void ask_more(struct pfl_host_calls *c);

static void on_done(void *user, int err, unsigned status, struct pfl_span body)
{
    struct request *r = user;
    struct pfl_host_calls *c = r->calls;
    size_t host = r->host;

    if (c != NULL) {
        pfl_list_remove(&r->node);
        c->open_len--;
    }
    pfl_mem_free(r);
    if (c == NULL)
        return;
    c->conf.on_answer(c->conf.user, host, err, status, body);
    ask_more(c);
}

static int ask(struct pfl_host_calls *c, size_t host, const char *name)
{
    char path[PATH_BYTES];
    const struct pfl_host_calls_conf *conf = &c->conf;
    struct request *r = pfl_mem_zalloc(sizeof(*r));
    const struct pfl_tunnel_call call = {.method = conf->method,
                                         .path = path,
                                         .fields = conf->fields,
                                         .fields_len = conf->fields_len,
                                         .on_done = on_done,
                                         .user = r};
    int rc;

    if (r == NULL)
        return PFL_ENOMEM;
    (void)snprintf(path, sizeof(path), PFL_TUNNEL_HOSTS_PATH "/%s%s%s%s%s", name,
                   conf->leaf != NULL ? "/" : "", conf->leaf != NULL ? conf->leaf : "",
                   conf->name[0] != '\0' ? "/" : "", conf->name);
    r->calls = c;
    r->host = host;
    rc = pfl_tunnel_client_call(conf->tunnel, &call);
    if (rc != 0) {
        pfl_mem_free(r);
        return rc;
    }
    pfl_list_append(&c->open, &r->node);
    c->open_len++;
    return 0;
}

/* And from here to the next answer, whosever. */
static void ask_more(struct pfl_host_calls *c)
{
    while (!c->is_over && c->open_len < PFL_HOST_CALLS_OPEN && c->next < c->conf.hosts_len) {
        size_t host = c->next++;
        const char *name = c->conf.get_host(c->conf.user, host);
        int rc = name != NULL ? ask(c, host, name) : 0;

        if (rc != 0)
            c->conf.on_answer(c->conf.user, host, rc, 0, pfl_span_of(NULL, 0));
    }
    if (c->open_len == 0)
        finish(c);
    else if (!c->is_over)
        (void)uv_timer_start(&c->timer, on_late, c->conf.timeout_ms, 0);
}

static void on_begin(uv_timer_t *timer)
{
    ask_more(timer->data);
}

int pfl_host_calls_open(const struct pfl_host_calls_conf *conf, struct pfl_host_calls **ret_calls)
{
    struct pfl_host_calls *c = pfl_mem_zalloc(sizeof(*c));

    if (c == NULL)
        return PFL_ENOMEM;
    c->conf = *conf;
    pfl_list_init(&c->open);
    (void)uv_timer_init(conf->loop, &c->timer);
    c->timer.data = c;
    (void)uv_timer_start(&c->timer, on_begin, 0, 0);
    *ret_calls = c;
    return 0;
}

void pfl_host_calls_end(struct pfl_host_calls *self)
{
    if (!self->is_over)
        give_up(self, PFL_ECLOSED);
}

void pfl_host_calls_free(struct pfl_host_calls *self)
{
    pfl_mem_free(self);
}

void pfl_host_calls_explain(int err, unsigned status, struct pfl_span body, char *ret_why,
                            size_t why_len)
{
    json_t *answer = NULL;
    const char *detail;

    ret_why[0] = '\0';
    if (err == 0 && status >= 200 && status < 300)
        return;
    if (err == 0)
        answer = json_loadb((const char *)body.data, body.len, 0, NULL);
    detail = json_string_value(json_object_get(answer, "detail"));
    if (err == PFL_ETIMEOUT)
        (void)snprintf(ret_why, why_len, "no answer in time");
    else if (err == PFL_ESTATE)
        (void)snprintf(ret_why, why_len, "the connection to the relay was lost");
    else if (err != 0)
        (void)snprintf(ret_why, why_len, "%s", pfl_err_str(err));
    else if (detail != NULL)
        (void)snprintf(ret_why, why_len, "%s", pfl_log_quote_str(detail));
    else
        (void)snprintf(ret_why, why_len, "it answers with status %u", status);
    json_decref(answer);
}
