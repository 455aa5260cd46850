/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleaning: traces whose object is missing.
 *
 * Happy path: list traces (index), look for their objects (store), note those that are lost
 * (index): first those of up to 15 minutes, then longer ones, as the index has them. Failures: an
 * engine that does not answer ends the cycle. Owns nothing. Limits: PFL_CLEAN_PAGE at a time.
 */
#include <string.h>

#include "collector/retain/clean_impl.h"

static bool on_live(void *user, const struct pfl_index_row *row)
{
    struct pfl_clean *self = user;

    if (row->key[0] != '\0') /* a gap has no object */
        (void)pfl_clean_add_item(self, row);
    return true;
}

void pfl_clean_list_live(struct pfl_clean *self)
{
    int rc;

    self->len = 0;
    self->live.limit = PFL_CLEAN_PAGE;
    rc = pfl_index_list_live(self->conf.index, self->is_live_long, &self->live, on_live, self);
    if (rc != 0)
        pfl_clean_give_up_index(self);
    else
        self->phase = PFL_CLEAN_PHASE_LIVE_LOOK;
}

void pfl_clean_look_for_objects(struct pfl_clean *self)
{
    for (size_t i = 0; i < self->len; i++) {
        struct pfl_store_object object;
        struct pfl_clean_item *item = &self->items[i];

        item->rc = pfl_store_head(self->conf.store, item->key, &object);
        if (item->rc != 0 && item->rc != PFL_ENOENT) {
            pfl_clean_give_up(self, "store", pfl_store_get_error());
            return;
        }
        if (i + 1 < self->len && pfl_clean_is_sweep_late(self)) { /* the next cycle continues */
            self->live.after_unix_ns = item->begin_unix_ns;
            memcpy(self->live.after_id, item->id, sizeof(self->live.after_id));
            self->live.has_more = true;
            self->len = i + 1;
        }
    }
    self->phase = PFL_CLEAN_PHASE_LIVE_NOTE;
}

/* True: the round is over. */
static bool end_page(struct pfl_clean *self)
{
    if (self->live.has_more)
        return false;
    self->live = (struct pfl_index_look){.limit = PFL_CLEAN_PAGE};
    self->is_live_long = !self->is_live_long;
    return !self->is_live_long;
}

void pfl_clean_note_lost(struct pfl_clean *self)
{
    const struct pfl_index_deletion why = {
        .who = "sweep", .reason = "the store does not have it", .now_unix_ns = self->now_unix_ns};
    struct pfl_clean_report *report;

    for (size_t i = 0; i < self->len; i++) {
        const struct pfl_clean_item *item = &self->items[i];
        int rc = item->rc == PFL_ENOENT ? pfl_index_set_lost(self->conf.index, item->id, &why) : 0;

        if (rc != 0 && rc != PFL_ENOENT) { /* deleted meanwhile */
            pfl_clean_give_up_index(self);
            return;
        }
        if (rc != 0 || item->rc == 0)
            continue;
        self->figures.lost++;
        report = pfl_clean_report_trace(self, "trace-lost", item, why.reason);
        report->is_warning = true;
        report->effect = "its number is a hole";
    }
    self->steps++;
    self->phase = PFL_CLEAN_PHASE_LIVE_LIST;
    if (end_page(self) || self->steps == PFL_CLEAN_SWEEP_STEPS || pfl_clean_is_sweep_late(self)) {
        self->phase = PFL_CLEAN_PHASE_OBJECTS_LIST;
        pfl_clean_begin_sweep(self);
    }
}
