/* SPDX-License-Identifier: Apache-2.0 */
/* The list of hosts: whom it shows, how fast, and what is left of one that is not read. */
#include "relay/hub/host_list.h"

#include "tests/support/recorded.h"
#include "tests/unit/relay/hub/hub_world.h"

static struct world_answer answer;

/* As if the operator had looked at so many hosts just now. */
static void use_up_rate(void)
{
    for (unsigned i = 0; i < PFL_HOST_LIST_BUCKETS; i++) {
        struct pfl_token_bucket *b = &world.requests.hosts.listed[i].looks;

        if (b->per_s != 0)
            pfl_token_bucket_take(b, b->level + b->per_s);
    }
}

static void an_operator_sees_the_hosts_that_he_may_use(void **state)
{
    struct world_peer *ann;

    (void)state;
    world_set_policy("rule { name: \"r\" operator: \"ann\" host: \"a*\" }");
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    (void)world_connect(PFL_IDENTITY_HOST, "a1");
    (void)world_connect(PFL_IDENTITY_HOST, "b");
    world_disconnect(world_connect(PFL_IDENTITY_HOST, "a2"));
    world_ask(ann, "GET", "/v1/hosts", &answer);
    assert_int_equal(answer.status, 200);
    assert_int_equal(world_count(answer.body, "{\"relay\":\"meet\",\"fleet\":\"test\",\"hosts\":["),
                     1);
    assert_int_equal(world_count(answer.body, "\"name\":\"a1\",\"is_connected\":true"), 1);
    assert_int_equal(world_count(answer.body, "\"name\":\"a2\",\"is_connected\":false"), 1);
    assert_int_equal(world_count(answer.body, "\"name\""), 2);
    assert_string_equal(answer.body + answer.body_len - 2, "]}");
    assert_null(answer.h2_stream);
}

static void above_the_rate_the_list_waits(void **state)
{
    struct world_peer *ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    struct world_peer *bob = world_connect(PFL_IDENTITY_OPERATOR, "bob");

    (void)state;
    (void)world_connect(PFL_IDENTITY_HOST, "a");
    world_ask(ann, "GET", "/v1/hosts", &answer);
    assert_null(answer.h2_stream);
    use_up_rate();
    ann->is_paced = false;
    world_ask(ann, "GET", "/v1/hosts", &answer);
    assert_int_equal(answer.body_len, 0);
    assert_non_null(answer.h2_stream);
    assert_true(ann->is_paced);
    world_run_paced();
    assert_int_equal(answer.body_len, 0);
    world.now_ms += 2000;
    world_run_paced();
    assert_int_equal(world_count(answer.body, "\"name\":\"a\""), 1);
    assert_null(answer.h2_stream);
    /* Others have a rate of their own. */
    use_up_rate();
    world_ask(bob, "GET", "/v1/hosts", &answer);
    assert_null(answer.h2_stream);
}

static void each_host_that_is_looked_at_counts(void **state)
{
    struct world_peer *ann;
    uint64_t left = 0;

    (void)state;
    world_set_policy("");
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    (void)world_connect(PFL_IDENTITY_HOST, "a");
    (void)world_connect(PFL_IDENTITY_HOST, "b");
    world_ask(ann, "GET", "/v1/hosts", &answer);
    assert_int_equal(world_count(answer.body, "\"name\""), 0);
    for (unsigned i = 0; i < PFL_HOST_LIST_BUCKETS; i++)
        left += world.requests.hosts.listed[i].looks.level;
    /* Two hosts that are not shown, and the end. */
    assert_int_equal(left, PFL_HOST_INVENTORY_MAX_HOSTS - 3);
}

/* Whether it shows the hosts or not. */
static void a_list_takes_a_part_of_a_turn(void **state)
{
    struct world_peer *ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    struct world_peer *bob = world_connect(PFL_IDENTITY_OPERATOR, "bob");
    static struct world_answer other;
    unsigned turns = 1;

    (void)state;
    world_set_policy("");
    (void)world_connect(PFL_IDENTITY_HOST, "a");
    (void)world_connect(PFL_IDENTITY_HOST, "b");
    (void)world_connect(PFL_IDENTITY_HOST, "c");
    world.boot_step_ns = PFL_HOST_LIST_TURN_NS; /* so long takes one of them */
    world_ask(ann, "GET", "/v1/hosts", &answer);
    for (; answer.h2_stream != NULL && turns < 10; turns++) {
        size_t before = answer.body_len;

        assert_true(ann->is_paced);
        world_run_paced();
        assert_int_equal(answer.body_len, before); /* nothing more in the same turn */
        world.now_ms++;
        world_run_paced();
    }
    assert_int_equal(turns, 4); /* three hosts, and the end */
    assert_string_equal(answer.body + answer.body_len - 2, "]}");
    /* Another operator has a part, too. */
    world.boot_step_ns = 1000;
    world_ask(ann, "GET", "/v1/hosts", &answer);
    assert_non_null(answer.h2_stream);
    world_ask(bob, "GET", "/v1/hosts", &other);
    assert_null(other.h2_stream);
}

static void an_operator_who_leaves_while_it_waits_leaves_nothing(void **state)
{
    struct world_peer *ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");

    (void)state;
    world_ask(ann, "GET", "/v1/hosts", &answer);
    use_up_rate();
    world_ask(ann, "GET", "/v1/hosts", &answer);
    assert_false(pfl_list_is_empty(&ann->peer.throttled));
    world_reset(&answer, PFL_H2_CANCEL);
    assert_true(pfl_list_is_empty(&ann->peer.throttled));
    world_ask(ann, "GET", "/v1/hosts", &answer);
    world_disconnect(ann);
    assert_true(pfl_list_is_empty(&ann->peer.throttled));
}

static int list(void *arg)
{
    struct world_peer *ann;

    (void)arg;
    world_open(NULL);
    (void)world_connect(PFL_IDENTITY_HOST, "a");
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    world_ask(ann, "GET", "/v1/hosts", &answer);
    world_close();
    if (answer.status != 0 && answer.status != 200)
        assert_int_equal(answer.status, 503);
    /* Either all of it came, or it is said that it did not. */
    if (answer.status == 200 && answer.h2_stream == NULL && answer.code == PFL_H2_NO_ERROR)
        assert_string_equal(answer.body + answer.body_len - 2, "]}");
    return world_result();
}

static void running_out_of_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    world_close();
    pfl_sweep(list, NULL, true);
    world_open(NULL);
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0x12568121fd3b69dc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(an_operator_sees_the_hosts_that_he_may_use),
        WORLD_TEST(above_the_rate_the_list_waits),
        WORLD_TEST(each_host_that_is_looked_at_counts),
        WORLD_TEST(a_list_takes_a_part_of_a_turn),
        WORLD_TEST(an_operator_who_leaves_while_it_waits_leaves_nothing),
        WORLD_TEST(running_out_of_memory_leaves_nothing_behind),
        cmocka_unit_test(all_of_this_is_as_recorded),
    };

    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
