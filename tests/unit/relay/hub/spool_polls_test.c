/* SPDX-License-Identifier: Apache-2.0 */
/* Collectors that ask for spools: what they get at once, what they wait for, who gets nothing. */
#include "relay/hub/spool_polls.h"

#include "tests/support/recorded.h"
#include "tests/unit/relay/hub/hub_world.h"

#define COLLECT "rule { name: \"c\" operator: \"col\" host: \"web-*\" role: \"c\" } "
#define C_ROLE  "role { name: \"c\" collect: true } "
#define SPOOL(segments)                                                                            \
    "{\"kind\":\"spool\",\"segments\":" segments ",\"bytes\":4096,\"oldest_ms\":5,"                \
    "\"orders\":\"0123456789abcdef\"}\n"

static struct world_answer one;
static struct world_answer two;

static void ask(struct world_peer *col, const char *after, struct world_answer *answer)
{
    const struct pfl_h2_field field = {PFL_TUNNEL_H_AFTER, after};

    world_ask_with(col, "GET", "/v1/spools", after != NULL ? &field : NULL, answer);
}

static void run(void)
{
    pfl_spool_polls_run(&world.requests.spools);
    world_pump();
}

/* The version of an answer. */
static const char *version_of(const struct world_answer *answer)
{
    static char version[PFL_SPOOL_POLLS_VERSION];
    const char *at = strstr(answer->body, "\"version\":\"");

    version[0] = '\0';
    if (at != NULL)
        (void)snprintf(version, sizeof(version), "%.*s", (int)strcspn(at + 11, "\""), at + 11);
    return version;
}

static bool says(const struct world_answer *answer, const char *text)
{
    return answer->status == 200 && strstr(answer->body, text) != NULL;
}

static void the_first_answer_has_every_host(void **state)
{
    struct world_peer *col = world_connect(PFL_IDENTITY_OPERATOR, "col");
    struct world_peer *a;

    (void)state;
    ask(col, NULL, &one);
    assert_true(says(&one, "{\"relay\":\"meet\",\"fleet\":\"test\",\"version\":\""));
    assert_true(says(&one, "\"is_from_start\":true,\"has_more\":false,\"hosts\":[]}"));
    a = world_connect(PFL_IDENTITY_HOST, "a");
    world_say_events(a, SPOOL("3"));
    world_disconnect(world_connect(PFL_IDENTITY_HOST, "b"));
    ask(col, NULL, &one);
    assert_true(says(&one, "{\"name\":\"a\",\"is_connected\":true,\"labels\":{\"tier\":\"web\"},"
                           "\"spool\":{\"segments\":3,\"bytes\":4096,\"oldest_ms\":5,"
                           "\"orders\":\"0123456789abcdef\"}}"));
    assert_true(says(&one, ",{\"name\":\"b\",\"is_connected\":false,"));
    assert_int_equal(world.streams.unread.used, 0);
    world_ask(col, "GET", "/v1/hosts/a", &one);
    assert_true(says(&one, "\"spool\":{\"segments\":3"));
}

static void the_next_waits_for_a_change_and_has_only_that(void **state)
{
    struct world_peer *col = world_connect(PFL_IDENTITY_OPERATOR, "col");
    struct world_peer *a = world_connect(PFL_IDENTITY_HOST, "a");

    (void)state;
    (void)world_connect(PFL_IDENTITY_HOST, "b");
    ask(col, NULL, &one);
    ask(col, version_of(&one), &two);
    run();
    assert_int_equal(two.status, 0);
    world_say_events(a, SPOOL("1"));
    assert_int_equal(two.status, 0);
    run();
    assert_true(says(&two, "\"is_from_start\":false,\"has_more\":false,"
                           "\"hosts\":[{\"name\":\"a\","));
    assert_null(strstr(two.body, "\"name\":\"b\""));
    /* The same again is no change. */
    ask(col, version_of(&two), &one);
    world_say_events(a, SPOOL("1"));
    run();
    assert_int_equal(one.status, 0);
    world_disconnect(a);
    run();
    assert_true(says(&one, "\"hosts\":[{\"name\":\"a\",\"is_connected\":false"));
}

static void it_waits_so_long_and_no_longer(void **state)
{
    struct world_peer *col = world_connect(PFL_IDENTITY_OPERATOR, "col");

    (void)state;
    (void)world_connect(PFL_IDENTITY_HOST, "a");
    ask(col, NULL, &one);
    ask(col, version_of(&one), &two);
    world.now_ms += PFL_SPOOL_POLLS_HOLD_MS - 1;
    run();
    assert_int_equal(two.status, 0);
    world.now_ms++;
    run();
    assert_true(says(&two, "\"is_from_start\":false,\"has_more\":false,\"hosts\":[]}"));
    assert_string_equal(version_of(&two), version_of(&one));
}

static void hosts_that_may_not_be_collected_are_not_in_it(void **state)
{
    struct world_peer *col;
    struct world_peer *db;

    (void)state;
    world_set_policy(COLLECT C_ROLE);
    col = world_connect(PFL_IDENTITY_OPERATOR, "col");
    (void)world_connect(PFL_IDENTITY_HOST, "web-1");
    db = world_connect(PFL_IDENTITY_HOST, "db-1");
    ask(col, NULL, &one);
    assert_true(says(&one, "\"name\":\"web-1\""));
    assert_null(strstr(one.body, "db-1"));
    /* Nor is it answered for what changes there. */
    ask(col, version_of(&one), &two);
    world_say_events(db, SPOOL("1"));
    run();
    assert_int_equal(two.status, 0);
}

static void who_may_collect_nowhere_is_refused(void **state)
{
    struct world_peer *ann;

    (void)state;
    world_set_policy(COLLECT C_ROLE "rule { name: \"a\" operator: \"ann\" host: \"*\" role: \"a\" }"
                                    "role { name: \"a\" order: true }");
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    ask(ann, NULL, &one);
    world_assert_refused(
        &one, 403, "not allowed: no rule of the policy lets ann collect anywhere (collect: true)");
    world_assert_audited("refuse 403 ann - - 0/0 - spools\n");
}

static void versions_of_another_time_are_answered_from_the_start(void **state)
{
    static const char *const wrong[] = {"",
                                        "1",
                                        "0.0.0",
                                        "x.y.z",
                                        "1e8.0",
                                        "1.0.99999",
                                        "1.0.-1",
                                        "1.0.1x",
                                        "..",
                                        "1.0.1.1",
                                        "99999999999999999999999999999999"};
    struct world_peer *col = world_connect(PFL_IDENTITY_OPERATOR, "col");

    (void)state;
    (void)world_connect(PFL_IDENTITY_HOST, "a");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ask(col, wrong[i], &one);
        assert_true(says(&one, "\"is_from_start\":true"));
    }
    /* Another policy: what it knows is void. */
    ask(col, version_of(&one), &two);
    pfl_spool_polls_restart(&world.requests.spools);
    run();
    assert_true(says(&two, "\"is_from_start\":true,\"has_more\":false,\"hosts\":[{\"name\":\"a\""));
    ask(col, version_of(&one), &two);
    assert_true(says(&two, "\"is_from_start\":true"));
}

static void one_waits_on_a_connection(void **state)
{
    struct world_peer *col = world_connect(PFL_IDENTITY_OPERATOR, "col");
    static struct world_answer three;
    char version[PFL_SPOOL_POLLS_VERSION];

    (void)state;
    ask(col, NULL, &one);
    (void)snprintf(version, sizeof(version), "%s", version_of(&one));
    ask(col, version, &one);
    ask(col, version, &two);
    world_assert_refused(&two, 429,
                         "too many requests: another one for the spools waits on this connection");
    ask(world_connect(PFL_IDENTITY_OPERATOR, "col"), version, &three);
    assert_int_equal(three.status, 0);
    world_reset(&one, PFL_H2_CANCEL);
    ask(col, version, &two);
    assert_int_equal(two.status, 0);
    /* The relay goes. */
    pfl_spool_polls_finish(&world.requests.spools);
    world_pump();
    assert_true(says(&two, "\"hosts\":[]") && says(&three, "\"hosts\":[]"));
}

static void many_hosts_come_in_pieces(void **state)
{
    struct world_peer *col = world_connect(PFL_IDENTITY_OPERATOR, "col");
    struct pfl_host_inventory *inventory = &world.peers.inventory;
    unsigned hosts = 0;

    (void)state;
    for (unsigned i = 0; i < 2 * PFL_SPOOL_POLLS_HOSTS + 7; i++) {
        struct pfl_host *host;
        char name[16];

        (void)snprintf(name, sizeof(name), "h%u", i);
        assert_int_equal(pfl_host_inventory_join(inventory, name, NULL, &host), 0);
    }
    ask(col, NULL, &one);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(one.status == 200);
        assert_true(says(&one, i == 2 ? "\"has_more\":false" : "\"has_more\":true"));
        assert_true(says(&one, i == 0 ? "\"is_from_start\":true" : "\"is_from_start\":false"));
        hosts += i < 2 ? PFL_SPOOL_POLLS_HOSTS : 7;
        ask(col, version_of(&one), &one);
        if (i == 1)
            run(); /* it is not far behind: it waits for its turn */
    }
    assert_int_equal(hosts, inventory->count);
    assert_int_equal(one.status, 0); /* there is no more */
}

/* Whatever the policy costs for a host, whether it is shown or not. */
static void the_answers_of_an_operator_take_a_part_of_a_turn(void **state)
{
    struct world_peer *col = world_connect(PFL_IDENTITY_OPERATOR, "col");
    struct world_peer *again = world_connect(PFL_IDENTITY_OPERATOR, "col");
    struct world_peer *cat = world_connect(PFL_IDENTITY_OPERATOR, "cat");

    (void)state;
    (void)world_connect(PFL_IDENTITY_HOST, "a");
    (void)world_connect(PFL_IDENTITY_HOST, "b");
    world.boot_step_ns = PFL_HOST_LIST_TURN_NS; /* so long takes one of them */
    ask(col, NULL, &one);
    assert_true(says(&one, "\"has_more\":true,\"hosts\":[{\"name\":\"a\"") && !says(&one, "\"b\""));
    ask(col, NULL, &one);
    ask(again, NULL, &two);
    assert_true(one.status == 0 && two.status == 0 && col->is_paced && again->is_paced);
    world_run_paced();
    run();
    assert_true(one.status == 0 && two.status == 0); /* the same turn */
    world.now_ms++;
    world_run_paced();
    assert_true(says(&one, "\"a\"") && two.status == 0 && again->is_paced);
    /* Another operator has a part, too. */
    ask(cat, NULL, &one);
    assert_true(says(&one, "\"a\""));
    world_disconnect(again);
}

static void what_it_may_not_see_is_passed_over_in_the_next_turns(void **state)
{
    struct world_peer *col;

    (void)state;
    world_set_policy(COLLECT C_ROLE);
    col = world_connect(PFL_IDENTITY_OPERATOR, "col");
    ask(col, NULL, &one);
    for (const char *name = "abc"; *name != '\0'; name++)
        (void)world_connect(PFL_IDENTITY_HOST, (char[]){*name, '\0'});
    (void)world_connect(PFL_IDENTITY_HOST, "web-1");
    world.boot_step_ns = PFL_HOST_LIST_TURN_NS;
    ask(col, version_of(&one), &two);
    run();
    for (unsigned turn = 0; turn < 3; turn++) {
        assert_true(two.status == 0 && col->is_paced);
        world.now_ms++;
        world_run_paced();
    }
    assert_true(says(&two, "\"hosts\":[{\"name\":\"web-1\""));
}

static int ask_all(void *arg)
{
    struct world_peer *col;
    struct world_peer *a;

    (void)arg;
    world_open(COLLECT C_ROLE);
    col = world_connect(PFL_IDENTITY_OPERATOR, "col");
    a = world_connect(PFL_IDENTITY_HOST, "web-1");
    ask(col, NULL, &one);
    ask(col, version_of(&one), &two);
    if (a != NULL)
        world_say_events(a, SPOOL("1"));
    run();
    ask(col, version_of(&two), &one);
    world_close();
    return world_result();
}

static void short_of_memory_nothing_is_left_behind(void **state)
{
    (void)state;
    world_close();
    pfl_sweep(ask_all, NULL, true);
    world_open(NULL);
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0x28a1f889cde92169);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(the_first_answer_has_every_host),
        WORLD_TEST(the_next_waits_for_a_change_and_has_only_that),
        WORLD_TEST(it_waits_so_long_and_no_longer),
        WORLD_TEST(hosts_that_may_not_be_collected_are_not_in_it),
        WORLD_TEST(who_may_collect_nowhere_is_refused),
        WORLD_TEST(versions_of_another_time_are_answered_from_the_start),
        WORLD_TEST(one_waits_on_a_connection),
        WORLD_TEST(many_hosts_come_in_pieces),
        WORLD_TEST(the_answers_of_an_operator_take_a_part_of_a_turn),
        WORLD_TEST(what_it_may_not_see_is_passed_over_in_the_next_turns),
        WORLD_TEST(short_of_memory_nothing_is_left_behind),
        cmocka_unit_test(all_of_this_is_as_recorded),
    };

    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
