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
 * An object that no row names is removed after the grace age if it has no description (a pull that
 * did not end), or if something else stands for its number. A whole trace of an unknown number
 * stays: the index may be a new one.
 *
 * A process that dies between two steps leaves a tombstone, which the next cycle deletes: the
 * deletion in the store may be repeated. Failures: an engine that does not answer ends the cycle; a
 * tombstone whose object cannot be deleted is put behind the others. Owns its pages. Limits:
 * PFL_CLEAN_PAGE, and SWEEP_STEPS pages of each sweep in a cycle.
 */
#include "collector/retain/clean_work_port.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "collector/describe/description.h"
#include "collector/retain/retention_clock.h"
#include "proto/unpack.h"

#define NS_PER_S    UINT64_C(1000000000)
#define SWEEP_STEPS 8u
#define BURY_PAGE   32u      /* tombstones that are noted as gone before others have the index */
#define SWEEP_EVERY 120u     /* cycles: temporary files are looked for */
#define LEASE       "/clean" /* no host has such a name */

enum phase {
    PHASE_IDLE = 0,
    PHASE_LEASE,
    PHASE_RETAIN,
    PHASE_BURY_LIST,
    PHASE_BURY_DELETE,
    PHASE_BURY_NOTE,
    PHASE_FORGET,
    PHASE_LIVE_LIST,
    PHASE_LIVE_LOOK,
    PHASE_LIVE_NOTE,
    PHASE_OBJECTS_LIST,
    PHASE_OBJECTS_MATCH,
    PHASE_ORPHAN_LOOK,  /* of the page's orphans, one after the other */
    PHASE_ORPHAN_PARSE, /* its description */
    PHASE_ORPHAN_MATCH, /* whether something else stands for its number */
    PHASE_ORPHAN_DELETE,
    PHASE_SWEEP,
    PHASES,
};

struct item {
    char id[PFL_INDEX_ID_BYTES];
    char host[PFL_INDEX_NAME_BYTES];
    char key[PFL_STORE_KEY_BYTES];
    char description[PFL_STORE_KEY_BYTES]; /* the key of its JSON */
    uint64_t bytes;
    int rc;                        /* of the store */
    char why[PFL_STORE_WHY_BYTES]; /* a tombstone is still there */
    bool is_orphan;                /* no row names it */
};

struct pfl_clean {
    struct pfl_clean_conf conf;
    char fleet[PFL_INDEX_NAME_BYTES];
    struct pfl_retention *retention; /* owned */
    enum phase phase;
    uint64_t wall_unix_ns; /* of this cycle, as the clocks say */
    uint64_t boot_ns;
    struct pfl_retention_clock clock;
    bool has_clock;       /* the last cycle was this collector's */
    uint64_t now_unix_ns; /* by that clock */
    uint64_t cycles;
    struct item items[PFL_CLEAN_PAGE];
    size_t len;
    size_t at; /* the orphan that is judged */
    struct pfl_store_object objects[PFL_CLEAN_PAGE];
    char live_after[PFL_INDEX_ID_BYTES];
    char objects_after[PFL_STORE_KEY_BYTES];
    unsigned steps;               /* pages of this sweep in this cycle */
    bool is_counted;              /* tombstones, in this cycle */
    uint64_t unknown;             /* in this round of the store */
    struct pfl_buf description;   /* room is reserved */
    Perfleet__StoredTrace *trace; /* owned; of the orphan */
    struct pfl_clean_report report;
    struct pfl_clean_figures figures;
};

static const enum pfl_clean_thread phase_thread[PHASES] = {
    [PHASE_IDLE] = PFL_CLEAN_IDLE,
    [PHASE_LEASE] = PFL_CLEAN_ON_INDEX,
    [PHASE_RETAIN] = PFL_CLEAN_ON_INDEX,
    [PHASE_BURY_LIST] = PFL_CLEAN_ON_INDEX,
    [PHASE_BURY_DELETE] = PFL_CLEAN_ON_STORE,
    [PHASE_BURY_NOTE] = PFL_CLEAN_ON_INDEX,
    [PHASE_FORGET] = PFL_CLEAN_ON_INDEX,
    [PHASE_LIVE_LIST] = PFL_CLEAN_ON_INDEX,
    [PHASE_LIVE_LOOK] = PFL_CLEAN_ON_STORE,
    [PHASE_LIVE_NOTE] = PFL_CLEAN_ON_INDEX,
    [PHASE_OBJECTS_LIST] = PFL_CLEAN_ON_STORE,
    [PHASE_OBJECTS_MATCH] = PFL_CLEAN_ON_INDEX,
    [PHASE_ORPHAN_LOOK] = PFL_CLEAN_ON_STORE,
    [PHASE_ORPHAN_PARSE] = PFL_CLEAN_ON_LOOP,
    [PHASE_ORPHAN_MATCH] = PFL_CLEAN_ON_INDEX,
    [PHASE_ORPHAN_DELETE] = PFL_CLEAN_ON_STORE,
    [PHASE_SWEEP] = PFL_CLEAN_ON_STORE,
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

static void drop_trace(struct pfl_clean *self)
{
    if (self->trace != NULL)
        pfl_proto_free(&self->trace->base);
    self->trace = NULL;
}

void pfl_clean_free(struct pfl_clean *self)
{
    if (self == NULL)
        return;
    drop_trace(self);
    pfl_retention_free(self->retention);
    pfl_buf_fini(&self->description);
    pfl_mem_free(self);
}

void pfl_clean_begin(struct pfl_clean *self, uint64_t wall_unix_ns, uint64_t boot_ns)
{
    self->wall_unix_ns = wall_unix_ns;
    self->boot_ns = boot_ns;
    self->phase = PHASE_LEASE;
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

/* The port logs it: quoting is not for threads. */
static struct pfl_clean_report *report_item(struct pfl_clean *self, const char *event,
                                            const char *what, const char *reason)
{
    struct pfl_clean_report *report = &self->report;

    *report = (struct pfl_clean_report){.event = event, .effect = "none"};
    (void)snprintf(report->what, sizeof(report->what), "%s", what);
    (void)snprintf(report->reason, sizeof(report->reason), "%s", reason);
    return report;
}

static struct pfl_clean_report *report_trace(struct pfl_clean *self, const char *event,
                                             const struct item *item, const char *reason)
{
    struct pfl_clean_report *report = report_item(self, event, item->id, reason);

    report->bytes = item->bytes;
    (void)snprintf(report->host, sizeof(report->host), "%s", item->host);
    return report;
}

/* The engine does not answer: the rest waits for the next cycle. */
static void give_up(struct pfl_clean *self, const char *engine, const char *why)
{
    struct pfl_clean_report *report = report_item(self, "cleaning-interrupted", engine, why);

    report->is_warning = true;
    report->effect = "the rest waits for the next cycle";
    self->phase = PHASE_IDLE;
}

static void give_up_index(struct pfl_clean *self)
{
    give_up(self, "index", pfl_index_get_error(self->conf.index));
}

static void report_jump(struct pfl_clean *self, uint64_t ahead_ns)
{
    char reason[PFL_INDEX_WHY_BYTES];
    struct pfl_clean_report *report;

    (void)snprintf(reason, sizeof(reason),
                   "it is %" PRIu64 " s ahead of the last cycle: set it right, if it is wrong",
                   ahead_ns / NS_PER_S);
    report = report_item(self, "clock-jumped-ahead", "clock", reason);
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
        give_up_index(self);
        return;
    }
    self->phase = self->figures.is_held ? PHASE_RETAIN : PHASE_IDLE;
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
    int rc;

    if (step == PFL_RETENTION_KINDS) {
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
                                                .is_bound_by_keep = true};
    int rc = pfl_index_tombstone(self->conf.index, victim->id, &deletion);

    if (rc == 0) {
        struct pfl_clean_report *report =
            report_item(self, "trace-deleted", victim->id, victim->why);

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
        give_up_index(self);
    else if (pfl_retention_get_step(self->retention) == PFL_RETENTION_END)
        self->phase = PHASE_BURY_LIST;
}

/* ---- tombstones ---- */

/* The key of the JSON beside an object. */
static void make_description_key(const char *key, char *dst)
{
    const char *end = strrchr(key, '.');
    size_t len = end != NULL ? (size_t)(end - key) : 0;

    if (len > PFL_STORE_KEY_BYTES - sizeof(".json"))
        len = PFL_STORE_KEY_BYTES - sizeof(".json");
    memcpy(dst, key, len);
    memcpy(dst + len, ".json", sizeof(".json"));
}

static struct item *add_item(struct pfl_clean *self, const struct pfl_index_row *row)
{
    struct item *item = &self->items[self->len++];

    *item = (struct item){.bytes = row->bytes};
    (void)snprintf(item->id, sizeof(item->id), "%s", row->id);
    (void)snprintf(item->host, sizeof(item->host), "%s", row->host);
    (void)snprintf(item->key, sizeof(item->key), "%s", row->key);
    return item;
}

static bool on_tombstone(void *user, const struct pfl_index_row *row)
{
    struct pfl_clean *self = user;
    struct item *item = add_item(self, row);
    const struct pfl_store_key_parts parts = {
        .fleet = self->fleet,
        .host = item->host,
        .id = item->id,
        .suffix = "json",
        .unix_ns = row->begin_unix_ns,
    };

    if (item->key[0] != '\0')
        make_description_key(item->key, item->description);
    else if (pfl_store_key_make(&parts, item->description) != 0) /* a gap has no object */
        item->description[0] = '\0';
    item->rc = PFL_EAGAIN;
    (void)snprintf(item->why, sizeof(item->why), "there was no thread for it");
    return self->len < BURY_PAGE;
}

static void list_tombstones(struct pfl_clean *self)
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
        give_up_index(self);
    else
        self->phase = self->len != 0 ? PHASE_BURY_DELETE : PHASE_FORGET;
}

/* The description first: an object without one is no trace for a rebuild. */
static int delete_objects(struct pfl_clean *self, const struct item *item)
{
    int rc = 0;

    if (item->description[0] != '\0')
        rc = pfl_store_delete(self->conf.store, item->description);
    if (rc == 0 && item->key[0] != '\0')
        rc = pfl_store_delete(self->conf.store, item->key);
    return rc;
}

unsigned pfl_clean_get_parts(const struct pfl_clean *self)
{
    return self->phase == PHASE_BURY_DELETE ? PFL_CLEAN_PARTS : 1;
}

/* Touches the items of this part alone. */
void pfl_clean_run_part(struct pfl_clean *self, unsigned part)
{
    assert(self->phase == PHASE_BURY_DELETE);
    for (size_t i = part; i < self->len; i += PFL_CLEAN_PARTS) {
        struct item *item = &self->items[i];

        item->rc = delete_objects(self, item);
        if (item->rc != 0)
            (void)snprintf(item->why, sizeof(item->why), "%s", pfl_store_get_error());
    }
}

void pfl_clean_end_parts(struct pfl_clean *self)
{
    self->report.event = NULL;
    for (size_t i = 0; i < self->len; i++) {
        const struct item *item = &self->items[i];

        if (item->rc == 0)
            continue;
        self->figures.failed++;
        report_trace(self, "deletion-failed", item, item->why)->is_warning = true;
    }
    self->phase = PHASE_BURY_NOTE;
}

static void delete_tombstones(struct pfl_clean *self)
{
    for (unsigned part = 0; part < PFL_CLEAN_PARTS; part++)
        pfl_clean_run_part(self, part);
    pfl_clean_end_parts(self);
}

static void note_tombstones(struct pfl_clean *self)
{
    unsigned deleted = 0;

    for (size_t i = 0; i < self->len; i++) {
        const struct item *item = &self->items[i];
        int rc = item->rc == 0 ? pfl_index_set_gone(self->conf.index, item->id, self->now_unix_ns)
                               : pfl_index_postpone(self->conf.index, item->id);

        if (rc != 0) {
            give_up_index(self);
            return;
        }
        deleted += item->rc == 0;
        if (item->rc == 0 && self->figures.tombstones != 0)
            self->figures.tombstones--;
        self->figures.deleted_objects += item->rc == 0 && item->key[0] != '\0';
    }
    /* What is put off comes again when all others had their turn. */
    self->phase = self->len == BURY_PAGE && deleted != 0 ? PHASE_BURY_LIST : PHASE_FORGET;
}

static void forget(struct pfl_clean *self)
{
    uint64_t now = self->now_unix_ns;
    uint64_t count = 0;
    uint64_t runs = 0;
    int rc = 0;

    if (self->cycles % SWEEP_EVERY == 0) {
        rc = pfl_index_forget(self->conf.index,
                              now > PFL_CLEAN_FORGET_NS ? now - PFL_CLEAN_FORGET_NS : 0, &count);
        if (rc == 0)
            rc = pfl_index_forget_runs(
                self->conf.index, now > PFL_CLEAN_RUNS_NS ? now - PFL_CLEAN_RUNS_NS : 0, &runs);
    }
    if (rc != 0) {
        give_up_index(self);
        return;
    }
    if (count >= PFL_INDEX_FORGET_MAX || runs >= PFL_INDEX_FORGET_MAX)
        return; /* again: others have the index in between */
    self->cycles++;
    self->phase = PHASE_LIVE_LIST;
    self->steps = 0;
}

/* ---- live traces whose object is missing ---- */

static bool on_live(void *user, const struct pfl_index_row *row)
{
    struct pfl_clean *self = user;

    (void)add_item(self, row);
    return self->len < PFL_CLEAN_PAGE;
}

static void list_live(struct pfl_clean *self)
{
    int rc;

    self->len = 0;
    rc = pfl_index_list_live(self->conf.index, self->live_after, PFL_CLEAN_PAGE, on_live, self);
    if (rc != 0) {
        give_up_index(self);
        return;
    }
    self->live_after[0] = '\0';
    if (self->len == PFL_CLEAN_PAGE)
        memcpy(self->live_after, self->items[self->len - 1].id, sizeof(self->live_after));
    self->phase = PHASE_LIVE_LOOK;
}

static void look_for_objects(struct pfl_clean *self)
{
    for (size_t i = 0; i < self->len; i++) {
        struct pfl_store_object object;
        struct item *item = &self->items[i];

        item->rc = pfl_store_head(self->conf.store, item->key, &object);
        if (item->rc != 0 && item->rc != PFL_ENOENT) {
            give_up(self, "store", pfl_store_get_error());
            return;
        }
    }
    self->phase = PHASE_LIVE_NOTE;
}

static void note_lost(struct pfl_clean *self)
{
    const struct pfl_index_deletion why = {
        .who = "sweep", .reason = "the store does not have it", .now_unix_ns = self->now_unix_ns};
    struct pfl_clean_report *report;

    for (size_t i = 0; i < self->len; i++) {
        const struct item *item = &self->items[i];
        int rc = item->rc == PFL_ENOENT ? pfl_index_set_lost(self->conf.index, item->id, &why) : 0;

        if (rc != 0 && rc != PFL_ENOENT) { /* deleted meanwhile */
            give_up_index(self);
            return;
        }
        if (rc != 0 || item->rc == 0)
            continue;
        self->figures.lost++;
        report = report_trace(self, "trace-lost", item, why.reason);
        report->is_warning = true;
        report->effect = "its number is a hole";
    }
    self->steps++;
    self->phase = PHASE_LIVE_LIST;
    if (self->live_after[0] == '\0' || self->steps == SWEEP_STEPS) {
        self->phase = PHASE_OBJECTS_LIST;
        self->steps = 0;
    }
}

/* ---- objects that no row names ---- */

static bool ends_in(const char *key, const char *suffix)
{
    size_t len = strlen(key);

    return len > strlen(suffix) && strcmp(key + len - strlen(suffix), suffix) == 0;
}

static bool is_description(const struct item *item)
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

static void list_objects(struct pfl_clean *self)
{
    const struct pfl_store_listing what = {"v1/", self->objects_after};
    size_t len = 0;

    if (pfl_store_list(self->conf.store, &what, self->objects, PFL_CLEAN_PAGE, &len) != 0) {
        give_up(self, "store", pfl_store_get_error());
        return;
    }
    self->len = 0;
    for (size_t i = 0; i < len; i++) {
        struct item *item = &self->items[self->len];

        *item = (struct item){.bytes = self->objects[i].bytes};
        if (!read_id(self->objects[i].key, item->id))
            continue;
        memcpy(item->key, self->objects[i].key, sizeof(item->key));
        make_description_key(item->key, item->description);
        item->is_orphan = (int64_t)(self->now_unix_ns / NS_PER_S) - self->objects[i].modified_s >
                          self->conf.grace_s;
        self->len++;
    }
    if (len == PFL_CLEAN_PAGE) {
        memcpy(self->objects_after, self->objects[len - 1].key, sizeof(self->objects_after));
    } else {
        self->objects_after[0] = '\0';
        self->figures.rounds++;
    }
    self->phase = PHASE_OBJECTS_MATCH;
}

struct match {
    struct pfl_clean *clean;
    struct item *item;
    bool is_found; /* lost, and there again */
};

static bool on_match(void *user, const struct pfl_index_row *row)
{
    struct match *match = user;
    struct item *item = match->item;
    bool is_object = strcmp(row->key, item->key) == 0;

    /* What is gone is deleted again. */
    item->is_orphan = item->is_orphan && row->state == PFL_INDEX_GONE;
    match->is_found = row->state == PFL_INDEX_LOST && is_object && row->bytes == item->bytes;
    if (row->state == PFL_INDEX_LIVE && is_object && row->bytes != item->bytes)
        report_trace(match->clean, "trace-damaged", item, "its length in the store differs")
            ->is_warning = true;
    return true;
}

static int match_object(struct pfl_clean *self, struct item *item)
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
        (void)report_trace(self, "trace-found", item, "the store has it again");
    }
    return rc == PFL_ENOENT ? 0 : rc;
}

static void next_orphan(struct pfl_clean *self);

static void match_objects(struct pfl_clean *self)
{
    for (size_t i = 0; i < self->len; i++) {
        if (match_object(self, &self->items[i]) != 0) {
            give_up_index(self);
            return;
        }
    }
    self->at = 0;
    next_orphan(self);
}

/* To the next orphan of the page; or the next page; or the end of this sweep. */
static void next_orphan(struct pfl_clean *self)
{
    while (self->at < self->len && !self->items[self->at].is_orphan)
        self->at++;
    if (self->at < self->len) {
        self->phase = PHASE_ORPHAN_LOOK;
        return;
    }
    if (self->objects_after[0] == '\0') { /* the round is over */
        self->figures.unknown = self->unknown;
        self->unknown = 0;
    }
    self->steps++;
    self->phase = PHASE_OBJECTS_LIST;
    if (self->objects_after[0] == '\0' || self->steps == SWEEP_STEPS)
        self->phase = PHASE_SWEEP;
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
static void look_at_orphan(struct pfl_clean *self)
{
    static const struct pfl_store_range whole = {0, PFL_DESCRIPTION_MAX_BYTES};
    const struct item *item = &self->items[self->at];
    struct pfl_store_object object;
    int rc;

    if (!is_description(item)) {
        rc = pfl_store_head(self->conf.store, item->description, &object);
        if (rc == PFL_ENOENT) {
            rc = pfl_store_head(self->conf.store, item->key, &object);
            if (rc == 0)
                self->phase = PHASE_ORPHAN_DELETE;
            else if (rc == PFL_ENOENT) /* it went with its description */
                leave_orphan(self);
        } else if (rc == 0) {
            leave_orphan(self);
        }
    } else {
        pfl_buf_clear(&self->description);
        rc = pfl_store_get(self->conf.store, item->key, &whole, on_description, &self->description);
        if (rc == 0)
            self->phase = PHASE_ORPHAN_PARSE;
        else if (rc == PFL_ENOENT)
            leave_orphan(self);
    }
    if (rc != 0 && rc != PFL_ENOENT)
        give_up(self, "store", pfl_store_get_error());
}

static void leave_unknown(struct pfl_clean *self)
{
    struct pfl_clean_report *report;

    if (self->unknown++ == 0) { /* others are counted */
        report = report_item(self, "trace-unknown", self->items[self->at].key,
                             "the index does not have it: perfleet-collector rebuild adds it");
        report->is_warning = true;
        report->effect = "it stays";
    }
    leave_orphan(self);
}

static void parse_orphan(struct pfl_clean *self)
{
    drop_trace(self);
    if (pfl_description_parse(pfl_buf_get(&self->description), &self->trace) != 0 ||
        self->trace->segment == NULL || self->trace->segment->host == NULL ||
        self->trace->segment->order == NULL || self->trace->segment->incarnation == NULL)
        leave_unknown(self);
    else
        self->phase = PHASE_ORPHAN_MATCH;
}

static void match_orphan(struct pfl_clean *self)
{
    bool has_number = false;

    if (pfl_index_has_number(self->conf.index, self->trace->segment, self->items[self->at].id,
                             &has_number) != 0)
        give_up_index(self);
    else if (has_number)
        self->phase = PHASE_ORPHAN_DELETE;
    else
        leave_unknown(self);
}

/* With the object beside a description, which the list has later. */
static void delete_orphan(struct pfl_clean *self)
{
    struct item *item = &self->items[self->at];
    char key[PFL_STORE_KEY_BYTES];

    (void)snprintf(key, sizeof(key), "%s", item->description);
    if (is_description(item))
        (void)snprintf(item->key, sizeof(item->key), "%.*s.pftrace",
                       (int)(strlen(key) - strlen(".json")), key);
    if (delete_objects(self, item) != 0) {
        give_up(self, "store", pfl_store_get_error());
        return;
    }
    self->figures.orphans++;
    (void)report_item(self, "orphan-deleted", item->key, "no row of the index names it");
    leave_orphan(self);
}

static void sweep(struct pfl_clean *self)
{
    unsigned count = 0;

    self->phase = PHASE_IDLE;
    if (self->cycles % SWEEP_EVERY != 1)
        return;
    if (pfl_store_sweep(self->conf.store, self->conf.grace_s, &count) != 0) {
        give_up(self, "store", pfl_store_get_error());
        return;
    }
    self->figures.leftovers += count;
    if (count != 0)
        report_item(self, "leftovers-deleted", "temporary", "puts that did not end")->bytes = count;
}

void pfl_clean_run(struct pfl_clean *self)
{
    static void (*const steps[PHASES])(struct pfl_clean *) = {
        [PHASE_LEASE] = take_lease,
        [PHASE_RETAIN] = retain,
        [PHASE_BURY_LIST] = list_tombstones,
        [PHASE_BURY_DELETE] = delete_tombstones,
        [PHASE_BURY_NOTE] = note_tombstones,
        [PHASE_FORGET] = forget,
        [PHASE_LIVE_LIST] = list_live,
        [PHASE_LIVE_LOOK] = look_for_objects,
        [PHASE_LIVE_NOTE] = note_lost,
        [PHASE_OBJECTS_LIST] = list_objects,
        [PHASE_OBJECTS_MATCH] = match_objects,
        [PHASE_ORPHAN_LOOK] = look_at_orphan,
        [PHASE_ORPHAN_PARSE] = parse_orphan,
        [PHASE_ORPHAN_MATCH] = match_orphan,
        [PHASE_ORPHAN_DELETE] = delete_orphan,
        [PHASE_SWEEP] = sweep,
    };

    assert(steps[self->phase] != NULL);
    self->report.event = NULL;
    steps[self->phase](self);
}
