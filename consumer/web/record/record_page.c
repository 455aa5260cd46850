/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Record page: see record_page.h.
 *
 * Happy path: a form whose values are those that were typed; below it the count of hosts, the
 * command that does the same, and notes. "Check" and "Start" send the same form. Failures: what is
 * wrong stands at its field, once the form was sent; as one types, only in the part that changes.
 */
#include "consumer/web/record/record_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "consumer/config/preset.h"

#define FINDINGS_SHOWN 100u

/* ---- fields ---- */

static void begin_field(struct pfl_html *h, const char *id, const char *label)
{
    pfl_html_open(h, "div");
    pfl_html_attr(h, "class", "field");
    pfl_html_open(h, "label");
    pfl_html_attr(h, "for", id);
    pfl_html_text(h, label);
    pfl_html_close(h);
}

/* Its value is shown again; what is wrong is read with it. */
static void mark(struct pfl_html *h, const char *id, const char *why)
{
    if (why[0] == '\0')
        return;
    pfl_html_attr(h, "aria-invalid", "true");
    pfl_html_attrf(h, "aria-describedby", "%s-why", id);
}

static void end_field(struct pfl_html *h, const char *id, const char *why)
{
    if (why[0] != '\0') {
        pfl_html_open(h, "p");
        pfl_html_attr(h, "class", "bad");
        pfl_html_attrf(h, "id", "%s-why", id);
        pfl_html_text(h, why);
        pfl_html_close(h);
    }
    pfl_html_close(h);
}

static void add_input(struct pfl_html *h, const char *id, const char *value, const char *hint)
{
    pfl_html_open(h, "input");
    pfl_html_attr(h, "id", id);
    pfl_html_attr(h, "name", id);
    pfl_html_attr(h, "value", value);
    pfl_html_attr(h, "placeholder", hint);
    pfl_html_attr(h, "autocomplete", "off");
    pfl_html_attr(h, "spellcheck", "false");
}

static void add_option(struct pfl_html *h, const char *value, const char *words, bool is_chosen)
{
    pfl_html_open(h, "option");
    pfl_html_attr(h, "value", value);
    if (is_chosen)
        pfl_html_attr(h, "selected", "selected");
    pfl_html_text(h, words);
    pfl_html_close(h);
}

/* A preset's first line is a comment that describes it. */
static void add_preset(struct pfl_html *h, const struct pfl_preset *preset, const char *chosen)
{
    const char *end = memchr(preset->text, '\n', preset->text_len);
    size_t len = end != NULL ? (size_t)(end - preset->text) : preset->text_len;
    char words[256];

    (void)snprintf(words, sizeof(words), "%s: %.*s", preset->name, len < 2 ? 0 : (int)(len - 2),
                   preset->text + (len < 2 ? 0 : 2));
    add_option(h, preset->name, words, strcmp(chosen, preset->name) == 0);
}

static void add_select(const struct pfl_record_page *p, const char *why, struct pfl_html *h)
{
    begin_field(h, "select", "Hosts: a selector, as for --select; * means all");
    add_input(h, "select", p->form->select, "role=web,zone!=b");
    pfl_html_attr(h, "required", "required");
    mark(h, "select", why);
    pfl_html_close(h);
    end_field(h, "select", why);
}

static void add_config(const struct pfl_record_page *p, const char *why, struct pfl_html *h)
{
    begin_field(h, "preset", "What to record");
    pfl_html_open(h, "select");
    pfl_html_attr(h, "id", "preset");
    pfl_html_attr(h, "name", "preset");
    for (size_t i = 0; i < pfl_presets_len; i++)
        add_preset(h, &pfl_presets[i], p->form->preset);
    add_option(h, "", "the config below", p->form->preset[0] == '\0');
    pfl_html_close(h);
    end_field(h, "preset", "");
    begin_field(h, "config", "A config of your own, in Perfetto's text format");
    pfl_html_open(h, "textarea");
    pfl_html_attr(h, "id", "config");
    pfl_html_attr(h, "name", "config");
    pfl_html_attr(h, "rows", "6");
    pfl_html_attr(h, "spellcheck", "false");
    mark(h, "config", why);
    pfl_html_text(h, p->form->config);
    pfl_html_close(h);
    end_field(h, "config", why);
}

static void add_duration(const struct pfl_record_page *p, const char *why, struct pfl_html *h)
{
    begin_field(h, "duration", "For how long: 10s, 5m; empty: as the config says");
    add_input(h, "duration", p->form->duration, "10s");
    mark(h, "duration", why);
    pfl_html_close(h);
    end_field(h, "duration", why);
}

static void add_button(struct pfl_html *h, const char *value, const char *words)
{
    pfl_html_open(h, "button");
    pfl_html_attr(h, "type", "submit");
    pfl_html_attr(h, "name", "do");
    pfl_html_attr(h, "value", value);
    pfl_html_text(h, words);
    pfl_html_close(h);
}

static void add_form(const struct pfl_record_page *p, const struct pfl_layout *layout,
                     struct pfl_html *h)
{
    pfl_html_open(h, "div");
    pfl_html_attr(h, "id", "record");
    pfl_layout_form(layout, h, "/record");
    add_select(p, p->is_checked ? p->hosts->why : "", h);
    add_config(p, p->is_checked ? p->plan->config_why : "", h);
    add_duration(p, p->is_checked ? p->plan->duration_why : "", h);
    pfl_record_page_write_check(p, h);
    pfl_html_open(h, "div");
    pfl_html_attr(h, "class", "deeds");
    add_button(h, "check", "Check: count the hosts, and ask them");
    add_button(h, "start", "Start recording");
    pfl_html_close(h);
    pfl_html_close(h);
    pfl_html_close(h);
}

/* ---- what is found ---- */

static void add_names(const struct pfl_record_page *p, struct pfl_html *h)
{
    size_t shown =
        p->hosts->found < PFL_RECORD_PLAN_NAMED ? p->hosts->found : PFL_RECORD_PLAN_NAMED;
    struct pfl_host_row row;

    for (size_t i = 0; i < shown; i++) {
        pfl_host_rows_get_row(p->rows, p->hosts->named[i], &row);
        pfl_html_textf(h, "%s%s", i == 0 ? ": " : ", ", row.title);
    }
    if (p->hosts->found > shown)
        pfl_html_textf(h, " and %zu more", p->hosts->found - shown);
}

static void add_count(const struct pfl_record_page *p, struct pfl_html *h)
{
    const struct pfl_record_hosts *hosts = p->hosts;

    pfl_html_open(h, "p");
    if (hosts->why[0] != '\0') {
        pfl_html_text(h, hosts->why);
    } else {
        pfl_html_open(h, "strong");
        pfl_html_textf(h, "%zu of %zu", hosts->found, hosts->all);
        pfl_html_close(h);
        pfl_html_textf(h, " host%s match%s", hosts->all == 1 ? "" : "s",
                       hosts->found == 1 ? "es" : "");
        add_names(p, h);
        if (hosts->away != 0)
            pfl_html_textf(h, "; %zu of them %s away now", hosts->away,
                           hosts->away == 1 ? "is" : "are");
        if (hosts->left != 0)
            pfl_html_textf(h,
                           "; %zu further ones left the relay more than %u s ago, and are not "
                           "asked",
                           hosts->left, PFL_INVENTORY_LEFT_S);
    }
    pfl_html_close(h);
}

static void add_plan(const struct pfl_record_page *p, struct pfl_html *h)
{
    const struct pfl_record_plan *plan = p->plan;
    const char *note;

    if (plan->config_why[0] != '\0')
        pfl_html_leaf(h, "p", plan->config_why);
    if (plan->duration_why[0] != '\0')
        pfl_html_leaf(h, "p", plan->duration_why);
    if (!pfl_record_plan_is_good(plan))
        return;
    pfl_html_open(h, "p");
    pfl_html_textf(h, "%" PRIu32 " data source%s, %" PRIu32 " buffer%s", plan->info.data_sources,
                   plan->info.data_sources == 1 ? "" : "s", plan->info.buffers,
                   plan->info.buffers == 1 ? "" : "s");
    if (plan->info.duration_ms != 0)
        pfl_html_textf(h, ", %.1f s", (double)plan->info.duration_ms / 1e3);
    pfl_html_text(h, ".");
    for (size_t i = 0; (note = pfl_record_plan_get_note(plan, i)) != NULL; i++)
        pfl_html_textf(h, " %s", note);
    pfl_html_close(h);
}

void pfl_record_page_write_check(const struct pfl_record_page *page, struct pfl_html *h)
{
    pfl_html_open(h, "div");
    pfl_html_attr(h, "id", "check");
    pfl_html_attr(h, "role", "status");
    add_count(page, h);
    add_plan(page, h);
    pfl_html_close(h);
}

/* "warning NAME: CHECK: TEXT" */
static void add_finding(const char *line, size_t len, struct pfl_html *h)
{
    size_t level = 0;

    while (level < len && line[level] != ' ')
        level++;
    pfl_html_open(h, "li");
    pfl_html_open(h, "span");
    pfl_html_attr(h, "class", strncmp(line, "BAD", 3) == 0 ? "bad" : "warn");
    pfl_html_textf(h, "%.*s", (int)level, line);
    pfl_html_close(h);
    pfl_html_textf(h, "%.*s", (int)(len - level), line + level);
    pfl_html_close(h);
}

static void add_findings(const struct pfl_record_page *p, struct pfl_html *h)
{
    const char *line = p->findings;
    size_t problems = 0;

    if (line == NULL)
        return;
    pfl_html_leaf(h, "h2", "What perfleet doctor finds");
    pfl_html_open(h, "ul");
    pfl_html_attr(h, "class", "findings");
    while (*line != '\0') {
        size_t len = strcspn(line, "\n");

        if (len != 0 && strncmp(line, "well", 4) != 0 && problems++ < FINDINGS_SHOWN)
            add_finding(line, len, h);
        line += len + (line[len] == '\n');
    }
    if (problems == 0) {
        pfl_html_open(h, "li");
        pfl_html_textf(h, "Nothing is wrong with the %zu host%s that %s asked.", p->asked,
                       p->asked == 1 ? "" : "s", p->asked == 1 ? "was" : "were");
        pfl_html_close(h);
    }
    pfl_html_close(h);
    if (problems <= FINDINGS_SHOWN && p->asked == p->hosts->found)
        return;
    pfl_html_open(h, "p");
    pfl_html_attr(h, "class", "count");
    pfl_html_textf(h, "%zu of %zu hosts were asked, %zu findings", p->asked, p->hosts->found,
                   problems);
    pfl_html_close(h);
}

void pfl_record_page_write(const struct pfl_record_page *page, const struct pfl_layout *layout,
                           struct pfl_html *h)
{
    pfl_layout_begin(layout, h);
    pfl_html_leaf(h, "h1", "Record");
    if (page->why[0] != '\0') {
        pfl_html_open(h, "p");
        pfl_html_attr(h, "class", "banner");
        pfl_html_attr(h, "role", "alert");
        pfl_html_textf(h, "The recording did not start: %s", page->why);
        pfl_html_close(h);
    }
    add_form(page, layout, h);
    add_findings(page, h);
    pfl_recording_page_write_list(page->recordings, page->recordings_len, h);
    pfl_layout_end(layout, h);
}
