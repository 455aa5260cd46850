/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A producer of the load test: libperfleet, some threads, packets that say whose they are, and an
 * account of what was written that survives SIGKILL.
 *
 *   load_writer --source NAME --producer N --life N --log PREFIX [--threads N] [--period MS]
 *               [--burst N] [--bytes N] [--seed N] [--smb-kb N]
 *
 * Happy path: for each session that asks, each thread opens a writer and every period writes a
 * burst of 0 to 2 N packets to it. A session's number and flags come in the config's legacy_config,
 * "SESSION FLAGS". A stop is acknowledged when the threads have closed their writers, so nothing is
 * written after it. PREFIX.slots is the account, PREFIX.chunks the chunk log (load_packet.h).
 * Commands on stdin: "trigger NAME"; its end, or SIGTERM, ends the program.
 *
 * Failures: no memory, no file: exit code 1. No slot left: the session is left out, as if it had
 * not asked this thread. Limits: 16 threads, PFL_LOAD_SLOTS writers a life.
 */
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "producer/perfleet.h"
#include "tests/load/load_packet.h"

#define THREADS_MAX 16u
#define LINE_BYTES  128

struct options {
    const char *source;
    const char *log;
    uint32_t producer, life, threads, period_ms, burst, bytes, smb_kb;
    uint64_t seed;
};

enum instance_state { INSTANCE_OFF, INSTANCE_ON, INSTANCE_STOPPING };

/* Guarded by the lock. */
struct instance {
    enum instance_state state;
    uint32_t session, flags;
    uint32_t round;   /* counts starts: a thread's writer is of one */
    uint32_t writers; /* open */
};

struct output {
    struct perfleet_writer *writer; /* NULL: none, or left out */
    struct pfl_load_slot *slot;
    uint32_t slot_index, round, chunks_logged;
};

struct thread {
    pthread_t id;
    uint32_t index;
    uint64_t random;
    struct output outputs[PERFLEET_MAX_INSTANCES];
};

static struct options o = {.source = "load",
                           .threads = 4,
                           .period_ms = 1000,
                           .burst = 2,
                           .bytes = 200,
                           .seed = 1,
                           .smb_kb = 512};
static struct perfleet *tracing;
static struct perfleet_source *source;
static struct instance instances[PERFLEET_MAX_INSTANCES];
static struct thread threads[THREADS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static bool is_ending;
static struct pfl_load_slot *slots;
static _Atomic(uint32_t) slots_used;
static int chunks_fd = -1;
static uint8_t filler[PFL_LOAD_FILLER_MAX];

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* --- sessions ---------------------------------------------------------------------------- */

/* DataSourceConfig.legacy_config = 1000, "SESSION FLAGS"; fields before it are stepped over. */
static void read_config(struct instance *instance, const uint8_t *config, size_t len)
{
    static const uint8_t tag[] = {0xc2, 0x3e};
    char text[32] = {0};
    char *rest;

    instance->session = 0;
    instance->flags = 0;
    for (size_t i = 0; i + 3 < len; i++) {
        if (memcmp(config + i, tag, 2) != 0 || config[i + 2] >= sizeof(text) ||
            config[i + 2] > len - i - 3)
            continue;
        memcpy(text, config + i + 3, config[i + 2]);
        instance->session = (uint32_t)strtoul(text, &rest, 10);
        instance->flags = (uint32_t)strtoul(rest, NULL, 10);
        return;
    }
}

static void on_setup(void *user, uint32_t i, const void *config, size_t config_bytes)
{
    (void)user;
    pthread_mutex_lock(&lock);
    read_config(&instances[i], config, config_bytes);
    pthread_mutex_unlock(&lock);
}

static void on_start(void *user, uint32_t i)
{
    (void)user;
    pthread_mutex_lock(&lock);
    instances[i].state = INSTANCE_ON;
    instances[i].round++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* With the lock held: over when the last thread has let go. */
static void finish_stop(uint32_t i)
{
    if (instances[i].state != INSTANCE_STOPPING || instances[i].writers != 0)
        return;
    instances[i].state = INSTANCE_OFF;
    perfleet_stop_done(source, i);
}

static void on_stop(void *user, uint32_t i)
{
    (void)user;
    pthread_mutex_lock(&lock);
    instances[i].state = INSTANCE_STOPPING;
    finish_stop(i);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* --- writing ----------------------------------------------------------------------------- */

static void log_chunks(struct output *out, uint64_t ended, uint64_t chunks)
{
    for (; out->chunks_logged < chunks; out->chunks_logged++) {
        struct pfl_load_chunk line = {out->slot_index, out->chunks_logged, ended};

        if (write(chunks_fd, &line, sizeof(line)) != (ssize_t)sizeof(line))
            exit(1);
    }
}

static void put_text(struct perfleet_writer *w, const struct pfl_load_text *text,
                     const uint8_t *from)
{
    perfleet_raw(w, text, sizeof(*text));
    perfleet_raw(w, from, text->filler_bytes);
}

/* for_testing as one field of known size: nothing to patch later. */
static void put_flat(struct perfleet_writer *w, const struct pfl_load_text *text,
                     const uint8_t *from)
{
    uint8_t head[24];
    size_t inner = sizeof(*text) + text->filler_bytes;
    uint8_t *p = perfleet_put_varint_(perfleet_put_tag_(head + 12, PFL_LOAD_FIELD_STR, 2), inner);
    size_t inner_head = (size_t)(p - (head + 12));
    uint8_t *q =
        perfleet_put_varint_(perfleet_put_tag_(head, PFL_LOAD_FIELD_TEST, 2), inner_head + inner);

    perfleet_raw(w, head, (size_t)(q - head));
    perfleet_raw(w, head + 12, inner_head);
    put_text(w, text, from);
}

static void put_nested(struct perfleet_writer *w, const struct pfl_load_text *text,
                       const uint8_t *from)
{
    perfleet_begin(w, PFL_LOAD_FIELD_TEST);
    perfleet_begin(w, PFL_LOAD_FIELD_STR);
    put_text(w, text, from);
    perfleet_end(w);
    perfleet_end(w);
}

static void write_packet(struct thread *t, struct output *out, const struct instance *instance)
{
    struct pfl_load_slot *slot = out->slot;
    struct perfleet_writer *w = out->writer;
    uint64_t number = atomic_load_explicit(&slot->ended, memory_order_relaxed);
    struct perfleet_writer_stats stats;
    struct pfl_load_text text = {.magic = PFL_LOAD_MAGIC,
                                 .session = instance->session,
                                 .producer = o.producer,
                                 .life = o.life,
                                 .slot = out->slot_index,
                                 .number = number};
    const uint8_t *from = filler + next_random(&t->random) % (PFL_LOAD_FILLER_MAX / 2);

    text.filler_bytes = (uint32_t)(next_random(&t->random) % (2 * o.bytes));
    atomic_store(&slot->begun, number + 1);
    perfleet_packet_begin(w);
    perfleet_writer_stats_get(w, &stats);
    text.dropped = stats.dropped;
    text.chunk = (uint32_t)(stats.chunks - 1);
    text.checksum = pfl_load_checksum(&text, from);
    perfleet_uint(w, PFL_LOAD_FIELD_TIME, perfleet_time_ns());
    if ((instance->flags & PFL_LOAD_NESTED) != 0)
        put_nested(w, &text, from);
    else
        put_flat(w, &text, from);
    perfleet_packet_end(w);
    perfleet_writer_stats_get(w, &stats);
    if ((instance->flags & PFL_LOAD_LOG_CHUNKS) != 0)
        log_chunks(out, number, stats.chunks);
    atomic_store(&slot->dropped, stats.dropped);
    atomic_store(&slot->chunks, stats.chunks);
    atomic_store(&slot->ended, number + 1);
}

static void open_output(struct thread *t, uint32_t i)
{
    struct output *out = &t->outputs[i];
    uint32_t index;

    out->round = instances[i].round;
    index = atomic_fetch_add(&slots_used, 1);
    if (index >= PFL_LOAD_SLOTS || perfleet_writer_open(source, i, &out->writer) != 0) {
        out->writer = NULL;
        return;
    }
    out->slot_index = index;
    out->slot = &slots[index];
    out->slot->thread = t->index;
    out->slot->flags = instances[i].flags;
    out->slot->session = instances[i].session;
    out->chunks_logged = 0;
    instances[i].writers++;
}

static void close_output(struct thread *t, uint32_t i)
{
    struct output *out = &t->outputs[i];

    perfleet_writer_close(out->writer);
    out->writer = NULL;
    atomic_store(&out->slot->is_closed, 1);
    instances[i].writers--;
    finish_stop(i);
}

/* With the lock held: opens and closes writers as sessions come and go. */
static void follow_sessions(struct thread *t)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        struct output *out = &t->outputs[i];

        if (out->writer != NULL &&
            (is_ending || instances[i].state != INSTANCE_ON || out->round != instances[i].round))
            close_output(t, i);
        if (!is_ending && instances[i].state == INSTANCE_ON && out->round != instances[i].round)
            open_output(t, i);
    }
}

/* A stop that comes meanwhile waits for the end of the bursts. */
static void write_bursts(struct thread *t, const struct instance *snapshot)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        uint64_t n = next_random(&t->random) % (2 * o.burst + 1);

        if (t->outputs[i].writer == NULL)
            continue;
        for (uint64_t k = 0; k < n; k++)
            write_packet(t, &t->outputs[i], &snapshot[i]);
    }
}

static struct timespec next_due(struct thread *t)
{
    uint64_t wait_ms = o.period_ms / 2 + next_random(&t->random) % (o.period_ms + 1);
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(wait_ms / 1000);
    at.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

static void *run_thread(void *arg)
{
    struct thread *t = arg;
    struct timespec due = next_due(t);
    struct instance snapshot[PERFLEET_MAX_INSTANCES];

    pthread_mutex_lock(&lock);
    while (!is_ending) {
        bool is_due = pthread_cond_timedwait(&changed, &lock, &due) != 0;

        follow_sessions(t);
        if (!is_due)
            continue;
        memcpy(snapshot, instances, sizeof(snapshot));
        pthread_mutex_unlock(&lock);
        write_bursts(t, snapshot);
        due = next_due(t);
        pthread_mutex_lock(&lock);
        follow_sessions(t);
    }
    follow_sessions(t);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* --- the program ------------------------------------------------------------------------- */

static bool parse_options(int argc, char **argv)
{
    static const struct option options[] = {
        {"source", 1, NULL, 's'}, {"producer", 1, NULL, 'p'}, {"life", 1, NULL, 'l'},
        {"log", 1, NULL, 'g'},    {"threads", 1, NULL, 't'},  {"period", 1, NULL, 'm'},
        {"burst", 1, NULL, 'b'},  {"bytes", 1, NULL, 'y'},    {"seed", 1, NULL, 'e'},
        {"smb-kb", 1, NULL, 'k'}, {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        uint64_t value = optarg == NULL ? 0 : strtoull(optarg, NULL, 10);

        switch (c) {
        case 's':
            o.source = optarg;
            break;
        case 'g':
            o.log = optarg;
            break;
        case 'p':
            o.producer = (uint32_t)value;
            break;
        case 'l':
            o.life = (uint32_t)value;
            break;
        case 't':
            o.threads = (uint32_t)value;
            break;
        case 'm':
            o.period_ms = (uint32_t)value;
            break;
        case 'b':
            o.burst = (uint32_t)value;
            break;
        case 'y':
            o.bytes = (uint32_t)value;
            break;
        case 'e':
            o.seed = value;
            break;
        case 'k':
            o.smb_kb = (uint32_t)value;
            break;
        default:
            return false;
        }
    }
    return o.log != NULL && o.threads >= 1 && o.threads <= THREADS_MAX && o.bytes >= 1 &&
           o.bytes <= PFL_LOAD_FILLER_MAX / 4;
}

static int open_log(const char *what, int flags)
{
    char path[512];

    if (snprintf(path, sizeof(path), "%s.%s", o.log, what) >= (int)sizeof(path))
        return -1;
    return open(path, O_CREAT | O_RDWR | O_CLOEXEC | flags, 0644);
}

static bool open_logs(void)
{
    size_t bytes = PFL_LOAD_SLOTS * sizeof(*slots);
    int fd = open_log("slots", O_TRUNC);

    chunks_fd = open_log("chunks", O_TRUNC | O_APPEND);
    if (fd < 0 || chunks_fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        return false;
    slots = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return slots != MAP_FAILED;
}

static void start_threads(void)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attr);
    for (uint32_t i = 0; i < o.threads; i++) {
        threads[i].index = i;
        threads[i].random = o.seed * 1000003 + (uint64_t)o.producer * 4099 + o.life * 65537 + i;
        if (pthread_create(&threads[i].id, NULL, run_thread, &threads[i]) != 0)
            exit(1);
    }
}

static void follow_commands(void)
{
    char line[LINE_BYTES];

    while (fgets(line, sizeof(line), stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "trigger ", 8) == 0)
            (void)perfleet_trigger(tracing, line + 8);
    }
}

int main(int argc, char **argv)
{
    struct perfleet_source_conf source_conf = {
        .flags = PERFLEET_ASYNC_STOP | PERFLEET_POLICY_BY_CONFIG,
        .policy = PERFLEET_DROP,
        .on_setup = on_setup,
        .on_start = on_start,
        .on_stop = on_stop,
    };
    struct perfleet_conf conf = {0};
    char name[64];

    if (!parse_options(argc, argv) || !open_logs()) {
        fprintf(stderr, "load_writer: wrong usage, or no log\n");
        return 1;
    }
    for (size_t i = 0; i < sizeof(filler); i++)
        filler[i] = (uint8_t)next_random(&o.seed);
    (void)snprintf(name, sizeof(name), "load.%u", o.producer);
    conf.producer_name = name;
    conf.smb_kb = o.smb_kb;
    source_conf.name = o.source;
    start_threads();
    if (perfleet_open(&conf, &tracing) != 0)
        return 1;
    pthread_mutex_lock(&lock); /* callbacks use `source` */
    if (perfleet_register(tracing, &source_conf, &source) != 0)
        return 1;
    pthread_mutex_unlock(&lock);
    follow_commands();
    pthread_mutex_lock(&lock);
    is_ending = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (uint32_t i = 0; i < o.threads; i++)
        pthread_join(threads[i].id, NULL);
    (void)perfleet_sync(tracing, 10000);
    perfleet_close(tracing);
    return 0;
}
