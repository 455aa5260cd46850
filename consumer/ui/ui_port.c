/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WebSockets for browsers, by libwebsockets: see ui_port.h.
 *
 *     browser --WebSocket--> session --socket pair--> client of the host's proxy, or of the fleet
 *
 * Happy path: the opening request (ui_access.h) and its user are checked; then bytes are forwarded
 * both ways, with back-pressure. The library runs in a loop of its own inside ours (nested_loop.h).
 * So the library can be closed simply: its loop runs until it is empty. Failures: an invalid
 * request gets its HTTP status; the end of each side ends the other. Ownership: the library's
 * context and loop, a proxy for each host and the fleet's port, the sessions until both their sides
 * are gone. Limits: PFL_UI_MAX_CONNECTIONS, QUEUE_BYTES each way; connections that are not a
 * session yet have a maximum of PFL_UI_MAX_ARRIVALS and a deadline.
 */
#include "consumer/ui/ui_port.h"

#include <libwebsockets.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io/fdsock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "consumer/proxy/proxy.h"
#include "consumer/ui/nested_loop.h"
#include "consumer/ui/ui_owner.h"

#define MESSAGE_BYTES       (64u * 1024)
#define QUEUE_BYTES         (256u * 1024)
#define HANDSHAKE_TIMEOUT_S 3u
#define SPARE_FDS           16u
#define BURST               PFL_UI_MAX_ARRIVALS /* more of them, for a turn of the loop */
#define MAX_FDS             (PFL_UI_MAX_CONNECTIONS + PFL_UI_MAX_ARRIVALS + BURST + SPARE_FDS)
#define FIELD_BYTES         300

struct pfl_ui {
    struct pfl_ui_conf conf;
    struct pfl_nested_loop loop; /* the library's */
    struct lws_context *lws;
    struct lws_vhost *vhost;
    struct pfl_proxy **proxies; /* owned, each until its on_closed */
    size_t proxies_open;
    struct pfl_fleet *fleet; /* owned until its on_closed; NULL: closed */
    struct pfl_list sessions;
    unsigned sessions_len;
    struct pfl_list arrivals; /* oldest first */
    unsigned arrivals_len;
    struct pfl_log_limit log;
    bool is_closing;
};

/* A connection that is no session (yet): its request is not whole, or was refused. */
struct arrival {
    struct pfl_list node;
    struct lws *wsi;
    uint64_t turn; /* in which it came */
};

struct session {
    struct pfl_list node;
    struct pfl_ui *ui;
    struct lws *wsi;           /* NULL: the browser is gone */
    struct pfl_stream *stream; /* owned; NULL: the proxy's side is gone */
    struct pfl_buf out;        /* for the browser */
};

/* ---- the end ---- */

static void finish_if_gone(struct pfl_ui *ui)
{
    void (*on_closed)(void *user) = ui->conf.on_closed;
    void *user = ui->conf.user;

    if (!ui->is_closing || ui->sessions_len != 0 || ui->proxies_open != 0 ||
        ui->loop.handles != 0 || ui->fleet != NULL)
        return;
    pfl_log_limit_flush(&ui->log, "browser-refused");
    pfl_mem_free(ui->proxies);
    pfl_mem_free(ui);
    on_closed(user);
}

static void free_if_gone(struct session *s)
{
    struct pfl_ui *ui = s->ui;

    if (s->wsi != NULL || s->stream != NULL)
        return;
    pfl_list_remove(&s->node);
    ui->sessions_len--;
    pfl_buf_fini(&s->out);
    pfl_mem_free(s);
    finish_if_gone(ui);
}

static void on_loop_closed(void *user)
{
    finish_if_gone(user);
}

static void on_proxy_closed(void *user)
{
    struct pfl_ui *ui = user;

    ui->proxies_open--;
    finish_if_gone(ui);
}

static void on_fleet_closed(void *user)
{
    struct pfl_ui *ui = user;

    ui->fleet = NULL;
    finish_if_gone(ui);
}

static void destroy_library(struct pfl_ui *ui)
{
    if (ui->lws != NULL) {
        lws_context_destroy(ui->lws); /* every session's end */
        (void)uv_run(&ui->loop.inner, UV_RUN_DEFAULT);
        if (ui->lws != NULL) /* by pcontext */
            lws_context_destroy(ui->lws);
    }
    pfl_nested_loop_close(&ui->loop);
}

void pfl_ui_close(struct pfl_ui *self)
{
    if (self->is_closing)
        return;
    self->is_closing = true;
    destroy_library(self);
    for (size_t i = 0; self->proxies != NULL && i < self->conf.rules.hosts_len; i++)
        if (self->proxies[i] != NULL)
            pfl_proxy_close(self->proxies[i]);
    if (self->fleet != NULL)
        pfl_fleet_close(self->fleet);
}

/* ---- the proxy's side ---- */

static void on_stream_data(void *user, struct pfl_span data)
{
    struct session *s = user;

    if (s->wsi == NULL)
        return;
    if (pfl_buf_append(&s->out, data.data, data.len) != 0) {
        pfl_stream_close(s->stream);
        return;
    }
    if (s->out.len >= MESSAGE_BYTES)
        pfl_stream_read_stop(s->stream);
    (void)lws_callback_on_writable(s->wsi);
}

static void on_stream_eof(void *user)
{
    struct session *s = user;

    pfl_stream_close(s->stream);
}

static void on_stream_writable(void *user)
{
    struct session *s = user;

    if (s->wsi != NULL)
        (void)lws_rx_flow_control(s->wsi, 1);
}

static void on_stream_closed(void *user, int err)
{
    struct session *s = user;

    (void)err;
    s->stream = NULL;
    if (s->wsi != NULL)
        (void)lws_callback_on_writable(s->wsi); /* which ends it */
    free_if_gone(s);
}

static const struct pfl_stream_ops stream_ops = {
    .on_data = on_stream_data,
    .on_eof = on_stream_eof,
    .on_writable = on_stream_writable,
    .on_closed = on_stream_closed,
};

/* ---- the browser's side ---- */

static const char *copy_field(struct lws *wsi, enum lws_token_indexes which, char *room)
{
    return lws_hdr_copy(wsi, room, FIELD_BYTES, which) > 0 ? room : NULL;
}

static struct arrival *find_arrival(const struct pfl_ui *ui, const struct lws *wsi)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &ui->arrivals) {
        struct arrival *a = PFL_CONTAINER_OF(it, struct arrival, node);

        if (a->wsi == wsi)
            return a;
    }
    return NULL;
}

static int note_arrival(struct pfl_ui *ui, struct lws *wsi)
{
    struct arrival *a = pfl_mem_zalloc(sizeof(*a));

    if (a == NULL)
        return -1;
    a->wsi = wsi;
    a->turn = ui->loop.turns;
    pfl_list_append(&ui->arrivals, &a->node);
    ui->arrivals_len++;
    return 0;
}

static void forget_arrival(struct pfl_ui *ui, struct arrival *a)
{
    if (a == NULL)
        return;
    pfl_list_remove(&a->node);
    ui->arrivals_len--;
    pfl_mem_free(a);
}

/* The oldest first; but none that was accepted in this turn, because its request has not been
 * read. */
static void end_arrivals_in_excess(struct pfl_ui *ui)
{
    while (ui->arrivals_len > PFL_UI_MAX_ARRIVALS) {
        struct arrival *oldest = PFL_CONTAINER_OF(ui->arrivals.next, struct arrival, node);
        struct lws *wsi = oldest->wsi;

        if (oldest->turn == ui->loop.turns)
            return;
        forget_arrival(ui, oldest);
        lws_set_timeout(wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_SYNC);
    }
}

static unsigned judge(const struct pfl_ui *ui, struct lws *wsi, size_t *ret_host,
                      const char **ret_why)
{
    char host[FIELD_BYTES];
    char origin[FIELD_BYTES];
    char path[FIELD_BYTES];
    struct pfl_ui_visit visit;

    if (!pfl_ui_owner_is_ours(lws_get_socket_fd(wsi), pfl_ui_get_port(ui))) {
        *ret_why = "other users' programs have no access here";
        return 403;
    }
    visit.host = copy_field(wsi, WSI_TOKEN_HOST, host);
    visit.origin = copy_field(wsi, WSI_TOKEN_ORIGIN, origin);
    visit.path = copy_field(wsi, WSI_TOKEN_GET_URI, path);
    return pfl_ui_access_judge(&ui->conf.rules, &visit, ret_host, ret_why);
}

/* The library expects 0 to continue, 1 after our own answer. */
static int confirm(struct pfl_ui *ui, struct lws *wsi)
{
    const char *why = "too many connections";
    size_t host;
    unsigned status = ui->sessions_len < PFL_UI_MAX_CONNECTIONS ? judge(ui, wsi, &host, &why) : 503;

    if (status == 101)
        return 0;
    if (pfl_log_limit_take(&ui->log, "browser-refused", uv_now(ui->conf.host.loop)))
        pfl_log_warn("browser-refused", "status=%u reason=\"%s\"", status, why);
    return lws_return_http_status(wsi, status, why) != 0 ? -1 : 1;
}

static int open_pair(struct session *s, size_t host)
{
    struct pfl_ui *ui = s->ui;
    struct pfl_stream_conf conf = {
        .loop = ui->conf.host.loop,
        .ops = &stream_ops,
        .user = s,
        .queue_max_bytes = QUEUE_BYTES + MESSAGE_BYTES,
        .queue_low_bytes = QUEUE_BYTES / 4,
    };
    int ends[2];
    int rc;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return PFL_EIO;
    rc = pfl_fdsock_open(&conf, ends[0], &s->stream);
    if (rc != 0) {
        (void)close(ends[0]);
        (void)close(ends[1]);
        return rc;
    }
    if (host == ui->conf.rules.hosts_len)
        pfl_fleet_adopt(ui->fleet, ends[1]);
    else
        pfl_proxy_adopt(ui->proxies[host], ends[1]);
    return 0;
}

/* What the library keeps for each connection. */
struct slot {
    size_t host;             /* as the rules says it */
    struct session *session; /* NULL until it is established */
};

/* Again, now that there is a slot to store the host in. */
static int choose_host(const struct pfl_ui *ui, struct lws *wsi, struct slot *slot)
{
    const char *why;

    return judge(ui, wsi, &slot->host, &why) == 101 ? 0 : -1;
}

static int begin_session(struct pfl_ui *ui, struct lws *wsi, struct slot *slot)
{
    struct session *s;

    if (ui->sessions_len >= PFL_UI_MAX_CONNECTIONS)
        return -1;
    s = pfl_mem_zalloc(sizeof(*s));
    if (s == NULL)
        return -1;
    s->ui = ui;
    pfl_buf_init(&s->out, QUEUE_BYTES + MESSAGE_BYTES);
    if (open_pair(s, slot->host) != 0) {
        pfl_mem_free(s);
        return -1;
    }
    s->wsi = wsi;
    pfl_list_append(&ui->sessions, &s->node);
    ui->sessions_len++;
    slot->session = s;
    forget_arrival(ui, find_arrival(ui, wsi));
    return 0;
}

static int take(struct session *s, struct lws *wsi, const void *data, size_t len)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};

    if (s->stream == NULL || !lws_frame_is_binary(wsi))
        return -1;
    if (len != 0 && pfl_stream_writev(s->stream, &iov, 1, -1) != 0)
        return -1;
    if (pfl_stream_queued_bytes(s->stream) >= QUEUE_BYTES)
        (void)lws_rx_flow_control(wsi, 0);
    return 0;
}

static int give(struct session *s)
{
    static uint8_t message[LWS_PRE + MESSAGE_BYTES];
    struct pfl_span data = pfl_buf_get(&s->out);
    size_t len = data.len < MESSAGE_BYTES ? data.len : MESSAGE_BYTES;

    if (len == 0)
        return s->stream == NULL ? -1 : 0;
    memcpy(message + LWS_PRE, data.data, len);
    if (lws_write(s->wsi, message + LWS_PRE, len, LWS_WRITE_BINARY) < (int)len)
        return -1;
    pfl_buf_consume(&s->out, len);
    if (s->out.len != 0 || s->stream == NULL)
        (void)lws_callback_on_writable(s->wsi);
    else
        pfl_stream_read_start(s->stream);
    return 0;
}

static void end_session(struct session *s)
{
    s->wsi = NULL;
    if (s->stream != NULL)
        pfl_stream_close(s->stream);
    free_if_gone(s);
}

static int on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                    size_t len)
{
    struct pfl_ui *ui = lws_context_user(lws_get_context(wsi));
    struct slot *slot = user;

    switch (reason) {
    case LWS_CALLBACK_SERVER_NEW_CLIENT_INSTANTIATED:
        return note_arrival(ui, wsi);
    case LWS_CALLBACK_WSI_DESTROY:
        forget_arrival(ui, find_arrival(ui, wsi));
        return 0;
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        return confirm(ui, wsi);
    case LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION:
        return choose_host(ui, wsi, slot);
    case LWS_CALLBACK_ESTABLISHED:
        return begin_session(ui, wsi, slot);
    case LWS_CALLBACK_RECEIVE:
        return take(slot->session, wsi, in, len);
    case LWS_CALLBACK_SERVER_WRITEABLE:
        return give(slot->session);
    case LWS_CALLBACK_CLOSED:
        if (slot->session != NULL)
            end_session(slot->session);
        slot->session = NULL;
        return 0;
    case LWS_CALLBACK_HTTP:
        return lws_return_http_status(wsi, HTTP_STATUS_NOT_FOUND, NULL) != 0 ||
                       lws_http_transaction_completed(wsi) != 0
                   ? -1
                   : 0;
    default:
        return 0;
    }
}

static const struct lws_protocols protocols[] = {
    {.name = "perfetto",
     .callback = on_event,
     .per_session_data_size = sizeof(struct slot),
     .rx_buffer_size = MESSAGE_BYTES},
    {.name = NULL},
};

/* ---- opening ---- */

static void on_library_says(int level, const char *line)
{
    int len = (int)strcspn(line, "\n");

    (void)level;
    pfl_log_warn("websocket", "says=\"%.*s\"", len, line);
}

static int open_library(struct pfl_ui *ui)
{
    void *loops[1] = {&ui->loop.inner};
    struct lws_context_creation_info info = {
        .options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
                   LWS_SERVER_OPTION_DISABLE_IPV6,
        .foreign_loops = loops,
        .pcontext = &ui->lws,
        .user = ui,
        .count_threads = 1,
        .fd_limit_per_thread = MAX_FDS,
        .max_http_header_pool = MAX_FDS,
        .pt_serv_buf_size = MESSAGE_BYTES,
        .port = ui->conf.port,
        .iface = "127.0.0.1",
        .protocols = protocols,
        .timeout_secs = HANDSHAKE_TIMEOUT_S,
        .timeout_secs_ah_idle = HANDSHAKE_TIMEOUT_S,
    };

    lws_set_log_level(LLL_ERR, on_library_says);
    ui->lws = lws_create_context(&info);
    if (ui->lws == NULL) {
        pfl_log_error("websocket", "reason=\"the library does not start\" "
                                   "remedy=\"install its part for libuv: libwebsockets-evlib-uv\"");
        return PFL_EIO;
    }
    ui->vhost = lws_create_vhost(ui->lws, &info);
    return ui->vhost != NULL && lws_get_vhost_listen_port(ui->vhost) > 0 ? 0 : PFL_EIO;
}

static int open_proxies(struct pfl_ui *ui)
{
    ui->proxies = pfl_mem_calloc(ui->conf.rules.hosts_len, sizeof(*ui->proxies));
    if (ui->proxies == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < ui->conf.rules.hosts_len; i++) {
        struct pfl_proxy_conf conf = {.host = ui->conf.host,
                                      .on_client_gone = ui->conf.on_client_gone,
                                      .on_closed = on_proxy_closed,
                                      .user = ui};
        int rc;

        conf.host.spec = &ui->conf.specs[i];
        rc = pfl_proxy_open(&conf, &ui->proxies[i]);
        if (rc != 0)
            return rc;
        ui->proxies_open++;
    }
    return 0;
}

static int open_fleet(struct pfl_ui *ui)
{
    struct pfl_fleet_conf conf = {.recording = ui->conf.recording,
                                  .version = ui->conf.version,
                                  .on_client_gone = ui->conf.on_client_gone,
                                  .on_closed = on_fleet_closed,
                                  .user = ui};

    conf.recording.each_host.conn = ui->conf.host;
    conf.recording.specs = ui->conf.specs;
    conf.recording.specs_len = ui->conf.rules.hosts_len;
    return pfl_fleet_open(&conf, &ui->fleet);
}

static bool on_turn(void *user)
{
    struct pfl_ui *ui = user;

    end_arrivals_in_excess(ui);
    return ui->arrivals_len > PFL_UI_MAX_ARRIVALS;
}

static void on_nothing(void *user)
{
    (void)user;
}

int pfl_ui_open(const struct pfl_ui_conf *conf, struct pfl_ui **ret_ui)
{
    struct pfl_ui *ui = pfl_mem_zalloc(sizeof(*ui));
    int rc;

    if (ui == NULL)
        return PFL_ENOMEM;
    ui->conf = *conf;
    pfl_list_init(&ui->sessions);
    pfl_list_init(&ui->arrivals);
    ui->loop.on_turn = on_turn;
    ui->loop.on_closed = on_loop_closed;
    ui->loop.user = ui;
    rc = pfl_nested_loop_open(&ui->loop, conf->host.loop);
    if (rc != 0) {
        pfl_mem_free(ui);
        return rc;
    }
    rc = open_library(ui);
    if (rc == 0)
        rc = open_proxies(ui);
    if (rc == 0)
        rc = open_fleet(ui);
    if (rc != 0) {
        ui->conf.on_closed = on_nothing;
        pfl_ui_close(ui);
        return rc;
    }
    *ret_ui = ui;
    return 0;
}

uint16_t pfl_ui_get_port(const struct pfl_ui *self)
{
    return (uint16_t)lws_get_vhost_listen_port(self->vhost);
}
