/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts that come and go, and what of their claims is believed. */
#include "relay/hub/host_inventory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/inventory_text.h"
#include "tests/support/sweep.h"

static struct pfl_host_inventory inventory;
static int peer;

static int setup(void **state)
{
    (void)state;
    pfl_host_inventory_init(&inventory);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_host_inventory_fini(&inventory);
    pfl_sweep_assert_no_leak();
    return 0;
}

static struct pfl_host *join(const char *name)
{
    struct pfl_host *host = NULL;

    assert_int_equal(pfl_host_inventory_join(&inventory, name, &peer, &host), 0);
    return host;
}

static json_t *encode(uint64_t now_ms)
{
    struct pfl_host_inventory_view view = {.relay = "r", .fleet = "lab", .now_ms = now_ms};
    char *text = NULL;
    json_t *root;

    assert_int_equal(inventory_text(&inventory, &view, &text), 0);
    root = json_loads(text, 0, NULL);
    pfl_mem_free(text);
    assert_non_null(root);
    return root;
}

static struct pfl_span text_of(const char *text)
{
    return pfl_span_of(text, strlen(text));
}

static void a_host_that_left_is_remembered_with_its_claims(void **state)
{
    struct pfl_host *a = join("a");
    json_t *root;
    json_t *host;

    (void)state;
    assert_int_equal(pfl_host_inventory_take_hello(a, text_of("{\"version\":\"1\"}")), 0);
    a->certificate_end_s = 1893456000;
    pfl_host_inventory_leave(&inventory, a, 1000);
    assert_ptr_equal(pfl_host_inventory_find(&inventory, "a"), a);
    root = encode(4500);
    host = json_array_get(json_object_get(root, "hosts"), 0);
    assert_false(json_is_true(json_object_get(host, "is_connected")));
    assert_true(json_real_value(json_object_get(host, "last_seen_s")) > 3.4);
    assert_string_equal(json_string_value(json_object_get(host, "version")), "1");
    assert_int_equal(json_integer_value(json_object_get(host, "certificate_end_s")), 1893456000);
    json_decref(root);
    assert_ptr_equal(join("a"), a);
    assert_null(pfl_host_inventory_find(&inventory, "b"));
}

static void only_what_makes_sense_is_taken_of_a_hello(void **state)
{
    static const char hello[] =
        "{\"name\":\"evil\",\"is_connected\":false,\"version\":\"a\\u0007b\",\"protocol\":1,"
        "\"labels\":{\"ok\":\"1\",\"bad name\":\"1\",\"n\":5,\"v\":\"<script>\",\"\":\"x\"},"
        "\"facts\":{\"kernel\":\"6.1\",\"cpus\":{\"a\":1},\"secret\":\"x\"},\"extra\":[1,2]}";
    struct pfl_host *a = join("a");
    json_t *root;
    json_t *host;

    (void)state;
    assert_int_equal(pfl_host_inventory_take_hello(a, text_of(hello)), 0);
    root = encode(0);
    host = json_array_get(json_object_get(root, "hosts"), 0);
    assert_string_equal(json_string_value(json_object_get(host, "name")), "a");
    assert_true(json_is_true(json_object_get(host, "is_connected")));
    assert_null(json_object_get(host, "version"));
    assert_null(json_object_get(host, "extra"));
    assert_int_equal(json_object_size(json_object_get(host, "labels")), 1);
    assert_int_equal(json_object_size(json_object_get(host, "facts")), 1);
    json_decref(root);
}

static void a_hello_that_is_no_json_or_too_long_changes_nothing(void **state)
{
    static char text[PFL_HOST_INVENTORY_HELLO_BYTES + 1];
    struct pfl_host *a = join("a");

    (void)state;
    assert_int_equal(pfl_host_inventory_take_hello(a, text_of("{\"version\":\"1\"}")), 0);
    assert_int_equal(pfl_host_inventory_take_hello(a, text_of("{\"version\":")), PFL_EPARSE);
    memset(text, '[', sizeof(text));
    assert_int_equal(pfl_host_inventory_take_hello(a, pfl_span_of(text, sizeof(text))), PFL_EPARSE);
    assert_int_equal(pfl_host_inventory_take_hello(a, pfl_span_of(text, sizeof(text) - 1)),
                     PFL_EPARSE);
    assert_non_null(json_object_get(a->claims, "version"));
}

/* Asked and answered by our clock, received and sent by the host's. */
static int take_clock(struct pfl_host *host, int64_t asked, int64_t answered, int64_t received,
                      int64_t sent)
{
    char text[96];

    (void)snprintf(text, sizeof(text), "{\"receive_ns\": %lld, \"send_ns\": %lld}",
                   (long long)received, (long long)sent);
    return pfl_host_inventory_take_clock(host, text_of(text), asked, answered);
}

static void the_better_reading_of_a_clock_is_kept_while_it_is_young(void **state)
{
    struct pfl_host *a = join("a");

    (void)state;
    assert_int_equal(take_clock(a, 1000, 1100, 5050, 5050), 0);
    assert_int_equal(a->clock_offset_ns, 4000);
    assert_int_equal(a->clock_error_ns, 51);
    assert_int_equal(take_clock(a, 1200, 1400, 5400, 5400), 0);
    assert_int_equal(a->clock_offset_ns, 4000);
    assert_int_equal(take_clock(a, 2000, 2040, 6010, 6030), 0); /* 20 of 40 were at the host */
    assert_int_equal(a->clock_offset_ns, 4000);
    assert_int_equal(a->clock_error_ns, 11);
    assert_int_equal(take_clock(a, 60000000000, 60000400000, 60000209000, 60000209000), 0);
    assert_int_equal(a->clock_offset_ns, 9000);
    assert_int_equal(a->clock_error_ns, 200001);
}

static void a_clock_that_makes_no_sense_is_not_taken(void **state)
{
    static const char *const bodies[] = {"", "[]", "{\"receive_ns\": 1}",
                                         "{\"receive_ns\": 1, \"send_ns\": 1.5}",
                                         "{\"receive_ns\": 9223372036854775808, \"send_ns\": 1}"};
    struct pfl_host *a = join("a");

    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
        assert_int_equal(pfl_host_inventory_take_clock(a, text_of(bodies[i]), 1, 2), PFL_EPARSE);
    assert_int_equal(take_clock(a, 1000, 1100, 50, 40), PFL_EPARSE);
    assert_int_equal(take_clock(a, 1000, 1100, -50, 40), PFL_EPARSE);
    assert_int_equal(take_clock(a, 1000, 1100, 0, INT64_MAX), PFL_EPARSE);
    assert_int_equal(take_clock(a, 1000, 1100, 50, 250), PFL_EPARSE); /* longer than all of it */
    assert_false(a->has_clock);
}

static void past_the_maximum_the_one_that_left_first_is_forgotten(void **state)
{
    struct pfl_host *host;
    char name[32];

    (void)state;
    for (unsigned i = 0; i < PFL_HOST_INVENTORY_MAX_HOSTS; i++) {
        (void)snprintf(name, sizeof(name), "h%u", i);
        assert_int_equal(pfl_host_inventory_join(&inventory, name, &peer, &host), 0);
    }
    assert_int_equal(pfl_host_inventory_join(&inventory, "new", &peer, &host), PFL_ELIMIT);
    pfl_host_inventory_leave(&inventory, pfl_host_inventory_find(&inventory, "h7"), 1);
    pfl_host_inventory_leave(&inventory, pfl_host_inventory_find(&inventory, "h3"), 2);
    assert_int_equal(pfl_host_inventory_join(&inventory, "new", &peer, &host), 0);
    assert_int_equal(inventory.forgotten[PFL_HOST_INVENTORY_ROOM], 1);
    assert_null(pfl_host_inventory_find(&inventory, "h7"));
    assert_non_null(pfl_host_inventory_find(&inventory, "h3"));
}

static void one_that_left_is_forgotten_with_its_claims(void **state)
{
    struct pfl_host *a = join("a");

    (void)state;
    (void)join("b");
    assert_int_equal(pfl_host_inventory_take_hello(a, text_of("{\"version\":\"1\"}")), 0);
    pfl_host_inventory_leave(&inventory, a, 1);
    pfl_host_inventory_forget(&inventory, a, PFL_HOST_INVENTORY_ASKED);
    assert_null(pfl_host_inventory_find(&inventory, "a"));
    assert_non_null(pfl_host_inventory_find(&inventory, "b"));
    assert_int_equal(inventory.count, 1);
    assert_int_equal(inventory.forgotten[PFL_HOST_INVENTORY_ASKED], 1);
    assert_int_equal(inventory.forgotten[PFL_HOST_INVENTORY_AGE], 0);
    assert_null(join("a")->claims);
}

static void note_first_letter(char *letters, char letter)
{
    size_t len = strlen(letters);

    letters[len] = letter;
    letters[len + 1] = '\0';
}

/* The names of those that were, in order: a letter each. */
static void note_forgotten(void *user, const struct pfl_host *host)
{
    assert_ptr_equal(pfl_host_inventory_find(&inventory, host->name), host);
    note_first_letter(user, host->name[0]);
}

static void those_that_left_long_ago_are_forgotten_and_no_others(void **state)
{
    char names[32] = "";

    (void)state;
    (void)join("connected");
    pfl_host_inventory_leave(&inventory, join("b"), 1000);
    pfl_host_inventory_leave(&inventory, join("a"), 2000);
    pfl_host_inventory_leave(&inventory, join("back"), 2000);
    (void)join("back");
    pfl_host_inventory_leave(&inventory, join("young"), 3001);
    pfl_host_inventory_forget_old(&inventory, 8000, 7001, note_forgotten, names);
    assert_string_equal(names, "");
    pfl_host_inventory_forget_old(&inventory, 8000, 5000, note_forgotten, names);
    assert_string_equal(names, "ba");
    assert_int_equal(inventory.count, 3);
    assert_int_equal(inventory.forgotten[PFL_HOST_INVENTORY_AGE], 2);
    assert_non_null(pfl_host_inventory_find(&inventory, "connected"));
    assert_non_null(pfl_host_inventory_find(&inventory, "back"));
    assert_non_null(pfl_host_inventory_find(&inventory, "young"));
}

/* Of an answer that is being read, one goes: it still has the others. */
static void one_is_forgotten_while_all_are_read(void **state)
{
    static const struct pfl_host_inventory_view view = {.relay = "r", .fleet = "lab"};
    struct pfl_host_inventory_reader reader = {0};
    struct pfl_buf text;
    char name[16];
    unsigned hosts;
    json_t *root;

    (void)state;
    pfl_buf_init(&text, 1u << 20);
    for (int i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof(name), "h%d", i);
        pfl_host_inventory_leave(&inventory, join(name), 1);
    }
    for (int i = 0; !reader.is_over; i++) {
        struct pfl_host *h;

        assert_int_equal(pfl_host_inventory_read(&inventory, &view, &reader, &text, &hosts), 0);
        (void)snprintf(name, sizeof(name), "h%d", i % 50);
        h = pfl_host_inventory_find(&inventory, name);
        if (h != NULL)
            pfl_host_inventory_forget(&inventory, h, PFL_HOST_INVENTORY_ASKED);
    }
    root = json_loadb((const char *)pfl_buf_get(&text).data, pfl_buf_get(&text).len, 0, NULL);
    assert_true(json_array_size(json_object_get(root, "hosts")) >= 50);
    json_decref(root);
    pfl_buf_fini(&text);
}

static unsigned count_in(const char *text, const char *what)
{
    unsigned count = 0;

    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        count++;
    return count;
}

/* An answer that nobody reads holds one piece; what comes and goes meanwhile spoils nothing. */
static void all_hosts_are_read_in_small_pieces(void **state)
{
    static const struct pfl_host_inventory_view view = {.relay = "r", .fleet = "lab"};
    struct pfl_host_inventory_reader reader = {0};
    struct pfl_buf text;
    char name[16];
    unsigned most = 0;
    unsigned hosts;

    (void)state;
    pfl_buf_init(&text, 1u << 20);
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof(name), "h%d", i);
        pfl_host_inventory_leave(&inventory, join(name), 1);
    }
    for (int i = 0; !reader.is_over; i++) {
        assert_int_equal(pfl_host_inventory_read(&inventory, &view, &reader, &text, &hosts), 0);
        most = hosts > most ? hosts : most;
        (void)snprintf(name, sizeof(name), "new%d", i);
        (void)join(name);
        (void)snprintf(name, sizeof(name), "h%d", i % 1000);
        (void)join(name);
    }
    assert_true(most < 20);
    assert_int_equal(pfl_buf_append(&text, "", 1), 0);
    assert_int_equal(count_in((const char *)pfl_buf_get(&text).data, "\"name\":\"h"), 1000);
    assert_int_equal(count_in((const char *)pfl_buf_get(&text).data, "\"name\":\"h77\""), 1);
    pfl_buf_fini(&text);
}

static int run(void *arg)
{
    static const struct pfl_host_inventory_view view = {.relay = "r", .fleet = "lab", .now_ms = 5};
    struct pfl_host *host = NULL;
    char *text = NULL;
    int rc;

    (void)arg;
    pfl_host_inventory_init(&inventory);
    rc = pfl_host_inventory_join(&inventory, "a", &peer, &host);
    if (rc == 0)
        rc = pfl_host_inventory_take_hello(
            host, text_of("{\"labels\":{\"a\":\"b\"},\"facts\":{\"cpus\":4},\"version\":\"1\"}"));
    if (rc == 0)
        rc = inventory_text(&inventory, &view, &text);
    pfl_mem_free(text);
    if (rc == 0) {
        pfl_host_inventory_leave(&inventory, host, 1);
        pfl_host_inventory_forget(&inventory, host, PFL_HOST_INVENTORY_ASKED);
    }
    pfl_host_inventory_fini(&inventory);
    /* jansson does not say whether it was the memory. */
    return rc == PFL_EPARSE ? PFL_ENOMEM : rc;
}

static void running_out_of_memory_is_reported(void **state)
{
    (void)state;
    pfl_sweep(run, NULL, true);
    pfl_host_inventory_init(&inventory);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_host_that_left_is_remembered_with_its_claims),
        T(only_what_makes_sense_is_taken_of_a_hello),
        T(a_hello_that_is_no_json_or_too_long_changes_nothing),
        T(the_better_reading_of_a_clock_is_kept_while_it_is_young),
        T(a_clock_that_makes_no_sense_is_not_taken),
        T(past_the_maximum_the_one_that_left_first_is_forgotten),
        T(one_that_left_is_forgotten_with_its_claims),
        T(those_that_left_long_ago_are_forgotten_and_no_others),
        T(one_is_forgotten_while_all_are_read),
        T(all_hosts_are_read_in_small_pieces),
        T(running_out_of_memory_is_reported),
    };

    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
