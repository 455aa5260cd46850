/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of hosts in metrics: whom they show, how many at a time, and for how long. */
#include "relay/hub/host_figures.h"

#include "tests/unit/relay/hub/hub_world.h"

#define TEXT_MAX 100000u
#define T(f)     cmocka_unit_test_setup_teardown(f, world_setup, teardown)

static struct pfl_host_figures figures;
static char text[TEXT_MAX];

static void begin(void)
{
    pfl_host_figures_fini(&figures);
    figures = (struct pfl_host_figures){.peers = &world.peers};
}

static int teardown(void **state)
{
    pfl_host_figures_fini(&figures);
    return world_teardown(state);
}

/* The steps that it took. */
static unsigned make(void)
{
    unsigned steps = 0;

    while (pfl_host_figures_is_making(&figures)) {
        (void)pfl_host_figures_proceed(&figures, world.now_ms);
        steps++;
    }
    return steps;
}

static int read_text(const char *viewer)
{
    struct pfl_metrics m;
    struct pfl_span all;
    int rc;

    pfl_metrics_init(&m, TEXT_MAX);
    pfl_host_figures_collect(&figures, viewer, &m);
    rc = pfl_metrics_get(&m, &all);
    if (rc == 0)
        (void)snprintf(text, sizeof(text), "%.*s", (int)all.len, (const char *)all.data);
    pfl_metrics_fini(&m);
    return rc;
}

static const char *take(const char *viewer)
{
    if (!pfl_host_figures_ask(&figures, viewer, world.now_ms)) {
        (void)make();
        assert_true(pfl_host_figures_ask(&figures, viewer, world.now_ms));
    }
    assert_int_equal(read_text(viewer), 0);
    return text;
}

static void a_viewer_gets_the_hosts_that_he_may_know(void **state)
{
    (void)state;
    begin();
    world_set_policy("rule { name: \"r\" operator: \"ann\" host: \"a*\" }");
    (void)world_connect(PFL_IDENTITY_HOST, "a1");
    (void)world_connect(PFL_IDENTITY_HOST, "b");
    world_disconnect(world_connect(PFL_IDENTITY_HOST, "a2"));
    assert_int_equal(world_count(take("ann"), "perfleet_relay_host_connected{host=\"a1\"} 1\n"), 1);
    assert_int_equal(world_count(text, "perfleet_relay_host_connected{host=\"a2\"} 0\n"), 1);
    assert_int_equal(world_count(text, "perfleet_relay_host_streams{host=\"a1\"} 0\n"), 1);
    assert_int_equal(world_count(text, "{host=\"b\"}"), 0);
    assert_int_equal(world_count(text, "perfleet_relay_hosts_known 3\n"), 1);
    assert_int_equal(world_count(text, "perfleet_relay_hosts_connected 2\n"), 1);
    assert_int_equal(world_count(text, "# TYPE perfleet_relay_host_streams gauge\n"), 1);
    assert_int_equal(world_count(take("bob"), "{host="), 0);
    assert_int_equal(world_count(take(""), "perfleet_relay_host_connected{host="), 3);
}

static void a_step_has_the_hosts_of_one_bucket(void **state)
{
    (void)state;
    begin();
    for (unsigned i = 0; i < 6; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "h%u", i);
        world_disconnect(world_connect(PFL_IDENTITY_HOST, name));
    }
    assert_false(pfl_host_figures_ask(&figures, "", world.now_ms));
    assert_in_range(make(), 6, 7); /* and the end */
    assert_int_equal(world_count(take(""), "perfleet_relay_host_connected{host="), 6);
}

static void viewers_take_turns_and_get_the_same_text_for_a_second(void **state)
{
    unsigned steps = 0;

    (void)state;
    begin();
    (void)world_connect(PFL_IDENTITY_HOST, "a");
    (void)world_connect(PFL_IDENTITY_HOST, "b");
    assert_false(pfl_host_figures_ask(&figures, "ann", world.now_ms));
    assert_false(pfl_host_figures_ask(&figures, "bob", world.now_ms));
    assert_false(pfl_host_figures_ask(&figures, "ann", world.now_ms)); /* the same one */
    while (!pfl_host_figures_proceed(&figures, world.now_ms))
        steps++;
    assert_in_range(steps, 3, 5); /* the other one's are as far */
    assert_true(pfl_host_figures_proceed(&figures, world.now_ms));
    assert_false(pfl_host_figures_is_making(&figures));
    assert_int_equal(world_count(take("ann"), "{host=\"c\"}"), 0);
    (void)world_connect(PFL_IDENTITY_HOST, "c");
    world.now_ms += PFL_HOST_FIGURES_FRESH_MS - 1;
    assert_int_equal(world_count(take("ann"), "{host=\"c\"}"), 0);
    assert_true(pfl_host_figures_drop_old(&figures, world.now_ms));
    world.now_ms++;
    assert_false(pfl_host_figures_ask(&figures, "bob", world.now_ms));
    assert_int_equal(world_count(take("ann"), "connected{host=\"c\"}"), 1);
    world.now_ms += PFL_HOST_FIGURES_FRESH_MS;
    assert_false(pfl_host_figures_drop_old(&figures, world.now_ms));
}

static void with_all_places_taken_a_viewer_waits(void **state)
{
    char name[16];

    (void)state;
    begin();
    for (unsigned i = 0; i < PFL_HOST_FIGURES_VIEWERS; i++) {
        (void)snprintf(name, sizeof(name), "o%u", i);
        assert_false(pfl_host_figures_ask(&figures, name, world.now_ms));
    }
    assert_false(pfl_host_figures_ask(&figures, "ann", world.now_ms));
    (void)make();
    assert_true(pfl_host_figures_ask(&figures, "o0", world.now_ms));
    assert_false(pfl_host_figures_ask(&figures, "ann", world.now_ms));
    assert_false(pfl_host_figures_is_making(&figures));
    world.now_ms += PFL_HOST_FIGURES_FRESH_MS;
    assert_non_null(take("ann"));
}

static void another_policy_holds_at_once(void **state)
{
    (void)state;
    begin();
    (void)world_connect(PFL_IDENTITY_HOST, "a");
    assert_int_equal(world_count(take("ann"), "connected{host=\"a\"}"), 1);
    assert_false(pfl_host_figures_ask(&figures, "bob", world.now_ms));
    (void)pfl_host_figures_proceed(&figures, world.now_ms);
    world_set_policy("");
    pfl_host_figures_restart(&figures);
    assert_true(pfl_host_figures_is_making(&figures)); /* bob's */
    assert_int_equal(world_count(take("bob"), "{host="), 0);
    assert_int_equal(world_count(take("ann"), "{host="), 0);
}

static int make_some(void *arg)
{
    bool is_whole;

    (void)arg;
    world_open(NULL);
    (void)world_connect(PFL_IDENTITY_HOST, "a");
    begin();
    assert_false(pfl_host_figures_ask(&figures, "", world.now_ms));
    (void)make();
    assert_true(pfl_host_figures_ask(&figures, "", world.now_ms));
    is_whole = read_text("") == 0;
    if (is_whole && !world.is_broken)
        assert_int_equal(world_count(text, "connected{host=\"a\"} 1\n"), 1);
    pfl_host_figures_fini(&figures);
    world_close();
    return world_result() != 0 || is_whole ? world_result() : PFL_ENOMEM;
}

static void running_out_of_memory_is_said_and_leaves_nothing(void **state)
{
    (void)state;
    world_close();
    pfl_sweep(make_some, NULL, true);
    world_open(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_viewer_gets_the_hosts_that_he_may_know),
        T(a_step_has_the_hosts_of_one_bucket),
        T(viewers_take_turns_and_get_the_same_text_for_a_second),
        T(with_all_places_taken_a_viewer_waits),
        T(another_policy_holds_at_once),
        T(running_out_of_memory_is_said_and_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
