/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of the whole fleet: see fleet_page.h. What the relay says of itself as facts and charts;
 * losses by cause with the host that has most; then the certificates that end soon. Every chart has
 * its figures as text. What is not known is said, not left out.
 */
#include "consumer/web/fleet/fleet_page.h"

#include <inttypes.h>
#include <stdio.h>

#include "consumer/web/hosts/hosts_page.h"
#include "consumer/web/html/chart.h"

#define DAY_S 86400

/* As docs/metrics.md has them. */
static const struct {
    const char *cause;
    const char *where;
    const char *what;
} losses[PFL_HOST_LOSSES] = {
    [PFL_HOST_LOSS_WRITER_DROPPED] =
        {"writer_dropped", "producer",
         "The producer's shared memory was full: set a larger shmem_size_hint_kb."},
    [PFL_HOST_LOSS_MALFORMED] = {"malformed", "producer",
                                 "A chunk breaks the format: a producer is broken or hostile."},
    [PFL_HOST_LOSS_NO_BUFFER] = {"no_buffer", "service",
                                 "A chunk is for a freed buffer: normal when sessions end."},
    [PFL_HOST_LOSS_PATCH_WITHOUT_BUFFER] =
        {"patch_without_buffer", "service",
         "A patch is for a freed buffer: normal when sessions end."},
    [PFL_HOST_LOSS_NOT_COMMITTED] = {"not_committed", "service",
                                     "A commit does not match its chunk: normal after a scrape."},
    [PFL_HOST_LOSS_INVALID_PACKET] = {"invalid_packet", "service",
                                      "A packet is malformed: a producer is broken or hostile."},
    [PFL_HOST_LOSS_OVERWRITTEN] = {"overwritten", "buffer",
                                   "A full ring buffer overwrote its oldest data: normal in a "
                                   "flight recorder; else set a larger buffer."},
    [PFL_HOST_LOSS_DISCARDED] = {"discarded", "buffer",
                                 "A buffer with fill policy DISCARD was full: set a larger one."},
    [PFL_HOST_LOSS_PATCH_FAILED] =
        {"patch_failed", "buffer",
         "A patch came after its chunk was overwritten or read: normal in a "
         "flight recorder; else set a larger buffer."},
};

/* ---- small parts ---- */

static void add_fact(struct pfl_html *h, const char *name, const char *value)
{
    pfl_html_leaf(h, "dt", name);
    pfl_html_leaf(h, "dd", value[0] != '\0' ? value : "–");
}

static void open_head_cell(struct pfl_html *h)
{
    pfl_html_open(h, "tr");
    pfl_html_open(h, "th");
    pfl_html_attr(h, "scope", "row");
}

static void add_host(const struct pfl_fleet_page *p, size_t row, struct pfl_html *h)
{
    struct pfl_host_row host;

    pfl_host_rows_get_row(p->rows, row, &host);
    pfl_html_open(h, "a");
    pfl_html_href(h, "/host", "name", host.name);
    pfl_html_text(h, host.title);
    pfl_html_close(h);
}

/* ---- the relay ---- */

static void add_traffic(const struct pfl_relay_facts *r, struct pfl_html *h)
{
    char text[160];
    char to_operator[32];
    char to_host[32];
    char held[32];
    char queued[32];

    (void)snprintf(text, sizeof(text),
                   "%" PRIu64 " now, %" PRIu64 " since its start: %" PRIu64 " resumed, %" PRIu64
                   " cut",
                   r->streams, r->streams_begun, r->streams_resumed, r->streams_cut);
    add_fact(h, "Streams to hosts", text);
    (void)snprintf(text, sizeof(text), "%s to operators, %s to hosts",
                   pfl_layout_bytes(r->bytes_to_operator, to_operator, sizeof(to_operator)),
                   pfl_layout_bytes(r->bytes_to_host, to_host, sizeof(to_host)));
    add_fact(h, "Carried since its start", text);
    (void)snprintf(text, sizeof(text), "%s for slow readers, %s for the kernel",
                   pfl_layout_bytes(r->held_bytes, held, sizeof(held)),
                   pfl_layout_bytes(r->queued_bytes, queued, sizeof(queued)));
    add_fact(h, "Waiting", text);
}

static void add_relay_facts(const struct pfl_relay_facts *r, struct pfl_html *h)
{
    char text[160];
    char age[32];

    pfl_html_open(h, "dl");
    add_fact(h, "Relay", r->name);
    add_fact(h, "Version", r->version);
    add_fact(h, "Up for", pfl_layout_age((double)r->up_ms / 1000, age, sizeof(age)));
    (void)snprintf(text, sizeof(text), "%" PRIu64 " of %" PRIu64 " known are connected",
                   r->hosts_connected, r->hosts_known);
    add_fact(h, "Hosts", text);
    (void)snprintf(text, sizeof(text), "%" PRIu64, r->collectors);
    add_fact(h, "Collectors", text);
    add_traffic(r, h);
    pfl_html_close(h);
}

static void add_charts(const struct pfl_fleet_history *history, struct pfl_html *h)
{
    static const struct {
        enum pfl_fleet_series series;
        enum pfl_chart_unit unit;
        const char *title;
    } charts[] = {
        {PFL_FLEET_TO_OPERATOR, PFL_CHART_BYTES_S, "To operators"},
        {PFL_FLEET_TO_HOST, PFL_CHART_BYTES_S, "To hosts"},
        {PFL_FLEET_STREAMS, PFL_CHART_COUNT, "Streams"},
        {PFL_FLEET_HOSTS, PFL_CHART_COUNT, "Hosts connected"},
        {PFL_FLEET_CPU, PFL_CHART_PERCENT, "Processor of the relay"},
    };
    double values[PFL_FLEET_HISTORY_LEN];

    pfl_html_open(h, "div");
    pfl_html_attr(h, "class", "charts");
    for (size_t i = 0; i < sizeof(charts) / sizeof(charts[0]); i++) {
        struct pfl_chart chart = {.title = charts[i].title,
                                  .unit = charts[i].unit,
                                  .values = values,
                                  .span_ms = pfl_fleet_history_get_span_ms(history)};

        chart.len = pfl_fleet_history_get(history, charts[i].series, values);
        pfl_chart_write_line(&chart, h);
    }
    pfl_html_close(h);
}

static void add_relay(const struct pfl_fleet_page *p, struct pfl_html *h)
{
    if (!p->has_relay)
        return;
    pfl_html_leaf(h, "h2", "Relay");
    if (p->relay_why[0] != '\0')
        pfl_html_leaf_of(h, "p", "bad", p->relay_why);
    if (p->relay == NULL) {
        if (p->relay_why[0] == '\0')
            pfl_html_leaf_of(h, "p", "count", "The relay was not asked yet.");
        return;
    }
    add_relay_facts(p->relay, h);
    add_charts(p->history, h);
}

/* ---- losses ---- */

static void add_loss(const struct pfl_fleet_page *p, size_t cause, uint64_t greatest,
                     struct pfl_html *h)
{
    const struct pfl_fleet_loss *loss = &p->sums->losses[cause];

    open_head_cell(h);
    pfl_html_text(h, losses[cause].cause);
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Lost in", false);
    pfl_html_text(h, losses[cause].where);
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Count", false);
    pfl_html_textf(h, "%" PRIu64 " ", loss->count);
    pfl_chart_write_share((double)loss->count / (double)greatest, h);
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Hosts", false);
    pfl_html_textf(h, "%zu", loss->hosts);
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Most", false);
    pfl_html_textf(h, "%" PRIu64 " at ", loss->most);
    add_host(p, loss->most_at, h);
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Meaning", false);
    pfl_html_text(h, losses[cause].what);
    pfl_html_close(h);
    pfl_html_close(h);
}

static void add_loss_table(const struct pfl_fleet_page *p, uint64_t greatest, struct pfl_html *h)
{
    static const char *const columns[] = {"Cause", "Lost in", "Count", "Hosts",
                                          "Most",  "Meaning", NULL};

    pfl_layout_begin_table(h, "Losses by cause", columns);
    for (size_t i = 0; i < PFL_HOST_LOSSES; i++)
        if (p->sums->losses[i].count != 0)
            add_loss(p, i, greatest, h);
    pfl_layout_end_table(h);
}

static void add_losses(const struct pfl_fleet_page *p, struct pfl_html *h)
{
    uint64_t greatest = 0;

    for (size_t i = 0; i < PFL_HOST_LOSSES; i++)
        if (p->sums->losses[i].count > greatest)
            greatest = p->sums->losses[i].count;
    pfl_html_leaf(h, "h2", "Losses by cause");
    pfl_html_open(h, "p");
    pfl_html_attr(h, "class", "count");
    pfl_html_textf(h,
                   "Of %zu of %zu hosts, since their services began. Hosts are asked in turn while "
                   "this page is open.",
                   p->sums->asked, p->sums->hosts);
    pfl_html_close(h);
    if (greatest != 0)
        add_loss_table(p, greatest, h);
    else if (p->sums->asked != 0)
        pfl_html_leaf(h, "p", "Nothing was lost on these hosts.");
}

/* ---- certificates ---- */

static void add_end(const struct pfl_fleet_page *p, int64_t end_s, struct pfl_html *h)
{
    char age[32];

    pfl_layout_begin_cell(h, "Until", false);
    pfl_hosts_page_add_certificate(end_s, p->now_s, h);
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Left", false);
    if (end_s <= p->now_s)
        pfl_html_leaf_of(h, "span", "bad", "none");
    else
        pfl_html_text(h, pfl_layout_age((double)(end_s - p->now_s), age, sizeof(age)));
    pfl_html_close(h);
    pfl_html_close(h);
}

static void add_own(const struct pfl_fleet_page *p, const char *whose, int64_t end_s,
                    struct pfl_html *h)
{
    if (end_s == 0)
        return;
    open_head_cell(h);
    pfl_html_text(h, whose);
    pfl_html_close(h);
    add_end(p, end_s, h);
}

static void add_certificates(const struct pfl_fleet_page *p, struct pfl_html *h)
{
    static const char *const columns[] = {"Whose", "Until", "Left", NULL};
    const struct pfl_fleet_sums *s = p->sums;

    pfl_html_leaf(h, "h2", "Certificates");
    pfl_html_open(h, "p");
    pfl_html_attr(h, "class", "count");
    pfl_html_textf(h, "%zu of %zu hosts have a certificate that ends within %d days", s->endings,
                   s->hosts - s->undated, PFL_FLEET_SUMS_END_S / DAY_S);
    if (s->undated != 0)
        pfl_html_textf(h, "; for %zu the end is not known", s->undated);
    pfl_html_text(h, s->endings > s->ending_len ? "; below are the first." : ".");
    pfl_html_close(h);
    if (p->own_end_s == 0 && p->relay_end_s == 0 && s->ending_len == 0)
        return;
    pfl_layout_begin_table(h, "Certificates", columns);
    add_own(p, "yours", p->own_end_s, h);
    add_own(p, "the relay's", p->relay_end_s, h);
    add_own(p, "the relay's revocation list", p->relay != NULL ? p->relay->crl_end_s : 0, h);
    for (size_t i = 0; i < s->ending_len; i++) {
        open_head_cell(h);
        add_host(p, s->ending[i].row, h);
        pfl_html_close(h);
        add_end(p, s->ending[i].end_s, h);
    }
    pfl_layout_end_table(h);
}

/* ---- the page ---- */

void pfl_fleet_page_write_part(const struct pfl_fleet_page *page, struct pfl_html *h)
{
    pfl_html_open(h, "div");
    pfl_html_attr(h, "id", "list");
    pfl_html_attr(h, "data-refresh", "5000");
    add_relay(page, h);
    add_losses(page, h);
    add_certificates(page, h);
    pfl_html_close(h);
}

void pfl_fleet_page_write(const struct pfl_fleet_page *page, const struct pfl_layout *layout,
                          struct pfl_html *h)
{
    pfl_layout_begin(layout, h);
    pfl_html_leaf(h, "h1", "Fleet");
    pfl_fleet_page_write_part(page, h);
    pfl_layout_end(layout, h);
}
