/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pass of retention: see retention.h.
 *
 * Happy path: each cause in turn is a stage. A stage goes through its groups: kinds (age, triggers,
 * orders), classes, hosts of a class, or all. Of a group with several kinds the oldest trace of
 * each is asked for, and the oldest of these goes; then that kind is asked again.
 *
 * Failures: a trace that cannot be deleted, or a row that may not go, ends its group for this pass.
 * Owns the list of kinds. Limits: PFL_INDEX_KINDS_MAX kinds, PFL_RETENTION_PASS_MAX deletions.
 */
#include "collector/retain/retention.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define NS_PER_S UINT64_C(1000000000)
#define DAY_S    UINT64_C(86400)

enum head { HEAD_UNKNOWN = 0, HEAD_THERE, HEAD_NONE };

struct kind {
    uint64_t id;
    uint64_t bytes;
    uint64_t traces;
    const struct pfl_keep_rule *rule; /* borrowed from the rules */
    uint32_t first;                   /* of its class */
    enum head head;                   /* its oldest trace */
    struct pfl_index_look look;       /* while it is unknown: what is passed */
    struct pfl_retention_victim oldest;
};

struct use {
    uint64_t host_id;
    uint64_t amount;
    char name[PFL_INDEX_NAME_BYTES];
};

struct pfl_retention {
    struct pfl_keep_rules rules;
    uint64_t now_unix_ns;
    enum pfl_retention_step step;
    enum pfl_retention_cause stage;
    /* The group: kinds from `at` to before `end`; below `len`. */
    size_t at;
    size_t end;
    size_t len;
    bool is_in_group;
    bool is_triggered; /* what a trigger made has its turn */
    uint64_t needed;   /* bytes or traces that are still to go */
    uint64_t notes;    /* bytes of notes of deletions */
    size_t asked;      /* the kind that OLDEST is about */
    struct pfl_retention_victim victim;
    size_t victim_kind;
    struct use uses[PFL_RETENTION_PAGE];
    size_t uses_len;
    size_t use_at;
    bool has_uses;
    uint64_t listed;  /* of the page, with those that are not above their bound */
    struct use last;  /* of these */
    struct use after; /* the page begins behind it */
    unsigned deleted; /* in this pass */
    bool is_cut;
    uint64_t over[PFL_RETENTION_CAUSES];
    struct pfl_retention_figures figures;
    char names[PFL_INDEX_KINDS_MAX][PFL_KEEP_CLASS_BYTES]; /* of classes, at their first kind */
    struct kind kinds[PFL_INDEX_KINDS_MAX];
};

const char *pfl_retention_cause_name(enum pfl_retention_cause cause)
{
    static const char *const names[PFL_RETENTION_CAUSES] = {
        "age", "per-trigger", "order-bytes", "host-bytes", "class-bytes", "all-bytes", "all-traces",
    };

    return names[cause];
}

int pfl_retention_new(const struct pfl_keep_rules *rules, struct pfl_retention **ret_retention)
{
    struct pfl_retention *self = pfl_mem_zalloc(sizeof(*self));

    if (self == NULL)
        return PFL_ENOMEM;
    self->rules = *rules;
    self->step = PFL_RETENTION_END;
    *ret_retention = self;
    return 0;
}

void pfl_retention_free(struct pfl_retention *self)
{
    pfl_mem_free(self);
}

void pfl_retention_begin(struct pfl_retention *self, uint64_t now_unix_ns)
{
    self->now_unix_ns = now_unix_ns;
    self->step = PFL_RETENTION_KINDS;
    self->stage = PFL_RETENTION_AGE;
    self->at = self->len = 0;
    self->is_in_group = self->is_triggered = self->has_uses = false;
    self->deleted = 0;
    self->is_cut = false;
    self->figures.live_bytes = self->figures.live_traces = self->notes = 0;
    memset(self->over, 0, sizeof(self->over));
}

enum pfl_retention_step pfl_retention_get_step(const struct pfl_retention *self)
{
    return self->step;
}

bool pfl_retention_add_kind(struct pfl_retention *self, const struct pfl_index_kind *kind)
{
    struct kind *k = &self->kinds[self->len];
    uint32_t first = (uint32_t)self->len;

    if (self->len == PFL_INDEX_KINDS_MAX)
        return false;
    (void)snprintf(self->names[self->len], PFL_KEEP_CLASS_BYTES, "%.63s", kind->class_name);
    if (first > 0 && strcmp(self->names[first], self->names[first - 1]) == 0)
        first = self->kinds[first - 1].first;
    *k = (struct kind){.id = kind->id,
                       .bytes = kind->bytes,
                       .traces = kind->traces,
                       .rule = pfl_keep_rules_find(&self->rules, kind->class_name),
                       .first = first};
    self->figures.live_bytes += kind->bytes;
    self->figures.live_traces += kind->traces;
    self->len++;
    return true;
}

uint64_t pfl_retention_get_notes_max(const struct pfl_retention *self)
{
    uint64_t max = self->rules.bytes / PFL_RETENTION_NOTES / PFL_INDEX_DELETED_BYTES;

    if (self->rules.bytes == 0)
        return UINT64_MAX;
    return max > PFL_RETENTION_NOTES_MIN ? max : PFL_RETENTION_NOTES_MIN;
}

void pfl_retention_set_notes(struct pfl_retention *self, uint64_t notes)
{
    uint64_t max = self->rules.bytes / PFL_RETENTION_NOTES;

    self->notes = max;
    if (notes < max / PFL_INDEX_DELETED_BYTES)
        self->notes = notes * PFL_INDEX_DELETED_BYTES;
}

/* ---- groups ---- */

static const struct pfl_keep_rule *rule_of(const struct pfl_retention *self)
{
    return self->kinds[self->at].rule;
}

/* Behind the kinds of the class that `at` is in, from there. */
static size_t end_of_class(const struct pfl_retention *self, size_t at)
{
    size_t end = at;

    while (end < self->len && self->kinds[end].first == self->kinds[at].first)
        end++;
    return end;
}

static bool is_by_kind(enum pfl_retention_cause stage)
{
    return stage <= PFL_RETENTION_ORDER_BYTES;
}

/* The bound of the group at `at`; 0: none. */
static uint64_t get_bound(const struct pfl_retention *self)
{
    const struct pfl_keep_rule *rule = rule_of(self);

    switch (self->stage) {
    case PFL_RETENTION_AGE:
        return rule->age_ns | rule->triggered_ns;
    case PFL_RETENTION_PER_TRIGGER:
        return rule->per_trigger;
    case PFL_RETENTION_ORDER_BYTES:
        return rule->order_bytes;
    case PFL_RETENTION_HOST_BYTES:
        return rule->host_bytes;
    case PFL_RETENTION_CLASS_BYTES:
        return rule->bytes;
    case PFL_RETENTION_ALL_BYTES:
        return self->rules.bytes;
    default:
        return self->rules.traces;
    }
}

bool pfl_retention_add_use(struct pfl_retention *self, const struct pfl_index_use *use)
{
    struct use *u = &self->last;

    if (self->uses_len == PFL_RETENTION_PAGE)
        return false;
    u->host_id = use->host_id;
    u->amount = use->amount;
    (void)snprintf(u->name, sizeof(u->name), "%s", use->name);
    self->listed++;
    if (u->amount > get_bound(self))
        self->uses[self->uses_len++] = *u;
    return self->uses_len < PFL_RETENTION_PAGE;
}

static uint64_t get_age(const struct pfl_retention *self)
{
    return self->is_triggered ? rule_of(self)->triggered_ns : rule_of(self)->age_ns;
}

/* Bytes of the group, or traces, where the bound is one of these. */
static uint64_t sum_up(const struct pfl_retention *self)
{
    bool is_of_traces = self->stage == PFL_RETENTION_ALL_TRACES;
    uint64_t sum = self->stage == PFL_RETENTION_ALL_BYTES ? self->notes : 0;

    for (size_t i = self->at; i < self->end; i++)
        sum += is_of_traces ? self->kinds[i].traces : self->kinds[i].bytes;
    return sum;
}

static bool is_about_all(enum pfl_retention_cause stage)
{
    return stage >= PFL_RETENTION_ALL_BYTES;
}

static bool has_uses(enum pfl_retention_cause stage)
{
    return stage == PFL_RETENTION_PER_TRIGGER || stage == PFL_RETENTION_HOST_BYTES;
}

static void forget_head(struct kind *k)
{
    k->head = HEAD_UNKNOWN;
    k->look = (struct pfl_index_look){.limit = 1};
}

static void forget_heads(struct pfl_retention *self)
{
    for (size_t i = self->at; i < self->end; i++)
        forget_head(&self->kinds[i]);
}

/* The next group of the stage, or of the stages behind it, that may have to lose something. False:
 * the pass is over. */
static bool enter_group(struct pfl_retention *self)
{
    while (self->stage < PFL_RETENTION_CAUSES) {
        if (self->at >= self->len) {
            self->at = 0;
            self->stage++;
            if (self->len == 0)
                self->stage = PFL_RETENTION_CAUSES;
            continue;
        }
        self->end = is_by_kind(self->stage)     ? self->at + 1
                    : is_about_all(self->stage) ? self->len
                                                : end_of_class(self, self->at);
        self->is_triggered = self->has_uses = false;
        self->uses_len = self->use_at = 0;
        self->last = (struct use){.host_id = 0};
        self->needed = 0;
        if (get_bound(self) != 0 && sum_up(self) > get_bound(self))
            self->needed = sum_up(self) - get_bound(self);
        if (get_bound(self) != 0 &&
            (self->stage == PFL_RETENTION_AGE || has_uses(self->stage) || self->needed != 0)) {
            forget_heads(self);
            return true;
        }
        self->at = self->end;
    }
    return false;
}

static void leave_group(struct pfl_retention *self)
{
    self->is_in_group = false;
    self->at = self->end;
}

static void end_pass(struct pfl_retention *self)
{
    self->step = PFL_RETENTION_END;
    if (!self->is_cut)
        memcpy(self->figures.over, self->over, sizeof(self->over));
}

/* ---- within a group ---- */

static void write_why(struct pfl_retention *self)
{
    const char *class_name = rule_of(self)->class_name;
    char *dst = self->victim.why;
    size_t room = sizeof(self->victim.why);
    uint64_t bound = get_bound(self);

    switch (self->stage) {
    case PFL_RETENTION_AGE:
        (void)snprintf(dst, room, "class %s: %s, and stored more than %" PRIu64 "%s ago",
                       class_name, self->is_triggered ? "made by a trigger" : "made by no trigger",
                       get_age(self) / NS_PER_S /
                           (get_age(self) / NS_PER_S % DAY_S == 0 ? DAY_S : 1),
                       get_age(self) / NS_PER_S % DAY_S == 0 ? " days" : " s");
        break;
    case PFL_RETENTION_PER_TRIGGER:
        (void)snprintf(dst, room, "class %s: more than %" PRIu64 " traces of this trigger",
                       class_name, bound);
        break;
    case PFL_RETENTION_ORDER_BYTES:
        (void)snprintf(dst, room, "class %s: this order has more than %" PRIu64 " bytes",
                       class_name, bound);
        break;
    case PFL_RETENTION_HOST_BYTES:
        (void)snprintf(dst, room, "class %s: this host has more than %" PRIu64 " bytes", class_name,
                       bound);
        break;
    case PFL_RETENTION_CLASS_BYTES:
        (void)snprintf(dst, room, "class %s: it has more than %" PRIu64 " bytes", class_name,
                       bound);
        break;
    case PFL_RETENTION_ALL_BYTES:
        (void)snprintf(dst, room, "all traces have more than %" PRIu64 " bytes", bound);
        break;
    default:
        (void)snprintf(dst, room,
                       "there are more than %" PRIu64
                       " traces, for which the store's file system has files",
                       bound);
        break;
    }
}

static void choose(struct pfl_retention *self, const struct pfl_retention_victim *victim)
{
    self->victim = *victim;
    self->victim.cause = self->stage;
    write_why(self);
    self->step = PFL_RETENTION_DELETE;
}

/* The oldest of the oldest; or which kind to ask next. False: none is left. */
static bool choose_kind(struct pfl_retention *self)
{
    const struct kind *best = NULL;

    for (size_t i = self->at; i < self->end; i++) {
        const struct kind *k = &self->kinds[i];

        if (k->head == HEAD_UNKNOWN && k->bytes != 0) {
            self->asked = i;
            self->step = PFL_RETENTION_OLDEST;
            return true;
        }
        if (k->head == HEAD_THERE &&
            (best == NULL || k->oldest.stored_unix_ns < best->oldest.stored_unix_ns)) {
            best = k;
            self->victim_kind = i;
        }
    }
    if (best == NULL)
        return false;
    choose(self, &best->oldest);
    return true;
}

/* False: the group has no more that may go. */
static bool step_in_bytes(struct pfl_retention *self)
{
    if (self->needed == 0)
        return false;
    if (choose_kind(self))
        return true;
    if (!self->is_triggered) {
        self->is_triggered = true;
        forget_heads(self);
        return choose_kind(self);
    }
    return false;
}

static bool step_in_age(struct pfl_retention *self)
{
    struct kind *k = &self->kinds[self->at];

    if (k->head == HEAD_NONE && self->is_triggered)
        return false;
    if (k->head == HEAD_NONE) {
        self->is_triggered = true;
        forget_head(k);
    }
    if (get_age(self) == 0 || get_age(self) >= self->now_unix_ns) {
        k->head = HEAD_NONE;
        return step_in_age(self);
    }
    if (k->head == HEAD_THERE) {
        self->victim_kind = self->at;
        choose(self, &k->oldest);
        return true;
    }
    self->asked = self->at;
    self->step = PFL_RETENTION_OLDEST;
    return true;
}

static void enter_use(struct pfl_retention *self)
{
    uint64_t amount = self->uses[self->use_at].amount;

    self->is_triggered = self->stage == PFL_RETENTION_PER_TRIGGER;
    forget_head(&self->kinds[self->at]);
    self->needed = amount > get_bound(self) ? amount - get_bound(self) : 0;
}

static void leave_use(struct pfl_retention *self)
{
    self->over[self->stage] += self->needed;
    self->needed = 0;
    self->use_at++;
    if (self->use_at < self->uses_len)
        enter_use(self);
}

static uint64_t get_list_max(const struct pfl_retention *self)
{
    return self->stage == PFL_RETENTION_HOST_BYTES ? PFL_RETENTION_PAGE : PFL_RETENTION_LOOKS;
}

/* One host, or one trigger of a host, after the other. The head of the group's first kind stands
 * for its oldest trace. */
static bool step_in_uses(struct pfl_retention *self)
{
    struct kind *k = &self->kinds[self->at];

    if (!self->has_uses) {
        self->uses_len = self->use_at = 0;
        self->listed = 0;
        self->after = self->last;
        self->step =
            self->stage == PFL_RETENTION_HOST_BYTES ? PFL_RETENTION_HOSTS : PFL_RETENTION_TRIGGERS;
        return true;
    }
    while (self->use_at < self->uses_len) {
        if (self->needed != 0 && k->head == HEAD_UNKNOWN) {
            self->asked = self->at;
            self->step = PFL_RETENTION_OLDEST;
            return true;
        }
        if (self->needed != 0 && k->head == HEAD_THERE) {
            choose(self, &k->oldest);
            return true;
        }
        if (self->needed != 0 && !self->is_triggered) {
            self->is_triggered = true;
            forget_head(k);
            continue;
        }
        leave_use(self);
    }
    if (self->uses_len < PFL_RETENTION_PAGE && self->listed < get_list_max(self))
        return false;
    self->has_uses = false;
    return step_in_uses(self);
}

static bool step_in_group(struct pfl_retention *self)
{
    if (self->stage == PFL_RETENTION_AGE)
        return step_in_age(self);
    if (has_uses(self->stage))
        return step_in_uses(self);
    return step_in_bytes(self);
}

static void advance(struct pfl_retention *self)
{
    if (self->deleted == PFL_RETENTION_PASS_MAX) {
        self->is_cut = true;
        end_pass(self);
        return;
    }
    for (;;) {
        if (!self->is_in_group && !enter_group(self)) {
            end_pass(self);
            return;
        }
        self->is_in_group = true;
        if (step_in_group(self))
            return;
        if (!has_uses(self->stage))
            self->over[self->stage] += self->needed;
        leave_group(self);
    }
}

/* ---- results ---- */

void pfl_retention_on_listed(struct pfl_retention *self)
{
    if (self->step != PFL_RETENTION_KINDS) {
        self->has_uses = true;
        if (self->uses_len != 0)
            enter_use(self);
    }
    advance(self);
}

void pfl_retention_get_use(const struct pfl_retention *self, struct pfl_index_use_query *ret_query)
{
    *ret_query = (struct pfl_index_use_query){
        .class_name = self->names[self->kinds[self->at].first],
        .kind = self->kinds[self->at].id,
        .above = get_bound(self),
        .after_host = self->after.host_id,
        .after_trigger = self->after.name,
        .limit = get_list_max(self),
    };
}

void pfl_retention_get_oldest(struct pfl_retention *self, struct pfl_index_oldest *ret_query)
{
    const struct use *use = &self->uses[self->use_at < PFL_RETENTION_PAGE ? self->use_at : 0];

    *ret_query = (struct pfl_index_oldest){
        .of = self->stage == PFL_RETENTION_HOST_BYTES    ? PFL_INDEX_OF_HOST
              : self->stage == PFL_RETENTION_PER_TRIGGER ? PFL_INDEX_OF_TRIGGER
                                                         : PFL_INDEX_OF_KIND,
        .kind = self->kinds[self->asked].id,
        .host_id = use->host_id,
        .class_name = self->names[self->kinds[self->at].first],
        .trigger = use->name,
        .is_triggered = self->is_triggered,
        .before_unix_ns =
            self->stage == PFL_RETENTION_AGE ? self->now_unix_ns - get_age(self) : UINT64_MAX,
        .now_unix_ns = self->now_unix_ns,
        .look = &self->kinds[self->asked].look,
    };
}

/* The index was asked for such rows alone; a row that is another one stays. */
static bool may_go(const struct pfl_retention *self, const struct pfl_index_row *row)
{
    bool is_pinned = row->pin_who[0] != '\0' &&
                     (row->pin_end_unix_ns == 0 || row->pin_end_unix_ns > self->now_unix_ns);

    if (self->stage == PFL_RETENTION_AGE &&
        row->stored_unix_ns >= self->now_unix_ns - get_age(self))
        return false;
    return row->state == PFL_INDEX_LIVE && !is_pinned && row->keep_unix_ns <= self->now_unix_ns &&
           strlen(row->id) < PFL_INDEX_ID_BYTES;
}

void pfl_retention_on_oldest(struct pfl_retention *self, const struct pfl_index_row *row)
{
    struct kind *k = &self->kinds[self->asked];

    assert(self->step == PFL_RETENTION_OLDEST);
    if (row == NULL && k->look.has_more) {
        k->look.limit =
            k->look.limit < PFL_INDEX_LOOK_MAX / 4 ? k->look.limit * 4 : PFL_INDEX_LOOK_MAX;
        return;
    }
    k->look.limit = 1;
    k->head = HEAD_NONE;
    if (row != NULL && may_go(self, row)) {
        k->head = HEAD_THERE;
        k->oldest = (struct pfl_retention_victim){.kind = row->kind,
                                                  .bytes = pfl_index_row_count_bytes(row),
                                                  .stored_unix_ns = row->stored_unix_ns};
        (void)snprintf(k->oldest.id, sizeof(k->oldest.id), "%s", row->id);
        (void)snprintf(k->oldest.host, sizeof(k->oldest.host), "%s", row->host);
    }
    advance(self);
}

const struct pfl_retention_victim *pfl_retention_get_victim(const struct pfl_retention *self)
{
    return &self->victim;
}

static void subtract(uint64_t *from, uint64_t what)
{
    *from -= what < *from ? what : *from;
}

void pfl_retention_on_deleted(struct pfl_retention *self, int rc)
{
    struct kind *k = &self->kinds[has_uses(self->stage) ? self->at : self->victim_kind];

    assert(self->step == PFL_RETENTION_DELETE);
    k->head = rc == 0 ? HEAD_UNKNOWN : HEAD_NONE;
    if (rc == 0) {
        self->deleted++;
        self->figures.traces[self->stage]++;
        self->figures.bytes[self->stage] += self->victim.bytes;
        subtract(&self->figures.live_bytes, self->victim.bytes);
        subtract(&self->figures.live_traces, 1);
        subtract(&self->needed,
                 self->stage == PFL_RETENTION_PER_TRIGGER || self->stage == PFL_RETENTION_ALL_TRACES
                     ? 1
                     : self->victim.bytes);
        for (size_t i = 0; i < self->len; i++) {
            if (self->kinds[i].id != self->victim.kind)
                continue;
            subtract(&self->kinds[i].bytes, self->victim.bytes);
            subtract(&self->kinds[i].traces, 1);
        }
    }
    advance(self);
}

const struct pfl_retention_figures *pfl_retention_get_figures(const struct pfl_retention *self)
{
    return &self->figures;
}

bool pfl_retention_is_cut(const struct pfl_retention *self)
{
    return self->is_cut;
}
