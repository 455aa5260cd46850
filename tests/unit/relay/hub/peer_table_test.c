/* SPDX-License-Identifier: Apache-2.0 */
/* Who may connect, which connection is its host's, and what the policy says of whom. */
#include "relay/hub/peer_table.h"

#include "base/clock.h"
#include "tests/support/recorded.h"
#include "tests/unit/relay/hub/hub_world.h"

#define LABELLED "rule { name: \"r\" operator: \"ann\" host: \"*\" label: \"tier=web\" }"

static void an_operator_has_so_many_connections_and_no_more(void **state)
{
    struct world_peer *first;

    (void)state;
    first = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    assert_non_null(world_connect(PFL_IDENTITY_OPERATOR, "ann"));
    assert_non_null(world_connect(PFL_IDENTITY_OPERATOR, "ann"));
    assert_null(world_connect(PFL_IDENTITY_OPERATOR, "ann"));
    assert_non_null(world_connect(PFL_IDENTITY_OPERATOR, "bob"));
    assert_non_null(world_connect(PFL_IDENTITY_HOST, "ann"));
    world_disconnect(first);
    assert_non_null(world_connect(PFL_IDENTITY_OPERATOR, "ann"));
}

static void the_newest_connection_is_its_hosts_and_the_older_one_is_asked_to_go(void **state)
{
    struct world_peer *older = world_connect(PFL_IDENTITY_HOST, "a");
    struct pfl_host *host = pfl_host_inventory_find(&world.peers.inventory, "a");
    struct world_peer *newer;

    (void)state;
    assert_ptr_equal(host->peer, &older->peer);
    assert_ptr_equal(pfl_peer_table_get_agent(&world.peers, host), older->near);
    assert_ptr_equal(pfl_peer_table_get_h2(&older->peer), older->near);
    assert_string_equal(host->address, "192.0.2.0:1");
    newer = world_connect(PFL_IDENTITY_HOST, "a");
    assert_ptr_equal(host->peer, &newer->peer);
    assert_ptr_equal(pfl_peer_table_get_agent(&world.peers, host), newer->near);
    assert_string_equal(host->address, "192.0.2.1:1");
    assert_string_equal(host->tls_version, "1.3");
    assert_int_equal(host->certificate_end_s, 77);
    assert_null(older->peer.host);
    assert_null(pfl_peer_table_get_h2(&older->peer));
    assert_true(pfl_h2_is_going(older->far));
    assert_false(pfl_h2_is_going(newer->far));
    /* Its end changes nothing for the host. */
    world_disconnect(older);
    assert_ptr_equal(host->peer, &newer->peer);
    assert_int_equal(host->seen_ms, 0);
    world.now_ms += 5000;
    world_disconnect(newer);
    assert_null(newer->peer.host);
    assert_null(host->peer);
    assert_int_equal(host->seen_ms, world.now_ms);
    assert_null(pfl_peer_table_get_agent(&world.peers, host));
}

static void of_connections_that_a_host_does_not_let_go_the_oldest_is_closed(void **state)
{
    struct world_peer *p[6];

    (void)state;
    for (unsigned i = 0; i < PFL_PEER_TABLE_OF_HOST; i++)
        p[i] = world_connect(PFL_IDENTITY_HOST, "a");
    for (unsigned i = 0; i < PFL_PEER_TABLE_OF_HOST; i++)
        assert_false(p[i]->is_link_gone);
    p[4] = world_connect(PFL_IDENTITY_HOST, "a");
    assert_true(p[0]->is_link_gone);
    assert_false(p[1]->is_link_gone);
    p[5] = world_connect(PFL_IDENTITY_HOST, "a");
    assert_true(p[1]->is_link_gone);
    assert_false(p[2]->is_link_gone);
    assert_ptr_equal(pfl_host_inventory_find(&world.peers.inventory, "a")->peer, &p[5]->peer);
}

/* One that is being closed is still there; the next newcomer does not choose it again. */
static void one_that_gives_way_gives_way_once(void **state)
{
    struct pfl_identity a = {.role = PFL_IDENTITY_HOST, .name = "a"};
    struct pfl_hub_peer *first;
    struct pfl_hub_peer *second;

    (void)state;
    for (unsigned i = 0; i < PFL_PEER_TABLE_OF_HOST + 1; i++)
        assert_non_null(world_connect(PFL_IDENTITY_HOST, i == 0 ? "b" : "a"));
    assert_int_equal(pfl_peer_table_admit(&world.peers, &a, false, &first), 0);
    assert_ptr_equal(first, &world.peer[1].peer);
    /* Three are left besides it. */
    assert_int_equal(pfl_peer_table_admit(&world.peers, &a, false, &second), 0);
    assert_null(second);
}

/* What nobody replaced stays: connections whose settings never came. */
static void the_connection_in_use_never_gives_way(void **state)
{
    struct pfl_identity a = {.role = PFL_IDENTITY_HOST, .name = "a"};
    struct pfl_hub_peer *ousted;
    struct world_peer *used = world_connect(PFL_IDENTITY_HOST, "a");
    struct world_peer *silent = world_begin(PFL_IDENTITY_HOST, "a");

    (void)state;
    (void)world_begin(PFL_IDENTITY_HOST, "a");
    (void)world_begin(PFL_IDENTITY_HOST, "a");
    assert_ptr_equal(pfl_host_inventory_find(&world.peers.inventory, "a")->peer, &used->peer);
    assert_int_equal(pfl_peer_table_admit(&world.peers, &a, false, &ousted), 0);
    assert_ptr_equal(ousted, &silent->peer);
}

static void requests_are_made_on_a_connection_that_is_ready_and_stays(void **state)
{
    struct world_peer *p = world_begin(PFL_IDENTITY_HOST, "a");
    struct pfl_host *host;
    struct pfl_h2 *near = p->near;

    (void)state;
    assert_int_equal(p->peer.state, PFL_HUB_PEER_CONNECTED);
    assert_null(pfl_host_inventory_find(&world.peers.inventory, "a"));
    world_pump();
    host = pfl_host_inventory_find(&world.peers.inventory, "a");
    assert_int_equal(p->peer.state, PFL_HUB_PEER_INTRODUCED);
    assert_ptr_equal(pfl_peer_table_get_agent(&world.peers, host), near);
    p->near = NULL; /* the connection breaks */
    assert_null(pfl_peer_table_get_agent(&world.peers, host));
    p->near = near;
    p->peer.state = PFL_HUB_PEER_CONNECTED;
    assert_null(pfl_peer_table_get_agent(&world.peers, host));
    p->peer.state = PFL_HUB_PEER_READY;
    assert_ptr_equal(pfl_peer_table_get_agent(&world.peers, host), near);
    assert_int_equal(pfl_h2_goaway(p->far), 0);
    world_pump();
    assert_null(pfl_peer_table_get_agent(&world.peers, host));
}

static void an_operator_is_no_host(void **state)
{
    struct world_peer *p = world_connect(PFL_IDENTITY_OPERATOR, "ann");

    (void)state;
    assert_int_equal(p->peer.state, PFL_HUB_PEER_READY);
    assert_null(p->peer.host);
    assert_null(pfl_peer_table_get_h2(&p->peer));
    assert_int_equal(world.peers.inventory.count, 0);
}

static void a_rule_with_labels_waits_for_the_hello(void **state)
{
    struct pfl_policy_decision d;
    struct world_peer *a;

    (void)state;
    world_set_policy(LABELLED);
    pfl_peer_table_decide(&world.peers, "ann", "a", &d);
    assert_true(d.wants_labels);
    a = world_begin(PFL_IDENTITY_HOST, "a");
    a->hello_text = "{\"labels\":{\"tier\":\"db\",\"tie\":\"web\"}}";
    world_pump();
    pfl_peer_table_decide(&world.peers, "ann", "a", &d);
    assert_false(d.wants_labels);
    assert_false(d.is_allowed);
    assert_false(pfl_peer_table_may_see(&world.peers, "ann", "a"));
    (void)world_connect(PFL_IDENTITY_HOST, "b");
    assert_true(pfl_peer_table_may_see(&world.peers, "ann", "b"));
    assert_false(pfl_peer_table_may_see(&world.peers, "bob", "b"));
}

static void hosts_that_left_long_ago_are_forgotten_and_audited(void **state)
{
    struct world_peer *a = world_connect(PFL_IDENTITY_HOST, "a");
    struct world_peer *b = world_connect(PFL_IDENTITY_HOST, "b");

    (void)state;
    world_disconnect(a);
    world.now_ms += 1000;
    world_disconnect(b);
    world.now_ms += 59000;
    pfl_peer_table_forget_old(&world.peers);
    assert_null(pfl_host_inventory_find(&world.peers.inventory, "a"));
    assert_non_null(pfl_host_inventory_find(&world.peers.inventory, "b"));
    world_assert_audited("forget 204 - a - 0/0 - left 60 s ago\n");
    world_assert_reported("host-forgotten - a - 60 -\n");
    world.peers.forget_after_ms = 0;
    world.now_ms += 1000000;
    pfl_peer_table_forget_old(&world.peers);
    assert_non_null(pfl_host_inventory_find(&world.peers.inventory, "b"));
}

static void a_host_that_finds_no_room_is_not_taken(void **state)
{
    struct pfl_hub_peer peer = {.identity = {.role = PFL_IDENTITY_HOST, .name = "late"}};
    struct pfl_hub_peer *replaced = &peer;
    struct pfl_host *host;
    char name[PFL_IDENTITY_NAME_BYTES];

    (void)state;
    for (unsigned i = 0; i < PFL_HOST_INVENTORY_MAX_HOSTS; i++) {
        (void)snprintf(name, sizeof(name), "h%u", i);
        assert_int_equal(pfl_host_inventory_join(&world.peers.inventory, name, &peer, &host), 0);
    }
    pfl_peer_table_add(&world.peers, &peer);
    assert_int_equal(pfl_peer_table_settle(&world.peers, &peer, &replaced), PFL_ELIMIT);
    assert_null(replaced);
    assert_null(peer.host);
    pfl_peer_table_leave(&world.peers, &peer);
    pfl_peer_table_remove(&world.peers, &peer);
}

static int connect_and_leave(void *arg)
{
    (void)arg;
    world_open(LABELLED);
    (void)world_connect(PFL_IDENTITY_HOST, "a");
    (void)world_connect(PFL_IDENTITY_OPERATOR, "ann");
    (void)world_connect(PFL_IDENTITY_HOST, "a");
    world_close();
    return world_result();
}

static void running_out_of_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    world_close();
    pfl_sweep(connect_and_leave, NULL, true);
    world_open(NULL);
}

#define MANY  20000u
#define ASKED 1000u

/* How long the admission of connections takes beside so many hosts. */
static uint64_t admit_beside(unsigned hosts)
{
    static struct pfl_hub_peer peers[MANY];
    static struct pfl_peer_table table;
    struct pfl_hub_peer *ousted;
    uint64_t began_ns;
    uint64_t took_ns;

    memset(peers, 0, sizeof(peers));
    pfl_peer_table_init(
        &table, &(struct pfl_peer_table_conf){.shell = &world.shell, .relay = "r", .boot_id = ""});
    for (unsigned i = 0; i < hosts; i++) {
        peers[i].identity.role = PFL_IDENTITY_HOST;
        (void)snprintf(peers[i].identity.name, sizeof(peers[i].identity.name), "host%u", i);
        pfl_peer_table_add(&table, &peers[i]);
    }
    began_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    for (unsigned i = 0; i < ASKED; i++) {
        assert_int_equal(pfl_peer_table_admit(&table, &peers[i % hosts].identity, false, &ousted),
                         0);
        assert_null(ousted);
    }
    took_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) - began_ns;
    for (unsigned i = 0; i < hosts; i++)
        pfl_peer_table_remove(&table, &peers[i]);
    pfl_peer_table_fini(&table);
    return took_ns;
}

static void a_newcomer_costs_no_walk_over_all_hosts(void **state)
{
    (void)state;
    assert_true(admit_beside(MANY) < 50 * admit_beside(10) + 10000000);
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0x9f55758d580a9132);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(an_operator_has_so_many_connections_and_no_more),
        WORLD_TEST(the_newest_connection_is_its_hosts_and_the_older_one_is_asked_to_go),
        WORLD_TEST(of_connections_that_a_host_does_not_let_go_the_oldest_is_closed),
        WORLD_TEST(one_that_gives_way_gives_way_once),
        WORLD_TEST(the_connection_in_use_never_gives_way),
        WORLD_TEST(requests_are_made_on_a_connection_that_is_ready_and_stays),
        WORLD_TEST(an_operator_is_no_host),
        WORLD_TEST(a_rule_with_labels_waits_for_the_hello),
        WORLD_TEST(hosts_that_left_long_ago_are_forgotten_and_audited),
        WORLD_TEST(a_host_that_finds_no_room_is_not_taken),
        WORLD_TEST(a_newcomer_costs_no_walk_over_all_hosts),
        WORLD_TEST(running_out_of_memory_leaves_nothing_behind),
        cmocka_unit_test(all_of_this_is_as_recorded),
    };

    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
