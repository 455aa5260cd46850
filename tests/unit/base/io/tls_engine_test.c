/* SPDX-License-Identifier: Apache-2.0 */
/* Two TLS engines in memory: every message whole and byte by byte, and every way to be refused. */
#include "base/io/tls_engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/support/sweep.h"
#include "tests/unit/base/io/pki.h"
#include "tests/unit/base/io/tls_pair.h"

static uint8_t pattern[100000];

static void open_pair(const char *client_who)
{
    tls_side_open(&tls_server, "host-a", "ca.pem", "crl.pem");
    tls_side_open(&tls_client, client_who, "ca.pem", NULL);
}

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = (uint8_t)(i * 2654435761u >> 11);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tls_side_close(&tls_client);
    tls_side_close(&tls_server);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void send_pattern(struct tls_side *from, struct tls_side *to, size_t step)
{
    size_t before = (size_t)(to->plain_out.pos - to->plain);

    for (size_t pos = 0; pos < sizeof(pattern);) {
        size_t n = sizeof(pattern) - pos;

        if (n > pfl_tls_engine_get_record_bytes(from->engine))
            n = pfl_tls_engine_get_record_bytes(from->engine);
        assert_int_equal(
            pfl_tls_engine_write(from->engine, pfl_span_of(pattern + pos, n), &from->wire.out), 0);
        pos += n;
    }
    tls_pair_talk(step);
    assert_int_equal((size_t)(to->plain_out.pos - to->plain), before + sizeof(pattern));
    assert_memory_equal(to->plain + before, pattern, sizeof(pattern));
}

static void check_conversation(size_t step)
{
    open_pair("operator-eve");
    tls_pair_shake(step);
    assert_true(pfl_tls_engine_is_ready(tls_client.engine));
    assert_true(pfl_tls_engine_is_ready(tls_server.engine));
    assert_string_equal(pfl_tls_engine_get_identity(tls_server.engine)->uri,
                        "perfleet://lab/operator/eve");
    assert_string_equal(pfl_tls_engine_get_identity(tls_client.engine)->uri,
                        "perfleet://lab/host/a");
    assert_non_null(strstr(pfl_tls_engine_get_identity(tls_server.engine)->subject, "CN=eve"));
    assert_non_null(strstr(pfl_tls_engine_get_cipher(tls_client.engine), "CHACHA20"));
    send_pattern(&tls_client, &tls_server, step);
    send_pattern(&tls_server, &tls_client, step);
    pfl_tls_engine_close_notify(tls_client.engine, &tls_client.wire.out);
    tls_pair_talk(step);
    assert_true(pfl_tls_engine_has_peer_closed(tls_server.engine));
    assert_false(pfl_tls_engine_has_peer_closed(tls_client.engine));
    send_pattern(&tls_server, &tls_client, step); /* the other direction still works */
}

static void conversation_works_with_whole_messages(void **state)
{
    (void)state;
    check_conversation(TLS_PAIR_WIRE_BYTES);
}

static void conversation_works_byte_by_byte(void **state)
{
    (void)state;
    check_conversation(1);
}

static void conversation_works_in_odd_pieces(void **state)
{
    (void)state;
    check_conversation(1447);
}

static void assert_refused(struct tls_side *s, const char *words)
{
    assert_int_equal(s->rc, PFL_ETLS);
    assert_false(pfl_tls_engine_is_ready(s->engine));
    if (strstr(pfl_tls_engine_get_error(s->engine), words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", pfl_tls_engine_get_error(s->engine), words);
}

/* After the server refused: what the client gets. */
static void assert_client_hears(const char *words)
{
    (void)tls_pair_carry(&tls_server, &tls_client, TLS_PAIR_WIRE_BYTES);
    assert_int_equal(tls_client.rc, PFL_ETLS);
    if (strstr(pfl_tls_engine_get_error(tls_client.engine), words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", pfl_tls_engine_get_error(tls_client.engine), words);
}

static void expired_certificate_is_refused_with_its_date(void **state)
{
    (void)state;
    open_pair("operator-old");
    tls_pair_shake(TLS_PAIR_WIRE_BYTES);
    assert_refused(&tls_server, "expired on 2020-02-03 04:05:06 UTC");
    assert_client_hears("has expired");
}

static void certificate_of_the_future_is_refused_with_its_date(void **state)
{
    (void)state;
    open_pair("operator-future");
    tls_pair_shake(TLS_PAIR_WIRE_BYTES);
    assert_refused(&tls_server, "valid from 2099-01-01 00:00:00 UTC");
    assert_client_hears("refused");
}

static void revoked_certificate_is_refused(void **state)
{
    (void)state;
    open_pair("operator-gone");
    tls_pair_shake(TLS_PAIR_WIRE_BYTES);
    assert_refused(&tls_server, "revoked");
    assert_client_hears("revoked");
}

/* mbedtls passes over an authority without a list: what it revoked would be let in. */
static void each_authority_in_a_peers_chain_needs_its_list(void **state)
{
    static const char *const lists[][2] = {
        {"deep/root.crl", "no revocation list of \"CN=middle authority\""},
        {"deep/leaf-revoked.crl", "is revoked"},
        {"deep/middle-revoked.crl", "is revoked"},
    };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        tls_side_open(&tls_server, "host-a", "deep/root.pem", lists[i][0]);
        tls_side_open(&tls_client, "operator-deep", "ca.pem", NULL);
        tls_pair_shake(TLS_PAIR_WIRE_BYTES);
        assert_refused(&tls_server, lists[i][1]);
        tls_side_close(&tls_client);
        tls_side_close(&tls_server);
    }
    tls_side_open(&tls_server, "host-a", "deep/root.pem", "deep/all.crl");
    tls_side_open(&tls_client, "operator-deep", "ca.pem", NULL);
    tls_pair_shake(TLS_PAIR_WIRE_BYTES);
    assert_true(pfl_tls_engine_is_ready(tls_server.engine));
}

/* Another authority of that name made it. */
static void a_list_that_the_authority_did_not_sign_is_not_loaded(void **state)
{
    const struct pfl_tls_files files = {.ca_path = pki_path("ca.pem"),
                                        .cert_path = pki_path("host-a.pem"),
                                        .key_path = pki_path("host-a.key"),
                                        .crl_path = pki_path("other/crl.pem"),
                                        .is_server = true};
    struct pfl_tls_conf *conf = NULL;
    char why[512];

    (void)state;
    assert_int_equal(pfl_tls_conf_new(&files, why, sizeof(why), &conf), PFL_EINVAL);
    assert_non_null(strstr(why, "is not signed by the authority of that name"));
}

/* By a list that comes while the peer is connected. */
static bool is_revoked_by(const char *ca, const char *crl)
{
    struct pfl_tls_conf *fresh = pki_conf("host-a", ca, crl, true);
    bool is_revoked =
        pfl_tls_conf_is_revoked(fresh, pfl_tls_engine_get_identity(tls_server.engine));

    pfl_tls_conf_unref(fresh);
    return is_revoked;
}

static void a_later_list_may_revoke_any_certificate_of_a_chain(void **state)
{
    (void)state;
    tls_side_open(&tls_server, "host-a", "deep/root.pem", "deep/all.crl");
    tls_side_open(&tls_client, "operator-deep", "ca.pem", NULL);
    tls_pair_shake(TLS_PAIR_WIRE_BYTES);
    assert_true(pfl_tls_engine_is_ready(tls_server.engine));
    assert_int_equal(pfl_tls_engine_get_identity(tls_server.engine)->chain_len, 2);
    assert_false(is_revoked_by("deep/root.pem", NULL));
    assert_false(is_revoked_by("deep/root.pem", "deep/all.crl"));
    assert_true(is_revoked_by("deep/root.pem", "deep/leaf-revoked.crl"));
    assert_true(is_revoked_by("deep/root.pem", "deep/middle-revoked.crl"));
}

/* Serials are an authority's own: another one's list may have the same. */
static void another_authoritys_serial_revokes_nobody(void **state)
{
    (void)state;
    tls_side_open(&tls_server, "host-a", "deep/root.pem", "deep/all.crl");
    tls_side_open(&tls_client, "operator-deep", "ca.pem", NULL);
    tls_pair_shake(TLS_PAIR_WIRE_BYTES);
    assert_true(pfl_tls_engine_is_ready(tls_server.engine));
    assert_false(is_revoked_by("deep/root.pem", "deep/alike.crl"));
}

static void certificate_of_another_authority_is_refused(void **state)
{
    (void)state;
    open_pair("other/operator-eve");
    tls_pair_shake(TLS_PAIR_WIRE_BYTES);
    assert_refused(&tls_server, "authority that we do not know");
    assert_string_equal(pfl_tls_engine_get_identity(tls_server.engine)->uri,
                        "perfleet://lab/operator/eve"); /* claimed, for the log */
    assert_client_hears("does not know the authority");
}

static void client_refuses_a_server_of_another_authority(void **state)
{
    (void)state;
    tls_side_open(&tls_server, "host-a", "ca.pem", NULL);
    tls_side_open(&tls_client, "operator-eve", "other/ca.pem", NULL);
    tls_pair_shake(TLS_PAIR_WIRE_BYTES);
    assert_refused(&tls_client, "authority that we do not know");
}

static void operator_cannot_serve(void **state)
{
    struct pfl_tls_conf *conf = NULL;
    char why[256] = "";
    struct pfl_tls_files files = {.ca_path = pki_path("ca.pem"),
                                  .cert_path = pki_path("operator-eve.pem"),
                                  .key_path = pki_path("operator-eve.key"),
                                  .is_server = true};

    (void)state;
    assert_int_equal(pfl_tls_conf_new(&files, why, sizeof(why), &conf), PFL_EINVAL);
    assert_non_null(strstr(why, "may not serve"));
}

static void another_name_than_expected_is_refused(void **state)
{
    (void)state;
    open_pair("operator-eve");
    pfl_tls_engine_free(tls_client.engine);
    assert_int_equal(
        pfl_tls_engine_new(tls_client.conf, "perfleet://lab/host/b", &tls_client.engine), 0);
    tls_pair_shake(TLS_PAIR_WIRE_BYTES);
    assert_refused(&tls_client,
                   "\"perfleet://lab/host/a\", expected was \"perfleet://lab/host/b\"");
}

static void expected_name_is_accepted(void **state)
{
    (void)state;
    open_pair("operator-eve");
    pfl_tls_engine_free(tls_client.engine);
    assert_int_equal(
        pfl_tls_engine_new(tls_client.conf, "perfleet://lab/host/a", &tls_client.engine), 0);
    tls_pair_shake(TLS_PAIR_WIRE_BYTES);
    assert_true(pfl_tls_engine_is_ready(tls_client.engine));
}

static void feed_text(struct tls_side *s, const char *text, size_t step)
{
    for (size_t pos = 0; text[pos] != '\0' && s->rc == 0;) {
        size_t n = strlen(text + pos) < step ? strlen(text + pos) : step;
        struct pfl_span piece = pfl_span_of(text + pos, n);

        s->rc = pfl_tls_engine_feed(s->engine, &piece, &s->plain_out, &s->wire.out);
        pos += n;
    }
}

static void garbage_instead_of_a_handshake_is_refused(void **state)
{
    (void)state;
    open_pair("operator-eve");
    feed_text(&tls_server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1);
    assert_refused(&tls_server, "does not speak TLS");
    feed_text(&tls_client, "SSH-2.0-OpenSSH_9.2p1 Debian\r\n", 100);
    assert_refused(&tls_client, "does not speak TLS");
}

static void failed_engine_stays_failed(void **state)
{
    (void)state;
    open_pair("operator-old");
    tls_pair_shake(TLS_PAIR_WIRE_BYTES);
    tls_server.rc = 0;
    feed_text(&tls_server, "more", 4);
    assert_int_equal(tls_server.rc, PFL_ETLS);
    assert_int_equal(
        pfl_tls_engine_write(tls_server.engine, pfl_span_of("x", 1), &tls_server.wire.out),
        PFL_ESTATE);
}

static void changed_record_is_noticed(void **state)
{
    size_t at;

    (void)state;
    open_pair("operator-eve");
    tls_pair_shake(TLS_PAIR_WIRE_BYTES);
    at = (size_t)(tls_client.wire.out.pos - tls_client.wire.data);
    assert_int_equal(
        pfl_tls_engine_write(tls_client.engine, pfl_span_of(pattern, 100), &tls_client.wire.out),
        0);
    tls_client.wire.data[at + 50] ^= 1;
    tls_pair_talk(TLS_PAIR_WIRE_BYTES);
    assert_int_equal(tls_server.rc, PFL_ETLS);
    assert_ptr_equal(tls_server.plain_out.pos, tls_server.plain);
    assert_string_not_equal(pfl_tls_engine_get_error(tls_server.engine), "");
}

static void handshake_cut_anywhere_just_waits(void **state)
{
    size_t hello;

    (void)state;
    open_pair("operator-eve");
    assert_int_equal(pfl_tls_engine_start(tls_client.engine, &tls_client.wire.out), 0);
    hello = (size_t)(tls_client.wire.out.pos - tls_client.wire.data);
    for (size_t cut = 0; cut < hello; cut++) {
        struct pfl_span piece = pfl_span_of(tls_client.wire.data, cut);

        pfl_tls_engine_free(tls_server.engine);
        assert_int_equal(pfl_tls_engine_new(tls_server.conf, NULL, &tls_server.engine), 0);
        assert_int_equal(pfl_tls_engine_feed(tls_server.engine, &piece, &tls_server.plain_out,
                                             &tls_server.wire.out),
                         0);
        assert_int_equal(piece.len, 0);
        assert_false(pfl_tls_engine_is_ready(tls_server.engine));
        assert_ptr_equal(tls_server.wire.out.pos, tls_server.wire.data);
    }
}

static void writing_is_legal_between_handshake_and_goodbye_only(void **state)
{
    (void)state;
    open_pair("operator-eve");
    assert_int_equal(
        pfl_tls_engine_write(tls_client.engine, pfl_span_of("x", 1), &tls_client.wire.out),
        PFL_ESTATE);
    pfl_tls_engine_close_notify(tls_client.engine, &tls_client.wire.out);
    assert_ptr_equal(tls_client.wire.out.pos, tls_client.wire.data);
    tls_pair_shake(TLS_PAIR_WIRE_BYTES);
    pfl_tls_engine_close_notify(tls_client.engine, &tls_client.wire.out);
    assert_int_equal(
        pfl_tls_engine_write(tls_client.engine, pfl_span_of("x", 1), &tls_client.wire.out),
        PFL_ESTATE);
}

static void full_plain_buffer_stops_the_feed_without_loss(void **state)
{
    struct pfl_span rest;
    size_t got = 0;
    size_t begin;
    size_t len;

    (void)state;
    open_pair("operator-eve");
    tls_pair_shake(TLS_PAIR_WIRE_BYTES);
    len = pfl_tls_engine_get_record_bytes(tls_client.engine);
    begin = (size_t)(tls_client.wire.out.pos - tls_client.wire.data);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(pfl_tls_engine_write(tls_client.engine,
                                              pfl_span_of(pattern + i * len, len),
                                              &tls_client.wire.out),
                         0);
    rest = pfl_span_of(tls_client.wire.data + begin,
                       (size_t)(tls_client.wire.out.pos - tls_client.wire.data) - begin);
    while (rest.len != 0) {
        struct pfl_writer small = pfl_writer_of(tls_server.plain, 20000); /* one record, not two */
        size_t n;

        assert_int_equal(
            pfl_tls_engine_feed(tls_server.engine, &rest, &small, &tls_server.wire.out), 0);
        n = (size_t)(small.pos - tls_server.plain);
        assert_in_range(n, 1, 20000);
        assert_memory_equal(tls_server.plain, pattern + got, n);
        got += n;
    }
    assert_int_equal(got, 5 * len);
}

/* ---- the configuration ---- */

static void assert_conf_refused(const char *cert, const char *key, const char *ca, int want_rc,
                                const char *words)
{
    struct pfl_tls_conf *conf = NULL;
    char why[256] = "";
    struct pfl_tls_files files = {
        .ca_path = pki_path(ca), .cert_path = pki_path(cert), .key_path = pki_path(key)};

    assert_int_equal(pfl_tls_conf_new(&files, why, sizeof(why), &conf), want_rc);
    assert_null(conf);
    if (strstr(why, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", why, words);
}

/* Otherwise revocation would silently be off. */
static void each_authority_needs_its_revocation_list(void **state)
{
    struct pfl_tls_files files = {
        .is_server = true, .cert_path = pki_path("host-a.pem"), .key_path = pki_path("host-a.key")};
    static const char *const cases[][2] = {{"ca.pem", "third/crl.pem"}, {"both.pem", "crl.pem"}};
    struct pfl_tls_conf *conf = NULL;
    char why[256] = "";

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        files.ca_path = pki_path(cases[i][0]);
        files.crl_path = pki_path(cases[i][1]);
        assert_int_equal(pfl_tls_conf_new(&files, why, sizeof(why), &conf), PFL_EINVAL);
        assert_non_null(strstr(why, i == 0 ? "fleet authority of lab" : "authority of elsewhere"));
        assert_non_null(strstr(why, "crl.pem"));
    }
}

static void the_end_of_the_revocation_list_is_known(void **state)
{
    struct pfl_tls_conf *conf = pki_conf("host-a", "ca.pem", "crl.pem", true);
    int64_t left_s = pfl_tls_conf_get_crl_end(conf) - (int64_t)time(NULL);

    (void)state;
    assert_in_range(left_s, 364 * 86400, 365 * 86400);
    pfl_tls_conf_unref(conf);
    conf = pki_conf("host-a", "ca.pem", NULL, true);
    assert_true(pfl_tls_conf_get_crl_end(conf) == INT64_MAX);
    pfl_tls_conf_unref(conf);
}

static void configuration_mistakes_are_reported_in_words(void **state)
{
    (void)state;
    assert_conf_refused("open.pem", "open.key", "ca.pem", PFL_EPERM, "chmod 600");
    assert_conf_refused("mixed.pem", "mixed.key", "ca.pem", PFL_EINVAL, "is not the key of");
    assert_conf_refused("none.pem", "host-a.key", "ca.pem", PFL_EIO, "none.pem: cannot be read");
    assert_conf_refused("host-a.pem", "none.key", "ca.pem", PFL_EIO, "No such file");
    assert_conf_refused("host-a.key", "host-a.key", "ca.pem", PFL_EPARSE, "no PEM certificate");
    assert_conf_refused("host-a.pem", "host-a.pem", "ca.pem", PFL_EPERM, "others may read");
    assert_conf_refused("host-a.pem", "index.txt", "ca.pem", PFL_EPARSE, "no unencrypted PEM key");
    assert_conf_refused("host-a.pem", "host-a.key", "fleet", PFL_EPARSE, "authority");
}

static void own_identity_is_known_before_connecting(void **state)
{
    struct pfl_tls_conf *conf = pki_conf("operator-old", "ca.pem", NULL, false);

    (void)state;
    assert_string_equal(pfl_tls_conf_get_identity(conf)->uri, "perfleet://lab/operator/old");
    assert_int_equal(pfl_tls_conf_get_identity(conf)->not_after_s, 1580702706);
    pfl_tls_conf_unref(conf);
}

static int conf_body(void *arg)
{
    struct pfl_tls_conf *conf = NULL;
    struct pfl_tls_engine *engine = NULL;
    char why[256];
    struct pfl_tls_files files = {.ca_path = pki_path("ca.pem"),
                                  .cert_path = pki_path("host-a.pem"),
                                  .key_path = pki_path("host-a.key")};
    int rc = pfl_tls_conf_new(&files, why, sizeof(why), &conf);

    (void)arg;
    if (rc == 0)
        rc = pfl_tls_engine_new(conf, "perfleet://lab/host/a", &engine);
    pfl_tls_engine_free(engine);
    pfl_tls_conf_unref(conf);
    return rc;
}

static void construction_survives_every_failed_allocation(void **state)
{
    (void)state;
    pfl_sweep(conf_body, NULL, false);
}

static void engine_outlives_the_release_of_its_conf(void **state)
{
    (void)state;
    open_pair("operator-eve");
    pfl_tls_conf_unref(tls_server.conf);
    pfl_tls_conf_unref(tls_client.conf);
    tls_server.conf = NULL;
    tls_client.conf = NULL; /* unref of NULL is legal */
    tls_pair_shake(TLS_PAIR_WIRE_BYTES);
    assert_true(pfl_tls_engine_is_ready(tls_server.engine));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(conversation_works_with_whole_messages),
        T(conversation_works_byte_by_byte),
        T(conversation_works_in_odd_pieces),
        T(expired_certificate_is_refused_with_its_date),
        T(certificate_of_the_future_is_refused_with_its_date),
        T(revoked_certificate_is_refused),
        T(a_later_list_may_revoke_any_certificate_of_a_chain),
        T(another_authoritys_serial_revokes_nobody),
        T(certificate_of_another_authority_is_refused),
        T(client_refuses_a_server_of_another_authority),
        T(operator_cannot_serve),
        T(another_name_than_expected_is_refused),
        T(expected_name_is_accepted),
        T(garbage_instead_of_a_handshake_is_refused),
        T(failed_engine_stays_failed),
        T(changed_record_is_noticed),
        T(handshake_cut_anywhere_just_waits),
        T(writing_is_legal_between_handshake_and_goodbye_only),
        T(full_plain_buffer_stops_the_feed_without_loss),
        T(each_authority_needs_its_revocation_list),
        T(each_authority_in_a_peers_chain_needs_its_list),
        T(a_list_that_the_authority_did_not_sign_is_not_loaded),
        T(the_end_of_the_revocation_list_is_known),
        T(configuration_mistakes_are_reported_in_words),
        T(own_identity_is_known_before_connecting),
        T(construction_survives_every_failed_allocation),
        T(engine_outlives_the_release_of_its_conf),
    };

    return cmocka_run_group_tests(tests, pki_setup, pki_teardown);
}
