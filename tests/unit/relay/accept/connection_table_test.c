/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the TLS port from accept to the end: who takes them, what is reported of those
 * that are refused, and whom a new revocation list ends. */
#include "relay/accept/connection_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proto/tunnel/tunnel.h"
#include "tests/support/sweep.h"

#define CONNECTIONS 3u

struct peer {
    struct pfl_accepted_connection connection;
    bool is_revoked;
    bool is_dropped;
    void *taken; /* what the hub or direct mode holds for it */
};

/* The shell: takers that can refuse, and the last report. */
static struct {
    struct pfl_accept_shell shell;
    struct pfl_connection_table table;
    struct peer *peers[CONNECTIONS];
    struct pfl_identity identity; /* that was given last */
    struct pfl_identity_refusal direct_refusal;
    bool is_taker_full;
    unsigned reports;
    struct pfl_accept_report last;
} world;

static struct peer *peer_of(const struct pfl_accepted_connection *connection)
{
    return PFL_CONTAINER_OF(connection, struct peer, connection);
}

static bool is_revoked(void *user, const struct pfl_accepted_connection *connection)
{
    (void)user;
    return peer_of(connection)->is_revoked;
}

static int give(void *user, struct pfl_accepted_connection *connection,
                const struct pfl_peer_admission *admission, struct pfl_identity_refusal *ret_why)
{
    struct peer *p = peer_of(connection);

    (void)user;
    world.identity = admission->identity;
    if (!world.is_taker_full)
        p->taken = pfl_mem_zalloc(1);
    if (p->taken != NULL)
        return 0;
    if (admission->taker == PFL_PEER_TAKER_DIRECT)
        *ret_why = world.direct_refusal;
    return PFL_ENOMEM;
}

static void drop(void *user, struct pfl_accepted_connection *connection)
{
    (void)user;
    peer_of(connection)->is_dropped = true;
}

static void report(void *user, const struct pfl_accept_report *r)
{
    (void)user;
    world.reports++;
    world.last = *r;
}

static int setup(void **state)
{
    struct pfl_connection_table_conf conf = {
        .shell = &world.shell, .fleet = "f", .has_hub = true, .has_direct = true};

    (void)state;
    memset(&world, 0, sizeof(world));
    world.shell = (struct pfl_accept_shell){
        .is_revoked = is_revoked, .give = give, .drop = drop, .report = report, .user = &world};
    pfl_connection_table_init(&world.table, &conf);
    return 0;
}

static void end(unsigned i)
{
    struct peer *p = world.peers[i];

    if (p == NULL)
        return;
    if (pfl_connection_table_is_ours(&p->connection))
        pfl_connection_table_fail(&world.table, &p->connection);
    pfl_connection_table_remove(&world.table, &p->connection);
    pfl_mem_free(p->taken);
    pfl_mem_free(p);
    world.peers[i] = NULL;
}

static int teardown(void **state)
{
    (void)state;
    for (unsigned i = 0; i < CONNECTIONS; i++)
        end(i);
    assert_int_equal(world.table.count, 0);
    assert_true(pfl_list_is_empty(&world.table.connections));
    pfl_sweep_assert_no_leak();
    return 0;
}

/* NULL: no memory, as in the shell. */
static struct peer *accept_peer(unsigned i)
{
    world.peers[i] = pfl_mem_zalloc(sizeof(struct peer));
    if (world.peers[i] == NULL)
        pfl_connection_table_count_unopened(&world.table);
    else
        pfl_connection_table_add(&world.table, &world.peers[i]->connection);
    return world.peers[i];
}

static bool finish_handshake(struct peer *p, const char *alpn, const char *uri)
{
    struct pfl_handshake_result result = {.alpn = alpn, .tls_version = "1.3", .uri_untrusted = uri};

    return pfl_connection_table_admit(&world.table, &p->connection, &result);
}

static bool finish_as_operator(struct peer *p)
{
    return finish_handshake(p, PFL_TUNNEL_ALPN_OPERATOR, "perfleet://f/operator/ann");
}

static bool finish_as_direct(struct peer *p)
{
    return finish_handshake(p, PFL_TUNNEL_ALPN_RAW, "perfleet://f/operator/ann");
}

static void an_admitted_peer_is_its_takers(void **state)
{
    struct peer *in_hub = accept_peer(0);
    struct peer *in_direct = accept_peer(1);

    (void)state;
    assert_true(pfl_connection_table_is_ours(&in_hub->connection));
    assert_true(finish_as_operator(in_hub));
    assert_int_equal(in_hub->connection.state, PFL_ACCEPTED_IN_HUB);
    assert_false(pfl_connection_table_is_ours(&in_hub->connection));
    assert_int_equal(world.identity.role, PFL_IDENTITY_OPERATOR);
    assert_string_equal(world.identity.name, "ann");
    assert_true(finish_as_direct(in_direct));
    assert_int_equal(in_direct->connection.state, PFL_ACCEPTED_IN_DIRECT);
    assert_false(pfl_connection_table_is_ours(&in_direct->connection));
    assert_int_equal(world.reports, 0);
    assert_int_equal(world.table.count, 2);
    assert_int_equal(world.table.accepted, 2);
    end(0);
    assert_int_equal(world.table.count, 1);
    assert_int_equal(world.table.accepted, 2);
    assert_int_equal(world.table.refused, 0);
    assert_int_equal(world.reports, 0);
}

static void a_refused_peer_is_reported_once_with_a_remedy(void **state)
{
    struct peer *p = accept_peer(0);

    (void)state;
    assert_false(finish_handshake(p, PFL_TUNNEL_ALPN_OPERATOR, "perfleet://g/operator/ann"));
    assert_int_equal(p->connection.state, PFL_ACCEPTED_REFUSED);
    assert_true(pfl_connection_table_is_ours(&p->connection));
    assert_null(p->taken);
    assert_int_equal(world.reports, 1);
    assert_int_equal(world.last.event, PFL_ACCEPT_PEER_REFUSED);
    assert_ptr_equal(world.last.connection, &p->connection);
    assert_non_null(world.last.why.reason);
    assert_non_null(world.last.why.remedy);
    assert_int_equal(world.table.refused, 0); /* until its end */
    end(0);
    assert_int_equal(world.table.refused, 1);
    assert_int_equal(world.reports, 1);
}

static void a_peer_that_is_revoked_during_its_handshake_is_refused(void **state)
{
    struct peer *p = accept_peer(0);

    (void)state;
    p->is_revoked = true;
    assert_false(finish_as_operator(p));
    assert_int_equal(world.reports, 1);
    assert_string_equal(world.last.why.reason, "its certificate was revoked during the handshake");
}

static void what_the_hub_does_not_take_is_refused(void **state)
{
    struct peer *p = accept_peer(0);

    (void)state;
    world.is_taker_full = true;
    assert_false(finish_as_operator(p));
    assert_int_equal(p->connection.state, PFL_ACCEPTED_REFUSED);
    assert_int_equal(world.last.event, PFL_ACCEPT_PEER_REFUSED);
    assert_string_equal(world.last.why.reason,
                        "too many connections of this operator, or out of memory");
    assert_string_equal(world.last.why.remedy, "close some");
}

/* Direct mode has the reason; without one it has logged itself. */
static void what_direct_mode_does_not_take_is_refused_with_its_reason(void **state)
{
    struct peer *p = accept_peer(0);

    (void)state;
    world.is_taker_full = true;
    world.direct_refusal = (struct pfl_identity_refusal){"the policy", "another"};
    assert_false(finish_as_direct(p));
    assert_int_equal(world.reports, 1);
    assert_string_equal(world.last.why.reason, "the policy");
    assert_string_equal(world.last.why.remedy, "another");
    world.direct_refusal = (struct pfl_identity_refusal){0};
    p = accept_peer(1);
    assert_false(finish_as_direct(p));
    assert_int_equal(p->connection.state, PFL_ACCEPTED_REFUSED);
    assert_int_equal(world.reports, 1);
    end(1);
    assert_int_equal(world.reports, 1);
}

static void a_handshake_that_fails_is_reported_and_counted_as_refused(void **state)
{
    struct peer *p = accept_peer(0);

    (void)state;
    pfl_connection_table_fail(&world.table, &p->connection);
    assert_int_equal(world.reports, 1);
    assert_int_equal(world.last.event, PFL_ACCEPT_HANDSHAKE_FAILED);
    assert_ptr_equal(world.last.connection, &p->connection);
    assert_null(world.last.why.reason);
    assert_int_equal(world.table.refused, 1);
    assert_int_equal(world.table.handshakes_1_2 + world.table.handshakes_1_3, 0);
}

static void handshakes_that_end_while_draining_are_not_reported(void **state)
{
    (void)state;
    (void)accept_peer(0);
    assert_true(pfl_connection_table_drain(&world.table));
    assert_false(pfl_connection_table_drain(&world.table));
    end(0);
    assert_int_equal(world.table.refused, 1);
    assert_int_equal(world.reports, 0);
}

static void a_connection_without_a_stream_is_accepted_and_refused(void **state)
{
    (void)state;
    pfl_connection_table_count_unopened(&world.table);
    assert_int_equal(world.table.accepted, 1);
    assert_int_equal(world.table.refused, 1);
    assert_int_equal(world.table.count, 0);
    assert_int_equal(world.reports, 0);
}

static void handshakes_are_counted_by_version_even_of_refused_peers(void **state)
{
    struct pfl_handshake_result old = {
        .alpn = "x", .tls_version = "1.2", .uri_untrusted = "perfleet://f/host/a"};

    (void)state;
    assert_false(pfl_connection_table_admit(&world.table, &accept_peer(0)->connection, &old));
    assert_int_equal(world.table.handshakes_1_2, 1);
    assert_int_equal(world.table.handshakes_1_3, 0);
    assert_true(finish_as_operator(accept_peer(1)));
    assert_int_equal(world.table.handshakes_1_2, 1);
    assert_int_equal(world.table.handshakes_1_3, 1);
}

static void a_new_list_drops_the_revoked_of_those_that_were_admitted(void **state)
{
    struct peer *kept = accept_peer(0);
    struct peer *revoked = accept_peer(1);
    struct peer *in_handshake = accept_peer(2);

    (void)state;
    assert_true(finish_as_operator(kept));
    assert_true(finish_as_direct(revoked));
    revoked->is_revoked = true;
    in_handshake->is_revoked = true; /* its handshake sees to it */
    pfl_connection_table_drop_revoked(&world.table);
    assert_false(kept->is_dropped);
    assert_true(revoked->is_dropped);
    assert_false(in_handshake->is_dropped);
    assert_int_equal(world.reports, 1);
    assert_int_equal(world.last.event, PFL_ACCEPT_PEER_DROPPED);
    assert_ptr_equal(world.last.connection, &revoked->connection);
    assert_string_equal(world.last.why.reason, "its certificate was revoked");
    kept->is_revoked = true;
    pfl_connection_table_drop_revoked(&world.table);
    assert_true(kept->is_dropped);
}

static void what_the_relay_does_not_have_is_never_given(void **state)
{
    struct pfl_connection_table_conf conf = world.table.conf;

    (void)state;
    conf.has_hub = false;
    pfl_connection_table_init(&world.table, &conf);
    assert_false(finish_as_operator(accept_peer(0)));
    assert_true(finish_as_direct(accept_peer(1)));
    end(0);
    end(1);
    conf.has_hub = true;
    conf.has_direct = false;
    pfl_connection_table_init(&world.table, &conf);
    assert_true(finish_as_operator(accept_peer(0)));
    assert_false(finish_as_direct(accept_peer(1)));
}

/* Two connections, one of them dropped; whatever lacks memory is refused, the rest holds. */
static int live(void *arg)
{
    struct peer *p[2];

    (void)setup(arg);
    for (unsigned i = 0; i < 2; i++) {
        bool is_admitted;

        p[i] = accept_peer(i);
        if (p[i] == NULL)
            continue;
        is_admitted = i == 0 ? finish_as_operator(p[i]) : finish_as_direct(p[i]);
        assert_true(is_admitted == (p[i]->taken != NULL));
        p[i]->is_revoked = true;
    }
    pfl_connection_table_drop_revoked(&world.table);
    for (unsigned i = 0; i < 2; i++)
        assert_true(p[i] == NULL || p[i]->is_dropped == (p[i]->taken != NULL));
    assert_int_equal(world.table.accepted, 2);
    end(0);
    end(1);
    assert_int_equal(world.table.count, 0);
    return world.table.refused == 0 ? 0 : PFL_ENOMEM;
}

static void without_memory_one_connection_is_refused_and_the_other_stays(void **state)
{
    (void)state;
    pfl_sweep(live, NULL, false);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(an_admitted_peer_is_its_takers),
        T(a_refused_peer_is_reported_once_with_a_remedy),
        T(a_peer_that_is_revoked_during_its_handshake_is_refused),
        T(what_the_hub_does_not_take_is_refused),
        T(what_direct_mode_does_not_take_is_refused_with_its_reason),
        T(a_handshake_that_fails_is_reported_and_counted_as_refused),
        T(handshakes_that_end_while_draining_are_not_reported),
        T(a_connection_without_a_stream_is_accepted_and_refused),
        T(handshakes_are_counted_by_version_even_of_refused_peers),
        T(a_new_list_drops_the_revoked_of_those_that_were_admitted),
        T(what_the_relay_does_not_have_is_never_given),
        T(without_memory_one_connection_is_refused_and_the_other_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
