/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C11's release and acquire on a machine that is as weak as they allow.
 *
 * Each word has the list of all values that it ever had. A thread sees of each word some value and
 * none before it (its view); a load takes any value from there on, a change (read-modify-write) the
 * last one. A value that is stored with release carries the view of its thread, and a load with
 * acquire takes that over; a change passes on what the value before it carried. Plain accesses do
 * not carry anything: two of them to one place, one of them a store, that no such chain orders, are
 * a race, and that is a violation. So is a claim that does not hold.
 *
 * Happy path: explore runs the threads as coroutines, one step (an atomic) at a time; at each point
 * where something may be one way or another it takes the first way and notes that there are others;
 * then everything is run again with the last noted point's next way, until none is left. What it
 * meets in a state that it has met before is not followed again: interleavings that differ in
 * nothing are one.
 *
 * Not modelled: stores of one thread to two words that a third and a fourth see in two orders;
 * an atomic load that is done after a later store (plain ones are: they race); fences; sequential
 * consistency, which is taken for acquire and release; failures of weak compare-and-swap.
 * Limits: the constants. Owns: static memory.
 */
#include "tests/support/weak_memory.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define WORDS_MAX      24u
#define VALUES_MAX     40u
#define PLACES_MAX     96u
#define SITES_MAX      96u
#define CHOICES_MAX    400u
#define STACK_BYTES    (64u * 1024)
#define SEEN_SLOTS     (1u << 20)
#define EXECUTIONS_MAX 2000000u
#define THREADS        PFL_WEAK_THREADS_MAX

struct view {
    uint8_t values[WORDS_MAX];
    uint16_t clocks[THREADS]; /* steps of each thread that happened before */
};

struct value {
    uint64_t bits;
    struct view carried;
};

struct word {
    volatile const void *at;
    size_t bytes;
    unsigned len;
    struct value values[VALUES_MAX];
};

struct place { /* of plain accesses: 4 bytes */
    uintptr_t at;
    unsigned writer;
    uint16_t written; /* its clock; 0: never */
    uint16_t read[THREADS];
};

struct thread {
    ucontext_t context;
    struct view view;
    uint64_t history; /* hash of all it saw: its state */
    bool is_done;
};

struct choice {
    uint8_t taken;
    uint8_t ways;
};

static _Alignas(16) char stacks[THREADS][STACK_BYTES];
static struct thread threads[THREADS];
static unsigned threads_len;
static unsigned running; /* THREADS: the explorer itself */
static ucontext_t explorer;
static const struct pfl_weak_scenario *scenario;

static struct word words[WORDS_MAX];
static unsigned words_len;
static struct place places[PLACES_MAX];
static unsigned places_len;
static uintptr_t watched[8][2];
static unsigned watched_len;

static struct choice choices[CHOICES_MAX];
static unsigned choices_len;
static unsigned choice_at;
static uint64_t seen[SEEN_SLOTS];
static struct pfl_weak_result result;
static char violation[160];

static struct pfl_weak_site sites[SITES_MAX];
static size_t sites_len;

/* --- ways ------------------------------------------------------------------------------------ */

static unsigned choose(unsigned ways)
{
    if (ways == 1)
        return 0;
    if (choice_at == choices_len) {
        if (choices_len == CHOICES_MAX) {
            pfl_weak_claim(false, "the model has too few choices");
            return 0;
        }
        choices[choices_len++] = (struct choice){0, (uint8_t)ways};
    }
    return choices[choice_at++].taken;
}

static bool take_next_way(void)
{
    while (choices_len != 0) {
        struct choice *last = &choices[choices_len - 1];

        if (++last->taken < last->ways)
            return true;
        choices_len--;
    }
    return false;
}

/* --- what was seen --------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static uint64_t hash_view(const struct view *view)
{
    uint64_t hash = 1;

    for (unsigned i = 0; i < words_len; i++)
        hash = mix(hash, view->values[i]);
    for (unsigned i = 0; i < threads_len; i++)
        hash = mix(hash, view->clocks[i]);
    return hash;
}

/* Words are numbered as they were met first, in whatever execution: their numbers stay. */
static uint64_t hash_state(void)
{
    uint64_t hash = 7;

    for (unsigned i = 0; i < threads_len; i++)
        hash = mix(mix(mix(hash, threads[i].history), threads[i].is_done),
                   hash_view(&threads[i].view));
    for (unsigned i = 0; i < words_len; i++)
        for (unsigned k = 0; k < words[i].len; k++)
            hash = mix(mix(mix(hash, i), words[i].values[k].bits),
                       hash_view(&words[i].values[k].carried));
    for (unsigned i = 0; i < places_len; i++) {
        uint64_t of_place = mix(mix(places[i].at, places[i].writer), places[i].written);

        for (unsigned k = 0; k < threads_len; k++)
            of_place = mix(of_place, places[i].read[k]);
        hash += of_place; /* in whatever order they were met */
    }
    return hash | 1;
}

/* False: it was there before. A full table only costs time. */
static bool is_new_state(void)
{
    uint64_t hash = hash_state();

    for (unsigned i = 0; i < 16; i++) {
        uint64_t *slot = &seen[(hash + i) % SEEN_SLOTS];

        if (*slot == hash)
            return false;
        if (*slot == 0) {
            *slot = hash;
            return true;
        }
    }
    return true;
}

/* --- views ----------------------------------------------------------------------------------- */

static void join(struct view *to, const struct view *from)
{
    for (unsigned i = 0; i < WORDS_MAX; i++)
        if (from->values[i] > to->values[i])
            to->values[i] = from->values[i];
    for (unsigned i = 0; i < THREADS; i++)
        if (from->clocks[i] > to->clocks[i])
            to->clocks[i] = from->clocks[i];
}

static bool acquires(int order)
{
    return order != memory_order_relaxed && order != memory_order_release;
}

static bool releases(int order)
{
    return order == memory_order_release || order == memory_order_acq_rel ||
           order == memory_order_seq_cst;
}

/* Before the first thread and after the last nothing is weak. */
static uint64_t read_memory(const struct pfl_weak_word *w)
{
    uint64_t bits = 0;

    memcpy(&bits, (const void *)(uintptr_t)w->at, w->bytes);
    return bits;
}

static unsigned word_of(const struct pfl_weak_word *w)
{
    unsigned i = 0;

    while (i < words_len && words[i].at != w->at)
        i++;
    if (i == words_len) {
        if (words_len == WORDS_MAX) {
            pfl_weak_claim(false, "the model has too few words");
            return 0;
        }
        words[i] = (struct word){.at = w->at, .bytes = w->bytes, .len = 1};
        words[i].values[0].bits = read_memory(w);
        words_len++;
    }
    return i;
}

/* --- coroutines ------------------------------------------------------------------------------ */

static void yield(void)
{
    if (running == THREADS)
        return;
    threads[running].history = mix(threads[running].history, 3); /* it got here */
    (void)swapcontext(&threads[running].context, &explorer);
}

void pfl_weak_claim(bool holds, const char *claim)
{
    if (holds || result.violation != NULL)
        return;
    (void)snprintf(violation, sizeof(violation), "%s", claim);
    result.violation = violation;
    yield(); /* for good */
}

static void run_thread(void)
{
    scenario->threads[running]();
    threads[running].is_done = true;
    yield(); /* for good */
}

/* --- atomics --------------------------------------------------------------------------------- */

static int order_at(const struct pfl_weak_word *w, enum pfl_weak_kind kind, int order)
{
    unsigned nth = 0;

    for (size_t i = 0; i < sites_len; i++) {
        if (sites[i].kind != kind || strcmp(sites[i].function, w->function) != 0)
            continue;
        if (sites[i].line == w->line)
            return sites[i].weakened;
        nth++;
    }
    if (sites_len < SITES_MAX)
        sites[sites_len++] = (struct pfl_weak_site){w->function, kind, nth, w->line, order, order};
    return order;
}

size_t pfl_weak_sites_len(void)
{
    return sites_len;
}

const struct pfl_weak_site *pfl_weak_site_at(size_t index)
{
    return &sites[index];
}

void pfl_weak_set_order(size_t index, int order)
{
    sites[index].weakened = order;
}

/* Before a step any other thread may take its own. */
static unsigned begin_step(const struct pfl_weak_word *w)
{
    yield();
    result.steps++;
    threads[running].view.clocks[running]++;
    return word_of(w);
}

static void note(unsigned word, uint64_t bits)
{
    threads[running].history = mix(mix(threads[running].history, word), bits);
}

static uint64_t read_value(unsigned word, unsigned nth, int order)
{
    const struct value *v = &words[word].values[nth];
    struct view *view = &threads[running].view;

    view->values[word] = (uint8_t)nth;
    if (acquires(order))
        join(view, &v->carried);
    note(word, v->bits);
    return v->bits;
}

/* `passed_on`: what the value carried that a change replaces, or NULL. */
static void add_value(unsigned word, uint64_t bits, const struct view *passed_on, int order)
{
    struct view *view = &threads[running].view;
    struct word *w = &words[word];
    struct value value = {.bits = bits};

    if (w->len == VALUES_MAX) {
        pfl_weak_claim(false, "the model has too few values");
        return;
    }
    view->values[word] = (uint8_t)w->len;
    if (passed_on != NULL)
        value.carried = *passed_on;
    if (releases(order))
        join(&value.carried, view);
    value.carried.values[word] = (uint8_t)w->len;
    w->values[w->len++] = value;
    memcpy((void *)(uintptr_t)w->at, &bits, w->bytes);
    note(word, ~bits);
}

uint64_t pfl_weak_load(struct pfl_weak_word w, int order)
{
    unsigned word;
    unsigned first;

    if (running == THREADS)
        return read_memory(&w);
    order = order_at(&w, PFL_WEAK_LOAD, order);
    word = begin_step(&w);
    first = threads[running].view.values[word];
    return read_value(word, words[word].len - 1 - choose(words[word].len - first), order);
}

void pfl_weak_store(struct pfl_weak_word w, uint64_t value, int order)
{
    if (running == THREADS) {
        memcpy((void *)(uintptr_t)w.at, &value, w.bytes);
        return;
    }
    order = order_at(&w, PFL_WEAK_STORE, order);
    add_value(begin_step(&w), value, NULL, order);
}

static uint64_t replace(unsigned word, uint64_t bits, int order)
{
    unsigned last = words[word].len - 1;
    uint64_t was = read_value(word, last, order);

    add_value(word, bits, &words[word].values[last].carried, order);
    return was;
}

uint64_t pfl_weak_change(struct pfl_weak_word w, enum pfl_weak_change change, uint64_t operand,
                         int order)
{
    unsigned word;
    uint64_t was;

    order = order_at(&w, PFL_WEAK_CHANGE, order);
    if (running == THREADS)
        abort(); /* nothing needs it before the first thread */
    word = begin_step(&w);
    was = words[word].values[words[word].len - 1].bits;
    if (change != PFL_WEAK_EXCHANGE)
        operand = change == PFL_WEAK_ADD ? was + operand : was - operand;
    return replace(word, operand, order);
}

/* Succeeds with the last value only; fails with any that a load may see and that differs. */
bool pfl_weak_compare(struct pfl_weak_word w, uint64_t *expected, uint64_t desired,
                      const int orders[2])
{
    int order = order_at(&w, PFL_WEAK_CHANGE, orders[0]);
    int failure = order_at(&w, PFL_WEAK_FAILURE, orders[1]);
    unsigned ways[VALUES_MAX];
    unsigned len = 0;
    unsigned word;
    unsigned nth;

    if (running == THREADS) {
        if (read_memory(&w) != *expected)
            return false;
        pfl_weak_store(w, desired, order);
        return true;
    }
    word = begin_step(&w);
    for (unsigned i = words[word].len; i-- > threads[running].view.values[word];)
        if (words[word].values[i].bits != *expected || i == words[word].len - 1)
            ways[len++] = i;
    nth = ways[choose(len)];
    if (words[word].values[nth].bits == *expected) {
        (void)replace(word, desired, order);
        return true;
    }
    *expected = read_value(word, nth, failure);
    return false;
}

/* --- plain accesses -------------------------------------------------------------------------- */

void pfl_weak_watch(const void *at, size_t bytes)
{
    if (watched_len == sizeof(watched) / sizeof(watched[0]))
        abort();
    watched[watched_len][0] = (uintptr_t)at;
    watched[watched_len++][1] = (uintptr_t)at + bytes;
}

static bool is_watched(uintptr_t at)
{
    for (unsigned i = 0; i < watched_len; i++)
        if (at >= watched[i][0] && at < watched[i][1])
            return true;
    return false;
}

static struct place *place_of(uintptr_t at)
{
    unsigned i = 0;

    while (i < places_len && places[i].at != at)
        i++;
    if (i < places_len)
        return &places[i];
    if (places_len == PLACES_MAX)
        abort();
    places[places_len] = (struct place){.at = at};
    return &places[places_len++];
}

/* An access of this thread is at its clock + 1: what comes after its last step. */
static void touch(uintptr_t at, bool is_write)
{
    const struct view *view = &threads[running].view;
    struct place *p = place_of(at);
    bool races = p->written != 0 && p->writer != running && p->written > view->clocks[p->writer];

    for (unsigned i = 0; is_write && i < threads_len; i++)
        races = races || (i != running && p->read[i] > view->clocks[i]);
    if (is_write) {
        p->writer = running;
        p->written = (uint16_t)(view->clocks[running] + 1);
    } else {
        p->read[running] = (uint16_t)(view->clocks[running] + 1);
    }
    pfl_weak_claim(!races, is_write ? "a plain store races" : "a plain load races");
}

void pfl_weak_touch(const volatile void *ptr, size_t bytes, bool is_write)
{
    uintptr_t at = (uintptr_t)ptr;

    if (running == THREADS || !is_watched(at))
        return;
    for (uintptr_t i = at & ~(uintptr_t)3; i < at + bytes; i += 4)
        touch(i, is_write);
}

/* --- exploring ------------------------------------------------------------------------------- */

static void begin_execution(void)
{
    watched_len = 0;
    places_len = 0;
    running = THREADS;
    scenario->begin();
    for (unsigned i = 0; i < words_len; i++)
        words[i].len = 0;
    for (unsigned i = 0; i < words_len; i++) {
        const struct pfl_weak_word w = {words[i].at, words[i].bytes, "", 0};

        words[i].values[0] = (struct value){.bits = read_memory(&w)};
        words[i].len = 1;
    }
    for (unsigned i = 0; i < threads_len; i++) {
        struct thread *t = &threads[i];

        memset(&t->view, 0, sizeof(t->view));
        t->history = i;
        t->is_done = false;
        (void)getcontext(&t->context);
        t->context.uc_stack.ss_sp = stacks[i];
        t->context.uc_stack.ss_size = STACK_BYTES;
        t->context.uc_link = &explorer;
        makecontext(&t->context, run_thread, 0);
    }
}

static unsigned find_ready(unsigned ready[THREADS])
{
    unsigned len = 0;

    for (unsigned i = 0; i < threads_len; i++)
        if (!threads[i].is_done)
            ready[len++] = i;
    return len;
}

/* Until all threads are done, something is wrong, or what comes was seen. */
static void run_execution(void)
{
    unsigned ready[THREADS];
    unsigned len;

    begin_execution();
    choice_at = 0;
    while ((len = find_ready(ready)) != 0 && result.violation == NULL) {
        if (choice_at == choices_len && !is_new_state())
            return;
        running = ready[choose(len)];
        (void)swapcontext(&explorer, &threads[running].context);
        running = THREADS;
    }
    if (result.violation == NULL && scenario->end != NULL)
        scenario->end();
}

struct pfl_weak_result pfl_weak_explore(const struct pfl_weak_scenario *of)
{
    scenario = of;
    threads_len = 0;
    while (threads_len < THREADS && of->threads[threads_len] != NULL)
        threads_len++;
    words_len = 0;
    choices_len = 0;
    memset(seen, 0, sizeof(seen));
    memset(&result, 0, sizeof(result));
    do {
        run_execution();
        result.executions++;
        result.is_cut = result.executions == EXECUTIONS_MAX;
    } while (result.violation == NULL && !result.is_cut && take_next_way());
    return result;
}
