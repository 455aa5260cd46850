/* SPDX-License-Identifier: Apache-2.0 */
/* What relays say of hosts, and what is kept of it. */
#include "collector/serve/known_hosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "collector/relay/host_map.h"
#include "perfleet/segment.fields.h"
#include "tests/support/sweep.h"

static const struct pfl_hash_key key = {{3, 5}};

static int set(struct pfl_known_hosts *hosts, const char *name, unsigned relay, bool is_connected,
               const char *label)
{
    char *labels[] = {(char *)(uintptr_t)label};
    const struct pfl_known_host host = {.name = name,
                                        .relay = relay,
                                        .is_connected = is_connected,
                                        .labels = labels,
                                        .labels_len = label != NULL};

    return pfl_known_hosts_set(hosts, &host);
}

static bool has_label(const struct pfl_known_hosts *hosts, const char *name, const char *label)
{
    struct pfl_span labels;
    struct pfl_reader r;
    struct pfl_field f;

    assert_true(pfl_known_hosts_get_labels(hosts, name, &labels));
    r = pfl_reader_of(labels);
    while (pfl_reader_field(&r, &f)) {
        if (f.id == SEGMENT__LABEL && pfl_span_eq(f.bytes, pfl_span_of(label, strlen(label))))
            return true;
    }
    return false;
}

static void a_host_is_connected_by_any_relay(void **state)
{
    struct pfl_known_hosts *hosts;

    (void)state;
    assert_int_equal(pfl_known_hosts_new(&key, &hosts), 0);
    assert_false(pfl_known_hosts_is_connected(hosts, "a"));
    assert_int_equal(set(hosts, "a", 0, true, NULL), 0);
    assert_int_equal(set(hosts, "a", 7, true, NULL), 0);
    assert_int_equal(set(hosts, "a", 0, false, NULL), 0);
    assert_true(pfl_known_hosts_is_connected(hosts, "a"));
    pfl_known_hosts_forget_relay(hosts, 0);
    assert_true(pfl_known_hosts_is_connected(hosts, "a"));
    pfl_known_hosts_forget_relay(hosts, 7);
    assert_false(pfl_known_hosts_is_connected(hosts, "a"));
    pfl_known_hosts_free(hosts);
}

static void labels_are_the_last_ones(void **state)
{
    struct pfl_known_hosts *hosts;
    struct pfl_span labels;

    (void)state;
    assert_int_equal(pfl_known_hosts_new(&key, &hosts), 0);
    assert_false(pfl_known_hosts_get_labels(hosts, "a", &labels));
    assert_int_equal(set(hosts, "a", 0, true, "role=web"), 0);
    assert_true(has_label(hosts, "a", "role=web"));
    assert_int_equal(set(hosts, "a", 1, true, "role=db"), 0);
    assert_true(has_label(hosts, "a", "role=db"));
    assert_false(has_label(hosts, "a", "role=web"));
    pfl_known_hosts_forget_relay(hosts, 0);
    assert_true(has_label(hosts, "a", "role=db"));
    pfl_known_hosts_free(hosts);
}

static void there_is_a_largest_number_of_hosts(void **state)
{
    struct pfl_known_hosts *hosts;
    char name[80];

    (void)state;
    assert_int_equal(pfl_known_hosts_new(&key, &hosts), 0);
    for (unsigned i = 0; i < PFL_HOST_MAP_MAX; i++) {
        (void)snprintf(name, sizeof(name), "host-%u", i);
        assert_int_equal(set(hosts, name, 0, true, "x=y"), 0);
    }
    assert_int_equal(set(hosts, "one-more", 0, true, NULL), PFL_ELIMIT);
    assert_int_equal(set(hosts, "of-another-relay", 1, true, NULL), 0);
    assert_int_equal(set(hosts, "host-3", 0, false, "x=z"), 0);
    assert_true(has_label(hosts, "host-3", "x=z"));
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(set(hosts, name, 0, true, NULL), PFL_EINVAL);
    pfl_known_hosts_free(hosts);
    pfl_known_hosts_free(NULL);
}

static bool is_known(const struct pfl_known_hosts *hosts, const char *name)
{
    struct pfl_span labels;

    return pfl_known_hosts_get_labels(hosts, name, &labels);
}

static void a_new_host_takes_the_place_of_the_one_that_left_first(void **state)
{
    struct pfl_known_hosts *hosts;
    char name[32];

    (void)state;
    assert_int_equal(pfl_known_hosts_new(&key, &hosts), 0);
    for (unsigned i = 0; i < PFL_HOST_MAP_MAX; i++) {
        (void)snprintf(name, sizeof(name), "host-%u", i);
        assert_int_equal(set(hosts, name, i % 2, true, "x=y"), 0);
    }
    assert_int_equal(set(hosts, "host-8", 0, false, "x=y"), 0);
    assert_int_equal(set(hosts, "host-2", 0, false, "x=y"), 0);
    assert_int_equal(set(hosts, "host-5", 1, false, "x=y"), 0);
    assert_int_equal(set(hosts, "host-8", 0, true, "x=y"), 0); /* it is back */
    assert_int_equal(set(hosts, "new-1", 0, true, "x=z"), 0);
    assert_true(has_label(hosts, "new-1", "x=z"));
    assert_false(is_known(hosts, "host-2"));
    assert_true(is_known(hosts, "host-5"));
    assert_int_equal(set(hosts, "new-2", 0, false, NULL), 0); /* it left last */
    assert_false(is_known(hosts, "host-5"));
    assert_true(is_known(hosts, "host-8"));
    assert_int_equal(set(hosts, "new-3", 0, true, NULL), 0);
    assert_false(is_known(hosts, "new-2"));
    assert_int_equal(set(hosts, "new-4", 0, true, NULL), PFL_ELIMIT);
    pfl_known_hosts_forget_relay(hosts, 1);
    assert_int_equal(set(hosts, "new-4", 0, true, NULL), 0);
    assert_true(pfl_known_hosts_is_connected(hosts, "host-8"));
    pfl_known_hosts_free(hosts);
}

static int set_some(void *arg)
{
    struct pfl_known_hosts *hosts = NULL;
    int rc = pfl_known_hosts_new(&key, &hosts);

    (void)arg;
    if (rc == 0)
        rc = set(hosts, "a", 0, true, "role=web");
    if (rc == 0) {
        rc = set(hosts, "a", 0, true, "role=db");
        if (rc != 0) /* what was known stays */
            assert_true(has_label(hosts, "a", "role=web"));
    }
    pfl_known_hosts_free(hosts);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(set_some, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_is_connected_by_any_relay),
        cmocka_unit_test(labels_are_the_last_ones),
        cmocka_unit_test(there_is_a_largest_number_of_hosts),
        cmocka_unit_test(a_new_host_takes_the_place_of_the_one_that_left_first),
        cmocka_unit_test(every_allocation_may_fail),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    pfl_sweep_assert_no_leak();
    return failed;
}
