/* SPDX-License-Identifier: Apache-2.0 */
/* Records without data, from a client that is mbedtls itself: ours sends none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/io/tls_conf.h"
#include "base/io/tls_lib.h"
#include "tests/unit/base/io/pki.h"
#include "tests/unit/base/io/tls_pair.h"

static mbedtls_ssl_context client;
static struct pfl_tls_conf *conf;
static struct tls_wire wire; /* what the client sent */

static int send_bytes(void *user, const unsigned char *data, size_t len)
{
    (void)user;
    pfl_writer_bytes(&wire.out, data, len);
    return (int)len;
}

static int recv_bytes(void *user, unsigned char *data, size_t len)
{
    struct tls_wire *from = &tls_server.wire;
    size_t left = (size_t)(from->out.pos - from->data) - from->taken;
    size_t n = len < left ? len : left;

    (void)user;
    if (n == 0)
        return MBEDTLS_ERR_SSL_WANT_READ;
    memcpy(data, from->data + from->taken, n);
    from->taken += n;
    return (int)n;
}

/* Gives the server what the client has sent, in pieces of `step`. */
static int carry(size_t step)
{
    size_t end = (size_t)(wire.out.pos - wire.data);
    int rc = 0;

    while (wire.taken < end && rc == 0) {
        size_t n = end - wire.taken < step ? end - wire.taken : step;
        struct pfl_span piece = pfl_span_of(wire.data + wire.taken, n);

        while (piece.len != 0 && rc == 0)
            rc = pfl_tls_engine_feed(tls_server.engine, &piece, &tls_server.plain_out,
                                     &tls_server.wire.out);
        wire.taken += n;
    }
    return rc;
}

static int setup(void **state)
{
    int rc;

    (void)state;
    memset(&wire, 0, sizeof(wire));
    wire.out = pfl_writer_of(wire.data, sizeof(wire.data));
    tls_side_open(&tls_server, "host-a", "ca.pem", NULL);
    conf = pki_conf("operator-eve", "ca.pem", NULL, false);
    mbedtls_ssl_init(&client);
    assert_int_equal(mbedtls_ssl_setup(&client, &conf->ssl), 0);
    assert_int_equal(mbedtls_ssl_set_hostname(&client, NULL), 0);
    mbedtls_ssl_set_bio(&client, NULL, send_bytes, recv_bytes, NULL);
    do {
        rc = mbedtls_ssl_handshake(&client);
        assert_int_equal(carry(TLS_PAIR_WIRE_BYTES), 0);
    } while (rc == MBEDTLS_ERR_SSL_WANT_READ);
    assert_int_equal(rc, 0);
    assert_true(pfl_tls_engine_is_ready(tls_server.engine));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mbedtls_ssl_free(&client);
    pfl_tls_conf_unref(conf);
    tls_side_close(&tls_server);
    return 0;
}

static void warn(unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        assert_int_equal(mbedtls_ssl_send_alert_message(&client, MBEDTLS_SSL_ALERT_LEVEL_WARNING,
                                                        MBEDTLS_SSL_ALERT_MSG_USER_CANCELED),
                         0);
}

static void say(unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        assert_int_equal(mbedtls_ssl_write(&client, (const unsigned char *)"x", 1), 1);
}

static void assert_ended(int rc)
{
    assert_int_equal(rc, PFL_ETLS);
    assert_non_null(
        strstr(pfl_tls_engine_get_error(tls_server.engine), "too many records without data"));
}

static void a_peer_may_warn_a_few_times(void **state)
{
    (void)state;
    warn(PFL_TLS_EMPTY_RECORDS_MAX / 2);
    say(1);
    warn(PFL_TLS_EMPTY_RECORDS_MAX / 2);
    say(1000);
    assert_int_equal(carry(7), 0);
    assert_int_equal(tls_server.plain_out.pos - tls_server.plain, 1001);
}

static void more_warnings_end_the_connection(void **state)
{
    (void)state;
    warn(PFL_TLS_EMPTY_RECORDS_MAX);
    assert_int_equal(carry(TLS_PAIR_WIRE_BYTES), 0);
    warn(1);
    assert_ended(carry(TLS_PAIR_WIRE_BYTES));
}

/* However little data is between them, and however the bytes come. */
static void data_between_them_does_not_help(void **state)
{
    (void)state;
    for (unsigned i = 0; i <= PFL_TLS_EMPTY_RECORDS_MAX; i++) {
        warn(1);
        say(1);
    }
    assert_ended(carry(1));
}

/* They are not even looked at. */
static void a_flood_ends_where_it_is_too_much(void **state)
{
    struct pfl_span bytes;
    size_t len;

    (void)state;
    warn(4000);
    bytes = pfl_span_of(wire.data + wire.taken, (size_t)(wire.out.pos - wire.data) - wire.taken);
    len = bytes.len;
    assert_ended(pfl_tls_engine_feed(tls_server.engine, &bytes, &tls_server.plain_out,
                                     &tls_server.wire.out));
    assert_true(len - bytes.len < len / 4000 * (PFL_TLS_EMPTY_RECORDS_MAX + 2));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_peer_may_warn_a_few_times),
        T(more_warnings_end_the_connection),
        T(data_between_them_does_not_help),
        T(a_flood_ends_where_it_is_too_much),
    };

    return cmocka_run_group_tests(tests, pki_setup, pki_teardown);
}
