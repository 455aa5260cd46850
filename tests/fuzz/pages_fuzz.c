/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages of perfleet ui: whatever a relay, a host and a collector say of themselves, no string
 * of theirs becomes an element. u8 options (254: only the request), u8 page, four parts (u16
 * length, bytes): the search, a relay's answer, a TracingServiceState, a CollectorReply; then a
 * browser's request.
 */
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "consumer/web/frame/web_access.h"
#include "consumer/web/hosts/host_page.h"
#include "consumer/web/hosts/hosts_page.h"
#include "consumer/web/running/running_page.h"
#include "proto/unpack.h"
#include "tests/support/fuzz_note.h"

#define PAGE_MAX   (1u << 20)
#define NOW_S      1800000000
#define TEXT_MAX   256u
#define BODY_MAX   4096u
#define BAD_SCRIPT "<script>"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct pfl_span take(struct pfl_reader *r)
{
    size_t len = pfl_reader_u16(r);

    return pfl_reader_bytes(r, len < r->left ? len : r->left);
}

static void check_harmless(struct pfl_span html)
{
    if (memmem(html.data, html.len, BAD_SCRIPT, strlen(BAD_SCRIPT)) != NULL)
        abort();
}

/* A line an element. */
static void show(const char *what, struct pfl_html *h)
{
    static char lines[2 * PAGE_MAX];
    struct pfl_span html;
    size_t len = 0;

    if (pfl_html_get(h, &html) != 0)
        abort();
    for (size_t i = 0; i < html.len; i++) {
        if (html.data[i] == '<' && len != 0 && lines[len - 1] != '\n')
            lines[len++] = '\n';
        lines[len++] = (char)html.data[i];
    }
    check_harmless(html);
    note_text(what, pfl_span_of(lines, len));
    pfl_html_fini(h);
}

static void show_small(unsigned options)
{
    static const double ages[] = {0,    0.4,  1,     59.9,  60,  90, 3599,
                                  3600, 7200, 86399, 86400, 1e6, 1e9};
    struct pfl_html h;
    char room[64];

    for (size_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++)
        note("age %s", pfl_layout_age(ages[i], room, sizeof(room)));
    for (uint64_t n = 1; n < UINT64_MAX / 40; n *= 31)
        note("bytes %s, %s", pfl_layout_bytes(n, room, sizeof(room)),
             pfl_hosts_page_state_name((enum pfl_host_rows_state)(n % 4)));
    pfl_html_init(&h, PAGE_MAX);
    pfl_layout_refusal(400 + options, "it's <b>not</b> \"there\" & more", &h);
    show("refusal", &h);
    pfl_html_init(&h, PAGE_MAX);
    pfl_layout_entered(&h);
    show("entered", &h);
}

static void show_hosts(struct pfl_host_rows *list, const struct pfl_host_rows_query *query,
                       const struct pfl_layout *layout)
{
    struct pfl_host_rows_view view;
    struct pfl_hosts_page page = {.list = list,
                                  .view = &view,
                                  .search = query->search,
                                  .state = query->state,
                                  .has_relay = layout->relay != NULL,
                                  .now_s = NOW_S};
    struct pfl_html h;

    pfl_host_rows_search(list, query, &view);
    note("found %zu of %zu, %zu up, from %zu", view.found, view.all, view.up, view.first);
    pfl_html_init(&h, PAGE_MAX);
    pfl_hosts_page_write(&page, layout, &h);
    show("hosts", &h);
}

static void show_host(const struct pfl_host_row *row, struct pfl_span state,
                      const struct pfl_trace_rows *traces, const struct pfl_layout *layout)
{
    struct pfl_host_page page = {.row = row,
                                 .state = state,
                                 .traces = traces,
                                 .traces_why = traces == NULL ? "no collector answers" : "",
                                 .version = "0.2",
                                 .now_s = NOW_S};
    struct pfl_html h;

    note("up %d, problem %d", pfl_host_rows_is_up(row), pfl_host_rows_is_problem(row, NOW_S));
    pfl_html_init(&h, PAGE_MAX);
    if (pfl_host_page_write(&page, layout, &h) == 0)
        show("host", &h);
    else
        pfl_html_fini(&h);
}

/* A host's sessions, a collector's orders, an agent's alarms; `agent` is what the relay said. */
static void check_running(struct pfl_span state, const Perfleet__CollectorReply *reply,
                          struct pfl_span agent, const struct pfl_layout *layout)
{
    static struct pfl_running_rows sessions;
    static struct pfl_order_host_row hosts[PFL_ORDER_ROWS_HOSTS_MAX];
    static struct pfl_order_rows orders;
    static struct pfl_alarm_rows alarms;
    const struct pfl_order_page order = {
        .rows = &orders, .name = "cpu", .own_name = "me", .has_collector = true, .why = ""};
    const struct pfl_alarm_page alarm = {.rows = &alarms, .answered = 1, .why_host = "", .why = ""};
    const struct pfl_running_page page = {
        .rows = &sessions, .now_s = NOW_S, .orders = &order, .alarms = &alarm};
    struct pfl_html h;
    struct pfl_span html;

    memset(&sessions, 0, sizeof(sessions));
    memset(&orders, 0, sizeof(orders));
    memset(&alarms, 0, sizeof(alarms));
    pfl_order_rows_keep_hosts(&orders, hosts);
    pfl_order_rows_take(&orders, reply);
    if (pfl_running_rows_add(&sessions, "web1", state) == PFL_ENOMEM ||
        pfl_alarm_rows_add(&alarms, "web1", agent) == PFL_ENOMEM)
        return;
    pfl_html_init(&h, PAGE_MAX);
    pfl_running_page_write(&page, layout, &h);
    if (pfl_html_get(&h, &html) == 0)
        check_harmless(html);
    pfl_html_fini(&h);
    pfl_html_init(&h, PAGE_MAX);
    pfl_order_page_write(&order, layout, &h);
    if (pfl_html_get(&h, &html) == 0)
        check_harmless(html);
    pfl_html_fini(&h);
}

static void judge(struct pfl_span bytes)
{
    static const uint8_t random[PFL_WEB_RANDOM_BYTES] = {0xaa};
    struct pfl_form form = {.len = 0};
    struct pfl_form body = {.len = 0};
    struct pfl_http_request request;
    struct pfl_web_access access;
    char *text = pfl_mem_strndup((const char *)bytes.data, bytes.len);
    size_t len = text != NULL ? strlen(text) : 0;

    if (text == NULL)
        abort();
    pfl_web_access_init(&access, 8037, random);
    if (pfl_http_request_parse(text, len, BODY_MAX, &request) == 200 &&
        pfl_form_parse(pfl_span_of(request.query, strlen(request.query)), &form) == 0) {
        const struct pfl_form *sent = NULL;

        if (pfl_form_parse(request.body, &body) == 0)
            sent = &body;
        for (int i = 0; i < 2; i++) {
            const char *why = "";

            note("judged: %u", pfl_web_access_judge(&access, &request, &form, sent, &why));
            note("  %s", why);
        }
        pfl_form_fini(&body);
        pfl_form_fini(&form);
    }
    pfl_mem_free(text);
}

static void show_pages(struct pfl_reader *r, unsigned options, struct pfl_host_rows *list)
{
    static const struct pfl_layout_tab tabs[] = {{"/hosts", "Hosts"}, {"/traces", "Traces"}};
    char search[TEXT_MAX] = "";
    unsigned page = pfl_reader_u8(r);
    struct pfl_span words = take(r);
    struct pfl_span hosts = take(r);
    struct pfl_span state = take(r);
    struct pfl_span reply = take(r);
    struct pfl_host_rows_query query = {.search = search, .page = page, .now_s = NOW_S};
    static struct pfl_command_line command;
    struct pfl_layout layout = {.title = "hosts",
                                .tabs = tabs,
                                .tabs_len = 2,
                                .path = "/hosts",
                                .fleet = "",
                                .away = "",
                                .change = "0123"};
    static struct pfl_trace_rows traces;
    struct pfl_inventory *inventory = NULL;
    ProtobufCMessage *message = NULL;
    struct pfl_host_facts facts;

    memcpy(search, words.data, words.len < TEXT_MAX ? words.len : TEXT_MAX - 1);
    query.state = (enum pfl_host_rows_state)(options % 4);
    memset(&traces, 0, sizeof(traces));
    memset(&facts, 0, sizeof(facts));
    pfl_command_line_begin(&command, "hosts");
    pfl_command_line_option(&command, "--search", search);
    pfl_command_line_word(&command, search);
    layout.command = (options & 4) != 0 ? &command : NULL;
    layout.relay = (options & 8) != 0 ? "meet1:9910" : NULL;
    layout.fleet = (options & 16) != 0 ? "lab <1>" : "";
    layout.away = (options & 32) != 0 ? "it is <away>" : "";
    layout.away_s = options * 7;
    layout.refresh_s = options % 3 * 5;
    note("command: %s", command.text);
    if (pfl_inventory_parse(hosts, &inventory) == 0 &&
        pfl_host_rows_give_inventory(list, inventory) != 0)
        abort();
    if (pfl_proto_unpack(&perfleet__collector_reply__descriptor, reply, &message) == 0) {
        pfl_trace_rows_take(&traces, (const Perfleet__CollectorReply *)message);
        check_running(state, (const Perfleet__CollectorReply *)message, hosts, &layout);
        pfl_proto_free(message);
    }
    show_hosts(list, &query, &layout);
    for (size_t i = 0; i < 2 && inventory != NULL && i < pfl_inventory_get_len(inventory); i++) {
        struct pfl_host_row row;

        pfl_host_rows_get_row(list, i, &row);
        if (pfl_host_facts_parse(state, &facts) == 0)
            pfl_host_rows_note(list, row.name, &facts);
        pfl_host_rows_get_row(list, i, &row);
        show_host(&row, state, i == 0 ? &traces : NULL, &layout);
    }
    show_hosts(list, &query, &layout);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct pfl_host_rows_conf conf = {.selection = NULL};
    struct pfl_reader r = pfl_reader_of(pfl_span_of(data, size));
    struct pfl_host_rows *list;
    unsigned options = pfl_reader_u8(&r);

    if (size < 2)
        return 0;
    (void)setenv("TZ", "UTC0", 1);
    tzset();
    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    if (pfl_host_rows_new(&conf, &list) != 0)
        abort();
    if (options != 254)
        show_pages(&r, options, list);
    judge(pfl_span_of(r.pos, r.left));
    pfl_host_rows_free(list);
    if (options == 255)
        show_small(options);
    return 0;
}
