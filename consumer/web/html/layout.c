/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of all pages: see layout.h. The script and the style sheet are files of this program's
 * own origin; no page has a script, a style or an address of a host's in it.
 */
#include "consumer/web/html/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define AGE_MAX_S 8640000000.0 /* a relay may claim more than an integer can have */

/* Without it a browser asks for another one. */
static void add_icon(struct pfl_html *h)
{
    pfl_html_open(h, "link");
    pfl_html_attr(h, "rel", "icon");
    pfl_html_href_page(h, "/icon.svg");
    pfl_html_close(h);
}

static void add_head(struct pfl_html *h, const char *title, unsigned refresh_s)
{
    pfl_html_begin(h);
    pfl_html_open(h, "html");
    pfl_html_attr(h, "lang", "en");
    pfl_html_open(h, "head");
    pfl_html_open(h, "meta");
    pfl_html_attr(h, "charset", "utf-8");
    pfl_html_close(h);
    pfl_html_meta(h, "viewport", "width=device-width, initial-scale=1");
    pfl_html_meta(h, "color-scheme", "light dark");
    pfl_html_open(h, "title");
    pfl_html_textf(h, "%s · perfleet", title);
    pfl_html_close(h);
    pfl_html_open(h, "link");
    pfl_html_attr(h, "rel", "stylesheet");
    pfl_html_href_page(h, "/style.css");
    pfl_html_close(h);
    add_icon(h);
    pfl_html_script(h, "/page.js");
    if (refresh_s != 0) {
        pfl_html_open(h, "noscript");
        pfl_html_refresh(h, refresh_s, "");
        pfl_html_close(h);
    }
    pfl_html_close(h);
}

static void add_tabs(const struct pfl_layout *l, struct pfl_html *h)
{
    for (size_t i = 0; i < l->tabs_len; i++) {
        pfl_html_open(h, "a");
        pfl_html_add_address(h, "href", l->tabs[i].path, (char *)NULL);
        if (strcmp(l->tabs[i].path, l->path) == 0)
            pfl_html_attr(h, "aria-current", "page");
        pfl_html_text(h, l->tabs[i].text);
        pfl_html_close(h);
    }
}

void pfl_layout_add_banner(const struct pfl_layout *layout, struct pfl_html *h)
{
    char age[32];

    pfl_html_open(h, "div");
    pfl_html_attr(h, "id", "banner");
    pfl_html_attr(h, "role", "status");
    if (layout->away[0] != '\0') {
        pfl_html_open(h, "p");
        pfl_html_attr(h, "class", "banner");
        pfl_html_leaf(h, "strong", "The relay is away");
        pfl_html_textf(h, " for %s: %s. What is below was so before; perfleet keeps trying.",
                       pfl_layout_age((double)layout->away_s, age, sizeof(age)), layout->away);
        pfl_html_close(h);
    }
    if (layout->notice != NULL && layout->notice[0] != '\0')
        pfl_html_leaf_of(h, "p", "notice", layout->notice);
    pfl_html_close(h);
}

void pfl_layout_add_hidden(struct pfl_html *h, const char *name, const char *value)
{
    pfl_html_open(h, "input");
    pfl_html_attr(h, "type", "hidden");
    pfl_html_attr(h, "name", name);
    pfl_html_attr(h, "value", value);
    pfl_html_close(h);
}

void pfl_layout_open_form(const struct pfl_layout *layout, struct pfl_html *h, const char *path)
{
    pfl_html_open(h, "form");
    pfl_html_attr(h, "method", "post");
    pfl_html_add_address(h, "action", path, (char *)NULL);
    pfl_layout_add_hidden(h, "change", layout->change);
}

void pfl_layout_add_submit(struct pfl_html *h, const char *text)
{
    pfl_html_open(h, "button");
    pfl_html_attr(h, "type", "submit");
    pfl_html_text(h, text);
    pfl_html_close(h);
}

void pfl_layout_add_part_command(struct pfl_html *h, const struct pfl_command_line *command)
{
    pfl_html_open(h, "p");
    pfl_html_attr(h, "class", "count");
    pfl_html_text(h, "On the command line: ");
    pfl_html_leaf(h, "code", command->text);
    pfl_html_close(h);
}

void pfl_layout_begin_scroll(struct pfl_html *h, const char *label)
{
    pfl_html_open(h, "div");
    pfl_html_attr(h, "class", "scroll");
    pfl_html_attr(h, "tabindex", "0");
    pfl_html_attr(h, "role", "region");
    pfl_html_attr(h, "aria-label", label);
}

void pfl_layout_add_column(struct pfl_html *h, const char *column)
{
    bool is_number = *column == '#';

    pfl_html_open(h, "th");
    pfl_html_attr(h, "scope", "col");
    if (is_number)
        pfl_html_attr(h, "class", "n");
    pfl_html_text(h, column + is_number);
    pfl_html_close(h);
}

void pfl_layout_begin_table(struct pfl_html *h, const char *label, const char *const *columns)
{
    pfl_layout_begin_scroll(h, label);
    pfl_html_open(h, "table");
    pfl_html_open(h, "thead");
    pfl_html_open(h, "tr");
    for (; *columns != NULL; columns++)
        pfl_layout_add_column(h, *columns);
    pfl_html_close(h);
    pfl_html_close(h);
    pfl_html_open(h, "tbody");
}

void pfl_layout_end_table(struct pfl_html *h)
{
    pfl_html_close(h); /* tbody, table, div */
    pfl_html_close(h);
    pfl_html_close(h);
}

void pfl_layout_begin_cell(struct pfl_html *h, const char *label, bool is_number)
{
    pfl_html_open(h, "td");
    pfl_html_attr(h, "data-label", label);
    if (is_number)
        pfl_html_attr(h, "class", "n");
}

void pfl_layout_add_head_cell(struct pfl_html *h, const char *text)
{
    pfl_html_open(h, "th");
    pfl_html_attr(h, "scope", "row");
    pfl_html_text(h, text);
    pfl_html_close(h);
}

void pfl_layout_add_why(struct pfl_html *h, const char *host, const char *why)
{
    if (host[0] == '\0')
        return;
    pfl_html_open(h, "span");
    pfl_html_attr(h, "class", "why");
    pfl_html_textf(h, "%s: %s", host, why);
    pfl_html_close(h);
}

void pfl_layout_add_key(struct pfl_html *h, const char *const *pairs)
{
    pfl_html_open(h, "span");
    pfl_html_attr(h, "class", "key");
    for (; *pairs != NULL; pairs += 2) {
        pfl_html_open(h, "span");
        pfl_html_attrf(h, "class", "swatch %s", pairs[0]);
        pfl_html_close(h);
        pfl_html_textf(h, " %s ", pairs[1]);
    }
    pfl_html_close(h);
}

static void add_header(const struct pfl_layout *l, struct pfl_html *h)
{
    pfl_html_open(h, "a");
    pfl_html_attr(h, "class", "skip");
    pfl_html_href_page(h, "#content");
    pfl_html_text(h, "Skip to the content");
    pfl_html_close(h);
    pfl_html_open(h, "header");
    pfl_html_open(h, "nav");
    pfl_html_attr(h, "aria-label", "Pages");
    pfl_html_leaf_of(h, "span", "brand", "perfleet");
    add_tabs(l, h);
    pfl_html_close(h);
    pfl_html_open(h, "p");
    pfl_html_attr(h, "class", "where");
    if (l->fleet[0] != '\0')
        pfl_html_textf(h, "fleet %s ", l->fleet);
    if (l->relay != NULL)
        pfl_html_textf(h, "by relay %s", l->relay);
    else
        pfl_html_text(h, "hosts that were named");
    pfl_html_close(h);
    pfl_html_close(h);
}

void pfl_layout_begin(const struct pfl_layout *layout, struct pfl_html *h)
{
    add_head(h, layout->title, layout->refresh_s);
    pfl_html_open(h, "body");
    add_header(layout, h);
    pfl_html_open(h, "main");
    pfl_html_attr(h, "id", "content");
    pfl_layout_add_banner(layout, h);
}

void pfl_layout_add_command(const struct pfl_layout *layout, struct pfl_html *h)
{
    pfl_html_open(h, "code");
    pfl_html_attr(h, "id", "command");
    pfl_html_text(h, layout->command->text);
    pfl_html_close(h);
}

void pfl_layout_end(const struct pfl_layout *layout, struct pfl_html *h)
{
    pfl_html_close_to(h, 2); /* main */
    if (layout->command != NULL) {
        pfl_html_open(h, "footer");
        pfl_html_leaf(h, "span", "The same on the command line: ");
        pfl_layout_add_command(layout, h);
        pfl_html_close(h);
    }
    pfl_html_close_to(h, 0);
}

void pfl_layout_refusal(unsigned status, const char *why, struct pfl_html *h)
{
    add_head(h, "no access", 0);
    pfl_html_open(h, "body");
    pfl_html_open(h, "main");
    pfl_html_attr(h, "id", "content");
    pfl_html_open(h, "h1");
    pfl_html_textf(h, "%u", status);
    pfl_html_close(h);
    pfl_html_leaf(h, "p", why);
    pfl_html_close_to(h, 0);
}

void pfl_layout_entered(struct pfl_html *h)
{
    pfl_html_begin(h);
    pfl_html_open(h, "html");
    pfl_html_attr(h, "lang", "en");
    pfl_html_open(h, "head");
    pfl_html_open(h, "meta");
    pfl_html_attr(h, "charset", "utf-8");
    pfl_html_close(h);
    pfl_html_leaf(h, "title", "perfleet");
    add_icon(h);
    pfl_html_refresh(h, 0, "/hosts");
    pfl_html_close(h);
    pfl_html_open(h, "body");
    pfl_html_open(h, "a");
    pfl_html_href_page(h, "/hosts");
    pfl_html_text(h, "Continue to perfleet");
    pfl_html_close_to(h, 0);
}

/* A page that continues at `url` at once: `lead` is before the link, `end` below it. */
static void continue_at(const char *url, const char *title, const char *lead, const char *end,
                        struct pfl_html *h)
{
    add_head(h, "opening a trace", 0);
    pfl_html_open(h, "body");
    pfl_html_open(h, "main");
    pfl_html_attr(h, "id", "content");
    pfl_html_refresh_to_ui(h, url);
    pfl_html_leaf(h, "h1", lead);
    pfl_html_open(h, "p");
    pfl_html_textf(h, "%s: ", title);
    pfl_html_open(h, "a");
    pfl_html_href_ui(h, url);
    pfl_html_text(h, "continue, if nothing opens");
    pfl_html_close(h);
    pfl_html_close(h);
    pfl_html_leaf(h, "p", end);
    pfl_html_close_to(h, 0);
}

void pfl_layout_to_ui(const char *url, const char *title, struct pfl_html *h)
{
    continue_at(url, title, "Opening in the Perfetto UI",
                "If the browser asks whether the Perfetto UI may reach this device, allow it: it "
                "fetches the trace from this machine. Nothing is uploaded. The link works once.",
                h);
}

void pfl_layout_to_live_view(const char *url, const char *title, struct pfl_html *h)
{
    continue_at(url, title, "Live view",
                "The next page has a button that opens the Perfetto UI, and says what each view "
                "costs the host. The live view ends when one of the two tabs is closed.",
                h);
}

const char *pfl_layout_age(double seconds, char *room, size_t room_len)
{
    static const struct {
        double seconds;
        const char *one;
    } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}};
    size_t i = 0;
    uint64_t count;

    while (i + 1 < sizeof(units) / sizeof(units[0]) && seconds < units[i].seconds)
        i++;
    if (seconds > AGE_MAX_S)
        seconds = AGE_MAX_S;
    count = seconds > 0 ? (uint64_t)(seconds / units[i].seconds) : 0;
    (void)snprintf(room, room_len, "%" PRIu64 " %s%s", count, units[i].one, count == 1 ? "" : "s");
    return room;
}

const char *pfl_layout_bytes(uint64_t bytes, char *room, size_t room_len)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t i = 0;

    while (value >= 1024 && i + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        i++;
    }
    (void)snprintf(room, room_len, i == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value, units[i]);
    return room;
}
