/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of hosts: see hosts_page.h. A row has what the relay says of a host, and what the host's
 * service said when it was last on a page; three dots stand for what is not known yet. On a narrow
 * screen each row is a block, whose cells have the column's name before them (data-label).
 */
#include "consumer/web/hosts/hosts_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LABELS_SHOWN 6u

static const char *const state_names[] = {"", "up", "away", "problem"};

const char *pfl_hosts_page_state_name(enum pfl_host_rows_state state)
{
    return state_names[state];
}

enum pfl_host_rows_state pfl_hosts_page_state_parse(const char *name)
{
    for (size_t i = 0; i < sizeof(state_names) / sizeof(state_names[0]); i++)
        if (strcmp(name, state_names[i]) == 0)
            return (enum pfl_host_rows_state)i;
    return PFL_HOST_ROWS_ALL;
}

/* ---- the search ---- */

static void add_choice(struct pfl_html *h, enum pfl_host_rows_state state,
                       enum pfl_host_rows_state chosen, const char *text)
{
    pfl_html_open(h, "option");
    pfl_html_attr(h, "value", state_names[state]);
    if (state == chosen)
        pfl_html_attr(h, "selected", "");
    pfl_html_text(h, text);
    pfl_html_close(h);
}

static void add_search(const struct pfl_hosts_page *p, struct pfl_html *h)
{
    pfl_html_open(h, "form");
    pfl_html_attr(h, "role", "search");
    pfl_html_attr(h, "method", "get");
    pfl_html_attr(h, "id", "search");
    pfl_html_action(h, "/hosts");
    pfl_html_open(h, "label");
    pfl_html_text(h, "Search ");
    pfl_html_open(h, "input");
    pfl_html_attr(h, "type", "search");
    pfl_html_attr(h, "name", "q");
    pfl_html_attr(h, "value", p->search);
    pfl_html_attr(h, "placeholder", "name, label=value, version, address");
    pfl_html_attr(h, "autocomplete", "off");
    pfl_html_attr(h, "spellcheck", "false");
    pfl_html_attrf(h, "maxlength", "%u", PFL_HOST_ROWS_SEARCH_MAX - 1);
    pfl_html_close(h);
    pfl_html_close(h);
    pfl_html_open(h, "label");
    pfl_html_text(h, "State ");
    pfl_html_open(h, "select");
    pfl_html_attr(h, "name", "state");
    add_choice(h, PFL_HOST_ROWS_ALL, p->state, "any");
    add_choice(h, PFL_HOST_ROWS_UP, p->state, "up");
    add_choice(h, PFL_HOST_ROWS_AWAY, p->state, "away");
    add_choice(h, PFL_HOST_ROWS_PROBLEM, p->state, "to look at");
    pfl_html_close(h);
    pfl_html_close(h);
    pfl_html_leaf(h, "button", "Search");
    pfl_html_close(h);
}

/* ---- cells ---- */

static void add_number(struct pfl_html *h, const char *label, bool is_known, uint64_t number)
{
    pfl_layout_begin_cell(h, label, true);
    if (is_known)
        pfl_html_textf(h, "%" PRIu64, number);
    else
        pfl_html_text(h, "–");
    pfl_html_close(h);
}

void pfl_hosts_page_add_state(const struct pfl_host_row *row, struct pfl_html *h)
{
    const char *why = row->facts != NULL ? row->facts->why : "";
    char age[32];

    if (row->has_relay && !row->relay.is_connected) {
        pfl_html_open(h, "span");
        pfl_html_attr(h, "class", "state away");
        pfl_html_textf(h, "away %s", pfl_layout_age(row->relay.last_seen_s, age, sizeof(age)));
        pfl_html_close(h);
        return;
    }
    if (row->facts == NULL)
        pfl_html_leaf_of(h, "span", "state", row->has_relay ? "connected" : "…");
    else
        pfl_html_leaf_of(h, "span", why[0] != '\0' ? "state bad" : "state up",
                         why[0] != '\0' ? "failed" : "up");
    if (why[0] != '\0')
        pfl_html_leaf_of(h, "span", "why", why);
}

void pfl_hosts_page_add_labels(const struct pfl_inventory_host *relay, struct pfl_html *h)
{
    json_t *labels = json_object_get(relay->entry, "labels");
    const char *name;
    json_t *value;
    unsigned shown = 0;

    json_object_foreach(labels, name, value)
    {
        if (shown++ >= LABELS_SHOWN)
            continue;
        pfl_html_open(h, "span");
        pfl_html_attr(h, "class", "label");
        pfl_html_textf(h, "%s=%s", name, json_is_string(value) ? json_string_value(value) : "");
        pfl_html_close(h);
        pfl_html_text(h, " ");
    }
    if (shown > LABELS_SHOWN)
        pfl_html_textf(h, "and %u more", shown - LABELS_SHOWN);
}

void pfl_hosts_page_add_clock(const struct pfl_inventory_host *relay, struct pfl_html *h)
{
    if (!relay->has_clock) {
        pfl_html_text(h, "–");
        return;
    }
    pfl_html_open(h, "span");
    if (relay->error_ns > PFL_HOST_ROWS_CLOCK_NS)
        pfl_html_attr(h, "class", "warn");
    pfl_html_textf(h, "± %.*f ms", relay->error_ns < 10000000 ? 3 : 0,
                   (double)relay->error_ns / 1e6);
    pfl_html_close(h);
}

void pfl_hosts_page_add_certificate(int64_t end_s, int64_t now_s, struct pfl_html *h)
{
    time_t time = (time_t)end_s;
    struct tm tm;
    char day[16] = "?";

    if (end_s == 0) {
        pfl_html_text(h, "–");
        return;
    }
    if (gmtime_r(&time, &tm) != NULL)
        (void)strftime(day, sizeof(day), "%Y-%m-%d", &tm);
    pfl_html_open(h, "span");
    if (end_s - now_s < PFL_HOST_ROWS_CERT_S)
        pfl_html_attr(h, "class", end_s <= now_s ? "bad" : "warn");
    pfl_html_text(h, day);
    if (end_s <= now_s)
        pfl_html_text(h, " expired");
    pfl_html_close(h);
}

static void add_buffers(const struct pfl_host_facts *f, struct pfl_html *h)
{
    char used[32];
    char all[32];

    pfl_layout_begin_cell(h, "Buffers", true);
    if (f == NULL || !f->has_figures)
        pfl_html_text(h, "–");
    else if (f->ring_bytes == 0)
        pfl_html_text(h, "none");
    else
        pfl_html_textf(h, "%s of %s", pfl_layout_bytes(f->ring_used_bytes, used, sizeof(used)),
                       pfl_layout_bytes(f->ring_bytes, all, sizeof(all)));
    pfl_html_close(h);
}

static void add_lost(const struct pfl_host_facts *f, struct pfl_html *h)
{
    pfl_layout_begin_cell(h, "Lost", true);
    if (f == NULL || !f->has_figures) {
        pfl_html_text(h, "–");
    } else {
        pfl_html_open(h, "span");
        if (f->lost != 0)
            pfl_html_attr(h, "class", "warn");
        pfl_html_textf(h, "%" PRIu64, f->lost);
        pfl_html_close(h);
    }
    pfl_html_close(h);
}

/* What the host's service said. */
static void add_facts(const struct pfl_host_facts *f, struct pfl_html *h)
{
    bool is_known = f != NULL && f->why[0] == '\0';
    const struct pfl_host_facts *known = is_known ? f : NULL;

    pfl_layout_begin_cell(h, "Service", false);
    pfl_html_text(h, is_known && f->service[0] != '\0' ? f->service : "–");
    pfl_html_close(h);
    add_number(h, "Producers", is_known, is_known ? f->producers : 0);
    add_number(h, "Sources", is_known, is_known ? f->sources : 0);
    add_number(h, "Sessions", is_known, is_known ? f->sessions : 0);
    add_buffers(known, h);
    add_lost(known, h);
}

static void add_relay_facts(const struct pfl_hosts_page *p, const struct pfl_inventory_host *relay,
                            struct pfl_html *h)
{
    pfl_layout_begin_cell(h, "Agent", false);
    pfl_html_text(h, relay->version[0] != '\0' ? relay->version : "–");
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Clock", true);
    pfl_hosts_page_add_clock(relay, h);
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Certificate", false);
    pfl_hosts_page_add_certificate(relay->certificate_end_s, p->now_s, h);
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Labels", false);
    pfl_hosts_page_add_labels(relay, h);
    pfl_html_close(h);
}

static void add_row(const struct pfl_hosts_page *p, size_t number, struct pfl_html *h)
{
    struct pfl_host_row row;

    pfl_host_rows_get_row(p->list, number, &row);
    pfl_html_open(h, "tr");
    pfl_html_open(h, "th");
    pfl_html_attr(h, "scope", "row");
    pfl_html_open(h, "a");
    pfl_html_href(h, "/host", "name", row.name);
    pfl_html_text(h, row.title);
    pfl_html_close(h);
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "State", false);
    pfl_hosts_page_add_state(&row, h);
    pfl_html_close(h);
    add_facts(row.facts, h);
    if (p->has_relay)
        add_relay_facts(p, &row.relay, h);
    pfl_html_close(h);
}

/* ---- the table ---- */

static void add_head(const struct pfl_hosts_page *p, struct pfl_html *h)
{
    static const struct {
        const char *name;
        bool is_of_relay;
    } columns[] = {
        {"Host", false},     {"State", false},     {"Service", false},    {"#Producers", false},
        {"#Sources", false}, {"#Sessions", false}, {"#Buffers", false},   {"#Lost", false},
        {"Agent", true},     {"#Clock", true},     {"Certificate", true}, {"Labels", true},
    };

    pfl_html_open(h, "thead");
    pfl_html_open(h, "tr");
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        if (!columns[i].is_of_relay || p->has_relay)
            pfl_layout_add_column(h, columns[i].name);
    }
    pfl_html_close(h);
    pfl_html_close(h);
}

static void add_count(const struct pfl_hosts_page *p, struct pfl_html *h)
{
    const struct pfl_host_rows_view *v = p->view;

    pfl_html_open(h, "p");
    pfl_html_attr(h, "class", "count");
    if (v->found == 0 && v->all == 0)
        pfl_html_text(h, p->has_relay ? "The relay knows no host yet: see perfleet-agent(8)."
                                      : "No host was named.");
    else if (v->found == 0)
        pfl_html_textf(h, "None of %zu hosts matches.", v->all);
    else
        pfl_html_textf(h, "%zu to %zu of %zu%s; %zu of all %zu %s", v->first + 1,
                       v->first + v->rows_len, v->found, v->found == v->all ? "" : " found", v->up,
                       v->all, p->has_relay ? "are connected" : "answer");
    pfl_html_close(h);
}

static void add_step(const struct pfl_hosts_page *p, struct pfl_html *h, size_t page,
                     const char *text)
{
    char number[24];

    (void)snprintf(number, sizeof(number), "%zu", page);
    pfl_html_open(h, "a");
    pfl_html_href(h, "/hosts", "q", p->search, "state", state_names[p->state], "page", number);
    pfl_html_text(h, text);
    pfl_html_close(h);
    pfl_html_text(h, " ");
}

static void add_pages(const struct pfl_hosts_page *p, struct pfl_html *h)
{
    const struct pfl_host_rows_view *v = p->view;
    size_t page = v->first / PFL_HOST_ROWS_PAGE;

    if (v->found <= PFL_HOST_ROWS_PAGE)
        return;
    pfl_html_open(h, "nav");
    pfl_html_attr(h, "class", "pages");
    pfl_html_attr(h, "aria-label", "Further hosts");
    if (page != 0)
        add_step(p, h, page - 1, "Previous");
    pfl_html_textf(h, "page %zu of %zu ", page + 1,
                   (v->found + PFL_HOST_ROWS_PAGE - 1) / PFL_HOST_ROWS_PAGE);
    if (v->first + v->rows_len < v->found)
        add_step(p, h, page + 1, "Next");
    pfl_html_close(h);
}

void pfl_hosts_page_write_list(const struct pfl_hosts_page *page, struct pfl_html *h)
{
    pfl_html_open(h, "div");
    pfl_html_attr(h, "id", "list");
    pfl_html_attr(h, "data-refresh", "5000");
    pfl_html_attr(h, "aria-live", "off");
    add_count(page, h);
    if (page->view->rows_len != 0) {
        pfl_layout_begin_scroll(h, "Hosts");
        pfl_html_open(h, "table");
        add_head(page, h);
        pfl_html_open(h, "tbody");
        for (size_t i = 0; i < page->view->rows_len; i++)
            add_row(page, page->view->rows[i], h);
        pfl_layout_end_table(h);
    }
    add_pages(page, h);
    pfl_html_close(h);
}

void pfl_hosts_page_write(const struct pfl_hosts_page *page, const struct pfl_layout *layout,
                          struct pfl_html *h)
{
    pfl_layout_begin(layout, h);
    pfl_html_leaf(h, "h1", "Hosts");
    add_search(page, h);
    pfl_hosts_page_write_list(page, h);
    pfl_layout_end(layout, h);
}
