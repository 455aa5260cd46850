/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of cleaning: see clean_work_port.h.
 *
 *   LEASE, with the clock (index) -> RETAIN (index, a step of retention each) -> BURY: list
 *   tombstones (index), delete the description, then the object (store), note them as gone (index)
 *   -> FORGET (index) -> LIVE: list traces (index), look for their objects (store), note those that
 *   are lost (index) -> OBJECTS: list (store), match with rows (index), judge each that no row
 *   names -> SWEEP (store) -> idle
 *
 * A process that dies between two steps leaves a tombstone, which the next cycle deletes: the
 * deletion in the store may be repeated. Failures: an engine that does not answer ends the cycle; a
 * tombstone whose object cannot be deleted is put behind the others. Owns its pages. Limits:
 * PFL_CLEAN_PAGE, and PFL_CLEAN_SWEEP_STEPS pages and PFL_CLEAN_SWEEP_MS of each sweep in a cycle:
 * the next cycle continues where it ended.
 */
#include "collector/retain/clean_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define LEASE "/clean" /* no host has such a name */

static const enum pfl_clean_thread phase_thread[PFL_CLEAN_PHASES] = {
    [PFL_CLEAN_PHASE_IDLE] = PFL_CLEAN_IDLE,
    [PFL_CLEAN_PHASE_LEASE] = PFL_CLEAN_ON_INDEX,
    [PFL_CLEAN_PHASE_RETAIN] = PFL_CLEAN_ON_INDEX,
    [PFL_CLEAN_PHASE_BURY_LIST] = PFL_CLEAN_ON_INDEX,
    [PFL_CLEAN_PHASE_BURY_DELETE] = PFL_CLEAN_ON_STORE,
    [PFL_CLEAN_PHASE_BURY_NOTE] = PFL_CLEAN_ON_INDEX,
    [PFL_CLEAN_PHASE_FORGET] = PFL_CLEAN_ON_INDEX,
    [PFL_CLEAN_PHASE_LIVE_LIST] = PFL_CLEAN_ON_INDEX,
    [PFL_CLEAN_PHASE_LIVE_LOOK] = PFL_CLEAN_ON_STORE,
    [PFL_CLEAN_PHASE_LIVE_NOTE] = PFL_CLEAN_ON_INDEX,
    [PFL_CLEAN_PHASE_OBJECTS_LIST] = PFL_CLEAN_ON_STORE,
    [PFL_CLEAN_PHASE_OBJECTS_MATCH] = PFL_CLEAN_ON_INDEX,
    [PFL_CLEAN_PHASE_ORPHAN_LOOK] = PFL_CLEAN_ON_STORE,
    [PFL_CLEAN_PHASE_ORPHAN_PARSE] = PFL_CLEAN_ON_LOOP,
    [PFL_CLEAN_PHASE_ORPHAN_MATCH] = PFL_CLEAN_ON_INDEX,
    [PFL_CLEAN_PHASE_ORPHAN_DELETE] = PFL_CLEAN_ON_STORE,
    [PFL_CLEAN_PHASE_SWEEP] = PFL_CLEAN_ON_STORE,
};

int pfl_clean_new(const struct pfl_clean_conf *conf, struct pfl_clean **ret_clean)
{
    struct pfl_clean *self = pfl_mem_zalloc(sizeof(*self));
    uint8_t *room;
    int rc;

    if (self == NULL)
        return PFL_ENOMEM;
    self->conf = *conf;
    (void)snprintf(self->fleet, sizeof(self->fleet), "%s", conf->fleet);
    if (self->conf.grace_s == 0)
        self->conf.grace_s = PFL_CLEAN_GRACE_S;
    if (self->conf.sweep_ns == 0)
        self->conf.sweep_ns = PFL_CLEAN_SWEEP_MS * UINT64_C(1000000);
    pfl_buf_init(&self->description, PFL_DESCRIPTION_MAX_BYTES);
    rc = pfl_buf_reserve(&self->description, PFL_DESCRIPTION_MAX_BYTES, &room);
    if (rc == 0)
        rc = pfl_retention_new(conf->rules, &self->retention);
    if (rc != 0) {
        pfl_clean_free(self);
        return rc;
    }
    *ret_clean = self;
    return 0;
}

void pfl_clean_free(struct pfl_clean *self)
{
    if (self == NULL)
        return;
    pfl_clean_drop_trace(self);
    pfl_retention_free(self->retention);
    pfl_buf_fini(&self->description);
    pfl_mem_free(self);
}

void pfl_clean_begin(struct pfl_clean *self, uint64_t wall_unix_ns, uint64_t boot_ns)
{
    self->wall_unix_ns = wall_unix_ns;
    self->boot_ns = boot_ns;
    self->phase = PFL_CLEAN_PHASE_LEASE;
    self->steps = 0;
    self->is_counted = false;
}

enum pfl_clean_thread pfl_clean_get_thread(const struct pfl_clean *self)
{
    return phase_thread[self->phase];
}

bool pfl_clean_is_cut(const struct pfl_clean *self)
{
    return self->figures.is_held && pfl_retention_is_cut(self->retention);
}

const struct pfl_clean_report *pfl_clean_get_report(const struct pfl_clean *self)
{
    return self->report.event != NULL ? &self->report : NULL;
}

const struct pfl_clean_figures *pfl_clean_get_figures(const struct pfl_clean *self)
{
    return &self->figures;
}

const struct pfl_retention_figures *pfl_clean_get_retention(const struct pfl_clean *self)
{
    return pfl_retention_get_figures(self->retention);
}

static void report_jump(struct pfl_clean *self, uint64_t ahead_ns)
{
    char reason[PFL_INDEX_WHY_BYTES];
    struct pfl_clean_report *report;

    (void)snprintf(reason, sizeof(reason),
                   "it is %" PRIu64 " s ahead of the last cycle: set it right, if it is wrong",
                   ahead_ns / PFL_CLEAN_NS_PER_S);
    report = pfl_clean_report_item(self, "clock-jumped-ahead", "clock", reason);
    report->is_warning = true;
    report->effect = "retention ignores it for a day";
}

/* Continues from the last cycle, or, if that was another collector's or an earlier life's, from the
 * time that it noted: what was stored since may have the time of a clock that is wrong. */
static int take_clock(struct pfl_clean *self)
{
    struct pfl_retention_clock next = self->clock;
    bool has_jumped = false;
    int rc = 0;

    if (!self->has_clock) {
        next = (struct pfl_retention_clock){.boot_ns = self->boot_ns};
        rc = pfl_index_get_clock(self->conf.index, &next.wall_ns);
    }
    if (rc == 0) {
        self->now_unix_ns =
            pfl_retention_clock_take(&next, self->wall_unix_ns, self->boot_ns, &has_jumped);
        rc = pfl_index_note_clock(self->conf.index, self->now_unix_ns);
    }
    if (rc != 0)
        return rc;
    self->clock = next;
    self->has_clock = true;
    if (has_jumped)
        report_jump(self, self->wall_unix_ns - self->now_unix_ns);
    return 0;
}

static void take_lease(struct pfl_clean *self)
{
    int rc = pfl_index_lease(self->conf.index, LEASE, &self->figures.is_held);

    if (rc == 0 && self->figures.is_held)
        rc = take_clock(self);
    else if (rc == 0)
        self->has_clock = false;
    if (!self->figures.is_held)
        self->figures.tombstones = 0;
    if (rc != 0) {
        pfl_clean_give_up_index(self);
        return;
    }
    self->phase = self->figures.is_held ? PFL_CLEAN_PHASE_RETAIN : PFL_CLEAN_PHASE_IDLE;
    if (self->figures.is_held)
        pfl_retention_begin(self->retention, self->now_unix_ns);
}

/* ---- retention ---- */

static bool on_kind(void *user, const struct pfl_index_kind *kind)
{
    return pfl_retention_add_kind(user, kind);
}

static bool on_use(void *user, const struct pfl_index_use *use)
{
    return pfl_retention_add_use(user, use);
}

struct oldest {
    struct pfl_retention *retention;
    bool is_there;
};

static bool on_oldest(void *user, const struct pfl_index_row *row)
{
    struct oldest *oldest = user;

    oldest->is_there = true;
    pfl_retention_on_oldest(oldest->retention, row);
    return false;
}

static int ask_oldest(struct pfl_clean *self)
{
    struct oldest oldest = {.retention = self->retention};
    struct pfl_index_oldest query;
    int rc;

    pfl_retention_get_oldest(self->retention, &query);
    rc = pfl_index_get_oldest(self->conf.index, &query, on_oldest, &oldest);
    if (rc == 0 && !oldest.is_there)
        pfl_retention_on_oldest(self->retention, NULL);
    return rc;
}

static int list(struct pfl_clean *self, enum pfl_retention_step step)
{
    struct pfl_index_use_query query;
    uint64_t notes = 0;
    int rc;

    if (step == PFL_RETENTION_KINDS) {
        rc = pfl_index_count_deletions(self->conf.index, &notes);
        pfl_retention_set_notes(self->retention, notes);
        if (rc == 0)
            rc = pfl_index_list_kinds(self->conf.index, on_kind, self->retention);
    } else {
        pfl_retention_get_use(self->retention, &query);
        rc = step == PFL_RETENTION_HOSTS
                 ? pfl_index_list_host_use(self->conf.index, &query, on_use, self->retention)
                 : pfl_index_list_trigger_use(self->conf.index, &query, on_use, self->retention);
    }
    if (rc == 0)
        pfl_retention_on_listed(self->retention);
    return rc;
}

static int delete_victim(struct pfl_clean *self)
{
    const struct pfl_retention_victim *victim = pfl_retention_get_victim(self->retention);
    const struct pfl_index_deletion deletion = {.who = "retention",
                                                .reason = victim->why,
                                                .now_unix_ns = self->now_unix_ns,
                                                .is_bound_by_keep = true,
                                                .lease = LEASE};
    int rc = pfl_index_tombstone(self->conf.index, victim->id, &deletion);

    if (rc == 0) {
        struct pfl_clean_report *report =
            pfl_clean_report_item(self, "trace-deleted", victim->id, victim->why);

        report->cause = pfl_retention_cause_name(victim->cause);
        report->bytes = victim->bytes;
        (void)snprintf(report->host, sizeof(report->host), "%s", victim->host);
    }
    if (rc != 0 && rc != PFL_ENOENT && rc != PFL_EPERM)
        return rc;
    pfl_retention_on_deleted(self->retention, rc);
    return 0;
}

static void retain(struct pfl_clean *self)
{
    enum pfl_retention_step step = pfl_retention_get_step(self->retention);
    int rc = 0;

    if (step == PFL_RETENTION_OLDEST)
        rc = ask_oldest(self);
    else if (step == PFL_RETENTION_DELETE)
        rc = delete_victim(self);
    else if (step != PFL_RETENTION_END)
        rc = list(self, step);
    if (rc != 0)
        pfl_clean_give_up_index(self);
    else if (pfl_retention_get_step(self->retention) == PFL_RETENTION_END)
        self->phase = PFL_CLEAN_PHASE_BURY_LIST;
}

void pfl_clean_run(struct pfl_clean *self)
{
    static void (*const steps[PFL_CLEAN_PHASES])(struct pfl_clean *) = {
        [PFL_CLEAN_PHASE_LEASE] = take_lease,
        [PFL_CLEAN_PHASE_RETAIN] = retain,
        [PFL_CLEAN_PHASE_BURY_LIST] = pfl_clean_list_tombstones,
        [PFL_CLEAN_PHASE_BURY_DELETE] = pfl_clean_delete_tombstones,
        [PFL_CLEAN_PHASE_BURY_NOTE] = pfl_clean_note_tombstones,
        [PFL_CLEAN_PHASE_FORGET] = pfl_clean_forget,
        [PFL_CLEAN_PHASE_LIVE_LIST] = pfl_clean_list_live,
        [PFL_CLEAN_PHASE_LIVE_LOOK] = pfl_clean_look_for_objects,
        [PFL_CLEAN_PHASE_LIVE_NOTE] = pfl_clean_note_lost,
        [PFL_CLEAN_PHASE_OBJECTS_LIST] = pfl_clean_list_objects,
        [PFL_CLEAN_PHASE_OBJECTS_MATCH] = pfl_clean_match_objects,
        [PFL_CLEAN_PHASE_ORPHAN_LOOK] = pfl_clean_look_at_orphan,
        [PFL_CLEAN_PHASE_ORPHAN_PARSE] = pfl_clean_parse_orphan,
        [PFL_CLEAN_PHASE_ORPHAN_MATCH] = pfl_clean_match_orphan,
        [PFL_CLEAN_PHASE_ORPHAN_DELETE] = pfl_clean_delete_orphan,
        [PFL_CLEAN_PHASE_SWEEP] = pfl_clean_sweep,
    };

    assert(steps[self->phase] != NULL);
    self->report.event = NULL;
    steps[self->phase](self);
}
