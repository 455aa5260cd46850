/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Record page's form: which hosts a selection means, what is wrong with which field, what is
 * streamed, and the command line that does the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "consumer/web/record/record_plan.h"
#include "tests/support/sweep.h"

#define SOURCES "data_sources { config { name: \"com.example.load\" } }"
#define RING    "buffers { size_kb: 64 fill_policy: RING_BUFFER } "

static const char inventory_text[] =
    "{\"hosts\": ["
    "{\"name\": \"db-1\", \"is_connected\": true, \"labels\": {\"role\": \"db\"}},"
    "{\"name\": \"web-1\", \"is_connected\": true, \"labels\": {\"role\": \"web\"}},"
    "{\"name\": \"web-2\", \"is_connected\": false, \"last_seen_s\": 5, \"labels\": {\"role\": "
    "\"web\"}},"
    "{\"name\": \"web-3\", \"is_connected\": false, \"last_seen_s\": 61, \"labels\": {\"role\": "
    "\"web\"}}]}";

static struct pfl_host_rows *make_rows(const char *text)
{
    struct pfl_host_rows *rows = NULL;
    struct pfl_inventory *inventory = NULL;

    if (pfl_inventory_parse(pfl_span_of(text, strlen(text)), &inventory) != 0)
        return NULL;
    if (pfl_host_rows_new(&(struct pfl_host_rows_conf){.selection = NULL}, &rows) != 0 ||
        pfl_host_rows_give_inventory(rows, inventory) != 0) {
        pfl_inventory_free(inventory);
        pfl_host_rows_free(rows);
        return NULL;
    }
    return rows;
}

static struct pfl_record_hosts choose(const char *select)
{
    struct pfl_host_rows *rows = make_rows(inventory_text);
    struct pfl_record_hosts hosts;

    assert_non_null(rows);
    assert_int_equal(pfl_record_hosts_choose(rows, select, &hosts, NULL), 0);
    pfl_host_rows_free(rows);
    return hosts;
}

static void selection_means_hosts_that_did_not_leave(void **state)
{
    struct pfl_record_hosts hosts = choose("*");

    (void)state;
    assert_int_equal(hosts.all, 4);
    assert_int_equal(hosts.found, 3);
    assert_int_equal(hosts.away, 1);
    assert_int_equal(hosts.left, 1);
    assert_string_equal(hosts.why, "");
    hosts = choose("role=web,name!=web-2");
    assert_int_equal(hosts.found, 1);
    assert_int_equal(hosts.away, 0);
    assert_int_equal(hosts.named[0], 1);
    assert_int_equal(hosts.left, 1);
    hosts = choose("name=web-3");
    assert_string_equal(hosts.why, "all 1 hosts that match left the relay more than 60 s ago");
    hosts = choose("role=<b>");
    assert_string_equal(hosts.why, "none of the 4 hosts matches \"role=<b>\"");
    hosts = choose("  ");
    assert_string_equal(hosts.why, "choose hosts: * means all 4");
    hosts = choose("role=a,,");
    assert_non_null(strstr(hosts.why, "give label=value, label!=value, label or !label"));
    assert_int_equal(hosts.found, 0);
}

static void specs_are_of_the_found_hosts(void **state)
{
    struct pfl_host_rows *rows = make_rows(inventory_text);
    struct pfl_record_hosts hosts;
    struct pfl_host_spec *specs;

    (void)state;
    assert_int_equal(pfl_record_hosts_choose(rows, "role=web", &hosts, &specs), 0);
    assert_int_equal(hosts.found, 2);
    assert_int_equal(specs[0].kind, PFL_HOST_TUNNEL);
    assert_string_equal(specs[0].name, "web-1");
    assert_string_equal(specs[1].name, "web-2");
    pfl_mem_free(specs);
    assert_int_equal(pfl_record_hosts_choose(rows, "role=no", &hosts, &specs), 0);
    assert_null(specs);
    pfl_host_rows_free(rows);
    pfl_sweep_assert_no_leak();
}

static void hosts_that_were_named_are_chosen_by_name(void **state)
{
    static const struct pfl_host_spec specs[2] = {
        {.kind = PFL_HOST_UNIX, .name = "one", .address = "/a", .text = "one=unix:/a"},
        {.kind = PFL_HOST_UNIX, .name = "two", .address = "/b", .text = "two=unix:/b"}};
    struct pfl_record_hosts hosts;
    struct pfl_host_spec *chosen;
    struct pfl_host_rows *rows;

    (void)state;
    assert_int_equal(pfl_host_rows_new(&(struct pfl_host_rows_conf){.selection = NULL}, &rows), 0);
    assert_int_equal(pfl_host_rows_set_specs(rows, specs, 2), 0);
    assert_int_equal(pfl_record_hosts_choose(rows, "name=t*", &hosts, &chosen), 0);
    assert_int_equal(hosts.found, 1);
    assert_string_equal(chosen[0].address, "/b");
    pfl_mem_free(chosen);
    assert_int_equal(pfl_record_hosts_choose(rows, "role=web", &hosts, NULL), 0);
    assert_int_equal(hosts.found, 0);
    pfl_host_rows_free(rows);
    pfl_sweep_assert_no_leak();
}

static char many[1u << 20];

static void more_hosts_than_a_recording_has_are_refused(void **state)
{
    size_t len = (size_t)snprintf(many, sizeof(many), "{\"hosts\": [");
    struct pfl_host_rows *rows;
    struct pfl_record_hosts hosts;
    struct pfl_host_spec *specs;

    (void)state;
    for (unsigned i = 0; i <= PFL_RECORD_PLAN_MAX_HOSTS; i++)
        len +=
            (size_t)snprintf(many + len, sizeof(many) - len,
                             "%s{\"name\": \"h%u\", \"is_connected\": true}", i != 0 ? "," : "", i);
    (void)snprintf(many + len, sizeof(many) - len, "]}");
    rows = make_rows(many);
    assert_int_equal(pfl_record_hosts_choose(rows, "*", &hosts, &specs), 0);
    assert_null(specs);
    assert_string_equal(hosts.why,
                        "1025 hosts match, and one recording has at most 1024: narrow the "
                        "selection");
    assert_int_equal(pfl_record_hosts_choose(rows, "name!=h0", &hosts, &specs), 0);
    assert_int_equal(hosts.found, 1024);
    assert_string_equal(specs[1023].name, "h1024");
    pfl_mem_free(specs);
    pfl_host_rows_free(rows);
    pfl_sweep_assert_no_leak();
}

/* ---- the config ---- */

static void check_plan(const struct pfl_record_form *form, const char *config_why,
                       const char *duration_why, bool is_streamed)
{
    struct pfl_record_plan plan;

    assert_int_equal(pfl_record_plan_make(&plan, form), 0);
    assert_string_equal(plan.config_why, config_why);
    assert_string_equal(plan.duration_why, duration_why);
    assert_int_equal(plan.is_streamed, is_streamed);
    assert_int_equal(pfl_record_plan_is_good(&plan),
                     config_why[0] == '\0' && duration_why[0] == '\0');
    pfl_record_plan_fini(&plan);
    pfl_sweep_assert_no_leak();
}

static struct pfl_record_form form_of(const char *preset, const char *config, const char *duration)
{
    return (struct pfl_record_form){
        .select = "*", .preset = preset, .config = config, .duration = duration};
}

static void what_is_wrong_is_said_with_its_place(void **state)
{
    struct pfl_record_form f = form_of("default", "", "");

    (void)state;
    check_plan(&f, "", "", false);
    f = form_of("", " \r\n\t", "");
    check_plan(&f, "choose a preset, or give a config", "", false);
    f = form_of("default", SOURCES, "");
    check_plan(&f,
               "a preset and a config are given: choose \"the config below\", or empty the config",
               "", false);
    f = form_of("none", "", "");
    check_plan(&f, "there is no such preset", "", false);
    f = form_of("default", "", "later");
    check_plan(&f, "", "\"later\" is no duration: 10s, 500ms, 5m, 2h; at most a week", false);
    f = form_of("default", "", "0");
    check_plan(&f, "", "\"0\" is no duration: 10s, 500ms, 5m, 2h; at most a week", false);
    f = form_of("", "buffers {\n  size: 3 }", "");
    check_plan(
        &f, "config:2:3: no field \"size\" in TraceConfig.BufferConfig; did you mean \"size_kb\"?",
        "", false);
}

static void long_recordings_are_streamed_unless_a_part_is_wanted(void **state)
{
    struct pfl_record_form f = form_of("", RING SOURCES, "60s");

    (void)state;
    check_plan(&f, "", "", false);
    f = form_of("", RING SOURCES, "61s");
    check_plan(&f, "", "", true);
    f = form_of("", RING SOURCES, ""); /* until it is stopped, in a ring: its last part */
    check_plan(&f, "", "", false);
    f = form_of("", "buffers { size_kb: 64 fill_policy: DISCARD } " SOURCES, "61s");
    check_plan(&f, "", "", false);
    f = form_of("", "buffers { size_kb: 64 } " SOURCES, "");
    check_plan(&f, "", "", true);
}

static void check_notes(const char *config, const char *duration, const char *const *notes)
{
    struct pfl_record_form form = form_of("", config, duration);
    struct pfl_record_plan plan;
    size_t n = 0;

    assert_int_equal(pfl_record_plan_make(&plan, &form), 0);
    for (; notes[n] != NULL; n++)
        assert_string_equal(pfl_record_plan_get_note(&plan, n), notes[n]);
    assert_null(pfl_record_plan_get_note(&plan, n));
    pfl_record_plan_fini(&plan);
}

static void notes_say_what_a_person_should_know(void **state)
{
    static const char stopped[] = "It records until you stop it.";
    static const char streamed[] = "The buffers are read into the file during the recording.";

    (void)state;
    check_notes(RING SOURCES, "10s", (const char *const[]){NULL});
    check_notes("buffers { size_kb: 64 } " SOURCES, "",
                (const char *const[]){stopped, streamed, NULL});
    check_notes(RING SOURCES, "",
                (const char *const[]){
                    stopped,
                    "The buffers are read at the end: they keep the last part of the recording.",
                    NULL});
    check_notes(
        "buffers { size_kb: 64 fill_policy: DISCARD } " SOURCES, "2m",
        (const char *const[]){
            "The buffers are read at the end: they keep the first part of the recording.", NULL});
    check_notes(RING SOURCES " compression_type: COMPRESSION_TYPE_DEFLATE", "1s",
                (const char *const[]){
                    "The config's compression is left out: packets are merged one by one.", NULL});
    check_notes("nonsense", "1s", (const char *const[]){NULL});
}

static void lines_are_joined_and_nothing_else(void **state)
{
    char text[] = "a\r\nb\rc\n\r\n\r";

    (void)state;
    pfl_record_form_join_lines(text);
    assert_string_equal(text, "a\nb\rc\n\n\r");
}

/* ---- the command line ---- */

static void command_is_that_of_the_form(void **state)
{
    struct pfl_record_form f = form_of("default", "", "10s");
    const struct pfl_host_spec specs[2] = {
        {.kind = PFL_HOST_TUNNEL, .name = "web-1", .text = "web-1 by relay"},
        {.kind = PFL_HOST_UNIX, .name = "two", .text = "two=unix:/b c"}};
    struct pfl_record_means means = {
        .options = " --relay r", .specs = specs, .specs_len = 2, .output = "a.pftrace"};
    struct pfl_command_line line;

    (void)state;
    f.select = "role=web,!old";
    pfl_record_plan_write_command(&f, &means, &line);
    assert_string_equal(line.text, "perfleet record --preset default --duration 10s --relay r "
                                   "--select 'role=web,!old' -o a.pftrace");
    means.selection = "zone=b";
    f.preset = "";
    f.duration = "";
    pfl_record_plan_write_command(&f, &means, &line);
    assert_string_equal(line.text, "perfleet record -c CONFIG.pbtx --relay r --select "
                                   "'zone=b,role=web,!old' -o a.pftrace");
    means.has_names = true;
    pfl_record_plan_write_command(&f, &means, &line);
    assert_string_equal(line.text, "perfleet record -c CONFIG.pbtx --relay r --host web-1 --host "
                                   "'two=unix:/b c' -o a.pftrace");
}

/* ---- each allocation fails once ---- */

static int choose_and_plan(void *arg)
{
    struct pfl_record_form form = form_of("", RING SOURCES, "10s");
    struct pfl_host_rows *rows = arg;
    struct pfl_record_hosts hosts;
    struct pfl_host_spec *specs = NULL;
    struct pfl_record_plan plan;
    int rc = pfl_record_hosts_choose(rows, "*", &hosts, &specs);

    if (rc == 0) {
        rc = pfl_record_plan_make(&plan, &form);
        pfl_record_plan_fini(&plan);
    }
    pfl_mem_free(specs);
    return rc;
}

static int with_rows(void *arg)
{
    struct pfl_host_rows *rows = make_rows(inventory_text);
    int rc = rows != NULL ? choose_and_plan(rows) : PFL_ENOMEM;

    (void)arg;
    pfl_host_rows_free(rows);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(with_rows, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(selection_means_hosts_that_did_not_leave),
        cmocka_unit_test(specs_are_of_the_found_hosts),
        cmocka_unit_test(hosts_that_were_named_are_chosen_by_name),
        cmocka_unit_test(more_hosts_than_a_recording_has_are_refused),
        cmocka_unit_test(what_is_wrong_is_said_with_its_place),
        cmocka_unit_test(long_recordings_are_streamed_unless_a_part_is_wanted),
        cmocka_unit_test(notes_say_what_a_person_should_know),
        cmocka_unit_test(lines_are_joined_and_nothing_else),
        cmocka_unit_test(command_is_that_of_the_form),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
