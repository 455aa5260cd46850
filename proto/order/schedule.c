/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules: see schedule.h.
 *
 * Happy path of a choice: the hosts are sorted: first those that had no turn in this cycle, each
 * group by a number that depends on seed, cycle and name; the first of them are chosen. If they
 * include hosts that had their turn, a new cycle has begun, and those are the first in it.
 * Failures: out of memory, too many hosts; the new state replaces the old one only when it is
 * complete. Ownership: the lists of names are the schedule's. Limits: PFL_ORDER_MAX_HOSTS in each
 * list; a cycle that would have more ends.
 */
#include "proto/order/schedule.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"
#include "proto/tunnel/identity.h"
#include "proto/unpack.h"

/* Sorted. */
struct names {
    char **list; /* owned, with its texts */
    size_t len;
};

struct pfl_schedule {
    uint64_t seed;
    uint64_t first_unix_ms;
    uint64_t round;
    uint64_t cycle;
    struct names had_turn;
    struct names chosen;
};

struct candidate {
    const char *name;
    uint64_t rank;
    size_t index;
    bool had_turn;
};

/* ---- names ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void fini_names(struct names *n)
{
    for (size_t i = 0; i < n->len; i++)
        pfl_mem_free(n->list[i]);
    pfl_mem_free(n->list);
    *n = (struct names){0};
}

static int init_names(struct names *n, size_t room)
{
    *n = (struct names){.list = pfl_mem_calloc(room + 1, sizeof(*n->list))};
    return n->list != NULL ? 0 : PFL_ENOMEM;
}

/* There is room. */
static int add_name(struct names *n, const char *name)
{
    n->list[n->len] = pfl_mem_strdup(name);
    if (n->list[n->len] == NULL)
        return PFL_ENOMEM;
    n->len++;
    return 0;
}

static void sort_names(struct names *n)
{
    if (n->len != 0)
        qsort(n->list, n->len, sizeof(*n->list), compare_names);
}

static bool has_name(const struct names *n, const char *name)
{
    return n->len != 0 && bsearch(&name, n->list, n->len, sizeof(*n->list), compare_names) != NULL;
}

static int load_names(struct names *n, char *const *list, size_t len)
{
    int rc = len <= PFL_ORDER_MAX_HOSTS ? init_names(n, len) : PFL_ELIMIT;

    for (size_t i = 0; rc == 0 && i < len; i++)
        rc = pfl_identity_is_name(list[i]) ? add_name(n, list[i]) : PFL_EPARSE;
    if (rc == 0)
        sort_names(n);
    return rc;
}

/* ---- state ---- */

int pfl_schedule_new(uint64_t seed, uint64_t first_unix_ms, struct pfl_schedule **ret_schedule)
{
    struct pfl_schedule *s = pfl_mem_zalloc(sizeof(*s));

    if (s == NULL)
        return PFL_ENOMEM;
    s->seed = seed;
    s->first_unix_ms = first_unix_ms;
    *ret_schedule = s;
    return 0;
}

void pfl_schedule_free(struct pfl_schedule *self)
{
    if (self == NULL)
        return;
    fini_names(&self->had_turn);
    fini_names(&self->chosen);
    pfl_mem_free(self);
}

int pfl_schedule_load(struct pfl_span state_untrusted, struct pfl_schedule **ret_schedule)
{
    const Perfleet__ScheduleState *state;
    ProtobufCMessage *message = NULL;
    struct pfl_schedule *s = NULL;
    int rc;

    if (state_untrusted.len > PFL_SCHEDULE_STATE_MAX_BYTES)
        return PFL_ELIMIT;
    rc = pfl_proto_unpack(&perfleet__schedule_state__descriptor, state_untrusted, &message);
    if (rc != 0)
        return rc;
    state = (const Perfleet__ScheduleState *)message;
    rc = pfl_schedule_new(state->seed, state->first_unix_ms, &s);
    if (rc == 0) {
        s->round = state->round;
        s->cycle = state->cycle;
        rc = load_names(&s->had_turn, state->had_turn, state->n_had_turn);
    }
    if (rc == 0)
        rc = load_names(&s->chosen, state->chosen, state->n_chosen);
    pfl_proto_free(message);
    if (rc != 0) {
        pfl_schedule_free(s);
        return rc;
    }
    *ret_schedule = s;
    return 0;
}

int pfl_schedule_save(const struct pfl_schedule *self, struct pfl_buf *out)
{
    Perfleet__ScheduleState state = PERFLEET__SCHEDULE_STATE__INIT;

    state.has_seed = 1;
    state.seed = self->seed;
    state.has_first_unix_ms = 1;
    state.first_unix_ms = self->first_unix_ms;
    state.has_round = 1;
    state.round = self->round;
    state.has_cycle = 1;
    state.cycle = self->cycle;
    state.had_turn = self->had_turn.list;
    state.n_had_turn = self->had_turn.len;
    state.chosen = self->chosen.list;
    state.n_chosen = self->chosen.len;
    return pfl_proto_pack(&state.base, out);
}

/* ---- time ---- */

/* The round that is to be chosen by now; 0: none yet. */
static uint64_t round_at(const struct pfl_schedule *s, const struct pfl_order_terms *terms,
                         uint64_t now_unix_ms)
{
    uint64_t at_ms = now_unix_ms + PFL_SCHEDULE_LEAD_MS;

    return at_ms < s->first_unix_ms ? 0 : (at_ms - s->first_unix_ms) / terms->every_ms + 1;
}

static uint64_t begin_of(const struct pfl_schedule *s, const struct pfl_order_terms *terms,
                         uint64_t round)
{
    return s->first_unix_ms + (round - 1) * terms->every_ms;
}

bool pfl_schedule_is_due(struct pfl_schedule *self, const struct pfl_order_terms *terms,
                         uint64_t now_unix_ms)
{
    uint64_t round;

    if (self->first_unix_ms > now_unix_ms + PFL_SCHEDULE_LEAD_MS + terms->every_ms) {
        self->first_unix_ms = now_unix_ms + PFL_SCHEDULE_LEAD_MS;
        self->round = 0;
    }
    round = round_at(self, terms, now_unix_ms);
    if (round + 1 < self->round)
        self->round = round;
    return round > self->round && now_unix_ms < begin_of(self, terms, round) + terms->duration_ms;
}

bool pfl_schedule_get_run(const struct pfl_schedule *self, const struct pfl_order_terms *terms,
                          uint64_t now_unix_ms, const char *host, struct pfl_schedule_run *ret_run)
{
    uint64_t begin_ms;

    if (self->round == 0 || !has_name(&self->chosen, host))
        return false;
    begin_ms = begin_of(self, terms, self->round);
    if (now_unix_ms >= begin_ms + terms->duration_ms)
        return false;
    *ret_run = (struct pfl_schedule_run){
        .id = self->round, .begin_unix_ms = begin_ms, .duration_ms = terms->duration_ms};
    return true;
}

/* ---- choice ---- */

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;

    if (x->had_turn != y->had_turn)
        return x->had_turn ? 1 : -1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return strcmp(x->name, y->name);
}

static size_t count_wanted(const struct pfl_order_terms *terms, size_t hosts)
{
    size_t wanted = hosts;

    if (terms->hosts_count != 0)
        wanted = terms->hosts_count;
    else if (terms->hosts_percent != 0)
        wanted = (hosts * terms->hosts_percent + 99) / 100;
    return wanted < hosts ? wanted : hosts;
}

static void rank(const struct pfl_schedule *s, const struct pfl_schedule_hosts *hosts,
                 struct candidate *ret_candidates)
{
    for (size_t i = 0; i < hosts->len; i++) {
        struct candidate *c = &ret_candidates[i];
        bool had_turn = has_name(&s->had_turn, hosts->names[i]);
        struct pfl_hash_key key = {{s->seed, s->cycle + had_turn}};

        *c = (struct candidate){.name = hosts->names[i], .index = i, .had_turn = had_turn};
        c->rank = pfl_hash_keyed(&key, pfl_span_of(c->name, strlen(c->name)));
    }
    if (hosts->len != 0)
        qsort(ret_candidates, hosts->len, sizeof(*ret_candidates), compare_candidates);
}

static int copy_chosen(const struct candidate *candidates, size_t wanted, bool only_second,
                       struct names *names)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < wanted; i++)
        if (!only_second || candidates[i].had_turn)
            rc = add_name(names, candidates[i].name);
    return rc;
}

/* `next` is zeroed; what it has after a failure is freed by the caller. */
static int make_next(const struct pfl_schedule *s, const struct candidate *candidates,
                     size_t wanted, struct pfl_schedule *next)
{
    bool is_new_cycle = (wanted != 0 && candidates[wanted - 1].had_turn) ||
                        s->had_turn.len + wanted > PFL_ORDER_MAX_HOSTS;
    size_t before = is_new_cycle ? 0 : s->had_turn.len;
    int rc = init_names(&next->chosen, wanted);

    next->cycle = s->cycle + is_new_cycle;
    if (rc == 0)
        rc = copy_chosen(candidates, wanted, false, &next->chosen);
    if (rc == 0)
        rc = init_names(&next->had_turn, before + wanted);
    for (size_t i = 0; rc == 0 && i < before; i++)
        rc = add_name(&next->had_turn, s->had_turn.list[i]);
    if (rc == 0)
        rc = copy_chosen(candidates, wanted, is_new_cycle, &next->had_turn);
    sort_names(&next->chosen);
    sort_names(&next->had_turn);
    return rc;
}

static void take_next(struct pfl_schedule *s, struct pfl_schedule *next)
{
    fini_names(&s->had_turn);
    fini_names(&s->chosen);
    s->had_turn = next->had_turn;
    s->chosen = next->chosen;
    s->cycle = next->cycle;
}

int pfl_schedule_choose(struct pfl_schedule *self, const struct pfl_order_terms *terms,
                        uint64_t now_unix_ms, const struct pfl_schedule_hosts *hosts,
                        bool *ret_is_chosen)
{
    size_t wanted = count_wanted(terms, hosts->len);
    struct pfl_schedule next = {0};
    struct candidate *candidates;
    int rc;

    if (!pfl_schedule_is_due(self, terms, now_unix_ms))
        return PFL_EAGAIN;
    if (hosts->len > PFL_ORDER_MAX_HOSTS)
        return PFL_ELIMIT;
    candidates = pfl_mem_calloc(hosts->len + 1, sizeof(*candidates));
    if (candidates == NULL)
        return PFL_ENOMEM;
    rank(self, hosts, candidates);
    rc = make_next(self, candidates, wanted, &next);
    if (rc == 0) {
        take_next(self, &next);
        self->round = round_at(self, terms, now_unix_ms);
        for (size_t i = 0; i < hosts->len; i++)
            ret_is_chosen[candidates[i].index] = i < wanted;
    } else {
        fini_names(&next.had_turn);
        fini_names(&next.chosen);
    }
    pfl_mem_free(candidates);
    return rc;
}
