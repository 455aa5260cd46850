/* SPDX-License-Identifier: Apache-2.0 */
/* Who takes a connection after its handshake, and the reason where nobody does. */
#include "relay/accept/peer_admission.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "proto/tunnel/tunnel.h"

#define OPERATOR "perfleet://f/operator/ann"
#define AGENT    "perfleet://f/host/a"

static struct pfl_peer_admission decide(const char *alpn, const char *uri)
{
    struct pfl_peer_admission_conf conf = {
        .alpn = alpn, .uri_untrusted = uri, .fleet = "f", .has_hub = true, .has_direct = true};
    struct pfl_peer_admission admission;

    pfl_peer_admission_decide(&conf, &admission);
    return admission;
}

static void the_kind_decides_who_takes_it(void **state)
{
    struct pfl_peer_admission a = decide(PFL_TUNNEL_ALPN_OPERATOR, OPERATOR);

    (void)state;
    assert_int_equal(a.taker, PFL_PEER_TAKER_HUB);
    assert_int_equal(a.identity.role, PFL_IDENTITY_OPERATOR);
    assert_string_equal(a.identity.name, "ann");
    a = decide(PFL_TUNNEL_ALPN_AGENT, AGENT);
    assert_int_equal(a.taker, PFL_PEER_TAKER_HUB);
    assert_int_equal(a.identity.role, PFL_IDENTITY_HOST);
    assert_string_equal(a.identity.name, "a");
    assert_false(a.is_collector);
    a = decide(PFL_TUNNEL_ALPN_COLLECTOR, OPERATOR);
    assert_int_equal(a.taker, PFL_PEER_TAKER_HUB);
    assert_int_equal(a.identity.role, PFL_IDENTITY_OPERATOR);
    assert_true(a.is_collector);
    assert_int_equal(decide(PFL_TUNNEL_ALPN_RAW, OPERATOR).taker, PFL_PEER_TAKER_DIRECT);
    assert_int_equal(decide(NULL, OPERATOR).taker, PFL_PEER_TAKER_DIRECT);
}

static void a_certificate_is_good_for_its_own_kind_alone(void **state)
{
    static const struct {
        const char *alpn;
        const char *uri;
    } wrong[] = {
        {PFL_TUNNEL_ALPN_OPERATOR, AGENT},
        {PFL_TUNNEL_ALPN_AGENT, OPERATOR},
        {PFL_TUNNEL_ALPN_COLLECTOR, AGENT},
        {PFL_TUNNEL_ALPN_COLLECTOR, "perfleet://f/relay/ann"},
        {PFL_TUNNEL_ALPN_RAW, AGENT},
        {NULL, AGENT},
        {PFL_TUNNEL_ALPN_OPERATOR, "perfleet://g/operator/ann"},
        {PFL_TUNNEL_ALPN_OPERATOR, "perfleet://f/relay/ann"},
        {PFL_TUNNEL_ALPN_OPERATOR, ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct pfl_peer_admission a = decide(wrong[i].alpn, wrong[i].uri);

        assert_int_equal(a.taker, PFL_PEER_TAKER_NONE);
        assert_non_null(a.refusal.reason);
        assert_non_null(a.refusal.remedy);
    }
}

static void what_the_relay_does_not_serve_is_refused_first(void **state)
{
    struct pfl_peer_admission_conf conf = {.alpn = PFL_TUNNEL_ALPN_OPERATOR,
                                           .uri_untrusted = OPERATOR,
                                           .fleet = "f",
                                           .is_revoked = true,
                                           .has_direct = true};
    struct pfl_peer_admission a;

    (void)state;
    pfl_peer_admission_decide(&conf, &a);
    assert_int_equal(a.taker, PFL_PEER_TAKER_NONE);
    assert_string_equal(a.refusal.reason, "this relay is no meeting point");
    assert_string_equal(a.refusal.remedy,
                        "give it a relay certificate: perfleet pki relay DIR NAME");
    conf.alpn = NULL;
    conf.has_hub = true;
    conf.has_direct = false;
    pfl_peer_admission_decide(&conf, &a);
    assert_int_equal(a.taker, PFL_PEER_TAKER_NONE);
    assert_string_equal(a.refusal.reason, "this meeting point has no consumer socket of its own");
    assert_string_equal(a.refusal.remedy,
                        "use the tunnel (ALPN h2), or start it with --consumer-socket");
}

static void a_certificate_that_was_revoked_meanwhile_is_refused(void **state)
{
    struct pfl_peer_admission_conf conf = {.alpn = PFL_TUNNEL_ALPN_OPERATOR,
                                           .uri_untrusted = OPERATOR,
                                           .fleet = "f",
                                           .is_revoked = true,
                                           .has_hub = true};
    struct pfl_peer_admission a;

    (void)state;
    pfl_peer_admission_decide(&conf, &a);
    assert_int_equal(a.taker, PFL_PEER_TAKER_NONE);
    assert_string_equal(a.refusal.reason, "its certificate was revoked during the handshake");
    assert_string_equal(a.refusal.remedy, "none: its owner needs another certificate");
    conf.is_revoked = false;
    pfl_peer_admission_decide(&conf, &a);
    assert_int_equal(a.taker, PFL_PEER_TAKER_HUB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kind_decides_who_takes_it),
        cmocka_unit_test(a_certificate_is_good_for_its_own_kind_alone),
        cmocka_unit_test(what_the_relay_does_not_serve_is_refused_first),
        cmocka_unit_test(a_certificate_that_was_revoked_meanwhile_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
