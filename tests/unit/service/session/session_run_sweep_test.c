/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole sessions of every kind under the allocation sweep, with packets in them: compressed and
 * filtered by a worker, written into a file, rotated, stopped and started by triggers, with events
 * of other sessions, with a producer's program. The disk and the worker are the test's own: they
 * answer when it says so. Whatever fails, the session ends, nothing is left and nothing crashes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/work.h"
#include "perfetto/trace_config.pb-c.h"
#include "proto/text/text_format.h"
#include "service/control/registry.h"
#include "service/core/disk.h"
#include "service/session/session_due.h"
#include "service/session/session_flush.h"
#include "service/session/session_read.h"
#include "service/session/session_run.h"
#include "service/session/session_timers.h"
#include "service/session/stats.h"
#include "service/session/trigger.h"
#include "tests/support/sweep.h"

#define HELD_MAX   8u
#define SECOND_NS  1000000000ull
#define TURNS_MAX  64u
#define CHUNK_SIZE 64u

static uint64_t now_ns;
static unsigned disabled;

static uint64_t read_clock(void *user, enum pfl_clock_id id)
{
    (void)user;
    (void)id;
    return now_ns;
}

static void read_random(void *user, void *dst, size_t len)
{
    (void)user;
    memset(dst, 1, len);
}

/* ---- a worker and a disk that answer at the next turn ---- */

static struct pfl_work *held[HELD_MAX];
static size_t held_len;

static int hold(void *user, struct pfl_work *work)
{
    (void)user;
    if (held_len == HELD_MAX)
        return PFL_ELIMIT;
    held[held_len++] = work;
    return 0;
}

struct pfl_disk_file {
    pfl_disk_done_cb done;
    void *user;
    struct pfl_disk_job job;
    bool has_job;
    struct pfl_disk_file *next;
};
static struct pfl_disk_file *files;
static unsigned open_files;

static int open_folder(void *disk, const char *path, int *ret_folder)
{
    (void)disk;
    (void)path;
    *ret_folder = 101;
    return 0;
}

static int create(void *disk, int folder, const char *path, int *ret_fd)
{
    (void)disk;
    assert_int_equal(folder, 101);
    (void)path;
    *ret_fd = 100;
    return 0;
}

static void discard(void *disk, int folder, const char *path, int fd)
{
    (void)disk;
    (void)folder;
    (void)path;
    (void)fd;
}

static int open_file(void *disk, const int fds[PFL_DISK_SLOTS], pfl_disk_done_cb done, void *user,
                     struct pfl_disk_file **ret_file)
{
    struct pfl_disk_file *file = pfl_mem_zalloc(sizeof(*file));

    (void)disk;
    (void)fds;
    if (file == NULL)
        return PFL_ENOMEM;
    *file = (struct pfl_disk_file){.done = done, .user = user, .next = files};
    files = file;
    open_files++;
    *ret_file = file;
    return 0;
}

static void submit(struct pfl_disk_file *file, const struct pfl_disk_job *job)
{
    assert_false(file->has_job);
    file->job = *job;
    file->has_job = true;
}

static void close_file(struct pfl_disk_file *file)
{
    struct pfl_disk_file **at = &files;

    while (*at != file)
        at = &(*at)->next;
    *at = file->next;
    open_files--;
    pfl_mem_free(file);
}

static int share(struct pfl_disk_file *file, unsigned slot, int *ret_fd, uint64_t *ret_bytes)
{
    (void)file;
    (void)slot;
    (void)ret_fd;
    (void)ret_bytes;
    return EACCES;
}

static const struct pfl_disk_ops disk_ops = {.open_folder = open_folder,
                                             .create = create,
                                             .discard = discard,
                                             .open = open_file,
                                             .submit = submit,
                                             .close = close_file,
                                             .share = share};

static bool answer_disk(void)
{
    struct pfl_disk_result result = {0};
    struct pfl_disk_file *file = files;

    while (file != NULL && !file->has_job)
        file = file->next;
    if (file == NULL)
        return false;
    for (size_t i = 0; i < file->job.steps_len; i++)
        if (file->job.steps[i].kind == PFL_DISK_WRITE)
            result.written[file->job.steps[i].slot] += file->job.steps[i].bytes.len;
    file->has_job = false;
    file->done(file->user, &result);
    return true;
}

static bool answer_worker(void)
{
    struct pfl_work *work;

    if (held_len == 0)
        return false;
    work = held[--held_len];
    work->run(work);
    work->on_done(work);
    return true;
}

static void settle(void)
{
    unsigned turns = 0;

    while (answer_worker() || answer_disk())
        assert_true(turns++ < 1000);
}

static void pass(struct pfl_service *service, uint64_t ns)
{
    settle();
    now_ns += ns;
    pfl_session_due_run(service);
    settle();
}

/* ---- who takes part ---- */

static void on_command(void *port, struct pfl_span body, int fd, bool is_setup)
{
    (void)port;
    (void)fd;
    (void)is_setup;
    assert_true(body.len > 0);
}

static void on_disabled(void *port, const char *why)
{
    (void)port;
    (void)why;
    disabled++;
}

static void on_flush_done(void *port, const struct pfl_flush *flush, bool is_ok)
{
    (void)port;
    (void)flush;
    (void)is_ok;
}

static void on_session_gone(void *port)
{
    pfl_session_read_stop(port);
}

static void on_nothing(void *port)
{
    (void)port;
}

static const struct pfl_producer_ops producer_ops = {.send_command = on_command};
static const struct pfl_consumer_ops consumer_ops = {.on_disabled = on_disabled,
                                                     .on_flush_done = on_flush_done,
                                                     .on_session_gone = on_session_gone,
                                                     .on_read_ready = on_nothing,
                                                     .on_observed = on_nothing};

/* A CommitData of one chunk with two small packets, as a producer of another machine sends it. */
static void commit(struct pfl_service *service, struct pfl_producer *producer, uint32_t chunk_id)
{
    static const uint8_t packets[] = {4, 0xa2, 0x38, 0x01, 0x00, 4, 0xa2, 0x38, 0x01, 0x00};
    uint8_t chunk[CHUNK_SIZE] = {(uint8_t)chunk_id, 0, 0, 0, 1, 0, 2, 0};
    uint8_t move[128] = {0x0a, 0x48, 0x08, 0, 0x10, 0, 0x18, 1, 0x22, CHUNK_SIZE};

    memcpy(chunk + 8, packets, sizeof(packets));
    memcpy(move + 10, chunk, sizeof(chunk));
    assert_int_equal(pfl_registry_commit(service, producer, pfl_span_of(move, 10 + CHUNK_SIZE)), 0);
}

static void read_all(struct pfl_service *service, struct pfl_session *session,
                     struct pfl_session_read *read)
{
    struct pfl_readback_frame frame = {.has_more = true};
    unsigned turns = 0;
    int rc = 0;

    if (pfl_session_read_start(read, service, session, 1) != 0)
        return;
    while (frame.has_more && (rc == 0 || rc == PFL_EAGAIN)) {
        assert_true(turns++ < TURNS_MAX);
        rc = pfl_session_read_next_frame(read, &frame);
        settle();
    }
    pfl_session_read_stop(read);
}

/* ---- a life ---- */

struct life {
    struct pfl_span config;
    const char *trigger; /* comes in the middle; may be NULL */
    bool has_program;    /* the producer brings one */
    struct pfl_service service;
    struct pfl_session_read read;
    struct pfl_consumer consumer;
    struct pfl_producer *producer;
    uint64_t discarded; /* chunks of the last run */
};

static void run(struct life *life)
{
    const struct pfl_session_flush_conf flush = {.then = PFL_FLUSH_THEN_REPLY};
    struct pfl_service *service = &life->service;

    for (uint32_t id = 0; id < 3; id++)
        commit(service, life->producer, id);
    pass(service, SECOND_NS);
    if (life->trigger != NULL)
        pfl_trigger_activate(service, life->producer,
                             pfl_span_of(life->trigger, strlen(life->trigger)));
    for (uint32_t id = 3; id < 6; id++)
        commit(service, life->producer, id);
    if (life->consumer.session != NULL)
        pfl_session_flush(service, life->consumer.session, &flush);
    pass(service, 2 * SECOND_NS);
    pass(service, 30 * SECOND_NS);
    if (life->consumer.session != NULL)
        read_all(service, life->consumer.session, &life->read);
    if (life->consumer.session != NULL)
        pfl_session_disable(service, life->consumer.session);
    pass(service, 30 * SECOND_NS);
    if (life->consumer.session != NULL)
        read_all(service, life->consumer.session, &life->read);
}

static int begin(struct life *life)
{
    static const uint8_t descriptor[] = {0x0a, 0x01, 's',  0x38, 0x01, /* and, at the end, merge */
                                         0x52, 0x04, 0x12, 0x02, 0x1a, 0x00};
    const struct pfl_producer_conf producer = {
        .name = {(const uint8_t *)"p", 1}, .ops = &producer_ops, .is_emulated = true};
    const struct pfl_session_enable_conf enable = {.config = life->config, .fd = &(int){-1}};
    char why[PFL_PLAN_WHY_BYTES] = "";
    int rc = pfl_registry_add_producer(&life->service, &producer, &life->producer);

    if (rc == 0)
        rc = pfl_registry_register_source(
            &life->service, life->producer,
            pfl_span_of(descriptor, life->has_program ? sizeof(descriptor) : 5));
    if (rc == 0)
        rc = pfl_session_enable(&life->service, &life->consumer, &enable, why);
    if (rc != 0 && rc != PFL_ENOMEM)
        fail_msg("%s", why);
    return rc;
}

static int live(void *arg)
{
    static const struct pfl_service_facts facts = {.version = "test"};
    const struct pfl_service_conf conf = {.now_ns = read_clock,
                                          .random = read_random,
                                          .submit = hold,
                                          .facts = &facts,
                                          .disk = &disk_ops};
    struct life *life = arg;
    int rc = pfl_service_init(&life->service, &conf);

    if (rc != 0)
        return rc;
    disabled = 0;
    life->consumer = (struct pfl_consumer){.ops = &consumer_ops, .port = &life->read};
    life->producer = NULL;
    pfl_registry_add_consumer(&life->service, &life->consumer);
    rc = begin(life);
    if (rc == 0) {
        run(life);
        assert_int_equal(disabled, 1);
    }
    if (life->producer != NULL)
        pfl_registry_remove_producer(&life->service, life->producer);
    pfl_registry_remove_consumer(&life->service, &life->consumer);
    settle();
    life->discarded = life->service.commits.chunks_discarded;
    assert_int_equal(open_files, 0);
    pfl_service_fini(&life->service);
    return rc;
}

static void sweep_with(const char *config, const char *trigger, bool has_program)
{
    struct pfl_text_error error;
    struct life life = {.trigger = trigger, .has_program = has_program};
    struct pfl_buf text;

    now_ns = 1000 * SECOND_NS;
    pfl_buf_init(&text, 1u << 16);
    if (pfl_text_format_parse(&perfetto__protos__trace_config__descriptor,
                              pfl_span_of(config, strlen(config)), &text, &error) != 0)
        fail_msg("config: %u:%u %s", error.line, error.column, error.message);
    life.config = pfl_buf_get(&text);
    pfl_sweep(live, &life, true);
    assert_int_equal(life.discarded, 0); /* the packets were in it, when nothing failed */
    pfl_buf_fini(&text);
}

static void sweep(const char *config, const char *trigger)
{
    sweep_with(config, trigger, false);
}

#define SOURCES                                                                                    \
    "buffers { size_kb: 16 } data_sources { config { name: 's' } "                                 \
    "machine_name_filter: '' } trace_all_machines: true "

static void a_compressed_and_filtered_session(void **state)
{
    (void)state;
    sweep(SOURCES "compression_type: COMPRESSION_TYPE_DEFLATE duration_ms: 500 "
                  "trace_filter { bytecode_v2: \"\\013\\001\\000\\251\\004\\000\\320\\267\\343"
                  "\\362\\004\" }",
          NULL);
}

static void a_session_compressed_by_zstd(void **state)
{
    (void)state;
    sweep(SOURCES "compression { zstd { level: 1 } } flush_period_ms: 500", NULL);
}

static void a_session_that_writes_a_file(void **state)
{
    (void)state;
    sweep(SOURCES "write_into_file: true file_write_period_ms: 500 output_path: '/t' "
                  "incremental_state_config { clear_period_ms: 700 }",
          NULL);
}

static void a_session_that_writes_a_compressed_file(void **state)
{
    (void)state;
    sweep(SOURCES "write_into_file: true file_write_period_ms: 500 output_path: '/t' "
                  "compression_type: COMPRESSION_TYPE_DEFLATE",
          NULL);
}

static void a_session_that_writes_segments(void **state)
{
    (void)state;
    sweep(SOURCES "write_into_file: true file_write_period_ms: 500 output_path: '/t' "
                  "perfleet_rotation { segment_period_ms: 1000 max_segments: 2 }",
          NULL);
}

static void a_session_that_a_trigger_starts(void **state)
{
    (void)state;
    sweep(SOURCES "trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 20000 "
                  "triggers { name: 'go' stop_delay_ms: 1000 } }",
          "go");
}

static void a_session_that_a_trigger_stops(void **state)
{
    (void)state;
    sweep(SOURCES "trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 20000 "
                  "triggers { name: 'go' stop_delay_ms: 1000 producer_name_regex: 'p' "
                  "max_per_24_h: 3 } }",
          "go");
}

static void a_session_that_hears_of_others(void **state)
{
    (void)state;
    sweep(SOURCES "builtin_data_sources { enable_concurrent_session_events: true } "
                  "unique_session_name: 'n' duration_ms: 500",
          NULL);
}

static void a_session_with_a_program(void **state)
{
    (void)state;
    sweep_with("buffers { size_kb: 4 } data_sources { config { name: 's' "
               "protovm_config { memory_limit_kb: 16 } } } trace_all_machines: true "
               "compression_type: COMPRESSION_TYPE_DEFLATE",
               NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_compressed_and_filtered_session),
        cmocka_unit_test(a_session_compressed_by_zstd),
        cmocka_unit_test(a_session_that_writes_a_file),
        cmocka_unit_test(a_session_that_writes_a_compressed_file),
        cmocka_unit_test(a_session_that_writes_segments),
        cmocka_unit_test(a_session_that_a_trigger_starts),
        cmocka_unit_test(a_session_that_a_trigger_stops),
        cmocka_unit_test(a_session_that_hears_of_others),
        cmocka_unit_test(a_session_with_a_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
