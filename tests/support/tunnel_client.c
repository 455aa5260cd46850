/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small operator for tests, on tunnel/client.h.
 *
 *   tunnel_client RELAY FLEET CA CERT KEY call METHOD PATH   prints status and body
 *   ... cat HOST [TTL-MS]   stdin to the stream, the stream to stdout, until both have ended; what
 *                           happened is printed on stderr
 *   ... pull HOST           the same without input: its direction stays open
 *   ... stall HOST          reads nothing until SIGUSR1
 *   ... spool HOST [FOR]    as cat, to the host's spool, for an orderer
 *   ... stray HOST          resumes a stream that there never was
 *
 * Exit status: 0 done, 1 refused or broken (in words on stderr), 2 wrong usage.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tunnel/client.h"

#include "base/io/loop.h"
#include "proto/tunnel/tunnel.h"

#define QUEUE_BYTES (1u << 20)
#define READ_BYTES  65536u

static uv_loop_t loop;
static struct pfl_tunnel_client *client;
static struct pfl_stream *stream;
static uv_pipe_t input;
static uv_signal_t usr1;
static const char *mode;
static char **words;
static uint64_t got_bytes;
static int exit_code = 1;
static bool has_asked;
static bool has_input;
static bool is_signal_open;
static bool has_client_closed;
static char read_buffer[READ_BYTES];

static void finish(void)
{
    if (has_input && !uv_is_closing((uv_handle_t *)&input))
        uv_close((uv_handle_t *)&input, NULL);
    if (is_signal_open && !uv_is_closing((uv_handle_t *)&usr1))
        uv_close((uv_handle_t *)&usr1, NULL);
    pfl_tunnel_client_close(client);
}

static void on_client_closed(void *user)
{
    (void)user;
    has_client_closed = true;
}

/* ---- call ---- */

static void on_done(void *user, int err, unsigned status, struct pfl_span body)
{
    (void)user;
    if (err != 0)
        fprintf(stderr, "call failed: %s\n", pfl_err_str(err));
    printf("%u\n", status);
    (void)fwrite(body.data, 1, body.len, stdout);
    exit_code = err == 0 && status < 300 ? 0 : 1;
    finish();
}

/* ---- cat ---- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init(read_buffer, sizeof(read_buffer));
}

static void on_input(uv_stream_t *handle, ssize_t len, const uv_buf_t *buf)
{
    struct iovec iov = {.iov_base = buf->base, .iov_len = len > 0 ? (size_t)len : 0};

    (void)handle;
    if (stream == NULL || len == 0)
        return;
    if (len < 0) {
        pfl_stream_shutdown(stream);
        (void)uv_read_stop((uv_stream_t *)&input);
        return;
    }
    if (pfl_stream_writev(stream, &iov, 1, -1) != 0)
        abort();
    if (pfl_stream_queued_bytes(stream) > QUEUE_BYTES / 2)
        (void)uv_read_stop((uv_stream_t *)&input);
}

static void on_writable(void *user)
{
    (void)user;
    if (has_input && !uv_is_closing((uv_handle_t *)&input))
        (void)uv_read_start((uv_stream_t *)&input, on_alloc, on_input);
}

static void on_ready(void *user)
{
    (void)user;
    fprintf(stderr, "ready\n");
    if (strcmp(mode, "cat") != 0 && strcmp(mode, "spool") != 0)
        return;
    (void)uv_pipe_init(&loop, &input, 0);
    has_input = true;
    if (uv_pipe_open(&input, STDIN_FILENO) != 0)
        abort();
    (void)uv_read_start((uv_stream_t *)&input, on_alloc, on_input);
}

static void on_data(void *user, struct pfl_span data)
{
    (void)user;
    got_bytes += data.len;
    if (fwrite(data.data, 1, data.len, stdout) != data.len)
        abort();
}

static void on_eof(void *user)
{
    struct pfl_tunnel_stream_stats stats;

    (void)user;
    pfl_tunnel_stream_get_stats(stream, &stats);
    (void)fflush(stdout);
    fprintf(stderr, "eof: got=%llu sent=%llu resumes=%u\n", (unsigned long long)got_bytes,
            (unsigned long long)stats.sent_bytes, stats.resumes);
    exit_code = 0;
    pfl_stream_close(stream);
}

static void on_stream_closed(void *user, int err)
{
    (void)user;
    if (err != 0)
        fprintf(stderr, "broken: %s: %s\n", pfl_err_str(err), pfl_tunnel_stream_get_error(stream));
    stream = NULL;
    finish();
}

static const struct pfl_stream_ops ops = {
    .on_data = on_data,
    .on_eof = on_eof,
    .on_writable = on_writable,
    .on_ready = on_ready,
    .on_closed = on_stream_closed,
};

static void on_usr1(uv_signal_t *handle, int number)
{
    (void)handle;
    (void)number;
    if (stream != NULL)
        pfl_stream_read_start(stream);
}

static void dial_spool(const struct pfl_stream_conf *conf)
{
    char path[128];
    struct pfl_h2_field orderer = {PFL_TUNNEL_H_FOR, words[1]};
    struct pfl_tunnel_place place = {.path = path,
                                     .protocol = PFL_TUNNEL_PROTOCOL_SPOOL,
                                     .fields = &orderer,
                                     .fields_len = words[1] != NULL ? 1 : 0};

    (void)snprintf(path, sizeof(path), "/v1/hosts/%s/spool", words[0]);
    if (pfl_tunnel_client_dial(client, &place, conf, &stream) != 0)
        abort();
}

static void open_stream(void)
{
    static const struct pfl_tunnel_ticket never = {.id = "0123456789abcdef0123456789abcdef"};
    struct pfl_tunnel_target target = {
        .host = words[0],
        .ticket = strcmp(mode, "stray") == 0 ? &never : NULL,
        .wants_zstd = getenv("TUNNEL_ZSTD") != NULL,
        .ttl_ms = words[1] != NULL ? strtoull(words[1], NULL, 10) : 0,
    };
    struct pfl_stream_conf conf = {
        .loop = &loop,
        .ops = &ops,
        .queue_max_bytes = QUEUE_BYTES,
        .queue_low_bytes = QUEUE_BYTES / 4,
    };

    if (strcmp(mode, "spool") == 0)
        dial_spool(&conf);
    else if (pfl_tunnel_client_connect(client, &target, &conf, &stream) != 0)
        abort();
    if (strcmp(mode, "stall") != 0)
        return;
    pfl_stream_read_stop(stream);
    (void)uv_signal_init(&loop, &usr1);
    is_signal_open = true;
    (void)uv_signal_start(&usr1, on_usr1, SIGUSR1);
}

static void on_up(void *user)
{
    struct pfl_tunnel_call call = {.method = words[0], .path = words[1], .on_done = on_done};

    (void)user;
    fprintf(stderr, "up\n");
    if (has_asked)
        return;
    has_asked = true;
    if (strcmp(mode, "call") != 0)
        open_stream();
    else if (pfl_tunnel_client_call(client, &call) != 0)
        abort();
}

static void on_down(void *user, const char *why)
{
    (void)user;
    fprintf(stderr, "down: %s\n", why);
    /* For tests of refusals: who was never let in gives up. */
    if (has_asked)
        return;
    finish();
}

int main(int argc, char **argv)
{
    struct pfl_tls_files files = {.alpn = pfl_tunnel_client_alpn};
    struct pfl_tls_conf *tls;
    struct pfl_tunnel_client_conf conf = {.loop = &loop,
                                          .retry_max_ms = 1000,
                                          .on_up = on_up,
                                          .on_down = on_down,
                                          .on_closed = on_client_closed};
    char why[320];

    if (argc < 8) {
        fprintf(stderr, "usage: tunnel_client RELAY FLEET CA CERT KEY MODE ARG...\n");
        return 2;
    }
    files.ca_path = argv[3];
    files.cert_path = argv[4];
    files.key_path = argv[5];
    mode = argv[6];
    words = argv + 7;
    if (pfl_tls_conf_new(&files, why, sizeof(why), &tls) != 0) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)setvbuf(stdout, NULL, _IONBF, 0);
    if (pfl_loop_init(&loop) != 0)
        return 2;
    conf.address = argv[1];
    conf.fleet = argv[2];
    conf.tls = tls;
    if (pfl_tunnel_client_open(&conf, &client) != 0)
        return 2;
    pfl_tls_conf_unref(tls);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop) != 0 || !has_client_closed)
        abort();
    return exit_code;
}
