/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleaning: objects that no row names, and what puts left behind.
 *
 * Happy path: list objects (store), match them with rows (index), judge each that no row names; at
 * the end of a cycle remove temporary files and uploads (store). One that no row names is removed
 * after the grace age if it has no description (a pull that did not end), or if something else
 * stands for its number. A whole trace of an unknown number stays: the index may be a new one.
 * Failures: an engine that does not answer ends the cycle. Owns nothing. Limits: PFL_CLEAN_PAGE at
 * a time.
 */
#include <stdio.h>
#include <string.h>

#include "collector/retain/clean_impl.h"

static bool ends_in(const char *key, const char *suffix)
{
    size_t len = strlen(key);

    return len > strlen(suffix) && strcmp(key + len - strlen(suffix), suffix) == 0;
}

static bool is_description(const struct pfl_clean_item *item)
{
    return ends_in(item->key, ".json");
}

/* Of .../ID.pftrace or .../ID.json. False: it is none of ours. */
static bool read_id(const char *key, char *ret_id)
{
    const char *name = strrchr(key, '/');
    const char *end = strrchr(key, '.');

    if (name == NULL || end == NULL || end - name - 1 != PFL_INDEX_ID_BYTES - 1 ||
        (strcmp(end, ".json") != 0 && strcmp(end, ".pftrace") != 0))
        return false;
    memcpy(ret_id, name + 1, PFL_INDEX_ID_BYTES - 1);
    ret_id[PFL_INDEX_ID_BYTES - 1] = '\0';
    return true;
}

void pfl_clean_list_objects(struct pfl_clean *self)
{
    const struct pfl_store_listing what = {"v1/", self->objects_after};
    size_t len = 0;

    if (pfl_store_list(self->conf.store, &what, self->objects, PFL_CLEAN_PAGE, &len) != 0) {
        pfl_clean_give_up(self, "store", pfl_store_get_error());
        return;
    }
    self->len = 0;
    for (size_t i = 0; i < len; i++) {
        struct pfl_clean_item *item = &self->items[self->len];

        *item = (struct pfl_clean_item){.bytes = self->objects[i].bytes};
        if (!read_id(self->objects[i].key, item->id))
            continue;
        memcpy(item->key, self->objects[i].key, sizeof(item->key));
        pfl_clean_make_description_key(item->key, item->description);
        item->is_orphan =
            (int64_t)(self->now_unix_ns / PFL_CLEAN_NS_PER_S) - self->objects[i].modified_s >
            self->conf.grace_s;
        self->len++;
    }
    if (len == PFL_CLEAN_PAGE) {
        memcpy(self->objects_after, self->objects[len - 1].key, sizeof(self->objects_after));
    } else {
        self->objects_after[0] = '\0';
        self->figures.rounds++;
    }
    self->phase = PFL_CLEAN_PHASE_OBJECTS_MATCH;
}

struct match {
    struct pfl_clean *clean;
    struct pfl_clean_item *item;
    bool is_found; /* lost, and there again */
};

static bool on_match(void *user, const struct pfl_index_row *row)
{
    struct match *match = user;
    struct pfl_clean_item *item = match->item;
    bool is_object = strcmp(row->key, item->key) == 0;

    /* What is gone is deleted again. */
    item->is_orphan = item->is_orphan && row->state == PFL_INDEX_GONE;
    match->is_found = row->state == PFL_INDEX_LOST && is_object && row->bytes == item->bytes;
    if (row->state == PFL_INDEX_LIVE && is_object && row->bytes != item->bytes)
        pfl_clean_report_trace(match->clean, "trace-damaged", item,
                               "its length in the store differs")
            ->is_warning = true;
    return true;
}

static int match_object(struct pfl_clean *self, struct pfl_clean_item *item)
{
    struct match match = {.clean = self, .item = item};
    int rc = pfl_index_get(self->conf.index, item->id, on_match, &match);

    if (rc != 0)
        return rc == PFL_ENOENT ? 0 : rc;
    if (!match.is_found)
        return 0;
    rc = pfl_index_set_found(self->conf.index, item->id, self->now_unix_ns);
    if (rc == 0) {
        self->figures.found++;
        (void)pfl_clean_report_trace(self, "trace-found", item, "the store has it again");
    }
    return rc == PFL_ENOENT ? 0 : rc;
}

/* To the next orphan of the page; or the next page; or the end of this sweep. */
static void next_orphan(struct pfl_clean *self)
{
    while (self->at < self->len && !self->items[self->at].is_orphan)
        self->at++;
    if (self->at < self->len && (self->at == 0 || !pfl_clean_is_sweep_late(self))) {
        self->phase = PFL_CLEAN_PHASE_ORPHAN_LOOK;
        return;
    }
    if (self->at < self->len) { /* the next cycle continues */
        memcpy(self->objects_after, self->items[self->at - 1].key, sizeof(self->objects_after));
        self->phase = PFL_CLEAN_PHASE_SWEEP;
        return;
    }
    if (self->objects_after[0] == '\0') { /* the round is over */
        self->figures.unknown = self->unknown;
        self->unknown = 0;
    }
    self->steps++;
    self->phase = PFL_CLEAN_PHASE_OBJECTS_LIST;
    if (self->objects_after[0] == '\0' || self->steps == PFL_CLEAN_SWEEP_STEPS ||
        pfl_clean_is_sweep_late(self))
        self->phase = PFL_CLEAN_PHASE_SWEEP;
}

void pfl_clean_match_objects(struct pfl_clean *self)
{
    for (size_t i = 0; i < self->len; i++) {
        if (match_object(self, &self->items[i]) != 0) {
            pfl_clean_give_up_index(self);
            return;
        }
    }
    self->at = 0;
    next_orphan(self);
}

static void leave_orphan(struct pfl_clean *self)
{
    self->at++;
    next_orphan(self);
}

static bool on_description(void *user, struct pfl_span bytes)
{
    return pfl_buf_append(user, bytes.data, bytes.len) == 0;
}

/* An object: without a description it goes; otherwise that one decides. */
void pfl_clean_look_at_orphan(struct pfl_clean *self)
{
    static const struct pfl_store_range whole = {0, PFL_DESCRIPTION_MAX_BYTES};
    const struct pfl_clean_item *item = &self->items[self->at];
    struct pfl_store_object object;
    int rc;

    if (!is_description(item)) {
        rc = pfl_store_head(self->conf.store, item->description, &object);
        if (rc == PFL_ENOENT) {
            rc = pfl_store_head(self->conf.store, item->key, &object);
            if (rc == 0)
                self->phase = PFL_CLEAN_PHASE_ORPHAN_DELETE;
            else if (rc == PFL_ENOENT) /* it went with its description */
                leave_orphan(self);
        } else if (rc == 0) {
            leave_orphan(self);
        }
    } else {
        pfl_buf_clear(&self->description);
        rc = pfl_store_get(self->conf.store, item->key, &whole, on_description, &self->description);
        if (rc == 0)
            self->phase = PFL_CLEAN_PHASE_ORPHAN_PARSE;
        else if (rc == PFL_ENOENT)
            leave_orphan(self);
    }
    if (rc != 0 && rc != PFL_ENOENT)
        pfl_clean_give_up(self, "store", pfl_store_get_error());
}

static void leave_unknown(struct pfl_clean *self)
{
    struct pfl_clean_report *report;

    if (self->unknown++ == 0) { /* others are counted */
        report =
            pfl_clean_report_item(self, "trace-unknown", self->items[self->at].key,
                                  "the index does not have it: perfleet-collector rebuild adds it");
        report->is_warning = true;
        report->effect = "it stays";
    }
    leave_orphan(self);
}

void pfl_clean_parse_orphan(struct pfl_clean *self)
{
    pfl_clean_drop_trace(self);
    if (pfl_description_parse(pfl_buf_get(&self->description), &self->trace) != 0 ||
        self->trace->segment == NULL || self->trace->segment->host == NULL ||
        self->trace->segment->order == NULL || self->trace->segment->incarnation == NULL)
        leave_unknown(self);
    else
        self->phase = PFL_CLEAN_PHASE_ORPHAN_MATCH;
}

void pfl_clean_match_orphan(struct pfl_clean *self)
{
    bool has_number = false;

    if (pfl_index_has_number(self->conf.index, self->trace->segment, self->items[self->at].id,
                             &has_number) != 0)
        pfl_clean_give_up_index(self);
    else if (has_number)
        self->phase = PFL_CLEAN_PHASE_ORPHAN_DELETE;
    else
        leave_unknown(self);
}

/* With the object beside a description, which the list has later. */
void pfl_clean_delete_orphan(struct pfl_clean *self)
{
    struct pfl_clean_item *item = &self->items[self->at];
    char key[PFL_STORE_KEY_BYTES];

    (void)snprintf(key, sizeof(key), "%s", item->description);
    if (is_description(item))
        (void)snprintf(item->key, sizeof(item->key), "%.*s.pftrace",
                       (int)(strlen(key) - strlen(".json")), key);
    if (pfl_clean_delete_objects(self, item) != 0) {
        pfl_clean_give_up(self, "store", pfl_store_get_error());
        return;
    }
    self->figures.orphans++;
    (void)pfl_clean_report_item(self, "orphan-deleted", item->key, "no row of the index names it");
    leave_orphan(self);
}

void pfl_clean_sweep(struct pfl_clean *self)
{
    unsigned count = 0;

    self->phase = PFL_CLEAN_PHASE_IDLE;
    if (self->cycles % PFL_CLEAN_SWEEP_EVERY != 1)
        return;
    if (pfl_store_sweep(self->conf.store, self->conf.grace_s, &count) != 0) {
        pfl_clean_give_up(self, "store", pfl_store_get_error());
        return;
    }
    self->figures.leftovers += count;
    if (count != 0)
        pfl_clean_report_item(self, "leftovers-deleted", "temporary", "puts that did not end")
            ->bytes = count;
}
