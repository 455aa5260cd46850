/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A live view: see live_view.h.
 *
 * Happy path: the page asks for a view that is newer than the one in its tab; if the last copy is
 * long enough ago, another one is made, and the page gets it. While no page asks, nothing is
 * copied. A copy is made at most every `every_ms`, and copying takes at most 1/REST_FACTOR of the
 * time. Failures: the answer says why a copy failed; the next try follows, later each time. Ends:
 * the tab is closed, the page asks no more, the time is over. No state but the struct.
 */
#include "consumer/open/live_view.h"

#include <stdio.h>
#include <string.h>

#include "consumer/http/form.h"
#include "consumer/text.h"

void pfl_live_view_init(struct pfl_live_view *self, const struct pfl_live_view_conf *conf,
                        uint64_t now_ms)
{
    *self = (struct pfl_live_view){.conf = *conf, .begun_ms = now_ms};
}

/* ---- the page ---- */

static bool take_number(const char *text, uint32_t *ret_number)
{
    uint64_t number = 0;

    if (*text == '\0' || strlen(text) > 10)
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return false;
        number = 10 * number + (uint64_t)(*text - '0');
    }
    *ret_number = (uint32_t)number;
    return number <= UINT32_MAX;
}

static bool take_tab(const char *text, enum pfl_live_view_tab *ret_tab)
{
    static const char *const words[] = {[PFL_LIVE_VIEW_TAB_NEW] = "new",
                                        [PFL_LIVE_VIEW_TAB_NONE] = "none",
                                        [PFL_LIVE_VIEW_TAB_OPEN] = "open",
                                        [PFL_LIVE_VIEW_TAB_OVER] = "closed"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(text, words[i]) != 0)
            continue;
        *ret_tab = (enum pfl_live_view_tab)i;
        return true;
    }
    return false;
}

int pfl_live_view_parse(const char *query, struct pfl_live_view_ask *ret_ask)
{
    struct pfl_live_view_ask ask = {0};
    struct pfl_form form;
    const char *hold;
    int rc = pfl_form_parse(pfl_span_of(query, strlen(query)), &form);

    if (rc != 0)
        return rc == PFL_ENOMEM ? rc : PFL_EPARSE;
    hold = pfl_form_get(&form, "hold");
    ask.is_held = strcmp(hold, "1") == 0;
    if (!take_number(pfl_form_get(&form, "have"), &ask.have) ||
        !take_tab(pfl_form_get(&form, "tab"), &ask.tab) || (!ask.is_held && strcmp(hold, "0") != 0))
        rc = PFL_EPARSE;
    pfl_form_fini(&form);
    if (rc == 0)
        *ret_ask = ask;
    return rc;
}

bool pfl_live_view_ask(struct pfl_live_view *self, const struct pfl_live_view_ask *ask,
                       bool is_fetched, uint64_t now_ms)
{
    bool is_new = self->number > ask->have && !is_fetched;

    self->has_page = true;
    self->asked_ms = now_ms;
    self->is_wanted = false;
    if (self->end != PFL_LIVE_VIEW_RUNS)
        return true;
    if (ask->tab == PFL_LIVE_VIEW_TAB_OVER) {
        self->end = PFL_LIVE_VIEW_TAB_CLOSED;
        return true;
    }
    if (ask->tab == PFL_LIVE_VIEW_TAB_OPEN && self->shown_ms == 0)
        self->shown_ms = now_ms;
    if (ask->tab != PFL_LIVE_VIEW_TAB_OPEN || ask->is_held)
        return ask->tab == PFL_LIVE_VIEW_TAB_NEW;
    self->is_wanted = !is_new;
    return is_new;
}

/* ---- copies ---- */

bool pfl_live_view_is_due(const struct pfl_live_view *self, uint64_t now_ms)
{
    return self->end == PFL_LIVE_VIEW_RUNS && self->is_wanted && !self->is_copying &&
           now_ms >= self->due_ms && now_ms - self->asked_ms < PFL_LIVE_VIEW_GONE_MS;
}

void pfl_live_view_begin(struct pfl_live_view *self, uint64_t now_ms)
{
    self->is_copying = true;
    self->copy_begun_ms = now_ms;
}

static uint64_t max_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t find_retry(const struct pfl_live_view *self)
{
    uint64_t doubled = 2 * self->retry_ms;

    if (self->retry_ms == 0)
        return self->conf.every_ms;
    return doubled < PFL_LIVE_VIEW_RETRY_MAX_MS
               ? doubled
               : max_of(PFL_LIVE_VIEW_RETRY_MAX_MS, self->conf.every_ms);
}

void pfl_live_view_end(struct pfl_live_view *self, uint64_t bytes, const char *why, uint64_t now_ms)
{
    uint64_t took_ms = now_ms - self->copy_begun_ms;

    self->is_copying = false;
    self->total_bytes += bytes;
    (void)snprintf(self->why, sizeof(self->why), "%s", why != NULL ? why : "");
    self->retry_ms = why != NULL ? find_retry(self) : 0;
    self->due_ms =
        self->copy_begun_ms + max_of(self->conf.every_ms, PFL_LIVE_VIEW_REST_FACTOR * took_ms);
    if (why != NULL) {
        self->failures++;
        self->due_ms = max_of(self->due_ms, now_ms + self->retry_ms);
        return;
    }
    self->number++;
    self->bytes = bytes;
    self->took_ms = took_ms;
    self->is_wanted = false;
}

/* ---- the end ---- */

enum pfl_live_view_end pfl_live_view_check(struct pfl_live_view *self, uint64_t now_ms)
{
    if (self->end != PFL_LIVE_VIEW_RUNS)
        return self->end;
    if (self->shown_ms == 0 && now_ms - self->begun_ms >= self->conf.wait_ms)
        self->end = PFL_LIVE_VIEW_NEVER_SEEN;
    else if (self->shown_ms != 0 && now_ms - self->shown_ms >= self->conf.max_time_ms)
        self->end = PFL_LIVE_VIEW_TIME_OVER;
    else if (self->shown_ms != 0 && now_ms - self->asked_ms >= PFL_LIVE_VIEW_GONE_MS)
        self->end = PFL_LIVE_VIEW_PAGE_GONE;
    return self->end;
}

const char *pfl_live_view_end_str(enum pfl_live_view_end end)
{
    static const char *const words[] = {
        [PFL_LIVE_VIEW_RUNS] = "",
        [PFL_LIVE_VIEW_TAB_CLOSED] = "the UI's tab was closed",
        [PFL_LIVE_VIEW_PAGE_GONE] = "the page of perfleet open was closed",
        [PFL_LIVE_VIEW_TIME_OVER] = "the time is over (--max-time)",
        [PFL_LIVE_VIEW_NEVER_SEEN] = "no browser opened it in time (--serve-for)",
    };

    return words[end];
}

/* ---- the answer ---- */

static json_t *make_view(const struct pfl_live_view *self, const struct pfl_hand_over *hand_over)
{
    const struct pfl_hand_over_trace *trace = &hand_over->traces[0];
    char path[2 * PFL_HAND_OVER_KEY_BYTES + PFL_HAND_OVER_NAME_MAX + 8];

    if (self->number == 0 || hand_over->traces_len == 0)
        return json_null();
    (void)snprintf(path, sizeof(path), "../%s/%s", trace->key, trace->name);
    return json_pack("{s:I, s:I, s:I, s:o}", "number", (json_int_t)self->number, "bytes",
                     (json_int_t)trace->bytes, "took_ms", (json_int_t)self->took_ms, "path",
                     trace->is_fetched ? json_null() : json_string(path));
}

int pfl_live_view_add_json(const struct pfl_live_view *self, const struct pfl_hand_over *hand_over,
                           struct pfl_buf *out)
{
    return pfl_text_dump_json_line(
        json_pack("{s:s, s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:s}", "url", hand_over->ui_url,
                  "origin", hand_over->ui_origin, "host", pfl_text_json_peer(self->conf.host),
                  "view", make_view(self, hand_over), "read_bytes", (json_int_t)self->bytes,
                  "total_bytes", (json_int_t)self->total_bytes, "every_ms",
                  (json_int_t)self->conf.every_ms, "failures", (json_int_t)self->failures, "why",
                  pfl_text_json_peer(self->why), "end", pfl_live_view_end_str(self->end)),
        out);
}
