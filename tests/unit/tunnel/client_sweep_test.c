/* SPDX-License-Identifier: Apache-2.0 */
/* The tunnel's client and its dialer while memory runs out and nobody answers. */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/loop.h"
#include "base/log.h"
#include "tests/support/sweep.h"
#include "tests/unit/base/io/pki.h"
#include "tunnel/client.h"

struct fixture {
    uv_loop_t loop;
    struct pfl_tls_conf *tls;
    char address[32]; /* of a port that refuses */
    unsigned downs;
    unsigned closed_clients;
    unsigned closed_streams;
};

static void on_down(void *user, const char *why)
{
    struct fixture *f = user;

    assert_non_null(why);
    f->downs++;
}

static void on_client_closed(void *user)
{
    ((struct fixture *)user)->closed_clients++;
}

static void on_data(void *user, struct pfl_span data)
{
    (void)user;
    (void)data;
    fail_msg("there is nobody to send anything");
}

static void on_eof(void *user)
{
    (void)user;
}

static void on_stream_closed(void *user, int err)
{
    (void)err;
    ((struct fixture *)user)->closed_streams++;
}

static const struct pfl_stream_ops ops = {
    .on_data = on_data, .on_eof = on_eof, .on_closed = on_stream_closed};

/* Opens, asks for two streams, waits for the first attempt to fail, closes. */
static int dial(void *arg)
{
    struct fixture *f = arg;
    const struct pfl_tunnel_client_conf conf = {.loop = &f->loop,
                                                .address = f->address,
                                                .tls = f->tls,
                                                .fleet = "test",
                                                .on_down = on_down,
                                                .on_closed = on_client_closed,
                                                .user = f};
    const struct pfl_stream_conf stream_conf = {
        .loop = &f->loop, .ops = &ops, .user = f, .queue_max_bytes = 4096};
    const struct pfl_tunnel_target target = {.host = "a"};
    const struct pfl_h2_field orderer = {PFL_TUNNEL_H_FOR, "ann"};
    const struct pfl_tunnel_place place = {.path = "/v1/hosts/a/spool",
                                           .protocol = PFL_TUNNEL_PROTOCOL_SPOOL,
                                           .fields = &orderer,
                                           .fields_len = 1};
    struct pfl_tunnel_client *client;
    struct pfl_stream *stream;
    unsigned streams;
    int rc;

    f->downs = f->closed_clients = f->closed_streams = 0;
    rc = pfl_tunnel_client_open(&conf, &client);
    if (rc != 0) {
        (void)uv_run(&f->loop, UV_RUN_DEFAULT); /* what was begun ends */
        return rc;
    }
    rc = pfl_tunnel_client_connect(client, &target, &stream_conf, &stream);
    streams = rc == 0;
    if (rc == 0) {
        rc = pfl_tunnel_client_dial(client, &place, &stream_conf, &stream);
        streams += rc == 0;
    }
    while (f->downs == 0)
        (void)uv_run(&f->loop, UV_RUN_ONCE);
    pfl_tunnel_client_close(client);
    (void)uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(f->closed_clients, 1);
    assert_int_equal(f->closed_streams, streams);
    return rc;
}

static void a_client_short_of_memory_fails_or_goes_on_and_leaves_nothing(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int taken = socket(AF_INET, SOCK_STREAM, 0); /* bound and never listened on */
    struct fixture f = {0};

    (void)state;
    pfl_log_set_level(PFL_LOG_ERROR);
    assert_int_equal(bind(taken, (struct sockaddr *)&at, len), 0);
    assert_int_equal(getsockname(taken, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(f.address, sizeof(f.address), "127.0.0.1:%u", ntohs(at.sin_port));
    f.tls = pki_conf("operator-eve", "ca.pem", NULL, false);
    assert_int_equal(pfl_loop_init(&f.loop), 0);
    pfl_sweep(dial, &f, true);
    assert_int_equal(uv_loop_close(&f.loop), 0);
    pfl_tls_conf_unref(f.tls);
    (void)close(taken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_short_of_memory_fails_or_goes_on_and_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, pki_setup, pki_teardown);
}
