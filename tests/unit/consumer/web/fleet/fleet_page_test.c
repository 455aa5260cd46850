/* SPDX-License-Identifier: Apache-2.0 */
/* The sums over hosts, and the page of the fleet as a whole text; each allocation may fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "consumer/web/fleet/fleet_page.h"
#include "tests/support/sweep.h"

#define NOW_S    1800000000
#define DAY_S    86400
#define EVIL     "<script>alert(1)</script>"
#define BODY_MAX 65536u

static char text[262144];
static char body[BODY_MAX];

struct world {
    struct pfl_host_rows *rows;
    struct pfl_fleet_sums sums;
    struct pfl_relay_facts relay;
    struct pfl_fleet_history history;
    struct pfl_fleet_page page;
    struct pfl_layout layout;
};

static int give(struct world *w, const char *hosts)
{
    struct pfl_inventory *inventory = NULL;
    int rc = PFL_ENOMEM; /* which the parser does not tell apart */

    if (pfl_inventory_parse(pfl_span_of(hosts, strlen(hosts)), &inventory) == 0)
        rc = pfl_host_rows_give_inventory(w->rows, inventory);
    if (rc != 0)
        pfl_inventory_free(inventory);
    return rc;
}

static int open_world(struct world *w, const char *hosts)
{
    int rc;

    *w = (struct world){.rows = NULL};
    w->page = (struct pfl_fleet_page){.has_relay = true,
                                      .relay_why = "",
                                      .history = &w->history,
                                      .sums = &w->sums,
                                      .now_s = NOW_S};
    rc = pfl_host_rows_new(&(struct pfl_host_rows_conf){.selection = NULL}, &w->rows);
    w->page.rows = w->rows;
    return rc == 0 ? give(w, hosts) : rc;
}

static void note(struct world *w, const char *name, const struct pfl_host_facts *facts)
{
    pfl_host_rows_note(w->rows, name, facts);
}

/* Without line ends. */
static void take_text(struct pfl_span html)
{
    size_t len = 0;

    for (size_t i = 0; i < html.len; i++)
        if (html.data[i] != '\n')
            text[len++] = (char)html.data[i];
    text[len] = '\0';
}

static int write_part(struct world *w)
{
    struct pfl_html h;
    struct pfl_span html;
    int rc;

    pfl_fleet_sums_take(w->rows, NOW_S, &w->sums);
    pfl_html_init(&h, sizeof(text) - 1);
    pfl_fleet_page_write_part(&w->page, &h);
    rc = pfl_html_get(&h, &html);
    if (rc == 0)
        take_text(html);
    pfl_html_fini(&h);
    return rc;
}

static void close_world(struct world *w)
{
    pfl_host_rows_free(w->rows);
}

static const char three[] =
    "{\"hosts\":[{\"name\":\"a\",\"is_connected\":true,\"certificate_end_s\":1800086400},"
    "{\"name\":\"b\",\"is_connected\":true,\"certificate_end_s\":1799999999},"
    "{\"name\":\"c\",\"is_connected\":false,\"certificate_end_s\":1802592000},"
    "{\"name\":\"d\",\"is_connected\":true}]}";

static void set_facts(struct world *w)
{
    struct pfl_host_facts first = {.why = "", .has_figures = true};
    struct pfl_host_facts second = {.why = "", .has_figures = true};

    first.losses[PFL_HOST_LOSS_WRITER_DROPPED] = 30;
    first.losses[PFL_HOST_LOSS_DISCARDED] = 5;
    second.losses[PFL_HOST_LOSS_WRITER_DROPPED] = 70;
    note(w, "a", &first);
    note(w, "b", &second);
    note(w, "d", &(struct pfl_host_facts){.why = "it does not answer"});
}

static void set_relay(struct world *w)
{
    w->relay = (struct pfl_relay_facts){.name = "meet",
                                        .version = "0.1",
                                        .up_ms = 7200000,
                                        .crl_end_s = NOW_S + 3 * DAY_S,
                                        .hosts_known = 9,
                                        .hosts_connected = 8,
                                        .collectors = 1,
                                        .streams = 2,
                                        .streams_begun = 30,
                                        .streams_resumed = 4,
                                        .streams_cut = 5,
                                        .bytes_to_host = 2048,
                                        .bytes_to_operator = 3 << 20,
                                        .held_bytes = 10,
                                        .queued_bytes = 11};
    w->page.relay = &w->relay;
    w->page.relay_end_s = NOW_S + 100 * DAY_S;
    w->page.own_end_s = NOW_S + 2 * DAY_S;
}

static const char relay_facts[] =
    "<div id=\"list\" "
    "data-refresh=\"5000\"><h2>Relay</h2><dl><dt>Relay</dt><dd>meet</dd><dt>Version</dt><dd>0.1</"
    "dd>"
    "<dt>Up for</dt><dd>2 hours</dd><dt>Hosts</dt><dd>8 of 9 known are connected</dd>"
    "<dt>Collectors</dt><dd>1</dd><dt>Streams to hosts</dt><dd>2 now, 30 since its start: 4 "
    "resumed, 5 cut</dd><dt>Carried since its start</dt><dd>3.0 MiB to operators, 2.0 KiB to "
    "hosts</dd><dt>Waiting</dt><dd>10 B for slow readers, 11 B for the kernel</dd></dl>"
    "<div class=\"charts\"><figure class=\"chart\"><figcaption><span>To operators</span>";

static const char losses_and_certificates[] =
    "<h2>Losses by cause</h2><p class=\"count\">Of 2 of 4 hosts, since their services began. Hosts "
    "are asked in turn while this page is open.</p><div class=\"scroll\" tabindex=\"0\" "
    "role=\"region\" aria-label=\"Losses by cause\"><table><thead><tr><th scope=\"col\">Cause</th>"
    "<th scope=\"col\">Lost in</th><th scope=\"col\">Count</th><th scope=\"col\">Hosts</th>"
    "<th scope=\"col\">Most</th><th scope=\"col\">Meaning</th></tr></thead><tbody>"
    "<tr><th scope=\"row\">writer_dropped</th><td data-label=\"Lost in\">producer</td>"
    "<td data-label=\"Count\">100 <svg class=\"share\" viewBox=\"0 0 100 10\" "
    "preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect width=\"100.0\" height=\"10\"></rect>"
    "</svg></td><td data-label=\"Hosts\">2</td><td data-label=\"Most\">70 at <a "
    "href=\"/host?name=b\">b</a></td><td data-label=\"Meaning\">The producer&#39;s shared memory "
    "was full: set a larger shmem_size_hint_kb.</td></tr><tr><th scope=\"row\">discarded</th>"
    "<td data-label=\"Lost in\">buffer</td><td data-label=\"Count\">5 <svg class=\"share\" "
    "viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
    "<rect width=\"5.0\" height=\"10\"></rect></svg></td><td data-label=\"Hosts\">1</td>"
    "<td data-label=\"Most\">5 at <a href=\"/host?name=a\">a</a></td><td data-label=\"Meaning\">"
    "A buffer with fill policy DISCARD was full: set a larger one.</td></tr></tbody></table></div>"
    "<h2>Certificates</h2><p class=\"count\">2 of 3 hosts have a certificate that ends within 30 "
    "days; for 1 the end is not known.</p><div class=\"scroll\" tabindex=\"0\" role=\"region\" "
    "aria-label=\"Certificates\"><table><thead><tr><th scope=\"col\">Whose</th>"
    "<th scope=\"col\">Until</th><th scope=\"col\">Left</th></tr></thead><tbody>"
    "<tr><th scope=\"row\">yours</th><td data-label=\"Until\"><span class=\"warn\">2027-01-17"
    "</span></td><td data-label=\"Left\">2 days</td></tr>"
    "<tr><th scope=\"row\">the relay&#39;s</th><td data-label=\"Until\"><span>2027-04-25</span>"
    "</td><td data-label=\"Left\">100 days</td></tr>"
    "<tr><th scope=\"row\">the relay&#39;s revocation list</th><td data-label=\"Until\">"
    "<span class=\"warn\">2027-01-18</span></td><td data-label=\"Left\">3 days</td></tr>"
    "<tr><th scope=\"row\"><a href=\"/host?name=b\">b</a></th><td data-label=\"Until\">"
    "<span class=\"bad\">2027-01-15 expired</span></td><td data-label=\"Left\"><span class=\"bad\">"
    "none</span></td></tr><tr><th scope=\"row\"><a href=\"/host?name=a\">a</a></th>"
    "<td data-label=\"Until\"><span class=\"warn\">2027-01-16</span></td><td data-label=\"Left\">1 "
    "day</td></tr></tbody></table></div></div>";

static void the_page_has_relay_losses_and_certificates(void **state)
{
    struct world w;
    const char *rest;

    (void)state;
    assert_int_equal(open_world(&w, three), 0);
    set_facts(&w);
    set_relay(&w);
    assert_int_equal(write_part(&w), 0);
    assert_memory_equal(text, relay_facts, sizeof(relay_facts) - 1);
    rest = strstr(text, "<h2>Losses by cause</h2>");
    assert_non_null(rest);
    assert_string_equal(rest, losses_and_certificates);
    assert_int_equal(w.sums.up, 3);
    assert_int_equal(w.sums.asked, 2);
    close_world(&w);
    pfl_sweep_assert_no_leak();
}

static void every_series_is_drawn(void **state)
{
    static const char *const labels[] = {
        "\"To operators: now 100 B/s, at most 100 B/s in 10 seconds\"",
        "\"To hosts: now 10 B/s, at most 10 B/s in 10 seconds\"",
        "\"Streams: now 4, at most 4 in 10 seconds\"",
        "\"Hosts connected: now 8, at most 8 in 10 seconds\"",
        "\"Processor of the relay: now 25 %, at most 25 % in 10 seconds\"",
    };
    struct world w;

    (void)state;
    assert_int_equal(open_world(&w, three), 0);
    set_relay(&w);
    pfl_fleet_history_add(&w.history, 1000, &w.relay);
    w.relay.bytes_to_operator += 1000;
    w.relay.bytes_to_host += 100;
    w.relay.cpu_ms += 2500;
    w.relay.streams = 4;
    pfl_fleet_history_add(&w.history, 11000, &w.relay);
    assert_int_equal(write_part(&w), 0);
    for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++)
        assert_non_null(strstr(text, labels[i]));
    close_world(&w);
}

static void what_is_not_known_is_said(void **state)
{
    struct world w;

    (void)state;
    assert_int_equal(open_world(&w, "{\"hosts\":[]}"), 0);
    assert_int_equal(write_part(&w), 0);
    assert_string_equal(
        text,
        "<div id=\"list\" data-refresh=\"5000\"><h2>Relay</h2><p class=\"count\">The relay was "
        "not asked yet.</p>"
        "<h2>Losses by cause</h2><p class=\"count\">Of 0 of 0 hosts, since their services "
        "began. Hosts are asked in turn while this page is open.</p><h2>Certificates</h2>"
        "<p class=\"count\">0 of 0 hosts have a certificate that ends within 30 days.</p></div>");
    w.page.relay_why = "It is older " EVIL;
    assert_int_equal(write_part(&w), 0);
    assert_non_null(strstr(text, "<h2>Relay</h2><p class=\"bad\">It is older &lt;script&gt;alert(1)"
                                 "&lt;/script&gt;</p><h2>Losses by cause</h2>"));
    w.page.has_relay = false;
    assert_int_equal(write_part(&w), 0);
    assert_null(strstr(text, "<h2>Relay"));
    close_world(&w);
    assert_int_equal(open_world(&w, three), 0);
    note(&w, "a", &(struct pfl_host_facts){.why = "", .has_figures = true});
    assert_int_equal(write_part(&w), 0);
    assert_non_null(strstr(text, "Of 1 of 4 hosts, "));
    assert_non_null(strstr(text, "<p>Nothing was lost on these hosts.</p>"));
    close_world(&w);
    pfl_sweep_assert_no_leak();
}

static void strings_of_relay_and_hosts_are_harmless(void **state)
{
    struct world w;
    struct pfl_html h;
    struct pfl_span html;

    (void)state;
    assert_int_equal(open_world(&w, three), 0);
    set_relay(&w);
    (void)snprintf(w.relay.name, sizeof(w.relay.name), "%s", EVIL);
    (void)snprintf(w.relay.version, sizeof(w.relay.version), "%s", EVIL);
    w.layout = (struct pfl_layout){
        .title = "Fleet", .path = "", .fleet = EVIL, .relay = EVIL, .away = EVIL};
    pfl_fleet_sums_take(w.rows, NOW_S, &w.sums);
    pfl_html_init(&h, sizeof(text) - 1);
    pfl_fleet_page_write(&w.page, &w.layout, &h);
    assert_int_equal(pfl_html_get(&h, &html), 0);
    take_text(html);
    assert_null(strstr(text, "<script>"));
    assert_non_null(
        strstr(text, "<h1>Fleet</h1><div id=\"list\" data-refresh=\"5000\"><h2>Relay</h2><dl>"));
    pfl_html_fini(&h);
    close_world(&w);
    pfl_sweep_assert_no_leak();
}

static void the_certificates_that_end_first_are_named(void **state)
{
    struct world w;
    size_t len = (size_t)snprintf(body, sizeof(body), "{\"hosts\":[");

    (void)state;
    for (unsigned i = 0; i < 120; i++) /* 7 and 120 have no common divisor */
        len +=
            (size_t)snprintf(body + len, sizeof(body) - len,
                             "%s{\"name\":\"h%u\",\"is_connected\":true,\"certificate_end_s\":%d}",
                             i != 0 ? "," : "", i, NOW_S + (int)(i * 7 % 120));
    (void)snprintf(body + len, sizeof(body) - len, "]}");
    assert_int_equal(open_world(&w, body), 0);
    assert_int_equal(write_part(&w), 0);
    assert_int_equal(w.sums.endings, 120);
    assert_int_equal(w.sums.ending_len, PFL_FLEET_SUMS_ENDING);
    for (size_t i = 0; i < PFL_FLEET_SUMS_ENDING; i++)
        assert_int_equal(w.sums.ending[i].end_s, NOW_S + (int)i);
    assert_non_null(
        strstr(text, "120 of 120 hosts have a certificate that ends within 30 days; below are the "
                     "first.</p>"));
    close_world(&w);
}

static void sums_that_are_too_large_stay_the_largest(void **state)
{
    struct pfl_host_facts facts = {.why = "", .has_figures = true};
    struct world w;

    (void)state;
    assert_int_equal(open_world(&w, three), 0);
    facts.losses[PFL_HOST_LOSS_MALFORMED] = UINT64_MAX - 1;
    note(&w, "a", &facts);
    note(&w, "b", &facts);
    assert_int_equal(write_part(&w), 0);
    assert_true(w.sums.losses[PFL_HOST_LOSS_MALFORMED].count == UINT64_MAX);
    assert_int_equal(w.sums.losses[PFL_HOST_LOSS_MALFORMED].most_at, 0);
    close_world(&w);
}

static int write_all(void *arg)
{
    struct world w;
    int rc = open_world(&w, three);

    (void)arg;
    if (rc == 0) {
        set_relay(&w);
        set_facts(&w);
        rc = write_part(&w);
    }
    close_world(&w);
    return rc;
}

static void short_of_memory_it_says_so(void **state)
{
    (void)state;
    pfl_sweep(write_all, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_has_relay_losses_and_certificates),
        cmocka_unit_test(every_series_is_drawn),
        cmocka_unit_test(what_is_not_known_is_said),
        cmocka_unit_test(strings_of_relay_and_hosts_are_harmless),
        cmocka_unit_test(the_certificates_that_end_first_are_named),
        cmocka_unit_test(sums_that_are_too_large_stay_the_largest),
        cmocka_unit_test(short_of_memory_it_says_so),
    };

    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
