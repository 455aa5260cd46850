/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleaning: tombstones.
 *
 * Happy path: list them (index), delete the description, then the object (store, in parts), note
 * them as gone (index); then forget what was gone long ago, or is more than the notes may be.
 * Failures: an object that cannot be deleted is reported, and its tombstone put behind the others.
 * Owns nothing. Limits: BURY_PAGE at a time.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "collector/retain/clean_impl.h"

#define BURY_PAGE 32u /* that are noted as gone before others have the index */

static bool on_tombstone(void *user, const struct pfl_index_row *row)
{
    struct pfl_clean *self = user;
    struct pfl_clean_item *item = pfl_clean_add_item(self, row);
    const struct pfl_store_key_parts parts = {
        .fleet = self->fleet,
        .host = item->host,
        .id = item->id,
        .suffix = "json",
        .unix_ns = row->begin_unix_ns,
    };

    if (item->key[0] != '\0')
        pfl_clean_make_description_key(item->key, item->description);
    else if (pfl_store_key_make(&parts, item->description) != 0) /* a gap has no object */
        item->description[0] = '\0';
    item->rc = PFL_EAGAIN;
    (void)snprintf(item->why, sizeof(item->why), "there was no thread for it");
    return self->len < BURY_PAGE;
}

void pfl_clean_list_tombstones(struct pfl_clean *self)
{
    int rc = 0;

    self->len = 0;
    if (!self->is_counted)
        rc = pfl_index_count_tombstones(self->conf.index, &self->figures.tombstones);
    self->is_counted = true;
    /* All, as the clock may have jumped back since. */
    if (rc == 0)
        rc = pfl_index_find_state(self->conf.index, PFL_INDEX_TOMBSTONE, UINT64_MAX, on_tombstone,
                                  self);
    if (rc != 0 && rc != PFL_ECLOSED)
        pfl_clean_give_up_index(self);
    else
        self->phase = self->len != 0 ? PFL_CLEAN_PHASE_BURY_DELETE : PFL_CLEAN_PHASE_FORGET;
}

unsigned pfl_clean_get_parts(const struct pfl_clean *self)
{
    return self->phase == PFL_CLEAN_PHASE_BURY_DELETE ? PFL_CLEAN_PARTS : 1;
}

/* Touches the items of this part alone. */
void pfl_clean_run_part(struct pfl_clean *self, unsigned part)
{
    assert(self->phase == PFL_CLEAN_PHASE_BURY_DELETE);
    for (size_t i = part; i < self->len; i += PFL_CLEAN_PARTS) {
        struct pfl_clean_item *item = &self->items[i];

        item->rc = pfl_clean_delete_objects(self, item);
        if (item->rc != 0)
            (void)snprintf(item->why, sizeof(item->why), "%s", pfl_store_get_error());
    }
}

void pfl_clean_end_parts(struct pfl_clean *self)
{
    self->report.event = NULL;
    for (size_t i = 0; i < self->len; i++) {
        const struct pfl_clean_item *item = &self->items[i];

        if (item->rc == 0)
            continue;
        self->figures.failed++;
        pfl_clean_report_trace(self, "deletion-failed", item, item->why)->is_warning = true;
    }
    self->phase = PFL_CLEAN_PHASE_BURY_NOTE;
}

void pfl_clean_delete_tombstones(struct pfl_clean *self)
{
    for (unsigned part = 0; part < PFL_CLEAN_PARTS; part++)
        pfl_clean_run_part(self, part);
    pfl_clean_end_parts(self);
}

void pfl_clean_note_tombstones(struct pfl_clean *self)
{
    unsigned deleted = 0;

    for (size_t i = 0; i < self->len; i++) {
        const struct pfl_clean_item *item = &self->items[i];
        int rc = item->rc == 0 ? pfl_index_set_gone(self->conf.index, item->id, self->now_unix_ns)
                               : pfl_index_postpone(self->conf.index, item->id);

        if (rc != 0) {
            pfl_clean_give_up_index(self);
            return;
        }
        deleted += item->rc == 0;
        if (item->rc == 0 && self->figures.tombstones != 0)
            self->figures.tombstones--;
        self->figures.deleted_objects += item->rc == 0 && item->key[0] != '\0';
    }
    /* What is put off comes again when all others had their turn. */
    self->phase =
        self->len == BURY_PAGE && deleted != 0 ? PFL_CLEAN_PHASE_BURY_LIST : PFL_CLEAN_PHASE_FORGET;
}

/* Sweeps wait for the store at hundreds of objects, and are never urgent. */
static bool is_behind(const struct pfl_clean *self)
{
    return pfl_retention_is_cut(self->retention) &&
           self->boot_ns - self->swept_boot_ns < PFL_CLEAN_BEHIND_S * PFL_CLEAN_NS_PER_S;
}

void pfl_clean_forget(struct pfl_clean *self)
{
    uint64_t now = self->now_unix_ns;
    uint64_t max = pfl_retention_get_notes_max(self->retention);
    uint64_t above = 0;
    uint64_t count = 0;
    uint64_t runs = 0;
    int rc = 0;

    if (max != UINT64_MAX)
        rc = pfl_index_forget_above(self->conf.index, max, &above);
    if (rc == 0 && !is_behind(self) && self->cycles % PFL_CLEAN_SWEEP_EVERY == 0) {
        rc = pfl_index_forget(self->conf.index,
                              now > PFL_CLEAN_FORGET_NS ? now - PFL_CLEAN_FORGET_NS : 0, &count);
        if (rc == 0)
            rc = pfl_index_forget_runs(
                self->conf.index, now > PFL_CLEAN_RUNS_NS ? now - PFL_CLEAN_RUNS_NS : 0, &runs);
    }
    if (rc != 0) {
        pfl_clean_give_up_index(self);
        return;
    }
    if (above >= PFL_INDEX_FORGET_MAX || count >= PFL_INDEX_FORGET_MAX ||
        runs >= PFL_INDEX_FORGET_MAX)
        return; /* again: others have the index in between */
    if (is_behind(self)) {
        self->phase = PFL_CLEAN_PHASE_IDLE;
        return;
    }
    self->swept_boot_ns = self->boot_ns;
    self->cycles++;
    self->phase = PFL_CLEAN_PHASE_LIVE_LIST;
    pfl_clean_begin_sweep(self);
}
