/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention against a model of an index: random traces, bounds and pins. Whatever goes was neither
 * pinned, kept nor reserved; it was the oldest of its group; and its group was above its bound when
 * it went. After a pass each group is within its bounds, or has nothing more that may go.
 */
#include "collector/retain/retention.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/recorded.h"
#include "tests/support/sweep.h"

#define TRACES      200u
#define KINDS       5u
#define HOSTS       3u
#define TRIGGERS    3u
#define ROUNDS      400u
#define NOW         UINT64_C(1000000)
#define TRACE_BYTES ((uint64_t)PFL_INDEX_TRACE_BYTES)

static const char *const classes[KINDS] = {"crash", "crash", "default", "default", "other"};
static const char *const triggers[TRIGGERS] = {"", "oom", "slow"};

struct trace {
    char id[PFL_INDEX_ID_BYTES];
    unsigned kind;
    unsigned host;
    unsigned trigger;
    uint64_t bytes;
    uint64_t stored;
    uint64_t begin;
    uint64_t keep;
    bool is_pinned;
    uint64_t pin_end;
    enum pfl_index_state state;
};

struct world {
    struct trace traces[TRACES];
    unsigned len;
    struct pfl_keep_rules rules;
    unsigned deleted;
    int rc; /* of each deletion */
};

static bool may_go(const struct trace *t)
{
    return t->state == PFL_INDEX_LIVE && t->keep <= NOW &&
           (!t->is_pinned || (t->pin_end != 0 && t->pin_end <= NOW));
}

static const struct pfl_keep_rule *rule_of(const struct world *w, const struct trace *t)
{
    return pfl_keep_rules_find(&w->rules, classes[t->kind]);
}

/* Whether two traces are in one group of a cause. */
static bool is_same_group(enum pfl_retention_cause cause, const struct trace *a,
                          const struct trace *b)
{
    bool is_class = strcmp(classes[a->kind], classes[b->kind]) == 0;

    switch (cause) {
    case PFL_RETENTION_AGE:
    case PFL_RETENTION_ORDER_BYTES:
        return a->kind == b->kind;
    case PFL_RETENTION_PER_TRIGGER:
        return a->kind == b->kind && a->host == b->host && a->trigger == b->trigger;
    case PFL_RETENTION_HOST_BYTES:
        return is_class && a->host == b->host;
    case PFL_RETENTION_CLASS_BYTES:
        return is_class;
    default:
        return true;
    }
}

static uint64_t get_bound(const struct world *w, enum pfl_retention_cause cause,
                          const struct trace *t)
{
    const struct pfl_keep_rule *rule = rule_of(w, t);

    switch (cause) {
    case PFL_RETENTION_PER_TRIGGER:
        return t->trigger != 0 ? rule->per_trigger : 0;
    case PFL_RETENTION_ORDER_BYTES:
        return rule->order_bytes;
    case PFL_RETENTION_HOST_BYTES:
        return rule->host_bytes;
    case PFL_RETENTION_CLASS_BYTES:
        return rule->bytes;
    case PFL_RETENTION_ALL_BYTES:
        return w->rules.bytes;
    case PFL_RETENTION_ALL_TRACES:
        return w->rules.traces;
    default:
        return 0;
    }
}

/* What the group of a trace has above its bound. */
static uint64_t get_over(const struct world *w, enum pfl_retention_cause cause,
                         const struct trace *t)
{
    uint64_t bound = get_bound(w, cause, t);
    uint64_t sum = 0;

    for (unsigned i = 0; i < w->len; i++) {
        const struct trace *other = &w->traces[i];

        if (other->state == PFL_INDEX_LIVE && is_same_group(cause, t, other))
            sum += cause == PFL_RETENTION_PER_TRIGGER || cause == PFL_RETENTION_ALL_TRACES
                       ? 1
                       : other->bytes;
    }
    return bound != 0 && sum > bound ? sum - bound : 0;
}

static bool is_too_old(const struct world *w, const struct trace *t)
{
    uint64_t age = t->trigger != 0 ? rule_of(w, t)->triggered_ns : rule_of(w, t)->age_ns;

    return age != 0 && age < NOW && t->stored < NOW - age;
}

static bool is_older(enum pfl_retention_cause cause, const struct trace *a, const struct trace *b)
{
    return cause == PFL_RETENTION_HOST_BYTES ? a->begin < b->begin : a->stored < b->stored;
}

/* What had to go before this one. */
static bool comes_first(enum pfl_retention_cause cause, const struct trace *a,
                        const struct trace *b)
{
    if (!may_go(a) || !is_same_group(cause, a, b))
        return false;
    if ((a->trigger != 0) != (b->trigger != 0))
        return a->trigger == 0 && cause != PFL_RETENTION_AGE;
    return is_older(cause, a, b);
}

static struct trace *find(struct world *w, const char *id)
{
    for (unsigned i = 0; i < w->len; i++)
        if (strcmp(w->traces[i].id, id) == 0)
            return &w->traces[i];
    fail_msg("%s is no trace", id);
    return NULL;
}

/* ---- the index ---- */

static void list_kinds(const struct world *w, struct pfl_retention *r)
{
    for (unsigned k = 0; k < KINDS; k++) {
        struct pfl_index_kind kind = {.id = k + 1, .class_name = classes[k], .order = "o"};

        for (unsigned i = 0; i < w->len; i++) {
            if (w->traces[i].kind != k || w->traces[i].state != PFL_INDEX_LIVE)
                continue;
            kind.bytes += w->traces[i].bytes;
            kind.traces++;
        }
        assert_true(pfl_retention_add_kind(r, &kind));
    }
    pfl_retention_on_listed(r);
}

static void list_uses(const struct world *w, struct pfl_retention *r, bool is_of_triggers)
{
    struct pfl_index_use_query q;

    pfl_retention_get_use(r, &q);
    for (unsigned host = 0; host < HOSTS; host++) {
        for (unsigned trigger = is_of_triggers; trigger < (is_of_triggers ? TRIGGERS : 1);
             trigger++) {
            struct pfl_index_use use = {.host_id = host + 1, .name = triggers[trigger]};

            for (unsigned i = 0; i < w->len; i++) {
                const struct trace *t = &w->traces[i];

                if (t->state != PFL_INDEX_LIVE || t->host != host)
                    continue;
                if (is_of_triggers)
                    use.amount += t->kind + 1 == q.kind && t->trigger == trigger;
                else if (strcmp(classes[t->kind], q.class_name) == 0)
                    use.amount += t->bytes;
            }
            if ((is_of_triggers ? use.amount != 0 : use.amount > q.above) &&
                !pfl_retention_add_use(r, &use))
                break;
        }
    }
    pfl_retention_on_listed(r);
}

static bool is_asked_for(const struct pfl_index_oldest *q, const struct trace *t)
{
    if (!may_go(t))
        return false;
    if (q->of == PFL_INDEX_OF_TRIGGER)
        return t->kind + 1 == q->kind && t->host + 1 == q->host_id &&
               strcmp(triggers[t->trigger], q->trigger) == 0;
    if ((t->trigger != 0) != q->is_triggered)
        return false;
    if (q->of == PFL_INDEX_OF_HOST)
        return t->host + 1 == q->host_id && strcmp(classes[t->kind], q->class_name) == 0;
    return t->kind + 1 == q->kind && t->stored < q->before_unix_ns;
}

static void give_row(struct pfl_retention *r, const struct trace *t)
{
    const struct pfl_index_row row = {
        .id = t->id,
        .host = "h",
        .key = "k",
        .state = t->state,
        .bytes = t->bytes - PFL_INDEX_TRACE_BYTES,
        .stored_unix_ns = t->stored,
        .keep_unix_ns = t->keep,
        .pin_who = t->is_pinned ? "ann" : "",
        .pin_end_unix_ns = t->pin_end,
        .kind = t->kind + 1,
    };

    pfl_retention_on_oldest(r, &row);
}

static void answer_oldest(const struct world *w, struct pfl_retention *r)
{
    const struct trace *best = NULL;
    struct pfl_index_oldest q;

    pfl_retention_get_oldest(r, &q);
    for (unsigned i = 0; i < w->len; i++) {
        const struct trace *t = &w->traces[i];
        bool is_by_begin = q.of == PFL_INDEX_OF_HOST;

        if (is_asked_for(&q, t) &&
            (best == NULL || (is_by_begin ? t->begin < best->begin : t->stored < best->stored)))
            best = t;
    }
    if (best == NULL)
        pfl_retention_on_oldest(r, NULL);
    else
        give_row(r, best);
}

static void delete_victim(struct world *w, struct pfl_retention *r)
{
    const struct pfl_retention_victim *victim = pfl_retention_get_victim(r);
    struct trace *t = find(w, victim->id);

    pfl_record("%s %d %s, again %d", victim->id, (int)victim->cause, victim->why, w->rc);
    assert_true(may_go(t));
    if (victim->cause == PFL_RETENTION_AGE)
        assert_true(is_too_old(w, t));
    else
        assert_true(get_over(w, victim->cause, t) != 0);
    for (unsigned i = 0; w->rc == 0 && i < w->len; i++)
        assert_false(comes_first(victim->cause, &w->traces[i], t));
    assert_true(strlen(victim->why) > 10);
    if (w->rc == 0) {
        t->state = PFL_INDEX_TOMBSTONE;
        w->deleted++;
    }
    pfl_retention_on_deleted(r, w->rc);
}

static void run_pass(struct world *w, struct pfl_retention *r)
{
    pfl_retention_begin(r, NOW);
    for (unsigned i = 0; i < 100000; i++) {
        pfl_record("step %d", (int)pfl_retention_get_step(r));
        switch (pfl_retention_get_step(r)) {
        case PFL_RETENTION_KINDS:
            list_kinds(w, r);
            break;
        case PFL_RETENTION_TRIGGERS:
        case PFL_RETENTION_HOSTS:
            list_uses(w, r, pfl_retention_get_step(r) == PFL_RETENTION_TRIGGERS);
            break;
        case PFL_RETENTION_OLDEST:
            answer_oldest(w, r);
            break;
        case PFL_RETENTION_DELETE:
            delete_victim(w, r);
            break;
        default:
            return;
        }
    }
    fail_msg("the pass does not end");
}

/* ---- random worlds ---- */

static uint64_t any(uint64_t below)
{
    return (uint64_t)rand() % below;
}

static void make_rule(struct world *w, const char *class_name)
{
    struct pfl_keep_rule *rule = &w->rules.list[w->rules.len++];

    *rule = (struct pfl_keep_rule){
        .age_ns = any(2) * (100 + any(NOW)),
        .bytes = any(2) * (1 + any(20 * TRACE_BYTES)),
        .host_bytes = any(2) * (1 + any(10 * TRACE_BYTES)),
        .order_bytes = any(2) * (1 + any(15 * TRACE_BYTES)),
        .per_trigger = any(2) * (1 + any(6)),
    };
    rule->triggered_ns = any(2) * (rule->age_ns + any(NOW));
    (void)snprintf(rule->class_name, sizeof(rule->class_name), "%s", class_name);
}

static void make_world(struct world *w)
{
    *w = (struct world){.len = (unsigned)any(TRACES)};
    w->rules.bytes = any(2) * (1 + any(45 * TRACE_BYTES));
    w->rules.traces = any(2) * (1 + any(40));
    make_rule(w, "*");
    make_rule(w, "crash");
    for (unsigned i = 0; i < w->len; i++) {
        struct trace *t = &w->traces[i];

        *t = (struct trace){
            .kind = (unsigned)any(KINDS),
            .host = (unsigned)any(HOSTS),
            .trigger = (unsigned)any(TRIGGERS) * (unsigned)any(2),
            .bytes = PFL_INDEX_TRACE_BYTES + (any(5) == 0 ? 0 : any(2 * TRACE_BYTES)),
            .stored = any(NOW),
            .begin = any(NOW),
            .keep = any(6) == 0 ? any(2 * NOW) : 0,
            .is_pinned = any(6) == 0,
            .pin_end = any(2) * any(2 * NOW),
            .state = any(8) == 0 ? (enum pfl_index_state)any(4) : PFL_INDEX_LIVE,
        };
        (void)snprintf(t->id, sizeof(t->id), "t%u", i);
    }
}

/* Nothing may go any more that should, and the figures say what is above its bound. */
static void check_end(const struct world *w, const struct pfl_retention *r)
{
    const struct pfl_retention_figures *f = pfl_retention_get_figures(r);
    uint64_t live = 0;
    uint64_t traces = 0;

    for (unsigned i = 0; i < w->len; i++) {
        const struct trace *t = &w->traces[i];

        live += t->state == PFL_INDEX_LIVE ? t->bytes : 0;
        traces += t->state == PFL_INDEX_LIVE;
        if (!may_go(t))
            continue;
        assert_false(is_too_old(w, t));
        for (enum pfl_retention_cause c = PFL_RETENTION_PER_TRIGGER; c < PFL_RETENTION_CAUSES; c++)
            assert_int_equal(get_over(w, c, t), 0);
    }
    assert_int_equal(f->live_bytes, live);
    assert_int_equal(f->live_traces, traces);
    for (enum pfl_retention_cause c = PFL_RETENTION_ALL_BYTES;
         w->len != 0 && c < PFL_RETENTION_CAUSES; c++)
        assert_int_equal(f->over[c], get_over(w, c, &w->traces[0]));
}

/* A fleet that deletes all the time keeps room for what it notes of that. */
static void notes_of_deletions_are_within_the_bytes_of_all(void **state)
{
    static const struct trace old = {
        .id = "old", .bytes = 1 + PFL_INDEX_TRACE_BYTES, .state = PFL_INDEX_LIVE};
    struct pfl_index_kind kind = {.id = 1, .class_name = "default", .traces = 9};
    struct pfl_keep_rules rules;
    struct pfl_retention *r;

    (void)state;
    pfl_keep_rules_init(&rules);
    rules.bytes = 0;
    assert_int_equal(pfl_retention_new(&rules, &r), 0);
    assert_true(pfl_retention_get_notes_max(r) == UINT64_MAX);
    pfl_retention_free(r);
    rules.bytes = UINT64_C(1) << 40;
    assert_int_equal(pfl_retention_new(&rules, &r), 0);
    assert_int_equal(pfl_retention_get_notes_max(r), UINT64_C(1) << 28);
    pfl_retention_free(r);
    rules.bytes = 1 << 20;
    rules.list[0].age_ns = rules.list[0].triggered_ns = 0;
    assert_int_equal(pfl_retention_new(&rules, &r), 0);
    assert_int_equal(pfl_retention_get_notes_max(r), PFL_RETENTION_NOTES_MIN);
    kind.bytes = (1 << 20) - 2048;
    for (uint64_t notes = 2; notes <= 3; notes++) { /* as many as there is room for; one more */
        pfl_retention_begin(r, NOW);
        pfl_retention_set_notes(r, notes);
        assert_true(pfl_retention_add_kind(r, &kind));
        pfl_retention_on_listed(r);
        assert_int_equal(pfl_retention_get_step(r),
                         notes == 2 ? PFL_RETENTION_END : PFL_RETENTION_OLDEST);
    }
    give_row(r, &old);
    assert_int_equal(pfl_retention_get_step(r), PFL_RETENTION_DELETE);
    pfl_retention_on_deleted(r, 0);
    assert_int_equal(pfl_retention_get_step(r), PFL_RETENTION_END);
    kind.bytes = (1 << 20) / 4 * 3; /* and so they have no more than a quarter */
    pfl_retention_begin(r, NOW);
    pfl_retention_set_notes(r, 100000);
    assert_true(pfl_retention_add_kind(r, &kind));
    pfl_retention_on_listed(r);
    assert_int_equal(pfl_retention_get_step(r), PFL_RETENTION_END);
    kind.bytes++;
    pfl_retention_begin(r, NOW);
    pfl_retention_set_notes(r, 100000);
    assert_true(pfl_retention_add_kind(r, &kind));
    pfl_retention_on_listed(r);
    assert_int_equal(pfl_retention_get_step(r), PFL_RETENTION_OLDEST);
    pfl_retention_free(r);
}

static uint64_t count_deleted(const struct pfl_retention *r)
{
    uint64_t sum = 0;

    for (enum pfl_retention_cause c = PFL_RETENTION_AGE; c < PFL_RETENTION_CAUSES; c++)
        sum += pfl_retention_get_figures(r)->traces[c];
    return sum;
}

/* Each needs files, of which a file system may have fewer than room: only so many stay, without a
 * bound of bytes, too. */
static void small_traces_are_no_more_than_there_are_files_for(void **state)
{
    static const struct trace old = {
        .id = "old", .kind = 1, .bytes = PFL_INDEX_TRACE_BYTES, .state = PFL_INDEX_LIVE};
    const struct pfl_index_kind kind = {
        .id = 1, .class_name = "default", .bytes = 12 * TRACE_BYTES, .traces = 12};
    struct pfl_keep_rules rules;
    struct pfl_retention *r;

    (void)state;
    pfl_keep_rules_init(&rules);
    rules.list[0].age_ns = rules.list[0].triggered_ns = 0;
    rules.traces = 10;
    assert_int_equal(pfl_retention_new(&rules, &r), 0);
    pfl_retention_begin(r, NOW);
    assert_true(pfl_retention_add_kind(r, &kind));
    pfl_retention_on_listed(r);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pfl_retention_get_step(r), PFL_RETENTION_OLDEST);
        give_row(r, &old);
        assert_int_equal(pfl_retention_get_step(r), PFL_RETENTION_DELETE);
        assert_int_equal(pfl_retention_get_victim(r)->cause, PFL_RETENTION_ALL_TRACES);
        assert_string_equal(pfl_retention_get_victim(r)->why,
                            "there are more than 10 traces, for which the store's file system has "
                            "files");
        pfl_retention_on_deleted(r, 0);
    }
    assert_int_equal(pfl_retention_get_step(r), PFL_RETENTION_END);
    pfl_retention_free(r);
}

static void what_goes_is_the_oldest_of_a_group_above_its_bound(void **state)
{
    static struct world w;
    unsigned deleted = 0;

    (void)state;
    srand(16);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct pfl_retention *r = NULL;

        make_world(&w);
        assert_int_equal(pfl_retention_new(&w.rules, &r), 0);
        run_pass(&w, r);
        assert_false(pfl_retention_is_cut(r));
        check_end(&w, r);
        deleted += w.deleted;
        run_pass(&w, r); /* a second one finds nothing more */
        assert_int_equal(count_deleted(r), w.deleted);
        pfl_retention_free(r);
    }
    assert_true(deleted > ROUNDS);
}

/* Pinned between the question and the deletion, or an index that fails. */
static void a_deletion_that_fails_ends_its_group(void **state)
{
    static struct world w;

    (void)state;
    srand(17);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct pfl_retention *r = NULL;

        make_world(&w);
        w.rc = PFL_EPERM;
        assert_int_equal(pfl_retention_new(&w.rules, &r), 0);
        run_pass(&w, r);
        assert_int_equal(pfl_retention_get_figures(r)->traces[PFL_RETENTION_AGE], 0);
        pfl_retention_free(r);
    }
}

/* The index is not believed: each row is judged. */
static void a_row_that_may_not_go_stays(void **state)
{
    static struct trace traces[] = {
        {.id = "pinned", .is_pinned = true},
        {.id = "kept", .keep = NOW + 1},
        {.id = "reserved", .state = PFL_INDEX_RESERVED},
        {.id = "gone", .state = PFL_INDEX_GONE},
        {.id = "young", .stored = NOW - 1},
    };
    struct pfl_keep_rules rules;
    struct pfl_index_kind kind = {.id = 1, .class_name = "default", .bytes = 9, .traces = 1};
    struct pfl_retention *r = NULL;

    (void)state;
    pfl_keep_rules_init(&rules);
    rules.list[0].age_ns = 1000;
    rules.list[0].triggered_ns = 0;
    assert_int_equal(pfl_retention_new(&rules, &r), 0);
    for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); i++) {
        if (i != 2 && i != 3)
            traces[i].state = PFL_INDEX_LIVE;
        pfl_retention_begin(r, NOW);
        assert_true(pfl_retention_add_kind(r, &kind));
        pfl_retention_on_listed(r);
        assert_int_equal(pfl_retention_get_step(r), PFL_RETENTION_OLDEST);
        give_row(r, &traces[i]);
        assert_int_equal(pfl_retention_get_step(r), PFL_RETENTION_END);
    }
    pfl_retention_free(r);
}

static void a_pass_has_a_bound_of_deletions(void **state)
{
    static const struct trace old = {.id = "old", .bytes = 1, .state = PFL_INDEX_LIVE};
    struct pfl_keep_rules rules;
    struct pfl_index_kind kind = {.id = 1, .class_name = "default", .bytes = 9999, .traces = 9999};
    struct pfl_retention *r = NULL;
    unsigned deleted = 0;

    (void)state;
    pfl_keep_rules_init(&rules);
    rules.list[0].age_ns = 1000;
    assert_int_equal(pfl_retention_new(&rules, &r), 0);
    pfl_retention_begin(r, NOW);
    assert_true(pfl_retention_add_kind(r, &kind));
    pfl_retention_on_listed(r);
    while (pfl_retention_get_step(r) != PFL_RETENTION_END) {
        if (pfl_retention_get_step(r) == PFL_RETENTION_OLDEST) {
            give_row(r, &old);
        } else {
            deleted++;
            pfl_retention_on_deleted(r, 0);
        }
    }
    assert_int_equal(deleted, PFL_RETENTION_PASS_MAX);
    assert_true(pfl_retention_is_cut(r));
    pfl_retention_free(r);
}

/* A page of uses that are all above the bound, of which nothing may go; then `after` is asked. */
static void list_page(struct pfl_retention *r, uint64_t first_host)
{
    struct pfl_index_use use = {.name = "oom", .amount = 20};

    for (unsigned i = 0; i < PFL_RETENTION_PAGE; i++) {
        use.host_id = first_host + i;
        assert_int_equal(pfl_retention_add_use(r, &use), i + 1 < PFL_RETENTION_PAGE);
    }
    pfl_retention_on_listed(r);
    while (pfl_retention_get_step(r) == PFL_RETENTION_OLDEST)
        pfl_retention_on_oldest(r, NULL);
}

static void expect_page_after(const struct pfl_retention *r, enum pfl_retention_step step,
                              uint64_t host, const char *trigger)
{
    struct pfl_index_use_query q;

    assert_int_equal(pfl_retention_get_step(r), step);
    pfl_retention_get_use(r, &q);
    assert_int_equal(q.after_host, host);
    assert_string_equal(q.after_trigger, trigger);
    assert_int_equal(q.limit,
                     step == PFL_RETENTION_HOSTS ? PFL_RETENTION_PAGE : PFL_RETENTION_LOOKS);
}

static void a_list_of_uses_goes_on_behind_a_full_page(void **state)
{
    const struct pfl_index_kind kind = {.id = 1, .class_name = "default", .bytes = 1, .traces = 1};

    (void)state;
    for (unsigned is_of_triggers = 0; is_of_triggers < 2; is_of_triggers++) {
        enum pfl_retention_step step =
            is_of_triggers != 0 ? PFL_RETENTION_TRIGGERS : PFL_RETENTION_HOSTS;
        struct pfl_keep_rules rules;
        struct pfl_retention *r = NULL;

        pfl_keep_rules_init(&rules);
        rules.list[0].age_ns = rules.list[0].triggered_ns = 0;
        rules.list[0].per_trigger = is_of_triggers != 0 ? 10 : 0;
        rules.list[0].host_bytes = is_of_triggers != 0 ? 0 : 10;
        assert_int_equal(pfl_retention_new(&rules, &r), 0);
        pfl_retention_begin(r, NOW);
        assert_true(pfl_retention_add_kind(r, &kind));
        pfl_retention_on_listed(r);
        expect_page_after(r, step, 0, "");
        list_page(r, 1);
        expect_page_after(r, step, PFL_RETENTION_PAGE, "oom");
        list_page(r, 100);
        expect_page_after(r, step, 100 + PFL_RETENTION_PAGE - 1, "oom");
        pfl_retention_on_listed(r);
        assert_int_equal(pfl_retention_get_step(r), PFL_RETENTION_END);
        pfl_retention_free(r);
    }
}

/* How many triggers there are is the hosts' word: a list has so many, above their bound or not. */
static void triggers_within_their_bound_are_passed_in_pages(void **state)
{
    const struct pfl_index_kind kind = {.id = 1, .class_name = "default", .bytes = 1, .traces = 1};
    struct pfl_index_use use = {.name = "oom", .amount = 10};
    struct pfl_keep_rules rules;
    struct pfl_retention *r = NULL;

    (void)state;
    pfl_keep_rules_init(&rules);
    rules.list[0].age_ns = rules.list[0].triggered_ns = 0;
    rules.list[0].per_trigger = 10;
    assert_int_equal(pfl_retention_new(&rules, &r), 0);
    pfl_retention_begin(r, NOW);
    assert_true(pfl_retention_add_kind(r, &kind));
    pfl_retention_on_listed(r);
    for (unsigned page = 0; page < 3; page++) {
        expect_page_after(r, PFL_RETENTION_TRIGGERS, use.host_id, page == 0 ? "" : "oom");
        for (unsigned i = 0; i < PFL_RETENTION_LOOKS - (page == 2); i++) {
            use.host_id++;
            assert_true(pfl_retention_add_use(r, &use));
        }
        pfl_retention_on_listed(r);
    }
    assert_int_equal(pfl_retention_get_step(r), PFL_RETENTION_END);
    pfl_retention_free(r);
}

/* What an operator pinned may be any number of traces, in front of those that go. */
static void what_is_pinned_is_passed_in_parts(void **state)
{
    const struct pfl_index_kind kind = {.id = 1, .class_name = "default", .bytes = 9, .traces = 9};
    const struct trace trace = {.id = "old", .state = PFL_INDEX_LIVE, .bytes = TRACE_BYTES};
    const uint64_t limits[] = {1, 4, 16, 64, 256, 1024, 1024, 1024};
    struct pfl_index_oldest q;
    struct pfl_keep_rules rules;
    struct pfl_retention *r = NULL;

    (void)state;
    pfl_keep_rules_init(&rules);
    rules.list[0].age_ns = rules.list[0].triggered_ns = NOW / 2;
    assert_int_equal(pfl_retention_new(&rules, &r), 0);
    pfl_retention_begin(r, NOW);
    assert_true(pfl_retention_add_kind(r, &kind));
    pfl_retention_on_listed(r);
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        assert_int_equal(pfl_retention_get_step(r), PFL_RETENTION_OLDEST);
        pfl_retention_get_oldest(r, &q);
        assert_int_equal(q.look->limit, limits[i]);
        assert_int_equal(q.look->after_unix_ns, i);
        q.look->after_unix_ns = i + 1;
        q.look->has_more = true;
        pfl_retention_on_oldest(r, NULL);
    }
    pfl_retention_get_oldest(r, &q);
    q.look->has_more = false;
    give_row(r, &trace);
    assert_int_equal(pfl_retention_get_step(r), PFL_RETENTION_DELETE);
    pfl_retention_on_deleted(r, 0);
    assert_int_equal(pfl_retention_get_step(r), PFL_RETENTION_OLDEST);
    pfl_retention_get_oldest(r, &q); /* not from the first one again */
    assert_int_equal(q.look->limit, 1);
    assert_int_equal(q.look->after_unix_ns, 8);
    pfl_retention_on_oldest(r, NULL);
    pfl_retention_get_oldest(r, &q); /* what triggers made */
    assert_true(q.is_triggered);
    assert_int_equal(q.look->after_unix_ns, 0);
    pfl_retention_on_oldest(r, NULL);
    assert_int_equal(pfl_retention_get_step(r), PFL_RETENTION_END);
    pfl_retention_free(r);
}

static int make_one(void *arg)
{
    struct pfl_keep_rules rules;
    struct pfl_retention *r = NULL;
    int rc;

    (void)arg;
    pfl_keep_rules_init(&rules);
    rc = pfl_retention_new(&rules, &r);
    pfl_retention_free(r);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(make_one, NULL, false);
}

/* Why the oldest trace of a class goes whose rule is this. */
static void expect_why(const struct pfl_keep_rule *rule, bool is_triggered, const char *why)
{
    static const struct trace old = {.id = "old", .bytes = 1, .state = PFL_INDEX_LIVE};
    static const struct trace triggered = {
        .id = "old", .bytes = 1, .trigger = 1, .state = PFL_INDEX_LIVE};
    struct pfl_index_kind kind = {.id = 1, .class_name = "default", .bytes = 9, .traces = 9};
    struct pfl_retention *r = NULL;
    struct pfl_keep_rules rules;

    pfl_keep_rules_init(&rules);
    rules.list[0].age_ns = rule->age_ns;
    rules.list[0].triggered_ns = rule->triggered_ns;
    rules.list[0].bytes = rule->bytes;
    rules.list[0].order_bytes = rule->order_bytes;
    assert_int_equal(pfl_retention_new(&rules, &r), 0);
    pfl_retention_begin(r, UINT64_C(400) * 86400 * 1000000000);
    assert_true(pfl_retention_add_kind(r, &kind));
    pfl_retention_on_listed(r);
    assert_int_equal(pfl_retention_get_step(r), PFL_RETENTION_OLDEST);
    give_row(r, is_triggered ? &triggered : &old);
    assert_int_equal(pfl_retention_get_step(r), PFL_RETENTION_DELETE);
    assert_string_equal(pfl_retention_get_victim(r)->why, why);
    pfl_retention_free(r);
}

static void why_a_trace_goes_is_a_sentence_with_its_bound(void **state)
{
    const uint64_t day_ns = UINT64_C(86400) * 1000000000;

    (void)state;
    expect_why(&(struct pfl_keep_rule){.age_ns = 2 * day_ns}, false,
               "class *: made by no trigger, and stored more than 2 days ago");
    expect_why(&(struct pfl_keep_rule){.age_ns = day_ns + UINT64_C(1000000000)}, false,
               "class *: made by no trigger, and stored more than 86401 s ago");
    expect_why(&(struct pfl_keep_rule){.triggered_ns = 30 * day_ns}, true,
               "class *: made by a trigger, and stored more than 30 days ago");
    expect_why(&(struct pfl_keep_rule){.order_bytes = 8}, false,
               "class *: this order has more than 8 bytes");
    expect_why(&(struct pfl_keep_rule){.bytes = 7}, false, "class *: it has more than 7 bytes");
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0x477bc77b1c567114);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes_of_deletions_are_within_the_bytes_of_all),
        cmocka_unit_test(small_traces_are_no_more_than_there_are_files_for),
        cmocka_unit_test(what_goes_is_the_oldest_of_a_group_above_its_bound),
        cmocka_unit_test(a_deletion_that_fails_ends_its_group),
        cmocka_unit_test(a_row_that_may_not_go_stays),
        cmocka_unit_test(a_pass_has_a_bound_of_deletions),
        cmocka_unit_test(a_list_of_uses_goes_on_behind_a_full_page),
        cmocka_unit_test(triggers_within_their_bound_are_passed_in_pages),
        cmocka_unit_test(what_is_pinned_is_passed_in_parts),
        cmocka_unit_test(all_of_this_is_as_recorded),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(why_a_trace_goes_is_a_sentence_with_its_bound),
    };

    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
