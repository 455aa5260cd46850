/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a schedule: a table of operations, each of which ends when the service has dealt with it, so
 * that every service sees the same things in the same order.
 *
 * Happy path: each line's first word names the operation; it acts on one producer or one session
 * and waits for the answer: a reply; for new data sources the commands they cause; for
 * those who leave, that the service's own list says so. At the end all leave.
 * A flush is waited for as soon as all who owe an acknowledgement gave it; until then
 * the schedule continues. A line that names what does not exist does nothing, on either service.
 * A flush that is under way when its session is freed is not waited for.
 * Failures: the first connection in trouble ends the run with a line that says so.
 */
#include "tests/differential/driver.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/differential/consumer.h"
#include "tests/differential/producer.h"

#define PRODUCERS 4u

/* Fields of TracingServiceState. */
enum {
    STATE_PRODUCERS = 1,
    STATE_NUM_SESSIONS = 3,
};

struct run {
    const struct diff_sockets *sockets;
    struct diff_text *out;
    struct diff_producer producers[PRODUCERS];
    struct diff_consumer consumers[DIFF_SESSIONS];
    bool has_session[DIFF_SESSIONS];
    struct diff_consumer clone;
    struct diff_consumer control; /* asks the service about others */
};

static uint32_t next_number(struct diff_words *words)
{
    char word[DIFF_WORD_MAX];

    return diff_words_next(words, word) ? (uint32_t)strtoul(word, NULL, 10) : UINT32_MAX;
}

/* The producer that a line names; NULL when it is not there. */
static struct diff_producer *next_producer(struct run *run, struct diff_words *words)
{
    uint32_t n = next_number(words);

    if (n >= PRODUCERS || !diff_connection_is_open(&run->producers[n].connection))
        return NULL;
    return &run->producers[n];
}

static struct diff_consumer *next_session(struct run *run, struct diff_words *words)
{
    uint32_t n = next_number(words);

    return n < DIFF_SESSIONS && run->has_session[n] ? &run->consumers[n] : NULL;
}

static void await_count(struct run *run, uint32_t field, uint64_t count)
{
    while (diff_consumer_query(&run->control, field) > count &&
           run->control.connection.trouble == NULL)
        continue;
}

static void await_producers(struct run *run)
{
    uint64_t count = 0;

    for (uint32_t p = 0; p < PRODUCERS; p++)
        count += diff_connection_is_open(&run->producers[p].connection);
    await_count(run, STATE_PRODUCERS, count);
}

static void await_sessions(struct run *run)
{
    uint64_t count = 0;

    for (uint32_t s = 0; s < DIFF_SESSIONS; s++)
        count += run->has_session[s];
    await_count(run, STATE_NUM_SESSIONS, count);
}

static void await_starts(struct run *run, uint32_t p, uint32_t s)
{
    const struct diff_consumer *consumer = &run->consumers[s];
    uint32_t mask =
        run->producers[p].sources >> (s * DIFF_BUFFERS) & ((1u << consumer->buffers) - 1);

    if (diff_connection_is_open(&run->producers[p].connection) && consumer->is_started)
        diff_producer_await_starts(&run->producers[p], s, (uint32_t)__builtin_popcount(mask));
}

/* connect PRODUCER PAGE_KB SMB_KB SCRAPED SOURCES */
static void do_connect(struct run *run, struct diff_words *words)
{
    char name[] = "producer-0";
    struct diff_producer_conf conf = {.socket_path = run->sockets->producer, .name = name};
    uint32_t p = next_number(words);

    if (p >= PRODUCERS || diff_connection_is_open(&run->producers[p].connection))
        return;
    name[9] = (char)('0' + p);
    conf.page_kb = next_number(words);
    conf.smb_kb = next_number(words);
    conf.is_scraped = next_number(words) == 1;
    conf.sources = next_number(words);
    diff_producer_open(&run->producers[p], &conf);
    for (uint32_t s = 0; s < DIFF_SESSIONS; s++)
        await_starts(run, p, s);
}

static void do_bye(struct run *run, struct diff_words *words)
{
    struct diff_producer *producer = next_producer(run, words);

    if (producer == NULL)
        return;
    diff_producer_close(producer);
    await_producers(run);
}

/* enable SESSION BUFFER... */
static void do_enable(struct run *run, struct diff_words *words)
{
    uint32_t s = next_number(words);

    if (s >= DIFF_SESSIONS || run->has_session[s])
        return;
    diff_consumer_close(&run->consumers[s]);
    diff_consumer_open(&run->consumers[s], run->sockets->consumer, s, run->out);
    for (uint32_t p = 0; p < PRODUCERS; p++) {
        run->producers[p].starts[s] = 0;
        memset(run->producers[p].buffers[s], 0, sizeof(run->producers[p].buffers[s]));
    }
    diff_consumer_enable(&run->consumers[s], words);
    run->has_session[s] = run->consumers[s].is_started;
    for (uint32_t p = 0; p < PRODUCERS; p++)
        await_starts(run, p, s);
}

/* Those flushes are over that wait for nobody any more. */
static void settle_flushes(struct run *run)
{
    for (uint32_t s = 0; s < DIFF_SESSIONS; s++) {
        if (run->has_session[s] && run->consumers[s].flushers == 0)
            diff_consumer_await_flush(&run->consumers[s]);
    }
}

static void note_ack(struct run *run, uint32_t p)
{
    for (uint32_t s = 0; s < DIFF_SESSIONS; s++) {
        if (run->producers[p].flush_id >= run->consumers[s].flush_ids[p])
            run->consumers[s].flushers &= ~(1u << p);
    }
    settle_flushes(run);
}

/* The producers that a flush of the session will ask, as bits, and the flushes all have seen. */
static uint32_t flushers_of(const struct run *run, const struct diff_consumer *consumer,
                            uint32_t ret_seen[PRODUCERS])
{
    uint32_t flushers = 0;

    for (uint32_t p = 0; p < PRODUCERS; p++) {
        ret_seen[p] = run->producers[p].flushes;
        if (consumer->is_started && diff_connection_is_open(&run->producers[p].connection) &&
            run->producers[p].starts[consumer->session] > 0)
            flushers |= 1u << p;
    }
    return flushers;
}

/* flush SESSION TIMEOUT_MS */
static void do_flush(struct run *run, struct diff_words *words)
{
    struct diff_consumer *consumer = next_session(run, words);
    uint32_t seen[PRODUCERS];

    if (consumer == NULL)
        return;
    diff_consumer_await_flush(consumer);
    consumer->flushers = flushers_of(run, consumer, seen);
    diff_consumer_flush(consumer, next_number(words));
    for (uint32_t p = 0; p < PRODUCERS; p++) {
        if ((consumer->flushers & (1u << p)) == 0)
            continue;
        diff_producer_await_flushes(&run->producers[p], seen[p] + 1);
        consumer->flush_ids[p] = run->producers[p].flush_id;
    }
    settle_flushes(run);
}

static void do_flushed(struct run *run, struct diff_words *words)
{
    struct diff_consumer *consumer = next_session(run, words);

    if (consumer != NULL)
        diff_consumer_await_flush(consumer);
}

static void do_ack(struct run *run, struct diff_words *words)
{
    struct diff_producer *producer = next_producer(run, words);

    if (producer != NULL && diff_producer_ack(producer))
        note_ack(run, (uint32_t)(producer - run->producers));
}

/* clone SESSION: another consumer clones it, reads the clone and leaves; producers acknowledge. */
static void do_clone(struct run *run, struct diff_words *words)
{
    struct diff_consumer *consumer = next_session(run, words);
    struct diff_consumer *clone = &run->clone;
    uint32_t seen[PRODUCERS], flushers;

    if (consumer == NULL)
        return;
    flushers = flushers_of(run, consumer, seen);
    diff_consumer_open(clone, run->sockets->consumer, consumer->session, run->out);
    diff_consumer_clone(clone, &consumer->baseline);
    for (uint32_t p = 0; p < PRODUCERS; p++) {
        if ((flushers & (1u << p)) == 0)
            continue;
        diff_producer_await_flushes(&run->producers[p], seen[p] + 1);
        if (diff_producer_ack(&run->producers[p]))
            note_ack(run, p);
    }
    diff_consumer_await_clone(clone);
    diff_consumer_read(clone);
    diff_consumer_stats(clone);
    if (clone->connection.trouble != NULL)
        return;
    diff_consumer_close(clone);
    await_sessions(run);
}

static void tell(struct run *run, bool is_done, const char *op)
{
    if (!is_done)
        diff_text_add(run->out, "%s refused\n", op);
}

static void do_commit(struct run *run, struct diff_words *words)
{
    struct diff_producer *producer = next_producer(run, words);
    bool is_ack;

    if (producer == NULL)
        return;
    is_ack = strstr(words->pos, " f") != NULL;
    if (!diff_producer_commit(producer, words))
        tell(run, false, "commit");
    else if (is_ack)
        note_ack(run, (uint32_t)(producer - run->producers));
}

static void do_fill(struct run *run, struct diff_words *words)
{
    struct diff_producer *producer = next_producer(run, words);

    tell(run, producer == NULL || diff_producer_fill(producer, words), "fill");
}

static void do_more(struct run *run, struct diff_words *words)
{
    struct diff_producer *producer = next_producer(run, words);

    tell(run, producer == NULL || diff_producer_more(producer, words), "more");
}

static void do_done(struct run *run, struct diff_words *words)
{
    struct diff_producer *producer = next_producer(run, words);

    tell(run, producer == NULL || diff_producer_done(producer, words), "done");
}

/* page PRODUCER PAGE BITMAP */
static void do_page(struct run *run, struct diff_words *words)
{
    struct diff_producer *producer = next_producer(run, words);

    tell(run, producer == NULL || diff_producer_scribble(producer, words), "page");
}

static void do_writer(struct run *run, struct diff_words *words)
{
    struct diff_producer *producer = next_producer(run, words);

    if (producer != NULL)
        diff_producer_register(producer, words, true);
}

static void do_unwriter(struct run *run, struct diff_words *words)
{
    struct diff_producer *producer = next_producer(run, words);

    if (producer != NULL)
        diff_producer_register(producer, words, false);
}

static void do_read(struct run *run, struct diff_words *words)
{
    struct diff_consumer *consumer = next_session(run, words);

    if (consumer != NULL)
        diff_consumer_read(consumer);
}

static void do_stats(struct run *run, struct diff_words *words)
{
    struct diff_consumer *consumer = next_session(run, words);

    if (consumer != NULL)
        diff_consumer_stats(consumer);
}

static void do_stop(struct run *run, struct diff_words *words)
{
    struct diff_consumer *consumer = next_session(run, words);

    if (consumer != NULL)
        diff_consumer_end(consumer, "DisableTracing");
}

static void do_free(struct run *run, struct diff_words *words)
{
    struct diff_consumer *consumer = next_session(run, words);

    if (consumer == NULL)
        return;
    consumer->is_flushing = false; /* perfleetd fails it, traced never answers it */
    diff_consumer_end(consumer, "FreeBuffers");
    diff_consumer_close(consumer);
    run->has_session[consumer->session] = false;
    await_sessions(run);
}

/* The consumer leaves without a word. */
static void do_drop(struct run *run, struct diff_words *words)
{
    struct diff_consumer *consumer = next_session(run, words);

    if (consumer == NULL)
        return;
    diff_consumer_close(consumer);
    run->has_session[consumer->session] = false;
    await_sessions(run);
}

static void do_nothing(struct run *run, struct diff_words *words)
{
    (void)run;
    (void)words;
}

static const struct {
    const char *name;
    void (*run)(struct run *run, struct diff_words *words);
} ops[] = {
    {"connect", do_connect}, {"bye", do_bye},         {"enable", do_enable},
    {"flush", do_flush},     {"flushed", do_flushed}, {"ack", do_ack},
    {"commit", do_commit},   {"fill", do_fill},       {"more", do_more},
    {"done", do_done},       {"writer", do_writer},   {"unwriter", do_unwriter},
    {"read", do_read},       {"stats", do_stats},     {"stop", do_stop},
    {"free", do_free},       {"drop", do_drop},       {DIFF_TIDY, do_nothing},
    {"page", do_page},       {"clone", do_clone},
};

static void run_line(struct run *run, const char *line)
{
    struct diff_words words = {line};
    char word[DIFF_WORD_MAX];

    if (!diff_words_next(&words, word))
        return;
    for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
        if (strcmp(ops[i].name, word) == 0) {
            ops[i].run(run, &words);
            return;
        }
    }
    diff_die("no such operation: %s", line);
}

/* What is wrong with any connection; NULL: nothing. */
static const char *trouble_of(const struct run *run)
{
    const char *trouble = run->control.connection.trouble;

    trouble = trouble != NULL ? trouble : run->clone.connection.trouble;
    for (uint32_t p = 0; p < PRODUCERS && trouble == NULL; p++)
        trouble = run->producers[p].connection.trouble;
    for (uint32_t s = 0; s < DIFF_SESSIONS && trouble == NULL; s++)
        trouble = run->consumers[s].connection.trouble;
    return trouble;
}

/* The memory as it was left, and the end of all connections. */
static void leave(struct run *run, bool is_well)
{
    for (uint32_t p = 0; p < PRODUCERS; p++) {
        if (is_well && diff_connection_is_open(&run->producers[p].connection)) {
            diff_text_add(run->out, "memory %u:", p);
            diff_producer_print_memory(&run->producers[p], run->out);
            diff_text_add(run->out, "\n");
        }
        diff_producer_close(&run->producers[p]);
    }
    for (uint32_t s = 0; s < DIFF_SESSIONS; s++) {
        diff_consumer_close(&run->consumers[s]);
        run->has_session[s] = false;
    }
    if (is_well) {
        await_producers(run);
        await_sessions(run);
    }
    diff_consumer_close(&run->clone);
    diff_consumer_close(&run->control);
}

bool diff_run(const struct diff_schedule *schedule, const struct diff_sockets *sockets,
              struct diff_text *out)
{
    static struct run run;
    const char *trouble = NULL;

    run = (struct run){.sockets = sockets, .out = out};
    diff_consumer_open(&run.control, sockets->consumer, 0, out);
    trouble = trouble_of(&run);
    for (size_t i = 0; i < schedule->len && trouble == NULL; i++) {
        run_line(&run, schedule->lines[i]);
        trouble = trouble_of(&run);
        if (trouble != NULL)
            diff_text_add(out, "! %s (%s)\n", trouble, schedule->lines[i]);
    }
    if (trouble != NULL && schedule->len == 0)
        diff_text_add(out, "! %s\n", trouble);
    leave(&run, trouble == NULL);
    return trouble == NULL;
}
