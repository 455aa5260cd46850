/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole pages from hosts whose every string is markup: nothing of them becomes an element, and
 * each allocation may fail. A page of a hundred rows of ten thousand hosts is made in no time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "consumer/web/hosts/host_page.h"
#include "consumer/web/hosts/hosts_page.h"
#include "perfetto/service_state.pb-c.h"
#include "tests/support/emulator.h"
#include "tests/support/recorded.h"
#include "tests/support/sweep.h"

#define EVIL      "<script>alert(1)</script>\"'&"
#define NOW_S     1800000000
#define MANY      10000u
#define STATE_MAX 8192u
#define PAGE_MAX  (4u << 20)

typedef Perfetto__Protos__TracingServiceState state_t;
typedef Perfetto__Protos__TracingServiceState__Producer producer_t;
typedef Perfetto__Protos__TracingServiceState__DataSource source_t;
typedef Perfetto__Protos__TracingServiceState__TracingSession session_t;
typedef Perfetto__Protos__TracingServiceState__PerfleetFigures figures_t;

static const struct pfl_layout_tab tabs[] = {{"/hosts", "Hosts"}};
static char evil[] = EVIL;
static char text[PAGE_MAX];
static uint8_t state_bytes[STATE_MAX];
static struct pfl_trace_rows traces;

static struct pfl_span make_state(void)
{
    state_t state = PERFETTO__PROTOS__TRACING_SERVICE_STATE__INIT;
    producer_t producer = PERFETTO__PROTOS__TRACING_SERVICE_STATE__PRODUCER__INIT;
    source_t source = PERFETTO__PROTOS__TRACING_SERVICE_STATE__DATA_SOURCE__INIT;
    session_t session = PERFETTO__PROTOS__TRACING_SERVICE_STATE__TRACING_SESSION__INIT;
    figures_t figures = PERFETTO__PROTOS__TRACING_SERVICE_STATE__PERFLEET_FIGURES__INIT;
    Perfetto__Protos__DataSourceDescriptor descriptor =
        PERFETTO__PROTOS__DATA_SOURCE_DESCRIPTOR__INIT;
    producer_t *producers[] = {&producer};
    source_t *sources[] = {&source, &source};
    session_t *sessions[] = {&session};
    uint32_t sizes[] = {1024, 8};

    producer.name = producer.sdk_version = producer.machine_name = evil;
    descriptor.name = evil;
    source.ds_descriptor = &descriptor;
    session.state = session.unique_session_name = evil;
    session.n_buffer_size_kb = 2;
    session.buffer_size_kb = sizes;
    figures.has_ring_bytes = figures.has_ring_used_bytes = figures.has_lost_by_writers = 1;
    figures.ring_bytes = 1 << 20;
    figures.ring_used_bytes = 1 << 19;
    figures.lost_by_writers = 7;
    state.tracing_service_version = evil;
    state.has_num_sessions = 1;
    state.num_sessions = 1;
    state.n_producers = 1;
    state.producers = producers;
    state.n_data_sources = 2;
    state.data_sources = sources;
    state.n_tracing_sessions = 1;
    state.tracing_sessions = sessions;
    state.perfleet_figures = &figures;
    assert_true(protobuf_c_message_get_packed_size(&state.base) <= sizeof(state_bytes));
    return pfl_span_of(state_bytes, protobuf_c_message_pack(&state.base, state_bytes));
}

static struct pfl_inventory *make_inventory(void)
{
    static const char body[] =
        "{\"hosts\": [{\"name\": \"web-1\", \"is_connected\": true, \"address\": \"<script>x\","
        " \"version\": \"<script>x\", \"tls\": \"<script>x\", \"certificate_end_s\": 1800000100,"
        " \"clock\": {\"offset_ns\": -5, \"error_ns\": 2000000},"
        " \"facts\": {\"kernel\": \"<script>x\"}, \"labels\": {\"<script>x\": \"<script>x\","
        " \"a\": \"1\", \"b\": \"1\", \"c\": \"1\", \"d\": \"1\", \"e\": \"1\", \"f\": \"1\"}},"
        " {\"name\": \"web-2\", \"is_connected\": false, \"last_seen_s\": 100000}]}";
    struct pfl_inventory *inventory = NULL;

    if (pfl_inventory_parse(pfl_span_of(body, strlen(body)), &inventory) != 0)
        return NULL;
    return inventory;
}

static void fill_traces(void)
{
    traces = (struct pfl_trace_rows){.len = 3, .has_more = true};
    for (size_t i = 0; i < traces.len; i++) {
        struct pfl_trace_row *r = &traces.rows[i];

        (void)snprintf(r->id, sizeof(r->id), "<script>%zu", i);
        (void)snprintf(r->order, sizeof(r->order), "%s", evil);
        (void)snprintf(r->trigger, sizeof(r->trigger), "%s", evil);
        r->begin_unix_ns = (NOW_S - 100 * (uint64_t)i) * 1000000000;
        r->end_unix_ns = r->begin_unix_ns + 60 * (uint64_t)1000000000;
        r->losses = i == 1;
        r->missing_to = i == 2 ? 9 : 0;
        r->is_pinned = i == 0;
    }
}

struct pages {
    struct pfl_host_rows *hosts;
    struct pfl_span state;
    struct pfl_layout layout;
    struct pfl_command_line command;
};

static int open_pages(struct pages *p)
{
    struct pfl_inventory *inventory = make_inventory();
    struct pfl_host_facts facts;
    int rc = inventory != NULL ? 0 : PFL_ENOMEM;

    *p = (struct pages){.state = make_state()};
    fill_traces();
    pfl_command_line_begin(&p->command, "hosts");
    pfl_command_line_option(&p->command, "--relay", evil);
    p->layout = (struct pfl_layout){.title = evil,
                                    .tabs = tabs,
                                    .tabs_len = 1,
                                    .path = "/hosts",
                                    .fleet = evil,
                                    .relay = evil,
                                    .away = evil,
                                    .away_s = 61,
                                    .command = &p->command,
                                    .refresh_s = 5};
    if (rc == 0)
        rc = pfl_host_rows_new(&(struct pfl_host_rows_conf){.selection = NULL}, &p->hosts);
    if (rc == 0)
        rc = pfl_host_rows_give_inventory(p->hosts, inventory);
    if (rc != 0)
        pfl_inventory_free(inventory);
    if (rc == 0)
        rc = pfl_host_facts_parse(p->state, &facts);
    if (rc == 0)
        pfl_host_rows_note(p->hosts, "web-1", &facts);
    return rc;
}

static int write_list(const struct pages *p, struct pfl_html *h)
{
    struct pfl_host_rows_view view;
    struct pfl_hosts_page page = {
        .list = p->hosts, .view = &view, .search = evil, .has_relay = true, .now_s = NOW_S};

    pfl_host_rows_search(p->hosts, &(struct pfl_host_rows_query){.search = ""}, &view);
    pfl_hosts_page_write(&page, &p->layout, h);
    return h->rc;
}

static int write_host(const struct pages *p, struct pfl_html *h)
{
    struct pfl_host_row row;
    struct pfl_host_page page = {.row = &row,
                                 .state = p->state,
                                 .traces = &traces,
                                 .traces_why = "",
                                 .version = "0.1.0",
                                 .now_s = NOW_S};

    pfl_host_rows_get_row(p->hosts, 0, &row);
    return pfl_host_page_write(&page, &p->layout, h);
}

/* What is written, as a string. */
static const char *show(int (*write)(const struct pages *p, struct pfl_html *h))
{
    struct pages p;
    struct pfl_html h;
    struct pfl_span html;

    assert_int_equal(open_pages(&p), 0);
    pfl_html_init(&h, PAGE_MAX);
    assert_int_equal(write(&p, &h), 0);
    assert_int_equal(pfl_html_get(&h, &html), 0);
    assert_true(html.len < sizeof(text));
    memcpy(text, html.data, html.len);
    text[html.len] = '\0';
    pfl_record("%s", text);
    pfl_html_fini(&h);
    pfl_host_rows_free(p.hosts);
    return text;
}

/* The page's own script is the only one, and has a source. */
static void has_no_script_but_ours(const char *html)
{
    const char *script = strstr(html, "<script");

    assert_non_null(script);
    assert_memory_equal(script, "<script src=\"/page.js\" defer></script>", 38);
    assert_null(strstr(script + 1, "<script"));
    assert_null(strstr(html, "\"'&\""));
    assert_non_null(strstr(html, "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"));
}

static void strings_of_hosts_are_harmless_in_the_list(void **state)
{
    const char *html = show(write_list);

    (void)state;
    has_no_script_but_ours(html);
    assert_non_null(strstr(html, "1 to 2 of 2; 1 of all 2 are connected"));
    assert_non_null(strstr(html, "href=\"/host?name=web-1\""));
    assert_non_null(strstr(html, "away 1 day"));
    assert_non_null(strstr(html, "512 KiB of 1.0 MiB"));
    assert_non_null(strstr(html, "<span class=\"warn\">7</span>"));
    assert_non_null(strstr(html, "<span class=\"warn\">2027-01-15</span>"));
    assert_non_null(strstr(html, "and 1 more"));
    assert_non_null(strstr(html, "The relay is away"));
    assert_non_null(strstr(html, " for 1 minute: "));
    pfl_sweep_assert_no_leak();
}

static void strings_of_hosts_are_harmless_on_a_hosts_page(void **state)
{
    const char *html = show(write_host);

    (void)state;
    has_no_script_but_ours(html);
    assert_non_null(strstr(html, "2 producers"));
    assert_non_null(strstr(html, "1.0 MiB, 8.0 KiB"));
    assert_non_null(strstr(html, "known to +- 2.000 ms only"));
    assert_non_null(strstr(html, "the newest 3"));
    assert_non_null(strstr(html, "missing up to 9"));
    assert_non_null(strstr(html, "class=\"lossy\""));
    assert_non_null(strstr(html, "1 loss<"));
    pfl_sweep_assert_no_leak();
}

static void host_that_was_not_asked_has_a_page(void **state)
{
    struct pfl_html h;
    struct pfl_span html;
    struct pages p;
    struct pfl_host_row row;
    struct pfl_host_page page = {.row = &row, .traces_why = "", .version = "0.1.0", .now_s = NOW_S};

    (void)state;
    assert_int_equal(open_pages(&p), 0);
    pfl_host_rows_get_row(p.hosts, 1, &row);
    pfl_html_init(&h, PAGE_MAX);
    assert_int_equal(pfl_host_page_write(&page, &p.layout, &h), 0);
    assert_int_equal(pfl_html_get(&h, &html), 0);
    assert_non_null(memmem(html.data, html.len, "it was not asked", 16));
    pfl_html_fini(&h);
    pfl_host_rows_free(p.hosts);
    pfl_sweep_assert_no_leak();
}

/* Of two sessions, named and in those states. */
static struct pfl_span make_sessions(const char *first, const char *first_state, const char *second,
                                     const char *second_state)
{
    static uint8_t bytes[STATE_MAX];
    state_t state = PERFETTO__PROTOS__TRACING_SERVICE_STATE__INIT;
    session_t a = PERFETTO__PROTOS__TRACING_SERVICE_STATE__TRACING_SESSION__INIT;
    session_t b = PERFETTO__PROTOS__TRACING_SERVICE_STATE__TRACING_SESSION__INIT;
    session_t *sessions[] = {&a, &b};

    a.unique_session_name = (char *)(uintptr_t)first;
    a.state = (char *)(uintptr_t)first_state;
    b.unique_session_name = (char *)(uintptr_t)second;
    b.state = (char *)(uintptr_t)second_state;
    state.n_tracing_sessions = 2;
    state.tracing_sessions = sessions;
    return pfl_span_of(bytes, protobuf_c_message_pack(&state.base, bytes));
}

/* Is there a line for it, and which? NULL: none. `has_live`: the page may show one. A button is
 * there, too, unless the browser is on another machine. */
static void expect_live_at(struct pfl_span state, bool has_live, bool is_remote, const char *line)
{
    static const char form[] = "<form method=\"post\" action=\"/host/live\">";
    static const char words[] = "<p>To see it live in a tab of the Perfetto UI: <code>";
    struct pfl_command_line live;
    struct pfl_host_row row;
    struct pfl_html h;
    struct pfl_span html;
    struct pages p;
    const char *at;

    assert_int_equal(open_pages(&p), 0);
    p.layout.is_remote = is_remote;
    pfl_host_rows_get_row(p.hosts, 0, &row);
    pfl_command_line_begin(&live, "open");
    pfl_command_line_word(&live, "--live");
    pfl_html_init(&h, PAGE_MAX);
    assert_int_equal(pfl_host_page_write(&(struct pfl_host_page){.row = &row,
                                                                 .state = state,
                                                                 .traces_why = "",
                                                                 .version = "0.1.0",
                                                                 .live = has_live ? &live : NULL,
                                                                 .now_s = NOW_S},
                                         &p.layout, &h),
                     0);
    assert_int_equal(pfl_html_get(&h, &html), 0);
    at = memmem(html.data, html.len, words, sizeof(words) - 1);
    if (line == NULL)
        assert_null(at);
    else
        assert_non_null(at);
    if (line != NULL && at != NULL)
        assert_memory_equal(at + sizeof(words) - 1, line, strlen(line));
    assert_int_equal(memmem(html.data, html.len, form, sizeof(form) - 1) != NULL,
                     line != NULL && !is_remote);
    pfl_html_fini(&h);
    pfl_host_rows_free(p.hosts);
}

static void expect_live(struct pfl_span state, bool has_live, const char *line)
{
    expect_live_at(state, has_live, false, line);
    expect_live_at(state, has_live, true, line);
}

static void host_with_a_running_session_shows_how_to_watch_it(void **state)
{
    struct pfl_span sessions;

    (void)state;
    sessions = make_sessions("over", "DISABLED", "flight", "STARTED");
    expect_live(sessions, true, "perfleet open --live --session flight</code>");
    expect_live(sessions, false, NULL);
    expect_live(make_sessions("one", "STARTED", "two", "STARTED"), true,
                "perfleet open --live --session one</code>");
    expect_live(make_sessions("", "STARTED", "x", "DISABLED"), true, NULL);
    expect_live(make_sessions(NULL, "STARTED", "x", NULL), true, NULL);
    expect_live(make_sessions(evil, "STARTED", "x", "STARTED"), true,
                "perfleet open --live --session &#39;&lt;script&gt;");
    pfl_sweep_assert_no_leak();
}

static double seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static size_t write_body(char *body, size_t room, size_t hosts)
{
    size_t len = (size_t)snprintf(body, room, "{\"hosts\": [");

    for (size_t i = 0; i < hosts; i++)
        len += (size_t)snprintf(
            body + len, room - len,
            "%s{\"name\": \"web-%zu\", \"is_connected\": true, \"version\": \"0.1.0\", "
            "\"address\": "
            "\"10.0.0.1:5\", \"clock\": {\"offset_ns\": 5, \"error_ns\": 9}, "
            "\"certificate_end_s\": 1800000100, \"labels\": {\"role\": \"web\", \"zone\": \"a\"}, "
            "\"facts\": {\"hostname\": \"web\", \"kernel\": \"6.1\", \"arch\": \"x86_64\"}}",
            i != 0 ? "," : "", i);
    return len + (size_t)snprintf(body + len, room - len, "]}");
}

/* What a browser waits for: the relay's answer is read, searched and becomes a page. A person
 * notices a fifth of a second; five times that fails, where no emulator runs it. */
static void ten_thousand_hosts_are_a_page_at_once(void **state)
{
    size_t len = write_body(text, sizeof(text), MANY);
    struct pfl_inventory *inventory = NULL;
    struct pages p = {.layout = {.title = "Hosts", .fleet = "", .away = "", .command = &p.command}};
    struct pfl_html h;
    double began = seconds();
    double read_at;

    (void)state;
    pfl_command_line_begin(&p.command, "hosts");
    assert_int_equal(pfl_host_rows_new(&(struct pfl_host_rows_conf){.selection = NULL}, &p.hosts),
                     0);
    assert_int_equal(pfl_inventory_parse(pfl_span_of(text, len), &inventory), 0);
    assert_int_equal(pfl_host_rows_give_inventory(p.hosts, inventory), 0);
    read_at = seconds();
    pfl_html_init(&h, PAGE_MAX);
    assert_int_equal(write_list(&p, &h), 0);
    print_message("%u hosts: list read in %.1f ms, page of %zu bytes in %.1f ms\n", MANY,
                  (read_at - began) * 1000, h.out.len, (seconds() - read_at) * 1000);
    assert_true(pfl_is_emulated() || seconds() - began < 1);
    pfl_html_fini(&h);
    pfl_host_rows_free(p.hosts);
    pfl_sweep_assert_no_leak();
}

static void age_that_no_integer_has_is_cut(void **state)
{
    char age[32];

    (void)state;
    assert_string_equal(pfl_layout_age(1e300, age, sizeof(age)), "100000 days");
    assert_string_equal(pfl_layout_age(-1e300, age, sizeof(age)), "0 seconds");
    assert_string_equal(pfl_layout_age(59.9, age, sizeof(age)), "59 seconds");
}

static int write_both(void *arg)
{
    struct pages p;
    struct pfl_html h;
    struct pfl_span html;
    int rc = open_pages(&p);

    (void)arg;
    pfl_html_init(&h, PAGE_MAX);
    if (rc == 0)
        rc = write_list(&p, &h);
    if (rc == 0)
        rc = pfl_html_get(&h, &html);
    pfl_html_fini(&h);
    pfl_html_init(&h, PAGE_MAX);
    if (rc == 0)
        rc = write_host(&p, &h);
    if (rc == 0)
        rc = pfl_html_get(&h, &html);
    pfl_html_fini(&h);
    pfl_host_rows_free(p.hosts);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(write_both, NULL, true);
}

/* ---- random pages ---- */

static struct pfl_inventory *make_any_inventory(size_t count)
{
    static const char *const labels[] = {
        "", ", \"labels\": {\"zone\": \"a\"}",
        (", \"labels\": {\"a\": \"1\", \"b\": \"2\", \"c\": \"3\", \"d\": \"4\", \"e\": \"5\", "
         "\"f\": \"6\", \"g\": 7, \"h\": \"8\"}")};
    static const char *const more[] = {
        "", ", \"address\": \"10.0.0.1:5\", \"tls\": \"1.3\", \"streams\": 2",
        ", \"facts\": {\"kernel\": \"6.1\", \"cpus\": \"8\"}, \"version\": \"0.1.0\"",
        ", \"version\": \"0.2\", \"clock\": {\"offset_ns\": 1500000, \"error_ns\": 1000001}",
        ", \"clock\": {\"offset_ns\": -7, \"error_ns\": 900}"};
    struct pfl_inventory *inventory = NULL;
    size_t len = (size_t)snprintf(text, sizeof(text), "{\"hosts\": [");

    for (size_t i = 0; i < count; i++) {
        const char *is_connected = pfl_pick(3) != 0 ? "true" : "false";
        unsigned seen_s = (unsigned)(pfl_pick(2) == 0 ? pfl_pick(200) : pfl_pick(400000));
        uint64_t end_s = pfl_pick(3) == 0 ? 0 : NOW_S - 86400 * 2 + pfl_pick(86400 * 30);
        const char *a = labels[pfl_pick(3)];
        const char *b = more[pfl_pick(5)];

        len += (size_t)snprintf(text + len, sizeof(text) - len,
                                "%s{\"name\": \"web-%zu\", \"is_connected\": %s, \"last_seen_s\": "
                                "%u, \"certificate_end_s\": %llu%s%s}",
                                i != 0 ? "," : "", i, is_connected, seen_s,
                                (unsigned long long)end_s, a, b);
    }
    len += (size_t)snprintf(text + len, sizeof(text) - len, "]}");
    assert_int_equal(pfl_inventory_parse(pfl_span_of(text, len), &inventory), 0);
    return inventory;
}

static void note_any_facts(struct pfl_host_rows *hosts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct pfl_host_facts facts = {.producers = pfl_pick(4), .has_figures = pfl_pick(2) == 0};
        char name[32];

        (void)snprintf(name, sizeof(name), "web-%zu", i);
        (void)snprintf(facts.why, sizeof(facts.why), "%s", pfl_pick(3) == 0 ? "no answer" : "");
        (void)snprintf(facts.service, sizeof(facts.service), "%s", pfl_pick(3) == 0 ? "" : "v1");
        facts.sources = pfl_pick(20);
        facts.sessions = pfl_pick(3);
        facts.lost = pfl_pick(3) == 0 ? pfl_pick(5000) : 0;
        facts.ring_bytes = pfl_pick(3) == 0 ? 0 : 4096 * pfl_pick(10000);
        facts.ring_used_bytes = facts.ring_bytes / (1 + pfl_pick(9));
        if (pfl_pick(4) != 0)
            pfl_host_rows_note(hosts, name, &facts);
    }
}

static void make_any_traces(void)
{
    uint64_t end_s = NOW_S - pfl_pick(100);

    traces.len = pfl_pick(6);
    traces.has_more = pfl_pick(2) == 0;
    for (size_t i = 0; i < traces.len; i++) {
        struct pfl_trace_row *r = &traces.rows[i];

        *r = (struct pfl_trace_row){.number = (uint32_t)(90 - i), .bytes = pfl_pick(1u << 31)};
        (void)snprintf(r->id, sizeof(r->id), "01JD%zu", i);
        (void)snprintf(r->order, sizeof(r->order), "cpu%u", (unsigned)pfl_pick(3));
        (void)snprintf(r->trigger, sizeof(r->trigger), "%s", pfl_pick(3) == 0 ? "oom" : "");
        r->end_unix_ns = end_s * 1000000000;
        end_s -= pfl_pick(900);
        r->begin_unix_ns = end_s * 1000000000 + pfl_pick(1000000000);
        r->losses = pfl_pick(3) == 0 ? pfl_pick(9) : 0;
        r->missing_to = pfl_pick(4) == 0 ? r->number + (uint32_t)pfl_pick(3) : 0;
        r->is_pinned = pfl_pick(3) == 0;
    }
}

static void record_page(int rc, struct pfl_html *h)
{
    struct pfl_span html;

    assert_int_equal(rc, 0);
    assert_int_equal(pfl_html_get(h, &html), 0);
    pfl_record_bytes("page", html);
    pfl_html_fini(h);
}

static void write_any_pages(struct pfl_host_rows *hosts, const struct pfl_layout *layout)
{
    static const char *const searches[] = {"", "web", "web-1", "zone=a", "none \"such\""};
    struct pfl_host_rows_view view;
    struct pfl_hosts_page list = {
        .list = hosts, .view = &view, .has_relay = layout->relay != NULL, .now_s = NOW_S};
    struct pfl_host_row row;
    struct pfl_host_page page = {.row = &row, .now_s = NOW_S, .traces_why = ""};
    struct pfl_html h;

    list.search = searches[pfl_pick(5)];
    list.state = (enum pfl_host_rows_state)pfl_pick(4);
    pfl_host_rows_search(
        hosts,
        &(struct pfl_host_rows_query){
            .search = list.search, .state = list.state, .page = pfl_pick(3), .now_s = NOW_S},
        &view);
    pfl_html_init(&h, PAGE_MAX);
    pfl_hosts_page_write(&list, layout, &h);
    record_page(h.rc, &h);
    pfl_host_rows_get_row(hosts, 0, &row);
    page.state = pfl_pick(3) != 0 ? make_state() : pfl_span_of("", 0);
    page.traces = pfl_pick(4) != 0 ? &traces : NULL;
    page.traces_why = pfl_pick(4) == 0 ? "not now" : "";
    page.version = pfl_pick(2) == 0 ? "0.1.0" : "0.2";
    make_any_traces();
    pfl_html_init(&h, PAGE_MAX);
    record_page(pfl_host_page_write(&page, layout, &h), &h);
}

static void pages_of_random_hosts_are_those_that_were_recorded(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 150; i++) {
        size_t count = i % 30 == 0 ? 201 + pfl_pick(100) : 1 + pfl_pick(9);
        struct pfl_host_rows *hosts = NULL;
        struct pfl_command_line command;
        struct pfl_layout layout = {
            .title = "t", .tabs = tabs, .tabs_len = 1, .path = "/hosts", .fleet = "", .away = ""};

        pfl_command_line_begin(&command, "hosts");
        layout.fleet = pfl_pick(2) == 0 ? "prod" : "";
        layout.relay = pfl_pick(4) != 0 ? "relay:1" : NULL;
        layout.away = pfl_pick(3) == 0 ? "refused" : "";
        layout.away_s = pfl_pick(2) == 0 ? pfl_pick(200) : pfl_pick(300000);
        layout.command = pfl_pick(3) != 0 ? &command : NULL;
        layout.refresh_s = (unsigned)pfl_pick(3);
        assert_int_equal(pfl_host_rows_new(&(struct pfl_host_rows_conf){.selection = NULL}, &hosts),
                         0);
        assert_int_equal(pfl_host_rows_give_inventory(hosts, make_any_inventory(count)), 0);
        note_any_facts(hosts, count);
        write_any_pages(hosts, &layout);
        pfl_host_rows_free(hosts);
    }
    pfl_sweep_assert_no_leak();
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0xae036f8d809180b4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_of_hosts_are_harmless_in_the_list),
        cmocka_unit_test(strings_of_hosts_are_harmless_on_a_hosts_page),
        cmocka_unit_test(host_that_was_not_asked_has_a_page),
        cmocka_unit_test(host_with_a_running_session_shows_how_to_watch_it),
        cmocka_unit_test(ten_thousand_hosts_are_a_page_at_once),
        cmocka_unit_test(age_that_no_integer_has_is_cut),
        cmocka_unit_test(pages_of_random_hosts_are_those_that_were_recorded),
        cmocka_unit_test(all_of_this_is_as_recorded),
        cmocka_unit_test(every_allocation_may_fail),
    };

    if (setenv("TZ", "UTC", 1) != 0)
        return 1;
    tzset();
    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
