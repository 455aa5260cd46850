/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleaning: what all sweeps need: reports, the traces and objects of a step, and their deletion.
 *
 * Happy path: a sweep adds what the index lists, looks at it and reports it. Failures: an engine
 * that does not answer ends the cycle. Owns nothing. Limits: PFL_CLEAN_PAGE items.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "collector/retain/clean_impl.h"

void pfl_clean_drop_trace(struct pfl_clean *self)
{
    if (self->trace != NULL)
        pfl_proto_free(&self->trace->base);
    self->trace = NULL;
}

void pfl_clean_begin_sweep(struct pfl_clean *self)
{
    self->steps = 0;
    self->sweep_begun_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
}

bool pfl_clean_is_sweep_late(const struct pfl_clean *self)
{
    return pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) - self->sweep_begun_ns >= self->conf.sweep_ns;
}

/* The port logs it: quoting is not for threads. */
struct pfl_clean_report *pfl_clean_report_item(struct pfl_clean *self, const char *event,
                                               const char *what, const char *reason)
{
    struct pfl_clean_report *report = &self->report;

    *report = (struct pfl_clean_report){.event = event, .effect = "none"};
    (void)snprintf(report->what, sizeof(report->what), "%s", what);
    (void)snprintf(report->reason, sizeof(report->reason), "%s", reason);
    return report;
}

struct pfl_clean_report *pfl_clean_report_trace(struct pfl_clean *self, const char *event,
                                                const struct pfl_clean_item *item,
                                                const char *reason)
{
    struct pfl_clean_report *report = pfl_clean_report_item(self, event, item->id, reason);

    report->bytes = item->bytes;
    (void)snprintf(report->host, sizeof(report->host), "%s", item->host);
    return report;
}

void pfl_clean_give_up(struct pfl_clean *self, const char *engine, const char *why)
{
    struct pfl_clean_report *report =
        pfl_clean_report_item(self, "cleaning-interrupted", engine, why);

    report->is_warning = true;
    report->effect = "the rest waits for the next cycle";
    self->phase = PFL_CLEAN_PHASE_IDLE;
}

void pfl_clean_give_up_index(struct pfl_clean *self)
{
    pfl_clean_give_up(self, "index", pfl_index_get_error(self->conf.index));
}

void pfl_clean_make_description_key(const char *key, char *dst)
{
    const char *end = strrchr(key, '.');
    size_t len = end != NULL ? (size_t)(end - key) : 0;

    if (len > PFL_STORE_KEY_BYTES - sizeof(".json"))
        len = PFL_STORE_KEY_BYTES - sizeof(".json");
    memcpy(dst, key, len);
    memcpy(dst + len, ".json", sizeof(".json"));
}

struct pfl_clean_item *pfl_clean_add_item(struct pfl_clean *self, const struct pfl_index_row *row)
{
    struct pfl_clean_item *item = &self->items[self->len++];

    *item = (struct pfl_clean_item){.bytes = row->bytes, .begin_unix_ns = row->begin_unix_ns};
    (void)snprintf(item->id, sizeof(item->id), "%s", row->id);
    (void)snprintf(item->host, sizeof(item->host), "%s", row->host);
    (void)snprintf(item->key, sizeof(item->key), "%s", row->key);
    return item;
}

int pfl_clean_delete_objects(struct pfl_clean *self, const struct pfl_clean_item *item)
{
    int rc = 0;

    if (item->description[0] != '\0')
        rc = pfl_store_delete(self->conf.store, item->description);
    if (rc == 0 && item->key[0] != '\0')
        rc = pfl_store_delete(self->conf.store, item->key);
    return rc;
}
