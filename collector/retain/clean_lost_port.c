/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleaning: traces whose object is missing.
 *
 * Happy path: list traces (index), look for their objects (store), note those that are lost
 * (index). Failures: an engine that does not answer ends the cycle. Owns nothing. Limits:
 * PFL_CLEAN_PAGE at a time.
 */
#include <string.h>

#include "collector/retain/clean_impl.h"

static bool on_live(void *user, const struct pfl_index_row *row)
{
    struct pfl_clean *self = user;

    (void)pfl_clean_add_item(self, row);
    return self->len < PFL_CLEAN_PAGE;
}

void pfl_clean_list_live(struct pfl_clean *self)
{
    int rc;

    self->len = 0;
    rc = pfl_index_list_live(self->conf.index, self->live_after, PFL_CLEAN_PAGE, on_live, self);
    if (rc != 0) {
        pfl_clean_give_up_index(self);
        return;
    }
    self->live_after[0] = '\0';
    if (self->len == PFL_CLEAN_PAGE)
        memcpy(self->live_after, self->items[self->len - 1].id, sizeof(self->live_after));
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
            memcpy(self->live_after, item->id, sizeof(self->live_after));
            self->len = i + 1;
        }
    }
    self->phase = PFL_CLEAN_PHASE_LIVE_NOTE;
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
    if (self->live_after[0] == '\0' || self->steps == PFL_CLEAN_SWEEP_STEPS ||
        pfl_clean_is_sweep_late(self)) {
        self->phase = PFL_CLEAN_PHASE_OBJECTS_LIST;
        pfl_clean_begin_sweep(self);
    }
}
