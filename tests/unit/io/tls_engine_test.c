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
#include "tests/unit/io/pki.h"

#define WIRE_BYTES (512u * 1024)

/* One direction of the wire. */
struct wire {
    uint8_t data[WIRE_BYTES];
    struct pfl_writer out;
    size_t taken;
};

struct side {
    struct pfl_tls_conf *conf;
    struct pfl_tls_engine *engine;
    struct wire wire; /* what this side sent */
    uint8_t plain[WIRE_BYTES];
    struct pfl_writer plain_out;
    int rc;
};

static struct side client;
static struct side server;
static uint8_t pattern[100000];

static void open_side(struct side *s, const char *who, const char *ca, const char *crl)
{
    memset(s, 0, sizeof(*s));
    s->conf = pki_conf(who, ca, crl, s == &server);
    assert_int_equal(pfl_tls_engine_new(s->conf, NULL, &s->engine), 0);
    s->wire.out = pfl_writer_of(s->wire.data, sizeof(s->wire.data));
    s->plain_out = pfl_writer_of(s->plain, sizeof(s->plain));
}

static void open_pair(const char *client_who)
{
    open_side(&server, "host-a", "ca.pem", "crl.pem");
    open_side(&client, client_who, "ca.pem", NULL);
}

static void close_side(struct side *s)
{
    if (s->engine == NULL)
        return;
    pfl_tls_engine_free(s->engine);
    pfl_tls_conf_unref(s->conf);
    s->engine = NULL;
    s->conf = NULL;
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
    close_side(&client);
    close_side(&server);
    pfl_sweep_assert_no_leak();
    return 0;
}

/* Carries what `from` sent to `to` in pieces of `step`. Returns whether anything moved. */
static bool carry(struct side *from, struct side *to, size_t step)
{
    size_t end = (size_t)(from->wire.out.pos - from->wire.data);
    bool moved = from->wire.taken < end;

    while (from->wire.taken < end && to->rc == 0) {
        size_t n = end - from->wire.taken < step ? end - from->wire.taken : step;
        struct pfl_span piece = pfl_span_of(from->wire.data + from->wire.taken, n);

        while (piece.len != 0 && to->rc == 0)
            to->rc = pfl_tls_engine_feed(to->engine, &piece, &to->plain_out, &to->wire.out);
        from->wire.taken += n;
    }
    return moved && to->rc == 0;
}

static void talk(size_t step)
{
    while (carry(&client, &server, step) || carry(&server, &client, step))
        continue;
}

static void shake(size_t step)
{
    assert_int_equal(pfl_tls_engine_start(server.engine, &server.wire.out), 0);
    assert_int_equal(pfl_tls_engine_start(client.engine, &client.wire.out), 0);
    talk(step);
}

static void send_pattern(struct side *from, struct side *to, size_t step)
{
    size_t before = (size_t)(to->plain_out.pos - to->plain);

    for (size_t pos = 0; pos < sizeof(pattern);) {
        size_t n = sizeof(pattern) - pos;

        if (n > PFL_TLS_RECORD_BYTES)
            n = PFL_TLS_RECORD_BYTES;
        assert_int_equal(
            pfl_tls_engine_write(from->engine, pfl_span_of(pattern + pos, n), &from->wire.out), 0);
        pos += n;
    }
    talk(step);
    assert_int_equal((size_t)(to->plain_out.pos - to->plain), before + sizeof(pattern));
    assert_memory_equal(to->plain + before, pattern, sizeof(pattern));
}

static void check_conversation(size_t step)
{
    open_pair("operator-eve");
    shake(step);
    assert_true(pfl_tls_engine_is_ready(client.engine));
    assert_true(pfl_tls_engine_is_ready(server.engine));
    assert_string_equal(pfl_tls_engine_get_identity(server.engine)->uri,
                        "perfleet://lab/operator/eve");
    assert_string_equal(pfl_tls_engine_get_identity(client.engine)->uri, "perfleet://lab/host/a");
    assert_non_null(strstr(pfl_tls_engine_get_identity(server.engine)->subject, "CN=eve"));
    assert_non_null(strstr(pfl_tls_engine_get_cipher(client.engine), "CHACHA20"));
    send_pattern(&client, &server, step);
    send_pattern(&server, &client, step);
    pfl_tls_engine_close_notify(client.engine, &client.wire.out);
    talk(step);
    assert_true(pfl_tls_engine_has_peer_closed(server.engine));
    assert_false(pfl_tls_engine_has_peer_closed(client.engine));
    send_pattern(&server, &client, step); /* the other direction still works */
}

static void conversation_works_with_whole_messages(void **state)
{
    (void)state;
    check_conversation(WIRE_BYTES);
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

static void assert_refused(struct side *s, const char *words)
{
    assert_int_equal(s->rc, PFL_ETLS);
    assert_false(pfl_tls_engine_is_ready(s->engine));
    if (strstr(pfl_tls_engine_get_error(s->engine), words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", pfl_tls_engine_get_error(s->engine), words);
}

/* After the server refused: what the client hears. */
static void assert_client_hears(const char *words)
{
    (void)carry(&server, &client, WIRE_BYTES);
    assert_int_equal(client.rc, PFL_ETLS);
    if (pfl_tls_engine_is_ready(client.engine))
        words = "most likely it refused our certificate"; /* TLS 1.3: refused after our handshake */
    if (strstr(pfl_tls_engine_get_error(client.engine), words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", pfl_tls_engine_get_error(client.engine), words);
}

static void expired_certificate_is_refused_with_its_date(void **state)
{
    (void)state;
    open_pair("operator-old");
    shake(WIRE_BYTES);
    assert_refused(&server, "expired on 2020-02-03 04:05:06 UTC");
    assert_client_hears("has expired");
}

static void certificate_of_the_future_is_refused_with_its_date(void **state)
{
    (void)state;
    open_pair("operator-future");
    shake(WIRE_BYTES);
    assert_refused(&server, "valid from 2099-01-01 00:00:00 UTC");
    assert_client_hears("refused");
}

static void revoked_certificate_is_refused(void **state)
{
    (void)state;
    open_pair("operator-gone");
    shake(WIRE_BYTES);
    assert_refused(&server, "revoked");
    assert_client_hears("revoked");
}

static void certificate_of_another_authority_is_refused(void **state)
{
    (void)state;
    open_pair("other/operator-eve");
    shake(WIRE_BYTES);
    assert_refused(&server, "authority that we do not know");
    assert_string_equal(pfl_tls_engine_get_identity(server.engine)->uri,
                        "perfleet://lab/operator/eve"); /* claimed, for the log */
    assert_client_hears("does not know the authority");
}

static void client_refuses_a_server_of_another_authority(void **state)
{
    (void)state;
    open_side(&server, "host-a", "ca.pem", NULL);
    open_side(&client, "operator-eve", "other/ca.pem", NULL);
    shake(WIRE_BYTES);
    assert_refused(&client, "authority that we do not know");
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
    pfl_tls_engine_free(client.engine);
    assert_int_equal(pfl_tls_engine_new(client.conf, "perfleet://lab/host/b", &client.engine), 0);
    shake(WIRE_BYTES);
    assert_refused(&client, "\"perfleet://lab/host/a\", expected was \"perfleet://lab/host/b\"");
}

static void expected_name_is_accepted(void **state)
{
    (void)state;
    open_pair("operator-eve");
    pfl_tls_engine_free(client.engine);
    assert_int_equal(pfl_tls_engine_new(client.conf, "perfleet://lab/host/a", &client.engine), 0);
    shake(WIRE_BYTES);
    assert_true(pfl_tls_engine_is_ready(client.engine));
}

static void feed_text(struct side *s, const char *text, size_t step)
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
    feed_text(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1);
    assert_refused(&server, "does not speak TLS");
    feed_text(&client, "SSH-2.0-OpenSSH_9.2p1 Debian\r\n", 100);
    assert_refused(&client, "does not speak TLS");
}

static void failed_engine_stays_failed(void **state)
{
    (void)state;
    open_pair("operator-old");
    shake(WIRE_BYTES);
    server.rc = 0;
    feed_text(&server, "more", 4);
    assert_int_equal(server.rc, PFL_ETLS);
    assert_int_equal(pfl_tls_engine_write(server.engine, pfl_span_of("x", 1), &server.wire.out),
                     PFL_ESTATE);
}

static void changed_record_is_noticed(void **state)
{
    size_t at;

    (void)state;
    open_pair("operator-eve");
    shake(WIRE_BYTES);
    at = (size_t)(client.wire.out.pos - client.wire.data);
    assert_int_equal(
        pfl_tls_engine_write(client.engine, pfl_span_of(pattern, 100), &client.wire.out), 0);
    client.wire.data[at + 50] ^= 1;
    talk(WIRE_BYTES);
    assert_int_equal(server.rc, PFL_ETLS);
    assert_ptr_equal(server.plain_out.pos, server.plain);
    assert_string_not_equal(pfl_tls_engine_get_error(server.engine), "");
}

static void handshake_cut_anywhere_just_waits(void **state)
{
    size_t hello;

    (void)state;
    open_pair("operator-eve");
    assert_int_equal(pfl_tls_engine_start(client.engine, &client.wire.out), 0);
    hello = (size_t)(client.wire.out.pos - client.wire.data);
    for (size_t cut = 0; cut < hello; cut++) {
        struct pfl_span piece = pfl_span_of(client.wire.data, cut);

        pfl_tls_engine_free(server.engine);
        assert_int_equal(pfl_tls_engine_new(server.conf, NULL, &server.engine), 0);
        assert_int_equal(
            pfl_tls_engine_feed(server.engine, &piece, &server.plain_out, &server.wire.out), 0);
        assert_int_equal(piece.len, 0);
        assert_false(pfl_tls_engine_is_ready(server.engine));
        assert_ptr_equal(server.wire.out.pos, server.wire.data);
    }
}

static void writing_is_legal_between_handshake_and_goodbye_only(void **state)
{
    (void)state;
    open_pair("operator-eve");
    assert_int_equal(pfl_tls_engine_write(client.engine, pfl_span_of("x", 1), &client.wire.out),
                     PFL_ESTATE);
    pfl_tls_engine_close_notify(client.engine, &client.wire.out);
    assert_ptr_equal(client.wire.out.pos, client.wire.data);
    shake(WIRE_BYTES);
    pfl_tls_engine_close_notify(client.engine, &client.wire.out);
    assert_int_equal(pfl_tls_engine_write(client.engine, pfl_span_of("x", 1), &client.wire.out),
                     PFL_ESTATE);
}

static void full_plain_buffer_stops_the_feed_without_loss(void **state)
{
    struct pfl_span rest;
    size_t got = 0;
    size_t begin;

    (void)state;
    open_pair("operator-eve");
    shake(WIRE_BYTES);
    begin = (size_t)(client.wire.out.pos - client.wire.data);
    for (int i = 0; i < 5; i++)
        assert_int_equal(pfl_tls_engine_write(client.engine,
                                              pfl_span_of(pattern + i * 16384, 16384),
                                              &client.wire.out),
                         0);
    rest = pfl_span_of(client.wire.data + begin,
                       (size_t)(client.wire.out.pos - client.wire.data) - begin);
    while (rest.len != 0) {
        struct pfl_writer small = pfl_writer_of(server.plain, 20000); /* one record, not two */
        size_t n;

        assert_int_equal(pfl_tls_engine_feed(server.engine, &rest, &small, &server.wire.out), 0);
        n = (size_t)(small.pos - server.plain);
        assert_in_range(n, 1, 20000);
        assert_memory_equal(server.plain, pattern + got, n);
        got += n;
    }
    assert_int_equal(got, 5 * 16384);
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

/* Else revocation would be off without anybody knowing. */
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

static void configuration_mistakes_are_told_in_words(void **state)
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
    pfl_tls_conf_unref(server.conf);
    pfl_tls_conf_unref(client.conf);
    server.conf = NULL;
    client.conf = NULL; /* unref of NULL is legal */
    shake(WIRE_BYTES);
    assert_true(pfl_tls_engine_is_ready(server.engine));
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
        T(the_end_of_the_revocation_list_is_known),
        T(configuration_mistakes_are_told_in_words),
        T(own_identity_is_known_before_connecting),
        T(construction_survives_every_failed_allocation),
        T(engine_outlives_the_release_of_its_conf),
    };

    return cmocka_run_group_tests(tests, pki_setup, pki_teardown);
}
