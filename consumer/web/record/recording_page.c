/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording as a page: see recording_page.h.
 *
 * Happy path: a sentence and a bar for the whole, a row with a bar for each host, those with
 * trouble first; after the end, the buttons for the trace, and the command's own summary.
 * Failures: hosts that failed, are away or lost something are marked in words, not by colour alone.
 * Limits: PFL_RECORDING_PAGE_MAX_ROWS rows, the rest is counted.
 */
#include "consumer/web/record/recording_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct pfl_recording_view view_t;
typedef struct pfl_recording_host_view host_t;

static void add_paragraph(struct pfl_html *h, const char *class_name, const char *text)
{
    if (text[0] != '\0')
        pfl_html_leaf_of(h, "p", class_name, text);
}

/* ---- the whole ---- */

static const char *word_state(const view_t *v)
{
    static const char *const words[] = {
        [PFL_RECORDING_VIEW_BEGINS] = "connecting and setting up",
        [PFL_RECORDING_VIEW_RUNS] = "recording",
        [PFL_RECORDING_VIEW_STOPS] = "stopping",
        [PFL_RECORDING_VIEW_READS] = "reading",
        [PFL_RECORDING_VIEW_ENDS] = "completing the file",
        [PFL_RECORDING_VIEW_OVER] = "done",
    };

    if (v->state == PFL_RECORDING_VIEW_OVER && !v->has_trace)
        return "failed";
    if (v->state == PFL_RECORDING_VIEW_OVER && v->has_lost)
        return "done, not complete";
    return words[v->state];
}

static double share_of(const view_t *v)
{
    if (v->state == PFL_RECORDING_VIEW_RUNS && v->duration_ms != 0)
        return (double)v->elapsed_ms / (double)v->duration_ms;
    if (v->state == PFL_RECORDING_VIEW_READS && v->expected_bytes != 0)
        return (double)v->read_bytes / (double)v->expected_bytes;
    return PFL_RECORDING_NO_BAR;
}

static void add_bar(struct pfl_html *h, double share, const char *name)
{
    if (share < 0)
        return;
    pfl_html_open(h, "progress");
    pfl_html_attr(h, "aria-label", name);
    pfl_html_attr(h, "max", "100");
    pfl_html_attrf(h, "value", "%.0f", share > 1 ? 100.0 : share * 100);
    pfl_html_close(h);
}

static void add_time(const view_t *v, struct pfl_html *h)
{
    if (v->state < PFL_RECORDING_VIEW_RUNS)
        return;
    pfl_html_textf(h, " · %.1f", (double)v->elapsed_ms / 1e3);
    if (v->duration_ms != 0)
        pfl_html_textf(h, " of %.1f", (double)v->duration_ms / 1e3);
    pfl_html_text(h, " s");
}

static void add_whole(const view_t *v, struct pfl_html *h)
{
    char size[32];

    pfl_html_open(h, "p");
    pfl_html_attr(h, "class", "whole");
    pfl_html_leaf(h, "strong", word_state(v));
    add_time(v, h);
    pfl_html_textf(h, " · %zu host%s", v->hosts_len, v->hosts_len == 1 ? "" : "s");
    if (v->failed != 0)
        pfl_html_textf(h, ", %zu failed", v->failed);
    pfl_html_textf(h, " · %s read", pfl_layout_bytes(v->read_bytes, size, sizeof(size)));
    pfl_html_textf(h, " · %" PRIu64 " losses", v->losses);
    pfl_html_close(h);
    add_bar(h, share_of(v), "the whole recording");
}

static void add_away(const view_t *v, struct pfl_html *h)
{
    char age[32];

    if (v->longest_away[0] == '\0')
        return;
    pfl_html_open(h, "p");
    pfl_html_attr(h, "class", "banner");
    pfl_html_text(h, v->longest_away);
    if (v->away > 1)
        pfl_html_textf(h, " and %zu more", v->away - 1);
    pfl_html_textf(h, " %s away for %s. ", v->away > 1 ? "are" : "is",
                   pfl_layout_age((double)v->longest_away_ms / 1e3, age, sizeof(age)));
    pfl_html_text(h,
                  v->is_waited_for
                      ? "Only this is waited for; Stop ends the recording without it."
                      : "The recording continues, and takes what the host kept when it is back.");
    pfl_html_close(h);
}

static void add_lines(struct pfl_html *h, const char *class_name, const char *lines)
{
    while (*lines != '\0') {
        size_t len = strcspn(lines, "\n");

        pfl_html_open(h, "p");
        pfl_html_attr(h, "class", class_name);
        pfl_html_textf(h, "%.*s", (int)len, lines);
        pfl_html_close(h);
        lines += len + (lines[len] == '\n');
    }
}

/* ---- the hosts ---- */

static bool is_trouble(const host_t *host)
{
    return host->why[0] != '\0' || host->away_ms != 0;
}

static void add_state(const host_t *host, struct pfl_html *h)
{
    char age[32];

    pfl_html_open(h, "td");
    pfl_html_attr(h, "data-label", "State");
    if (host->why[0] != '\0') {
        pfl_html_leaf_of(h, "span", "state bad", "failed");
        pfl_html_leaf_of(h, "span", "why", host->why);
    } else if (host->away_ms != 0) {
        pfl_html_open(h, "span");
        pfl_html_attr(h, "class", "state away");
        pfl_html_textf(h, "%s, away for %s", host->state,
                       pfl_layout_age((double)host->away_ms / 1e3, age, sizeof(age)));
        pfl_html_close(h);
    } else {
        pfl_html_leaf_of(h, "span", "state", host->state);
    }
    pfl_html_close(h);
}

static void add_host(const host_t *host, struct pfl_html *h)
{
    char size[32];

    pfl_html_open(h, "tr");
    pfl_html_open(h, "th");
    pfl_html_attr(h, "scope", "row");
    pfl_html_text(h, host->name);
    pfl_html_close(h);
    add_state(host, h);
    pfl_html_open(h, "td");
    pfl_html_attr(h, "data-label", "Progress");
    add_bar(h, host->why[0] != '\0' ? PFL_RECORDING_NO_BAR : host->share, host->name);
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Read", true);
    pfl_html_text(h, pfl_layout_bytes(host->bytes, size, sizeof(size)));
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Losses", true);
    if (host->has_losses && host->losses != 0)
        pfl_html_open(h, "strong");
    if (host->has_losses)
        pfl_html_textf(h, "%" PRIu64, host->losses);
    else
        pfl_html_text(h, "…");
    if (host->has_losses && host->losses != 0)
        pfl_html_close(h);
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Clock", true);
    if (host->has_clock)
        pfl_html_textf(h, "± %.3f ms", (double)host->clock_error_ns / 1e6);
    else
        pfl_html_text(h, "…");
    pfl_html_close(h);
    pfl_html_close(h);
}

static size_t add_hosts_of(const view_t *v, bool is_wanted, size_t room, struct pfl_html *h)
{
    size_t shown = 0;

    for (size_t i = 0; i < v->hosts_len && shown < room; i++) {
        if (is_trouble(&v->hosts[i]) != is_wanted)
            continue;
        add_host(&v->hosts[i], h);
        shown++;
    }
    return shown;
}

static void add_hosts(const view_t *v, struct pfl_html *h)
{
    static const char *const columns[] = {"Host",    "State",  "Progress", "#Read",
                                          "#Losses", "#Clock", NULL};
    size_t shown;

    pfl_layout_begin_table(h, "Hosts of the recording", columns);
    shown = add_hosts_of(v, true, PFL_RECORDING_PAGE_MAX_ROWS, h);
    shown += add_hosts_of(v, false, PFL_RECORDING_PAGE_MAX_ROWS - shown, h);
    pfl_layout_end_table(h);
    if (shown == v->hosts_len)
        return;
    pfl_html_open(h, "p");
    pfl_html_attr(h, "class", "count");
    pfl_html_textf(h, "and %zu more hosts, without trouble or after those above",
                   v->hosts_len - shown);
    pfl_html_close(h);
}

void pfl_recording_page_write_progress(const struct pfl_recording_view *view, struct pfl_html *h)
{
    bool is_over = view->state == PFL_RECORDING_VIEW_OVER;

    pfl_html_open(h, "div");
    pfl_html_attr(h, "id", "progress");
    pfl_html_attr(h, "data-over", is_over ? "1" : "0");
    add_whole(view, h);
    if (!is_over)
        add_away(view, h);
    add_paragraph(h, "banner", view->why);
    add_lines(h, "warn", view->warnings);
    add_hosts(view, h);
    pfl_html_close(h);
}

/* ---- what can be done ---- */

/* The rest of a form of one button. */
static void end_form(const view_t *v, const char *button, bool is_new_tab, struct pfl_html *h)
{
    pfl_html_open(h, "input");
    pfl_html_attr(h, "type", "hidden");
    pfl_html_attr(h, "name", "id");
    pfl_html_attrf(h, "value", "%" PRIu32, v->id);
    pfl_html_close(h);
    pfl_html_open(h, "button");
    pfl_html_attr(h, "type", "submit");
    if (is_new_tab)
        pfl_html_attr(h, "formtarget", "_blank");
    pfl_html_text(h, button);
    pfl_html_close(h);
    pfl_html_close(h);
}

static void add_stop(const view_t *v, const struct pfl_layout *layout, struct pfl_html *h)
{
    pfl_layout_form(layout, h, "/recording/stop");
    end_form(v, v->is_stopping ? "Stop now: keep what came" : "Stop", false, h);
}

static void add_download(const view_t *v, struct pfl_html *h)
{
    char size[32];
    char id[16];

    (void)snprintf(id, sizeof(id), "%" PRIu32, v->id);
    pfl_html_open(h, "a");
    pfl_html_href(h, "/recording/trace", "id", id);
    pfl_html_attr(h, "download", v->file_name);
    pfl_html_textf(h, "Download %s", v->file_name);
    pfl_html_close(h);
    pfl_html_leaf_of(h, "span", "count", pfl_layout_bytes(v->file_bytes, size, sizeof(size)));
}

static void add_trace(const view_t *v, const struct pfl_layout *layout, struct pfl_html *h)
{
    char age[32];

    pfl_html_open(h, "div");
    pfl_html_attr(h, "class", "deeds");
    if (v->has_trace) {
        if (!layout->is_remote) {
            pfl_layout_form(layout, h, "/recording/open");
            end_form(v, "Open in the Perfetto UI", true, h);
        }
        add_download(v, h);
    }
    pfl_layout_form(layout, h, "/recording/remove");
    end_form(v, "Remove", false, h);
    pfl_html_close(h);
    pfl_html_open(h, "p");
    pfl_html_attr(h, "class", "count");
    pfl_html_textf(
        h,
        "It is removed in %s, when newer recordings need its place, or when perfleet ui ends. %s",
        pfl_layout_age((double)v->kept_s, age, sizeof(age)),
        layout->is_remote
            ? "Open the download in the Perfetto UI: from here, it cannot be handed over."
            : "Nothing is uploaded: the Perfetto UI fetches the trace from this machine.");
    pfl_html_close(h);
}

static void add_summary(const view_t *v, struct pfl_html *h)
{
    if (v->summary[0] == '\0')
        return;
    pfl_html_leaf(h, "h2", "Summary");
    pfl_html_open(h, "pre");
    pfl_html_attr(h, "tabindex", "0");
    pfl_html_attr(h, "id", "summary");
    pfl_html_text(h, v->summary);
    pfl_html_close(h);
}

void pfl_recording_page_write(const struct pfl_recording_view *view,
                              const struct pfl_layout *layout, struct pfl_html *h)
{
    pfl_layout_begin(layout, h);
    pfl_html_open(h, "h1");
    pfl_html_textf(h, "Recording %" PRIu32 ": %s, %s", view->id, view->what, view->where);
    pfl_html_close(h);
    if (view->state != PFL_RECORDING_VIEW_OVER)
        add_stop(view, layout, h);
    else
        add_trace(view, layout, h);
    pfl_recording_page_write_progress(view, h);
    add_summary(view, h);
    pfl_layout_end(layout, h);
}

/* ---- the list ---- */

static void add_row(const view_t *v, struct pfl_html *h)
{
    char size[32];
    char id[16];

    (void)snprintf(id, sizeof(id), "%" PRIu32, v->id);
    pfl_html_open(h, "tr");
    pfl_html_open(h, "th");
    pfl_html_attr(h, "scope", "row");
    pfl_html_open(h, "a");
    pfl_html_href(h, "/recording", "id", id);
    pfl_html_textf(h, "Recording %" PRIu32, v->id);
    pfl_html_close(h);
    pfl_html_close(h);
    pfl_html_open(h, "td");
    pfl_html_attr(h, "data-label", "What");
    pfl_html_textf(h, "%s, %s", v->what, v->where);
    pfl_html_close(h);
    pfl_html_open(h, "td");
    pfl_html_attr(h, "data-label", "State");
    pfl_html_text(h, word_state(v));
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Hosts", true);
    pfl_html_textf(h, "%zu", v->hosts_len);
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Trace", true);
    pfl_html_text(h, v->has_trace ? pfl_layout_bytes(v->file_bytes, size, sizeof(size)) : "–");
    pfl_html_close(h);
    pfl_html_close(h);
}

void pfl_recording_page_write_list(const struct pfl_recording_view *views, size_t len,
                                   struct pfl_html *h)
{
    static const char *const columns[] = {"Name", "What", "State", "#Hosts", "#Trace", NULL};

    if (len == 0)
        return;
    pfl_html_leaf(h, "h2", "Recordings of this page");
    pfl_layout_begin_table(h, "Recordings of this page", columns);
    for (size_t i = 0; i < len; i++)
        add_row(&views[i], h);
    pfl_layout_end_table(h);
}
