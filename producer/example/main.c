/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfleet-example: a program that can be traced, to look at and to load a service with.
 *
 * Registers the data source "com.example.load" and writes, from each of its threads and while a
 * session uses it, packets that can be verified: TestEvent.seq_value counts from 0 in every
 * sequence, TestEvent.str has the size asked for. With --track-events it writes slices and a
 * counter instead, which the Perfetto UI shows. At the end it prints what it wrote and dropped.
 *
 * Happy path: open, register, start threads, wait for their end or for a signal, print, close.
 * Failures: wrong usage is exit code 2; it waits for a missing service. Limits: 64 threads.
 */
#include "perfetto/data_source_config.fields.h"
#include "producer/example/example.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOON_MS 300u

static const char help[] =
    "usage: perfleet-example [options]\n"
    "  --size BYTES      of each packet's text (default 100)\n"
    "  --rate N          packets a second and thread; 0: as fast as it goes (default 1000)\n"
    "  --threads N       writing threads (default 1, at most 64)\n"
    "  --count N         packets of each thread, then the end; 0: no limit (default 0)\n"
    "  --seconds N       run time; 0: until a signal (default 0)\n"
    "  --policy P        drop, stall or stall-then-drop when memory is full (default drop)\n"
    "  --socket NAME     the service's producer socket (default as PERFETTO_PRODUCER_SOCK_NAME)\n"
    "  --name NAME       producer name (default perfleet-example)\n"
    "  --source NAME     data source name (default com.example.load)\n"
    "  --smb-kb N        requested size of the shared memory, in KiB\n"
    "  --startup-ms N    trace at once, into memory of its own (--smb-kb, default 256), and wait "
    "so\n"
    "                    long for a session of com.example.load that takes it over\n"
    "  --track-events    slices and counters for the Perfetto UI, data source track_event\n"
    "  --help, --version\n";

enum option_id {
    OPT_SIZE = 1,
    OPT_RATE,
    OPT_THREADS,
    OPT_COUNT,
    OPT_SECONDS,
    OPT_POLICY,
    OPT_SOCKET,
    OPT_NAME,
    OPT_SOURCE,
    OPT_SMB_KB,
    OPT_STARTUP_MS,
    OPT_TRACK_EVENTS,
    OPT_HELP,
    OPT_VERSION,
};

static const struct option options[] = {
    {"size", required_argument, NULL, OPT_SIZE},
    {"rate", required_argument, NULL, OPT_RATE},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"count", required_argument, NULL, OPT_COUNT},
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"policy", required_argument, NULL, OPT_POLICY},
    {"socket", required_argument, NULL, OPT_SOCKET},
    {"name", required_argument, NULL, OPT_NAME},
    {"source", required_argument, NULL, OPT_SOURCE},
    {"smb-kb", required_argument, NULL, OPT_SMB_KB},
    {"startup-ms", required_argument, NULL, OPT_STARTUP_MS},
    {"track-events", no_argument, NULL, OPT_TRACK_EVENTS},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

static void exit_usage(const char *what, const char *value)
{
    fprintf(stderr, "perfleet-example: %s: %s\n%s", what, value, help);
    exit(2);
}

static uint64_t parse_number(const char *text, uint64_t max)
{
    char *end;
    unsigned long long v;

    errno = 0;
    v = strtoull(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || v > max)
        exit_usage("not a number in range", text);
    return v;
}

static enum perfleet_policy parse_policy(const char *text)
{
    if (strcmp(text, "drop") == 0)
        return PERFLEET_DROP;
    if (strcmp(text, "stall") == 0)
        return PERFLEET_STALL;
    if (strcmp(text, "stall-then-drop") != 0)
        exit_usage("not a policy", text);
    return PERFLEET_STALL_THEN_DROP;
}

static void print_and_exit(const char *text)
{
    fputs(text, stdout);
    exit(0);
}

static void take_option(struct example *ex, int id, struct perfleet_conf *conf,
                        struct perfleet_source_conf *source)
{
    switch (id) {
    case OPT_SIZE:
        ex->size_bytes = parse_number(optarg, EXAMPLE_SIZE_MAX);
        break;
    case OPT_RATE:
        ex->rate = parse_number(optarg, 1000000000);
        break;
    case OPT_THREADS:
        ex->threads_len = (uint32_t)parse_number(optarg, EXAMPLE_THREADS_MAX);
        break;
    case OPT_COUNT:
        ex->count = parse_number(optarg, UINT32_MAX);
        break;
    case OPT_SECONDS:
        ex->seconds = (uint32_t)parse_number(optarg, 1000000);
        break;
    case OPT_POLICY:
        source->policy = parse_policy(optarg);
        break;
    case OPT_SOCKET:
        conf->socket = optarg;
        break;
    case OPT_NAME:
        conf->producer_name = optarg;
        break;
    case OPT_SOURCE:
        source->name = optarg;
        break;
    case OPT_SMB_KB:
        conf->smb_kb = (uint32_t)parse_number(optarg, 1u << 20);
        break;
    case OPT_STARTUP_MS:
        ex->startup_ms = (uint32_t)parse_number(optarg, 1u << 30);
        break;
    case OPT_TRACK_EVENTS:
        ex->has_track_events = true;
        break;
    case OPT_HELP:
        print_and_exit(help);
        break;
    case OPT_VERSION:
        print_and_exit("perfleet-example " PFL_VERSION "\n");
        break;
    default:
        fputs(help, stderr);
        exit(2);
    }
}

static void print_summary(const struct example *ex)
{
    struct perfleet_writer_stats sum = {0};
    uint64_t ns = 0;

    for (uint32_t i = 0; i < ex->threads_len; i++) {
        const struct example_thread *t = &ex->threads[i];

        sum.packets += t->stats.packets;
        sum.dropped += t->stats.dropped;
        sum.stalls += t->stats.stalls;
        sum.chunks += t->stats.chunks;
        ns += t->busy_ns;
    }
    printf("written=%llu dropped=%llu stalls=%llu chunks=%llu threads=%u",
           (unsigned long long)sum.packets, (unsigned long long)sum.dropped,
           (unsigned long long)sum.stalls, (unsigned long long)sum.chunks, ex->threads_len);
    if (ex->rate == 0 && sum.packets + sum.dropped > 0)
        printf(" ns-per-packet=%.1f", (double)ns / (double)(sum.packets + sum.dropped));
    printf("\n");
}

/* Waits for a signal, the end of the time, or of all threads (which then send SIGTERM). */
static void wait_for_end(const struct example *ex, const sigset_t *signals)
{
    struct timespec ts = {.tv_sec = (time_t)ex->seconds};
    int rc;

    do {
        rc = ex->seconds == 0 ? sigwaitinfo(signals, NULL) : sigtimedwait(signals, NULL, &ts);
    } while (rc < 0 && errno == EINTR);
}

/* DataSourceConfig {name}: what a session says that wants nothing special. */
static int start_early(const struct example *ex, const char *name)
{
    uint8_t config[256];
    size_t len = strlen(name);

    if (len > 127)
        return PERFLEET_EINVAL;
    config[0] = DATA_SOURCE_CONFIG__NAME << 3 | 2;
    config[1] = (uint8_t)len;
    for (size_t i = 0; i < len; i++)
        config[2 + i] = (uint8_t)name[i];
    return perfleet_startup(ex->tracing, ex->source, config, len + 2, ex->startup_ms);
}

/* The library waits without a word. */
static void say_awaited(const struct example *ex, const struct perfleet_conf *conf)
{
    const char *name =
        conf->socket != NULL ? conf->socket : secure_getenv("PERFETTO_PRODUCER_SOCK_NAME");

    if (perfleet_wait_connected(ex->tracing, SOON_MS) != 0)
        fprintf(stderr, "perfleet-example: waiting for a tracing service (perfleetd) at %s\n",
                name != NULL ? name
                             : "/run/perfetto/traced-producer.sock or /tmp/perfetto-producer");
}

int main(int argc, char **argv)
{
    static struct example ex = {.size_bytes = 100, .rate = 1000, .threads_len = 1};
    struct perfleet_conf conf = {.producer_name = "perfleet-example"};
    struct perfleet_source_conf source_conf = {.name = "com.example.load"};
    sigset_t signals;
    int id;
    int rc;

    while ((id = getopt_long(argc, argv, "", options, NULL)) != -1)
        take_option(&ex, id, &conf, &source_conf);
    if (optind < argc)
        exit_usage("unexpected argument", argv[optind]);
    if (ex.threads_len == 0)
        exit_usage("at least one thread", "0");

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);

    if (ex.startup_ms != 0)
        conf.own_smb_kb = conf.smb_kb == 0 ? 256 : conf.smb_kb;
    rc = perfleet_open(&conf, &ex.tracing);
    if (rc == 0)
        rc = perfleet_register(ex.tracing, &source_conf, &ex.source);
    if (rc == 0 && ex.startup_ms != 0)
        rc = start_early(&ex, source_conf.name);
    if (rc == 0 && ex.has_track_events)
        rc = perfleet_track_event_register(ex.tracing);
    if (rc == 0)
        rc = example_start(&ex);
    if (rc != 0) {
        fprintf(stderr, "perfleet-example: %s\n", perfleet_err_str(rc));
        return 1;
    }
    say_awaited(&ex, &conf);
    wait_for_end(&ex, &signals);
    example_join(&ex);
    print_summary(&ex);
    perfleet_sync(ex.tracing, 2000);
    perfleet_close(ex.tracing);
    return 0;
}
