/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two ends agree on and what they say when they do not: the same table for mbedtls 2.28 and
 * 3.6, and for each version of TLS that the linked one has.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/io/tls_conf.h"
#include "base/io/tls_engine.h"
#include "tests/support/sweep.h"
#include "tests/unit/base/io/pki.h"
#include "tests/unit/base/io/tls_pair.h"

#define WHOLE TLS_PAIR_WIRE_BYTES

/* Who knows no TLS 1.3. */
enum limit { NEITHER, THE_CLIENT, THE_SERVER };

static const enum limit limits[] = {NEITHER, THE_CLIENT, THE_SERVER};

static uint8_t pattern[PFL_TLS_RECORD_BYTES];

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = (uint8_t)(i * 2654435761u >> 11);
    return 0;
}

static void close_both(void)
{
    tls_side_close(&tls_client);
    tls_side_close(&tls_server);
}

static int teardown(void **state)
{
    (void)state;
    close_both();
    pfl_sweep_assert_no_leak();
    return 0;
}

static void apply(enum limit limit)
{
    if (limit == THE_CLIENT)
        tls_side_limit_to_1_2(&tls_client);
    if (limit == THE_SERVER)
        tls_side_limit_to_1_2(&tls_server);
}

static void open_pair(const char *who, enum limit limit)
{
    tls_side_open(&tls_server, "host-a", "ca.pem", "crl.pem");
    tls_side_open(&tls_client, who, "ca.pem", NULL);
    apply(limit);
}

static const char *wanted(enum limit limit)
{
    return limit == NEITHER ? tls_pair_newest() : "1.2";
}

/* ---- what is agreed on ---- */

static void the_newest_version_of_both_is_spoken(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        open_pair("operator-eve", limits[i]);
        tls_pair_shake(WHOLE);
        assert_true(pfl_tls_engine_is_ready(tls_server.engine));
        assert_string_equal(pfl_tls_engine_get_version(tls_client.engine), wanted(limits[i]));
        assert_string_equal(pfl_tls_engine_get_version(tls_server.engine), wanted(limits[i]));
        assert_non_null(strstr(pfl_tls_engine_get_cipher(tls_server.engine), "CHACHA20"));
        close_both();
    }
}

static void nothing_is_said_of_a_version_before_the_handshake(void **state)
{
    (void)state;
    open_pair("operator-eve", NEITHER);
    assert_string_equal(pfl_tls_engine_get_version(tls_client.engine), "");
}

static void a_server_takes_chacha20_from_whoever_offers_it(void **state)
{
    static const int last[] = {0x1302 /* TLS_AES_256_GCM_SHA384 */,
                               0x1301 /* TLS_AES_128_GCM_SHA256 */,
                               0x1303 /* TLS_CHACHA20_POLY1305_SHA256 */,
                               MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
                               MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
                               0};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        open_pair("operator-eve", limits[i]);
        mbedtls_ssl_conf_ciphersuites(&tls_client.conf->ssl, last);
        tls_pair_shake(WHOLE);
        assert_string_equal(pfl_tls_engine_get_version(tls_server.engine), wanted(limits[i]));
        assert_non_null(strstr(pfl_tls_engine_get_cipher(tls_server.engine), "CHACHA20"));
        close_both();
    }
}

/* After the handshake a server is silent: no tickets, which nobody would use. */
static void a_server_sends_nothing_of_itself(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        uint8_t *end;

        open_pair("operator-eve", limits[i]);
        assert_int_equal(pfl_tls_engine_start(tls_client.engine, &tls_client.wire.out), 0);
        while (!pfl_tls_engine_is_ready(tls_client.engine)) {
            (void)tls_pair_carry(&tls_client, &tls_server, WHOLE);
            (void)tls_pair_carry(&tls_server, &tls_client, WHOLE);
        }
        end = tls_server.wire.out.pos;
        tls_pair_talk(WHOLE);
        assert_true(pfl_tls_engine_is_ready(tls_server.engine));
        assert_ptr_equal(tls_server.wire.out.pos, end);
        close_both();
    }
}

static void speak(struct tls_side *from, struct tls_side *to, size_t len, size_t step)
{
    to->plain_out = pfl_writer_of(to->plain, sizeof(to->plain));
    from->wire.out = pfl_writer_of(from->wire.data, sizeof(from->wire.data));
    from->wire.taken = 0;
    assert_int_equal(pfl_tls_engine_write(from->engine, pfl_span_of(pattern, len), &from->wire.out),
                     0);
    assert_in_range((size_t)(from->wire.out.pos - from->wire.data), len,
                    len + PFL_TLS_RECORD_OVERHEAD);
    (void)tls_pair_carry(from, to, step);
    assert_int_equal((size_t)(to->plain_out.pos - to->plain), len);
    assert_memory_equal(to->plain, pattern, len);
}

static void every_size_of_record_passes_both_ways(void **state)
{
    size_t max;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        open_pair("operator-eve", limits[i]);
        tls_pair_shake(WHOLE);
        max = pfl_tls_engine_get_record_bytes(tls_server.engine);
        for (size_t len = 1; len <= max; len += len < 600 || len > max - 40 ? 1 : 37) {
            speak(&tls_client, &tls_server, len, WHOLE);
            speak(&tls_server, &tls_client, len, WHOLE);
        }
        close_both();
    }
}

/* One record, whose text with content type and padding is no longer than RFC 8446 section 5.4 lets
 * it be. */
static void the_largest_write_is_one_record(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        bool is_1_3;
        size_t len;

        open_pair("operator-eve", limits[i]);
        assert_int_equal(pfl_tls_engine_get_record_bytes(tls_client.engine), 0);
        tls_pair_shake(WHOLE);
        is_1_3 = strcmp(wanted(limits[i]), "1.3") == 0;
        len = pfl_tls_engine_get_record_bytes(tls_client.engine);
        assert_int_equal(len, is_1_3 ? 16383 : 16384);
        speak(&tls_client, &tls_server, len, WHOLE);
        assert_int_equal(tls_client.wire.out.pos - tls_client.wire.data, 5 + 16384 + 16);
        assert_int_equal(tls_client.wire.data[3] << 8 | tls_client.wire.data[4], 16384 + 16);
        close_both();
    }
}

/* tls_pair_carry looks after each byte. */
static void a_conversation_may_be_cut_after_every_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        open_pair("operator-eve", limits[i]);
        tls_pair_shake(1);
        assert_true(pfl_tls_engine_is_ready(tls_client.engine));
        assert_true(pfl_tls_engine_is_ready(tls_server.engine));
        speak(&tls_client, &tls_server, 5000, 1);
        speak(&tls_server, &tls_client, 5000, 1);
        pfl_tls_engine_close_notify(tls_client.engine, &tls_client.wire.out);
        tls_pair_talk(1);
        assert_true(pfl_tls_engine_has_peer_closed(tls_server.engine));
        close_both();
    }
}

/* A byte of the handshake that is not the sender's never makes two ends that trust each other. */
static void a_changed_handshake_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        size_t len = 12;

        for (size_t at = 11; at < len; at += 41) {
            open_pair("operator-eve", limits[i]);
            assert_int_equal(pfl_tls_engine_start(tls_client.engine, &tls_client.wire.out), 0);
            len = (size_t)(tls_client.wire.out.pos - tls_client.wire.data);
            tls_client.wire.data[at] ^= 0x20;
            tls_pair_talk(WHOLE);
            assert_false(pfl_tls_engine_is_ready(tls_server.engine));
            close_both();
        }
    }
}

/* ---- refusals ---- */

static void change_nothing(void)
{
}

static void trust_another_authority(void)
{
    tls_side_close(&tls_client);
    tls_side_open(&tls_client, "operator-eve", "other/ca.pem", NULL);
}

static void expect_another_host(void)
{
    pfl_tls_engine_free(tls_client.engine);
    assert_int_equal(
        pfl_tls_engine_new(tls_client.conf, "perfleet://lab/host/b", &tls_client.engine), 0);
}

static void speak_another_protocol(void)
{
    static const char *ours[] = {"h2", "pfl-agent/1", NULL};
    static const char *theirs[] = {"http/1.1", NULL};

    assert_int_equal(mbedtls_ssl_conf_alpn_protocols(&tls_server.conf->ssl, ours), 0);
    assert_int_equal(mbedtls_ssl_conf_alpn_protocols(&tls_server.conf->ssl_chacha20, ours), 0);
    assert_int_equal(mbedtls_ssl_conf_alpn_protocols(&tls_client.conf->ssl, theirs), 0);
}

static void show_no_certificate(void)
{
    tls_side_forget_certificate(&tls_client);
}

/* CBC in TLS 1.2; TLS 1.3 has no weak suite, but one that we do not offer. */
static void offer_other_suites(void)
{
    static const int suites[] = {0x1304 /* TLS_AES_128_CCM_SHA256 */,
                                 MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256,
                                 MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, 0};

    mbedtls_ssl_conf_ciphersuites(&tls_client.conf->ssl, suites);
}

struct refusal {
    const char *client; /* whose certificate */
    void (*change)(void);
    const char *server_says;
    const char *client_says;
};

static const struct refusal refusals[] = {
    {"operator-old", change_nothing,
     "the peer's certificate expired on 2020-02-03 04:05:06 UTC: renew it",
     "the peer refused the connection: our certificate has expired: renew it (TLS alert 45)"},
    {"operator-future", change_nothing,
     "the peer's certificate is valid from 2099-01-01 00:00:00 UTC only: wait, or check the clocks",
     "the peer refused the connection: it does not accept our certificate, which may not be "
     "valid yet by its clock: wait, or set the clocks; its log says why (TLS alert 46); ours is "},
    {"operator-gone", change_nothing,
     "the peer's certificate is revoked: issue a new one, if it is to be trusted again",
     "the peer refused the connection: our certificate is revoked: get a new one (TLS alert 44); "
     "ours is "},
    {"other/operator-eve", change_nothing,
     "the peer's certificate is of an authority that we do not know: issue it from this fleet's "
     "authority, or add that authority to the CA file",
     "the peer refused the connection: it does not know the authority of our certificate: both "
     "sides need the same fleet's CA (TLS alert 48)"},
    {"operator-eve", trust_another_authority,
     "the peer refused the connection: it does not know the authority of our certificate: both "
     "sides need the same fleet's CA (TLS alert 48)",
     "the peer's certificate is of an authority that we do not know: issue it from this fleet's "
     "authority, or add that authority to the CA file"},
    {"operator-eve", expect_another_host,
     "the peer refused the connection: it cannot use our certificate (TLS alert 42)",
     "the peer is \"perfleet://lab/host/a\", expected was \"perfleet://lab/host/b\": check the "
     "address"},
    {"operator-eve", speak_another_protocol,
     "the peer speaks none of our protocols (ALPN): check what it is, and its version",
     "the peer refused the connection: it speaks none of our protocols (ALPN): check address and "
     "port, and its version (TLS alert 120)"},
    {"operator-eve", show_no_certificate,
     "the peer showed no certificate: give it one of this fleet",
     "the peer refused the connection: it wants a certificate from us (TLS alert"},
    {"operator-eve", offer_other_suites,
     "the peer offers no cipher suite that is allowed: it needs TLS 1.2 or 1.3 with ECDHE and AEAD",
     "the peer refused the connection: it shares no cipher suite with us (TLS 1.2 or 1.3 with "
     "ECDHE and AEAD), or wants another certificate (TLS alert 40)"},
};

static void assert_says(const struct tls_side *side, const char *words)
{
    const char *error = pfl_tls_engine_get_error(side->engine);

    if (side->rc != PFL_ETLS)
        fail_msg("%s was not refused: \"%s\"", side == &tls_client ? "server" : "client", words);
    if (strncmp(error, words, strlen(words)) != 0)
        fail_msg("\"%s\" is not \"%s\"", error, words);
}

static void both_ends_say_the_same_of_each_refusal(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < sizeof(refusals) / sizeof(refusals[0]); j++) {
            open_pair(refusals[j].client, NEITHER);
            refusals[j].change();
            apply(limits[i]);
            tls_pair_shake(WHOLE);
            (void)tls_pair_carry(&tls_server, &tls_client, WHOLE);
            (void)tls_pair_carry(&tls_client, &tls_server, WHOLE);
            assert_false(pfl_tls_engine_is_ready(tls_server.engine));
            assert_says(&tls_server, refusals[j].server_says);
            assert_says(&tls_client, refusals[j].client_says);
            close_both();
        }
    }
}

/* A client may be ready, and have spoken, before it is refused. */
static void nothing_of_a_refused_client_is_taken(void **state)
{
    (void)state;
    open_pair("operator-old", NEITHER);
    assert_int_equal(pfl_tls_engine_start(tls_client.engine, &tls_client.wire.out), 0);
    while (tls_client.rc == 0 && tls_server.rc == 0) {
        if (pfl_tls_engine_is_ready(tls_client.engine))
            assert_int_equal(pfl_tls_engine_write(tls_client.engine, pfl_span_of("let me in", 9),
                                                  &tls_client.wire.out),
                             0);
        (void)tls_pair_carry(&tls_client, &tls_server, WHOLE);
        (void)tls_pair_carry(&tls_server, &tls_client, WHOLE);
    }
    assert_ptr_equal(tls_server.plain_out.pos, tls_server.plain);
    assert_says(&tls_server, "the peer's certificate expired");
}

/* A hello of TLS 1.1, with one suite and no extensions: of a client, or of a server. */
static void feed_old_hello(struct tls_side *side, bool is_of_client)
{
    uint8_t hello[64] = {22, 3, 1, 0, 0, is_of_client ? 1 : 2, 0, 0, 0, 3, 2};
    size_t len = 11 + 32;
    struct pfl_span piece;

    hello[len++] = 0; /* no session */
    if (is_of_client)
        hello[len++] = 0;
    if (is_of_client)
        hello[len++] = 2;
    hello[len++] = 0xc0;
    hello[len++] = 0x09;
    if (is_of_client)
        hello[len++] = 1;
    hello[len++] = 0;
    hello[2] = is_of_client ? 1 : 2;
    hello[4] = (uint8_t)(len - 5);
    hello[8] = (uint8_t)(len - 9);
    piece = pfl_span_of(hello, len);
    side->rc = pfl_tls_engine_feed(side->engine, &piece, &side->plain_out, &side->wire.out);
}

static void versions_before_1_2_are_refused_by_name(void **state)
{
    static const char words[] = "the peer speaks no allowed version of TLS: it needs 1.2 or 1.3";

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        open_pair("operator-eve", limits[i]);
        feed_old_hello(&tls_server, true);
        assert_says(&tls_server, words);
        assert_int_equal(pfl_tls_engine_start(tls_client.engine, &tls_client.wire.out), 0);
        feed_old_hello(&tls_client, false);
        assert_says(&tls_client, words);
        close_both();
    }
}

/* A hello that lists TLS 1.3 alone, with suites of both: of Go, for one. */
static void feed_new_hello(struct tls_side *side)
{
    static const uint8_t head[] = {22, 3, 1, 0, 67, 1, 0, 0, 63, 3, 3};
    static const uint8_t tail[] = {0, 0, 6, 0x13, 0x03, 0x13, 0x01, 0xcc, 0xa9, 1,
                                   0, 0, 7, 0,    43,   0,    3,    2,    3,    4};
    uint8_t hello[sizeof(head) + 32 + sizeof(tail)] = {0};
    struct pfl_span piece = pfl_span_of(hello, sizeof(hello));

    memcpy(hello, head, sizeof(head));
    memcpy(hello + sizeof(head) + 32, tail, sizeof(tail));
    hello[4] = (uint8_t)(sizeof(hello) - 5);
    hello[8] = (uint8_t)(sizeof(hello) - 9);
    side->rc = pfl_tls_engine_feed(side->engine, &piece, &side->plain_out, &side->wire.out);
}

static void tls_1_3_alone_is_refused_by_name_where_there_is_none(void **state)
{
    static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 70};

    (void)state;
    open_pair("operator-eve", THE_SERVER);
    feed_new_hello(&tls_server);
    assert_says(&tls_server,
                "the peer speaks no TLS before 1.3, and 1.2 is the newest of this end's "
                "mbedtls (1.3 takes 3.6, as in Debian 13): let it offer TLS 1.2, too");
    assert_int_equal(tls_server.wire.out.pos - tls_server.wire.data, sizeof(alert));
    assert_memory_equal(tls_server.wire.data, alert, sizeof(alert));
}

static void who_is_refused_for_its_version_says_which_it_has(void **state)
{
    static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 70};
    struct pfl_span piece = pfl_span_of(alert, sizeof(alert));

    (void)state;
    open_pair("operator-eve", THE_CLIENT);
    assert_int_equal(pfl_tls_engine_start(tls_client.engine, &tls_client.wire.out), 0);
    tls_client.rc =
        pfl_tls_engine_feed(tls_client.engine, &piece, &tls_client.plain_out, &tls_client.wire.out);
    assert_says(&tls_client,
                "the peer refused the connection: it wants another version of TLS, and "
                "1.2 is the newest of this end's mbedtls");
}

/* ---- how long a key lasts ---- */

static void offer_gcm(void)
{
    static const int suites[] = {0x1301 /* TLS_AES_128_GCM_SHA256 */,
                                 MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, 0};

    mbedtls_ssl_conf_ciphersuites(&tls_client.conf->ssl, suites);
}

static void a_key_of_aes_gcm_ends_with_its_records(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        open_pair("operator-eve", limits[i]);
        offer_gcm();
        tls_server.conf->gcm_records_max = 5;
        tls_pair_shake(WHOLE);
        assert_non_null(strstr(pfl_tls_engine_get_cipher(tls_server.engine), "GCM"));
        for (size_t sent = 0; sent < 5; sent++)
            speak(&tls_server, &tls_client, 100, WHOLE);
        tls_server.rc =
            pfl_tls_engine_write(tls_server.engine, pfl_span_of(pattern, 1), &tls_server.wire.out);
        assert_says(&tls_server, "the connection has sent all that one key of AES-GCM may");
        close_both();
    }
}

static void a_key_of_chacha20_does_not(void **state)
{
    (void)state;
    open_pair("operator-eve", NEITHER);
    tls_server.conf->gcm_records_max = 5;
    tls_pair_shake(WHOLE);
    for (size_t sent = 0; sent < 50; sent++)
        speak(&tls_server, &tls_client, 100, WHOLE);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_newest_version_of_both_is_spoken),
        T(nothing_is_said_of_a_version_before_the_handshake),
        T(a_server_sends_nothing_of_itself),
        T(a_server_takes_chacha20_from_whoever_offers_it),
        T(every_size_of_record_passes_both_ways),
        T(the_largest_write_is_one_record),
        T(a_conversation_may_be_cut_after_every_byte),
        T(a_changed_handshake_is_refused),
        T(both_ends_say_the_same_of_each_refusal),
        T(nothing_of_a_refused_client_is_taken),
        T(versions_before_1_2_are_refused_by_name),
        T(tls_1_3_alone_is_refused_by_name_where_there_is_none),
        T(who_is_refused_for_its_version_says_which_it_has),
        T(a_key_of_aes_gcm_ends_with_its_records),
        T(a_key_of_chacha20_does_not),
    };

    return cmocka_run_group_tests(tests, pki_setup, pki_teardown);
}
