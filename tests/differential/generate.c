/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules from seeds: the same seed gives the same schedule.
 *
 * Happy path: habits are drawn (how untidy, how hostile, how fragmented ...), one or two sessions
 * and producers begin in any order, then operations are drawn until there are enough; at the end
 * all flushes are acknowledged, all sessions are read, stopped, read again and freed.
 */
#include "tests/differential/generate_model.h"

uint32_t gen_below(struct gen *self, uint32_t bound)
{
    /* splitmix64 */
    uint64_t z = self->random += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) % bound);
}

bool gen_chance(struct gen *self, uint32_t per_cent)
{
    return gen_below(self, 100) < per_cent;
}

void gen_emit(struct gen *self)
{
    const char *line = diff_text_get(&self->line);

    diff_schedule_add(self->schedule, line, strlen(line));
    diff_text_clear(&self->line);
    self->clock++;
}

static uint32_t draw(struct gen *self, uint32_t chance, uint32_t most)
{
    return gen_chance(self, chance) ? 1 + gen_below(self, most) : 0;
}

static void draw_habits(struct gen *self)
{
    self->habits = (struct gen_habits){
        .hostile = draw(self, 40, 20),
        .untidy = draw(self, 50, 25),
        .large = draw(self, 70, 70),
        .fragmented = draw(self, 70, 60),
        .patched = draw(self, 60, 60),
        .scraped = draw(self, 50, 50),
        .delayed = draw(self, 50, 60),
        .layout = gen_chance(self, 60) ? 1 + gen_below(self, 5) : 0,
    };
    /* Together they meet a fault of the stock service that much depends on (compare.h). */
    if (self->habits.fragmented != 0 && self->habits.untidy != 0 && gen_chance(self, 80))
        self->habits.untidy = 0;
}

static void enable(struct gen *self, uint32_t s)
{
    self->is_enabled[s] = true;
    self->is_stopped[s] = false;
    self->buffers[s] = 1 + gen_below(self, 2);
    diff_text_add(&self->line, "enable %u", s);
    for (uint32_t b = 0; b < self->buffers[s]; b++)
        diff_text_add(&self->line, " %u%c", 4 << gen_below(self, gen_chance(self, 80) ? 4 : 8),
                      gen_chance(self, 75) ? 'r' : 'd');
    gen_emit(self);
}

static void say(struct gen *self, const char *op, uint32_t number)
{
    diff_text_add(&self->line, "%s %u", op, number);
    gen_emit(self);
}

static void produce(struct gen *self)
{
    uint32_t p = gen_below(self, GEN_PRODUCERS);
    struct gen_producer *producer = &self->producers[p];
    uint32_t what = gen_below(self, 100);

    if (!producer->is_up) {
        if (gen_chance(self, 10))
            gen_connect(self, p);
        return;
    }
    if (gen_chance(self, self->habits.hostile / 6))
        gen_scribble(self, p);
    else if (producer->writers_len < 2 || what < 2)
        gen_add_writer(self, p);
    else if (what < 60)
        gen_chunk(self, p);
    else if (what < 72)
        gen_more(self, p);
    else if (what < 86)
        gen_commit(self, p, false);
    else
        gen_patch(self, p);
}

/* Asks for a flush, continues for a while, acknowledges: with what is left to commit, or alone. */
static void flush(struct gen *self, uint32_t s)
{
    if (gen_chance(self, 4)) {
        diff_text_add(&self->line, "flush %u 15", s);
        gen_emit(self);
        say(self, "flushed", s);
        return;
    }
    diff_text_add(&self->line, "flush %u 150", s);
    gen_emit(self);
    for (uint32_t i = gen_below(self, 4); i > 0; i--)
        produce(self);
    for (uint32_t p = 0; p < GEN_PRODUCERS; p++) {
        if (!self->producers[p].is_up)
            continue;
        if (gen_chance(self, 60))
            gen_commit(self, p, true);
        else
            say(self, "ack", p);
    }
    say(self, "flushed", s);
}

static void consume(struct gen *self)
{
    uint32_t s = gen_below(self, GEN_SESSIONS);
    uint32_t what = gen_below(self, 100);

    if (!self->is_enabled[s]) {
        if (what < (s == 0 ? 90u : 8u))
            enable(self, s);
    } else if (what < 35) {
        if (!self->is_stopped[s])
            flush(self, s);
    } else if (what < 85) {
        say(self, "read", s);
    } else if (what < 88) {
        say(self, "stats", s);
    } else if (what < 90) {
        say(self, "clone", s);
    } else if (what < 93) {
        say(self, "stop", s);
        self->is_stopped[s] = true;
    } else if (what < 95) {
        say(self, what == 94 ? "drop" : "free", s);
        self->is_enabled[s] = false;
    }
}

static void finish(struct gen *self)
{
    for (uint32_t s = 0; s < GEN_SESSIONS; s++) {
        if (!self->is_enabled[s])
            continue;
        if (!self->is_stopped[s] && gen_chance(self, 80))
            flush(self, s);
        say(self, "read", s);
        say(self, "stop", s);
        say(self, "read", s);
        say(self, "stats", s);
        say(self, "free", s);
    }
}

void diff_generate(struct diff_schedule *self, uint64_t seed, unsigned ops)
{
    struct gen gen = {.random = seed * 0x2545f4914f6cdd1du + 1, .schedule = self, .next_id = 1};

    diff_schedule_init(self);
    diff_text_init(&gen.line);
    draw_habits(&gen);
    if (gen.habits.untidy + gen.habits.scraped + gen.habits.delayed + gen.habits.hostile == 0) {
        diff_text_add(&gen.line, DIFF_TIDY);
        gen_emit(&gen);
    }
    if (gen_chance(&gen, 50))
        enable(&gen, 0);
    gen_connect(&gen, 0);
    if (gen_chance(&gen, 50))
        gen_connect(&gen, 1);
    if (!gen.is_enabled[0])
        enable(&gen, 0);
    for (uint32_t i = 0; i < 3; i++)
        gen_add_writer(&gen, 0);
    while (self->len < ops) {
        if (gen_chance(&gen, 90)) {
            produce(&gen);
        } else if (gen_chance(&gen, 90)) {
            consume(&gen);
        } else if (gen_chance(&gen, 30)) {
            uint32_t p = gen_below(&gen, GEN_PRODUCERS);

            if (gen.producers[p].is_up)
                gen_bye(&gen, p);
        }
    }
    finish(&gen);
    diff_text_fini(&gen.line);
}
