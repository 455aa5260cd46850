/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raising triggers: see trigger_producer_port.h.
 *
 *     connect -> bind -> InitializeConnection{name} -> ActivateTriggers{...} -> done
 *
 * Failures: any error, or more than PFL_TRIGGER_PRODUCER_TIMEOUT_MS, closes the connection and is
 * reported once. Nothing is logged. Ownership: the connection until its on_closed, the timer until
 * its close. Limits: those of the header.
 */
#include "tunnel/trigger_producer_port.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "perfetto/producer_port.fields.h"
#include "proto/ipc/rpc_client.h"
#include "tunnel/service_conn.h"

struct pfl_trigger_producer {
    struct pfl_trigger_producer_conf conf;
    struct pfl_buf hello;          /* InitializeConnectionRequest */
    struct pfl_buf request;        /* ActivateTriggersRequest */
    struct pfl_service_conn *conn; /* owned until its on_closed */
    uv_timer_t timer;
    bool is_timer_open;
    int err; /* on_done's argument */
};

static void finish(struct pfl_trigger_producer *r)
{
    if (r->conn != NULL || r->is_timer_open)
        return;
    if (r->conf.on_done != NULL)
        r->conf.on_done(r->conf.user, r->err);
    pfl_buf_fini(&r->hello);
    pfl_buf_fini(&r->request);
    pfl_mem_free(r);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_trigger_producer *r = handle->data;

    r->is_timer_open = false;
    finish(r);
}

static void end_with(struct pfl_trigger_producer *r, int err)
{
    r->err = err;
    pfl_service_conn_close(r->conn);
}

static void on_timeout(uv_timer_t *timer)
{
    end_with(timer->data, PFL_ETIMEOUT);
}

static int on_activated(void *user, const struct pfl_rpc_reply *reply)
{
    end_with(user, reply->success ? 0 : PFL_EPROTO);
    return 0;
}

static void invoke(struct pfl_trigger_producer *r, const char *method, const struct pfl_buf *args,
                   pfl_rpc_reply_cb cb)
{
    int rc = pfl_service_conn_invoke(r->conn, method, pfl_buf_get(args), cb, r);

    if (rc != 0)
        end_with(r, rc);
}

static int on_initialized(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_trigger_producer *r = user;

    if (!reply->success)
        end_with(r, PFL_EPROTO);
    else
        invoke(r, "ActivateTriggers", &r->request, on_activated);
    return 0;
}

static void on_bound(void *user)
{
    struct pfl_trigger_producer *r = user;

    invoke(r, "InitializeConnection", &r->hello, on_initialized);
}

static void on_closed(void *user)
{
    struct pfl_trigger_producer *r = user;

    r->conn = NULL;
    uv_close((uv_handle_t *)&r->timer, on_timer_closed);
}

static int add_text(struct pfl_buf *buf, uint32_t field, struct pfl_span text)
{
    uint8_t head[2 * PFL_VARINT_MAX_BYTES];
    struct pfl_writer w = pfl_writer_of(head, sizeof(head));
    int rc;

    pfl_writer_field_header(&w, field, text.len);
    rc = pfl_buf_append(buf, head, sizeof(head) - w.left);
    return rc == 0 ? pfl_buf_append(buf, text.data, text.len) : rc;
}

static int fill(struct pfl_trigger_producer *r, const struct pfl_trigger_producer_conf *conf)
{
    int rc;

    pfl_buf_init(&r->hello, PFL_TRIGGER_PRODUCER_BYTES_MAX);
    pfl_buf_init(&r->request, PFL_TRIGGER_PRODUCER_BYTES_MAX);
    if (conf->triggers_len > PFL_TRIGGER_PRODUCER_TRIGGERS_MAX)
        return PFL_ELIMIT;
    rc = add_text(&r->hello, INITIALIZE_CONNECTION_REQUEST__PRODUCER_NAME,
                  pfl_span_of(conf->producer_name, strlen(conf->producer_name)));
    for (size_t i = 0; rc == 0 && i < conf->triggers_len; i++)
        rc = add_text(&r->request, ACTIVATE_TRIGGERS_REQUEST__TRIGGER_NAMES, conf->triggers[i]);
    return rc;
}

int pfl_trigger_producer_open(const struct pfl_trigger_producer_conf *conf,
                              struct pfl_trigger_producer **ret_producer)
{
    struct pfl_trigger_producer *r = pfl_mem_zalloc(sizeof(*r));
    struct pfl_service_conn_conf conn = {.loop = conf->loop,
                                         .socket = conf->socket,
                                         .port = "ProducerPort",
                                         .on_bound = on_bound,
                                         .on_closed = on_closed,
                                         .user = r};
    int rc;

    if (r == NULL)
        return PFL_ENOMEM;
    r->conf = *conf;
    r->err = PFL_ECLOSED;
    rc = fill(r, conf);
    if (rc == 0)
        rc = pfl_service_conn_open(&conn, &r->conn);
    if (rc != 0) {
        pfl_buf_fini(&r->hello);
        pfl_buf_fini(&r->request);
        pfl_mem_free(r);
        return rc;
    }
    (void)uv_timer_init(conf->loop, &r->timer);
    r->timer.data = r;
    r->is_timer_open = true;
    (void)uv_timer_start(&r->timer, on_timeout, PFL_TRIGGER_PRODUCER_TIMEOUT_MS, 0);
    *ret_producer = r;
    return 0;
}

void pfl_trigger_producer_close(struct pfl_trigger_producer *self)
{
    if (self->conn != NULL)
        pfl_service_conn_close(self->conn);
}

const char *pfl_trigger_producer_default_socket(void)
{
    static char first[256];
    const char *name = getenv("PERFETTO_PRODUCER_SOCK_NAME");

    if (name != NULL && name[0] != '\0') {
        (void)snprintf(first, sizeof(first), "%.*s", (int)strcspn(name, ","), name);
        return first;
    }
    if (access("/run/perfetto", X_OK) == 0)
        return "/run/perfetto/traced-producer.sock";
    return "/tmp/perfetto-producer";
}

const char *pfl_trigger_producer_socket_beside(const char *consumer_socket)
{
    static const char consumer[] = "consumer";
    static char beside[256];
    const char *at = NULL;

    for (const char *next = consumer_socket; (next = strstr(next, consumer)) != NULL; next++)
        at = next;
    if (at == NULL || strlen(consumer_socket) >= sizeof(beside))
        return pfl_trigger_producer_default_socket();
    (void)snprintf(beside, sizeof(beside), "%.*sproducer%s", (int)(at - consumer_socket),
                   consumer_socket, at + sizeof(consumer) - 1);
    return beside;
}
