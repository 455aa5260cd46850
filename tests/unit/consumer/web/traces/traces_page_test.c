/* SPDX-License-Identifier: Apache-2.0 */
/* The page of traces and its map, from hosts whose every string is markup, as whole texts. */
#include "consumer/web/traces/traces_page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "consumer/web/traces/trace_heat.h"
#include "tests/support/sweep.h"

#define EVIL     "<script>\"'&"
#define SHOWN    "&lt;script&gt;&quot;&#39;&amp;"
#define NS_PER_S UINT64_C(1000000000)
#define BEGIN_S  UINT64_C(1800000000)
#define ID       "01JD0000000000000000000000"
#define TEXT_MAX (1u << 20)

static char evil[] = EVIL;
static char text[TEXT_MAX];
static struct pfl_trace_selection filter;
static struct pfl_trace_rows rows;
static uint64_t looked_to_unix_ns;
static struct pfl_command_line command;
static const struct pfl_layout_tab tabs[] = {{"/traces", "Traces"}};

static struct pfl_layout lay_out(void)
{
    return (struct pfl_layout){.title = "T",
                               .tabs = tabs,
                               .tabs_len = 1,
                               .path = "/traces",
                               .fleet = "",
                               .away = "",
                               .notice = "",
                               .change = "0123",
                               .command = &command};
}

static int set_up(void **state)
{
    (void)state;
    (void)setenv("TZ", "UTC", 1);
    tzset();
    memset(&filter, 0, sizeof(filter));
    memset(&rows, 0, sizeof(rows));
    looked_to_unix_ns = 0;
    filter.why = "";
    (void)snprintf(filter.since, sizeof(filter.since), "96m");
    filter.begin_unix_ns = BEGIN_S * NS_PER_S;
    filter.end_unix_ns = (BEGIN_S + 96 * 60) * NS_PER_S;
    pfl_command_line_begin(&command, "traces list");
    return 0;
}

/* What is between two texts; "" if they are not there. */
static const char *between(const char *from, const char *to)
{
    static char part[TEXT_MAX];
    const char *begin = strstr(text, from);
    const char *end = begin != NULL ? strstr(begin, to) : NULL;

    part[0] = '\0';
    if (end != NULL)
        (void)snprintf(part, sizeof(part), "%.*s", (int)(end - begin), begin);
    return part;
}

static void take(struct pfl_html *h)
{
    struct pfl_span all;

    assert_int_equal(pfl_html_get(h, &all), 0);
    assert_true(all.len < sizeof(text));
    memcpy(text, all.data, all.len);
    text[all.len] = '\0';
    pfl_html_fini(h);
}

/* ---- the map ---- */

static Perfleet__TraceSum__Cell cells[8];
static Perfleet__TraceSum__Cell *cell_list[8];

/* Each: index, traces, bytes, gaps, losses. */
static Perfleet__TraceSum make_sum(const unsigned (*values)[5], size_t len)
{
    Perfleet__TraceSum sum = PERFLEET__TRACE_SUM__INIT;

    for (size_t i = 0; i < len; i++) {
        perfleet__trace_sum__cell__init(&cells[i]);
        cells[i].index = values[i][0];
        cells[i].traces = values[i][1];
        cells[i].bytes = values[i][2];
        cells[i].gaps = values[i][3];
        cells[i].losses = values[i][4];
        cell_list[i] = &cells[i];
    }
    sum.name = evil;
    sum.cell = cell_list;
    sum.n_cell = len;
    return sum;
}

static void write_map(Perfleet__TraceSum **sums, size_t len)
{
    Perfleet__CollectorReply reply = PERFLEET__COLLECTOR_REPLY__INIT;
    struct pfl_html h;

    reply.sum = sums;
    reply.n_sum = len;
    pfl_html_init(&h, TEXT_MAX);
    pfl_html_open(&h, "main");
    pfl_trace_heat_write(&filter, &reply, &h);
    take(&h);
}

static void map_has_blocks_and_the_same_in_words(void **state)
{
    static const unsigned values[][5] = {{0, 1, 1000, 0, 0}, {1, 1, 24, 0, 0}, {2, 4, 0, 0, 3},
                                         {3, 0, 0, 2, 0},    {95, 2, 0, 0, 0}, {96, 9, 9, 9, 9}};
    Perfleet__TraceSum sum = make_sum(values, 5);
    Perfleet__TraceSum *sums[] = {&sum};

    (void)state;
    write_map(sums, 1);
    assert_string_equal(
        text,
        "<main><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Traces by host "
        "and time\"><table class=\"heatmap\"><thead><tr><th scope=\"col\">Host</th>\n"
        "<th scope=\"col\">08:00:00 to 09:36:00</th>\n<th scope=\"col\" class=\"n\">Covered</th>\n"
        "<th scope=\"col\" class=\"n\">Size</th>\n<th scope=\"col\" class=\"n\">Losses</th>\n"
        "<th scope=\"col\">Notes</th>\n</tr>\n</thead>\n<tbody><tr><th scope=\"row\">"
        "<a href=\"/traces?since=96m&amp;host=%3Cscript%3E%22%27%26\">" SHOWN "</a></th>\n"
        "<td class=\"heat\"><svg viewBox=\"0 0 960 18\" preserveAspectRatio=\"none\" "
        "aria-hidden=\"true\"><rect x=\"0\" y=\"0\" width=\"20\" height=\"18\" class=\"level1\">"
        "</rect><rect x=\"20\" y=\"0\" width=\"10\" height=\"18\" class=\"level4\"></rect>"
        "<rect x=\"950\" y=\"0\" width=\"10\" height=\"18\" class=\"level2\"></rect>"
        "<rect x=\"20\" y=\"12\" width=\"10\" height=\"6\" class=\"lossy\"></rect>"
        "<rect x=\"30\" y=\"12\" width=\"10\" height=\"6\" class=\"gap\"></rect></svg></td>\n"
        "<td data-label=\"Covered\" class=\"n\">4 %</td>\n<td data-label=\"Size\" class=\"n\">1.0 "
        "KiB</td>\n<td data-label=\"Losses\" class=\"n\">3</td>\n<td data-label=\"Notes\">gaps "
        "08:03:00–08:04:00; losses 08:02:00–08:03:00; none 08:04:00–09:35:00; </td>\n</tr>\n"
        "</tbody>\n</table>\n</div>\n<p><span class=\"key\"><span class=\"swatch "
        "level1\"></span>\n few "
        "traces <span class=\"swatch level4\"></span>\n many <span class=\"swatch "
        "lossy\"></span>\n "
        "with losses <span class=\"swatch gap\"></span>\n gap </span>\n</p>\n</main>\n");
}

static void cells_out_of_range_and_many_ranges_are_bounded(void **state)
{
    static const unsigned values[][5] = {{96, 9, 9, 9, 9}, {10, 1, 0, 1, 0}, {20, 1, 0, 1, 0},
                                         {30, 1, 0, 1, 0}, {40, 1, 0, 1, 0}, {50, 1, 0, 1, 0}};
    Perfleet__TraceSum sum = make_sum(values, 6);
    Perfleet__TraceSum *sums[100];

    (void)state;
    for (size_t i = 0; i < 100; i++)
        sums[i] = &sum;
    sum.is_rest = 1;
    filter.end_unix_ns = filter.begin_unix_ns + 96 * 3600 * NS_PER_S;
    write_map(sums, 100);
    assert_non_null(strstr(text, "<th scope=\"row\">all others</th>"));
    assert_string_equal(between("gaps ", "; none"),
                        "gaps 01-15 18:00–01-15 19:00, 01-16 04:00–01-16 05:00, "
                        "01-16 14:00–01-16 15:00 and 2 more");
    assert_null(strstr(text, "; losses"));
    for (sums[0] = NULL; strstr(text, "all others") != NULL; sums[1] = NULL) {
        char *at = strstr(text, "all others");

        memset(at, 'x', 3);
        sum.n_cell++;
    }
    assert_int_equal(sum.n_cell, 6 + PFL_TRACE_HEAT_ROWS);
}

static void cell_that_comes_often_has_the_darkest_level(void **state)
{
    static const unsigned values[][5] = {{3, 9, 0, 0, 0}, {3, 9, 0, 0, 0}, {3, 9, 0, 0, 0},
                                         {3, 9, 0, 0, 0}, {3, 9, 0, 0, 0}, {3, 9, 0, 0, 0}};
    Perfleet__TraceSum sum = make_sum(values, 6);
    Perfleet__TraceSum *sums[] = {&sum};

    (void)state;
    write_map(sums, 1);
    assert_string_equal(between("<rect x=\"30\"", "</rect>"),
                        "<rect x=\"30\" y=\"0\" width=\"10\" height=\"18\" class=\"level4\">");
}

static void map_says_how_far_back_it_looked(void **state)
{
    static const unsigned values[][5] = {{40, 1, 0, 0, 0}, {60, 1, 0, 0, 0}};
    Perfleet__TraceSum sum = make_sum(values, 2);
    Perfleet__TraceSum *sums[] = {&sum};
    Perfleet__CollectorReply reply = PERFLEET__COLLECTOR_REPLY__INIT;
    struct pfl_html h;

    (void)state;
    reply.sum = sums;
    reply.n_sum = 1;
    reply.has_looked_to_unix_ns = 1;
    reply.looked_to_unix_ns = (BEGIN_S + 47 * 60 + 30) * NS_PER_S + 1;
    pfl_html_init(&h, TEXT_MAX);
    pfl_html_open(&h, "main");
    pfl_trace_heat_write(&filter, &reply, &h);
    take(&h);
    assert_string_equal(
        between("<p>Counted", "</p>"),
        "<p>Counted: the newest 40000 traces, which begin after 2027-01-15 08:47:30. "
        "<a href=\"/traces?since=96m&amp;until=2027-01-15%2008%3A47%3A31\">Count those before that"
        "</a>\n<a href=\"/traces?since=96m&amp;all=1\">Count all of them, which may take long</a>"
        "\n");
    assert_string_equal(between("<rect x=\"0\"", "</rect>"),
                        "<rect x=\"0\" y=\"0\" width=\"480\" height=\"18\" class=\"unseen\">");
    assert_string_equal(between("none ", "; "), "none 08:48:00–09:00:00, 09:01:00–09:36:00");
    assert_string_equal(between("\"n\">2 %", "</td>"), "\"n\">2 %");
    reply.looked_to_unix_ns = UINT64_MAX; /* a collector may say anything */
    pfl_html_init(&h, TEXT_MAX);
    pfl_html_open(&h, "main");
    pfl_trace_heat_write(&filter, &reply, &h);
    take(&h);
    assert_non_null(strstr(text, "width=\"960\" height=\"18\" class=\"unseen\">"));
}

static void map_by_label_has_no_links(void **state)
{
    static const unsigned values[][5] = {{0, 1, 0, 0, 0}};
    Perfleet__TraceSum sum = make_sum(values, 1);
    Perfleet__TraceSum none = PERFLEET__TRACE_SUM__INIT;
    Perfleet__TraceSum *sums[] = {&none, &sum};

    (void)state;
    (void)snprintf(filter.group, sizeof(filter.group), "%s", EVIL);
    write_map(sums, 2);
    assert_string_equal(between("<tbody><tr><th", "</th>"),
                        "<tbody><tr><th scope=\"row\">(without it)");
    assert_string_equal(between("<tr><th scope=\"row\">&lt;", "</th>"),
                        "<tr><th scope=\"row\">" SHOWN);
    assert_string_equal(between("<thead>", "</th>"), "<thead><tr><th scope=\"col\">" SHOWN);
    assert_null(strstr(text, "href"));
    write_map(sums, 0);
    assert_string_equal(text, "<main></main>\n");
}

/* ---- the page ---- */

static void take_trace(void)
{
    Perfleet__CollectorReply reply = PERFLEET__COLLECTOR_REPLY__INIT;
    Perfleet__StoredTrace trace = PERFLEET__STORED_TRACE__INIT;
    Perfleet__StoredTrace__Pin pin = PERFLEET__STORED_TRACE__PIN__INIT;
    Perfleet__Segment segment = PERFLEET__SEGMENT__INIT;
    Perfleet__StoredTrace *traces[] = {&trace};
    char id[] = ID;

    trace.id = id;
    trace.segment = &segment;
    trace.pin = &pin;
    pin.who = pin.reason = evil;
    pin.end_unix_ns = (BEGIN_S + 60) * NS_PER_S;
    segment.host = segment.order = evil;
    segment.number = 7;
    segment.bytes = 2048;
    segment.begin_unix_ns = BEGIN_S * NS_PER_S;
    segment.end_unix_ns = (BEGIN_S + 1) * NS_PER_S;
    reply.trace = traces;
    reply.n_trace = 1;
    pfl_trace_rows_take(&rows, &reply);
}

static void write_page(struct pfl_html *h, const char *why)
{
    const struct pfl_traces_page page = {&filter, &rows, "0aff", looked_to_unix_ns, why};
    struct pfl_layout layout = lay_out();

    pfl_traces_page_begin(&page, &layout, h);
    pfl_traces_page_end(&filter, NULL, "", &layout, h);
}

static void list_says_how_far_back_it_looked(void **state)
{
    struct pfl_html h;

    (void)state;
    looked_to_unix_ns = (BEGIN_S + 60) * NS_PER_S;
    pfl_html_init(&h, TEXT_MAX);
    write_page(&h, "");
    take(&h);
    assert_string_equal(
        between("<p class=\"count\">", "<footer>"),
        "<p class=\"count\">No traces so far.</p>\n<p class=\"count\">Looked at 20000 traces, back "
        "to 2027-01-15 08:01:00. <a href=\"/traces?since=96m&amp;all=1\">Look at all of them, "
        "which "
        "may take long</a>\n</p>\n<p><a href=\"/traces?since=96m&amp;after=0aff\" rel=\"next\">"
        "Look at older ones</a>\n</p>\n</main>\n");
    take_trace();
    pfl_html_init(&h, TEXT_MAX);
    write_page(&h, "");
    take(&h);
    assert_non_null(strstr(text, ">1 traces, newest first; there may be older ones.</p>"));
    assert_non_null(strstr(text, "back to 2027-01-15 08:01:00"));
}

static void list_has_a_box_for_each_trace(void **state)
{
    struct pfl_html h;

    (void)state;
    take_trace();
    pfl_html_init(&h, TEXT_MAX);
    write_page(&h, "");
    take(&h);
    assert_string_equal(
        between("<p class=\"count\">", "<footer>"),
        "<p class=\"count\">1 traces, newest first; there are older ones.</p>\n"
        "<form method=\"post\" action=\"/traces/choose\"><input type=\"hidden\" name=\"change\" "
        "value=\"0123\"><input type=\"hidden\" name=\"since\" value=\"96m\"><p class=\"actions\">"
        "<span>With the chosen traces: </span>\n"
        "<button type=\"submit\" name=\"act\" value=\"open\" formtarget=\"_blank\">Open as one"
        "</button>\n"
        "<button type=\"submit\" name=\"act\" value=\"get\">Download as one</button>\n"
        "<button type=\"submit\" name=\"act\" value=\"pin\">Pin…</button>\n"
        "<button type=\"submit\" name=\"act\" value=\"unpin\">Unpin…</button>\n"
        "<button type=\"submit\" name=\"act\" value=\"rm\">Delete…</button>\n</p>\n"
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Traces\"><table><thead>"
        "<tr><th scope=\"col\">Choose</th><th scope=\"col\">Begin</th><th scope=\"col\">Host</th>"
        "<th scope=\"col\" class=\"n\">Length</th><th scope=\"col\">Order</th>"
        "<th scope=\"col\" class=\"n\">Number</th><th scope=\"col\" class=\"n\">Size</th>"
        "<th scope=\"col\">Notes</th><th scope=\"col\">Pin</th><th scope=\"col\">Id</th></tr>"
        "</thead><tbody><tr><td data-label=\"Choose\"><input type=\"checkbox\" name=\"id\" "
        "value=\"" ID "\" aria-label=\"choose " ID "\"></td><th scope=\"row\">2027-01-15 08:00:00"
        "</th><td data-label=\"Host\"><a href=\"/host?name=%3Cscript%3E%22%27%26\">" SHOWN
        "</a></td><td data-label=\"Length\" class=\"n\">1.0 s</td><td data-label=\"Order\">" SHOWN
        "</td><td data-label=\"Number\" class=\"n\">7</td><td data-label=\"Size\" class=\"n\">2.0 "
        "KiB</td><td data-label=\"Notes\"><span class=\"label\">pinned</span></td>"
        "<td data-label=\"Pin\">" SHOWN ": " SHOWN ", until 2027-01-15 08:01:00</td>"
        "<td data-label=\"Id\"><code>" ID "</code></td></tr></tbody></table>\n</div>\n</form>\n"
        "<p><a href=\"/traces?since=96m&amp;after=0aff\" rel=\"next\">Older ones</a>\n</p>\n"
        "</main>\n");
}

static void reasons_take_the_place_of_parts(void **state)
{
    struct pfl_layout layout = lay_out();
    Perfleet__CollectorReply empty = PERFLEET__COLLECTOR_REPLY__INIT;
    struct pfl_html h;

    (void)state;
    pfl_html_init(&h, TEXT_MAX);
    write_page(&h, EVIL);
    take(&h);
    assert_string_equal(between("</form>\n", "<footer>"),
                        "</form>\n<p class=\"bad\">" SHOWN "</p>\n</main>\n");
    filter.why = "Since is not before Until.";
    pfl_html_init(&h, TEXT_MAX);
    write_page(&h, "");
    take(&h);
    assert_string_equal(between("</form>\n", "<footer>"),
                        "</form>\n<p class=\"bad\">Since is not before Until.</p>\n</main>\n");
    filter.why = "";
    pfl_html_init(&h, TEXT_MAX);
    write_page(&h, "");
    take(&h);
    assert_non_null(strstr(text, "<p class=\"count\">No traces here.</p>\n</main>"));
    pfl_html_init(&h, TEXT_MAX);
    pfl_html_open(&h, "html");
    pfl_html_open(&h, "body");
    pfl_html_open(&h, "main");
    pfl_traces_page_end(&filter, NULL, EVIL, &layout, &h);
    take(&h);
    assert_string_equal(between("<html>", "<footer>"),
                        "<html><body><main><h2>By time</h2>\n<p class=\"bad\">" SHOWN
                        "</p>\n</main>\n");
    pfl_html_init(&h, TEXT_MAX);
    pfl_html_open(&h, "html");
    pfl_html_open(&h, "body");
    pfl_html_open(&h, "main");
    pfl_traces_page_end(&filter, &empty, "", &layout, &h);
    take(&h);
    assert_string_equal(between("<html>", "<footer>"),
                        "<html><body><main><h2>By time</h2>\n<p>No traces at that time.</p>\n"
                        "</main>\n");
}

/* ---- the question ---- */

static void write_confirm(struct pfl_html *h, const char *fields, enum pfl_traces_action action)
{
    struct pfl_layout layout = lay_out();
    struct pfl_form form;
    const struct pfl_traces_confirm confirm = {&form, &filter, action};

    if (pfl_form_parse(pfl_span_of(fields, strlen(fields)), &form) != 0) {
        h->rc = PFL_ENOMEM;
        return;
    }
    pfl_traces_page_write_confirm(&confirm, &layout, h);
    pfl_form_fini(&form);
}

static void question_names_what_it_is_about(void **state)
{
    struct pfl_html h;

    (void)state;
    pfl_html_init(&h, TEXT_MAX);
    write_confirm(&h, "id=" ID "&id=%3Cscript%3E&id=01jd0000000000000000000000&other=" ID,
                  PFL_TRACES_PIN);
    take(&h);
    assert_string_equal(
        between("<h1>", "<footer>"),
        "<h1>Pin 1 trace?</h1>\n<form method=\"post\" action=\"/traces/change\">"
        "<input type=\"hidden\" name=\"change\" value=\"0123\"><input type=\"hidden\" "
        "name=\"since\" value=\"96m\"><input type=\"hidden\" name=\"id\" value=\"" ID "\">"
        "<label>Reason <input name=\"reason\" required=\"\" maxlength=\"255\"></label>\n"
        "<label>Keep for <input name=\"keep\" value=\"30d\" size=\"6\"></label>\n"
        "<button type=\"submit\" name=\"act\" "
        "value=\"pin\">Pin</button>\n</form>\n<ul><li><code>" ID
        "</code>\n</li>\n</ul>\n</main>\n");
    pfl_html_init(&h, TEXT_MAX);
    write_confirm(&h, "id=" ID "&id=" ID, PFL_TRACES_REMOVE);
    take(&h);
    assert_string_equal(between("<h1>", "<form"),
                        "<h1>Delete 2 traces?</h1>\n<p class=\"bad\">What is deleted does not come "
                        "back.</p>\n");
    assert_string_equal(between("<button", "</button>"),
                        "<button type=\"submit\" name=\"act\" value=\"rm\">Delete");
    pfl_html_init(&h, TEXT_MAX);
    write_confirm(&h, "id=" ID, PFL_TRACES_UNPIN);
    take(&h);
    assert_string_equal(between("<h1>", "<form"), "<h1>Unpin 1 trace?</h1>\n");
    assert_null(strstr(text, "reason"));
}

static void actions_have_the_command_lines_names(void **state)
{
    static const char *const names[] = {"get", "open", "pin", "unpin", "rm"};

    (void)state;
    for (int i = PFL_TRACES_DOWNLOAD; i <= PFL_TRACES_REMOVE; i++) {
        assert_string_equal(pfl_traces_page_name_action((enum pfl_traces_action)i), names[i - 1]);
        assert_int_equal(pfl_traces_page_parse_action(names[i - 1]), i);
    }
    assert_int_equal(pfl_traces_page_parse_action(""), PFL_TRACES_NONE);
    assert_int_equal(pfl_traces_page_parse_action("remove"), PFL_TRACES_NONE);
}

static int write_all(void *user)
{
    static const unsigned values[][5] = {{0, 1, 0, 1, 1}};
    Perfleet__CollectorReply reply = PERFLEET__COLLECTOR_REPLY__INIT;
    Perfleet__TraceSum sum = make_sum(values, 1);
    Perfleet__TraceSum *sums[] = {&sum};
    struct pfl_span all;
    struct pfl_html h;
    int rc;

    (void)user;
    reply.sum = sums;
    reply.n_sum = 1;
    pfl_html_init(&h, TEXT_MAX);
    reply.has_looked_to_unix_ns = 1;
    reply.looked_to_unix_ns = looked_to_unix_ns = filter.begin_unix_ns + 1;
    write_page(&h, "");
    pfl_trace_heat_write(&filter, &reply, &h);
    write_confirm(&h, "id=" ID, PFL_TRACES_PIN);
    rc = pfl_html_get(&h, &all);
    pfl_html_fini(&h);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    take_trace();
    pfl_sweep(write_all, NULL, false);
}

#define CASE(f) cmocka_unit_test_setup(f, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(map_has_blocks_and_the_same_in_words),
        CASE(cells_out_of_range_and_many_ranges_are_bounded),
        CASE(cell_that_comes_often_has_the_darkest_level),
        CASE(map_says_how_far_back_it_looked),
        CASE(map_by_label_has_no_links),
        CASE(list_says_how_far_back_it_looked),
        CASE(list_has_a_box_for_each_trace),
        CASE(reasons_take_the_place_of_parts),
        CASE(question_names_what_it_is_about),
        CASE(actions_have_the_command_lines_names),
        CASE(every_allocation_may_fail),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    pfl_sweep_assert_no_leak();
    return failed;
}
