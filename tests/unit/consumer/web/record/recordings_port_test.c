/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings of pages, with two played hosts: the views while they run and when they are over, the
 * trace, what is too large, how many are kept and for how long, closing at any moment, and each
 * allocation failing once.
 */
#include "consumer/web/record/recordings_port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/closer.h"
#include "base/io/loop.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/fake_host.h"

#define HOSTS   2u
#define PACKETS 50u
#define MOMENTS 40u

struct world {
    uv_loop_t loop;
    struct fake_host fakes[HOSTS];
    struct pfl_recordings *recordings; /* NULL: closed */
    struct pfl_config_info info;
    struct pfl_buf config;
    uint64_t file_max_bytes;
    uint64_t keep_ms;
    bool is_streamed;
    char why[PFL_RECORDINGS_WHY_BYTES];
};

static struct world world;
static bool is_disk_low;

/* In place of libc's. */
int fstatvfs(int fd, struct statvfs *ret_disk)
{
    (void)fd;
    *ret_disk = (struct statvfs){.f_frsize = 4096,
                                 .f_blocks = 1000000,
                                 .f_bfree = is_disk_low ? 1000 : 900000,
                                 .f_bavail = is_disk_low ? 1000 : 900000};
    return 0;
}
static struct pfl_tls_conf *no_tls;

static void on_closed(void *user)
{
    struct world *w = user;

    w->recordings = NULL;
    for (size_t i = 0; i < HOSTS; i++)
        fake_host_close(&w->fakes[i]);
}

static int prepare_config(struct world *w, const char *text, uint32_t duration_ms)
{
    const struct pfl_config_overrides overrides = {.duration_ms = duration_ms};
    struct pfl_config_why why;
    struct pfl_buf parsed;
    int rc;

    pfl_buf_init(&parsed, PFL_CONFIG_MAX_BYTES);
    pfl_buf_clear(&w->config);
    rc = pfl_config_read(pfl_span_of(text, strlen(text)), "config", &parsed, &why);
    if (rc == 0)
        rc = pfl_config_prepare(pfl_buf_get(&parsed), &overrides, &w->config, &w->info, &why);
    pfl_buf_fini(&parsed);
    return rc;
}

static void prepare(struct world *w)
{
    memset(w, 0, sizeof(*w));
    pfl_buf_init(&w->config, PFL_CONFIG_MAX_BYTES);
    pfl_log_set_level(PFL_LOG_ERROR);
    for (size_t i = 0; i < HOSTS; i++) {
        w->fakes[i].packets = PACKETS;
        w->fakes[i].packet_bytes = 100;
        w->fakes[i].trick = FAKE_ENDS;
    }
}

static int open_world(struct world *w)
{
    struct pfl_recordings_conf conf = {.conn = {.loop = &w->loop, .tls = &no_tls},
                                       .step_timeout_ms = 60000,
                                       .file_max_bytes = w->file_max_bytes,
                                       .keep_ms = w->keep_ms,
                                       .on_closed = on_closed,
                                       .user = w};
    int rc = pfl_loop_init(&w->loop) == 0 ? 0 : PFL_ENOMEM;

    for (size_t i = 0; rc == 0 && i < HOSTS; i++)
        rc = fake_host_open(&w->fakes[i], &w->loop);
    if (rc == 0)
        rc = prepare_config(w, "buffers { size_kb: 64 } data_sources { config { name: \"a\" } }",
                            60000);
    return rc != 0 ? rc : pfl_recordings_open(&conf, &w->recordings);
}

static void end(struct world *w)
{
    if (w->recordings != NULL)
        pfl_recordings_close(w->recordings);
    else
        on_closed(w);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_null(w->recordings);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    pfl_buf_fini(&w->config);
    pfl_closer_wait();
    pfl_sweep_assert_no_leak();
}

static void write_command(void *user, const char *file_name, struct pfl_command_line *ret_line)
{
    (void)user;
    pfl_command_line_begin(ret_line, "record");
    pfl_command_line_option(ret_line, "-o", file_name);
}

static struct pfl_host_spec *make_specs(const struct world *w)
{
    struct pfl_host_spec *specs = pfl_mem_calloc(HOSTS, sizeof(*specs));

    for (size_t i = 0; specs != NULL && i < HOSTS; i++) {
        specs[i] = (struct pfl_host_spec){.kind = PFL_HOST_UNIX, .is_named = true, .text = "fake"};
        (void)snprintf(specs[i].name, sizeof(specs[i].name), "h%zu", i);
        (void)snprintf(specs[i].address, sizeof(specs[i].address), "%s", w->fakes[i].address);
    }
    return specs;
}

/* 0 on failure: the reason is in w->why. */
static uint32_t start(struct world *w)
{
    struct pfl_recordings_order order = {.task = PFL_HOST_TASK_RECORD,
                                         .config = pfl_buf_get(&w->config),
                                         .info = &w->info,
                                         .is_streamed = w->is_streamed,
                                         .specs = make_specs(w),
                                         .specs_len = HOSTS,
                                         .what = "default",
                                         .where = "*",
                                         .write_command = write_command};
    uint32_t id = 0;

    w->why[0] = '\0';
    if (order.specs == NULL || pfl_recordings_start(w->recordings, &order, w->why, &id) != 0)
        return 0;
    return id;
}

static struct pfl_recording_view view_of(uint32_t id)
{
    struct pfl_recording_view view = {.state = PFL_RECORDING_VIEW_OVER};

    assert_true(pfl_recordings_get(world.recordings, id, &view));
    return view;
}

static void run_until(uint32_t id, enum pfl_recording_view_state state)
{
    while (view_of(id).state != state)
        uv_run(&world.loop, UV_RUN_ONCE);
}

/* ---- claims ---- */

static void recording_becomes_a_trace_of_both_hosts(void **state)
{
    struct pfl_recording_view v;
    struct stat st;
    uint32_t id;
    int fd;

    (void)state;
    prepare(&world);
    assert_int_equal(open_world(&world), 0);
    id = start(&world);
    assert_int_equal(id, 1);
    v = view_of(id);
    assert_int_equal(v.state, PFL_RECORDING_VIEW_BEGINS);
    assert_int_equal(v.hosts_len, HOSTS);
    assert_string_equal(v.what, "default");
    assert_string_equal(v.where, "*");
    assert_int_equal(v.duration_ms, 60000);
    assert_false(v.has_trace);
    assert_int_equal(pfl_recordings_open_trace(world.recordings, id), -1);
    assert_false(pfl_recordings_remove(world.recordings, id));
    run_until(id, PFL_RECORDING_VIEW_OVER);
    v = view_of(id);
    assert_true(v.has_trace);
    assert_int_equal(v.failed, 0);
    assert_string_equal(v.why, "");
    assert_string_equal(v.hosts[0].name, "h0");
    assert_string_equal(v.hosts[1].state, "done");
    assert_true(v.hosts[1].share == 1);
    assert_true(v.hosts[1].bytes > PACKETS * 100);
    assert_int_equal(v.read_bytes, v.hosts[0].bytes + v.hosts[1].bytes);
    assert_non_null(strstr(v.summary, "2 of 2 hosts"));
    assert_non_null(strstr(v.summary, v.file_name));
    assert_int_equal(strncmp(v.file_name, "perfleet-20", 11), 0);
    assert_non_null(strstr(v.command, v.file_name));
    fd = pfl_recordings_open_trace(world.recordings, id);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, v.file_bytes);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_nlink, 0);
    (void)close(fd);
    assert_true(pfl_recordings_remove(world.recordings, id));
    assert_false(pfl_recordings_get(world.recordings, id, &v));
    end(&world);
}

static void host_that_dies_is_said_and_the_other_is_in_the_trace(void **state)
{
    struct pfl_recording_view v;
    uint32_t id;

    (void)state;
    prepare(&world);
    world.fakes[1].trick = FAKE_HALF;
    world.fakes[1].method = "ReadBuffers";
    world.fakes[0].trick = FAKE_ENDS;
    assert_int_equal(open_world(&world), 0);
    id = start(&world);
    run_until(id, PFL_RECORDING_VIEW_READS);
    run_until(id, PFL_RECORDING_VIEW_OVER);
    v = view_of(id);
    assert_int_equal(v.failed, 1);
    assert_true(v.has_trace);
    assert_true(v.has_lost);
    assert_string_equal(v.hosts[0].why, "");
    assert_true(v.hosts[1].why[0] != '\0');
    assert_non_null(strstr(v.summary, "h1"));
    end(&world);
}

static void stop_is_that_of_the_command(void **state)
{
    struct pfl_recording_view v;
    uint32_t id;

    (void)state;
    prepare(&world);
    for (size_t i = 0; i < HOSTS; i++)
        world.fakes[i].trick = FAKE_HONEST;
    assert_int_equal(open_world(&world), 0);
    id = start(&world);
    run_until(id, PFL_RECORDING_VIEW_RUNS);
    v = view_of(id);
    assert_false(v.is_stopping);
    assert_true(pfl_recordings_stop(world.recordings, id));
    run_until(id, PFL_RECORDING_VIEW_OVER);
    v = view_of(id);
    assert_true(v.is_stopping);
    assert_true(v.has_trace);
    assert_string_equal(v.why, "");
    assert_true(pfl_recordings_stop(world.recordings, id)); /* again: nothing */
    assert_false(pfl_recordings_stop(world.recordings, 99));
    id = start(&world); /* before it began */
    assert_true(pfl_recordings_stop(world.recordings, id));
    run_until(id, PFL_RECORDING_VIEW_OVER);
    v = view_of(id);
    assert_string_equal(v.why, "stopped before it had begun");
    assert_false(v.has_trace);
    end(&world);
}

static void trace_that_is_too_large_ends_with_what_came(void **state)
{
    struct pfl_recording_view v;
    uint32_t id;

    (void)state;
    prepare(&world);
    world.file_max_bytes = 4096;
    for (size_t i = 0; i < HOSTS; i++) {
        world.fakes[i].trick = FAKE_HONEST;
        world.fakes[i].clears_every = 1;
    }
    world.is_streamed = true;
    assert_int_equal(open_world(&world), 0);
    id = start(&world);
    run_until(id, PFL_RECORDING_VIEW_OVER);
    v = view_of(id);
    assert_non_null(strstr(v.why, "the trace reached the limit of 0.0 MB for the page"));
    assert_true(v.has_trace);
    assert_true(v.elapsed_ms < 60000);
    end(&world);
}

static void part_of_the_disk_stays_free(void **state)
{
    struct pfl_recording_view v;
    uint32_t id;

    (void)state;
    prepare(&world);
    world.fakes[0].trick = FAKE_SILENT;
    world.fakes[0].method = "ReadBuffers";
    assert_int_equal(open_world(&world), 0);
    is_disk_low = true;
    assert_int_equal(start(&world), 0);
    assert_non_null(strstr(world.why, "are to stay free; start perfleet with another TMPDIR"));
    is_disk_low = false;
    id = start(&world);
    assert_int_equal(id, 1);
    run_until(id, PFL_RECORDING_VIEW_RUNS);
    is_disk_low = true; /* which does not matter before something is read */
    assert_true(pfl_recordings_stop(world.recordings, id));
    run_until(id, PFL_RECORDING_VIEW_OVER);
    is_disk_low = false;
    v = view_of(id);
    assert_non_null(strstr(v.why, "stopped, the trace has the data until then: the disk of "));
    assert_true(v.elapsed_ms < 60000);
    end(&world);
}

static void four_run_and_eight_are_kept(void **state)
{
    struct pfl_recording_view views[PFL_RECORDINGS_MAX];
    struct pfl_recording_view v;

    (void)state;
    prepare(&world);
    assert_int_equal(open_world(&world), 0);
    for (uint32_t i = 1; i <= PFL_RECORDINGS_MAX_RUNNING; i++)
        assert_int_equal(start(&world), i);
    assert_int_equal(start(&world), 0);
    assert_string_equal(world.why,
                        "4 recordings of this page are running: stop one, or wait for its end");
    for (uint32_t i = 1; i <= PFL_RECORDINGS_MAX_RUNNING; i++)
        run_until(i, PFL_RECORDING_VIEW_OVER);
    for (uint32_t i = 5; i <= PFL_RECORDINGS_MAX + 1; i++) {
        assert_int_equal(start(&world), i);
        run_until(i, PFL_RECORDING_VIEW_OVER);
    }
    assert_int_equal(pfl_recordings_list(world.recordings, views), PFL_RECORDINGS_MAX);
    assert_int_equal(views[0].id, PFL_RECORDINGS_MAX + 1);
    assert_int_equal(views[PFL_RECORDINGS_MAX - 1].id, 2);
    assert_false(pfl_recordings_get(world.recordings, 1, &v));
    end(&world);
}

static void time_removes_what_is_over(void **state)
{
    struct pfl_recording_view v;
    uint32_t id;

    (void)state;
    prepare(&world);
    world.keep_ms = 5000;
    assert_int_equal(open_world(&world), 0);
    id = start(&world);
    run_until(id, PFL_RECORDING_VIEW_OVER);
    assert_in_range(view_of(id).kept_s, 4, 5);
    end(&world);
    prepare(&world);
    world.keep_ms = 1;
    assert_int_equal(open_world(&world), 0);
    id = start(&world);
    while (pfl_recordings_get(world.recordings, id, &v))
        uv_run(&world.loop, UV_RUN_ONCE);
    end(&world);
}

static void it_can_be_closed_at_any_moment(void **state)
{
    (void)state;
    for (unsigned moment = 0; moment < MOMENTS; moment++) {
        prepare(&world);
        assert_int_equal(open_world(&world), 0);
        assert_int_equal(start(&world), 1);
        for (unsigned i = 0; i < moment; i++)
            uv_run(&world.loop, UV_RUN_NOWAIT);
        end(&world);
    }
}

static int use_once(void *arg)
{
    struct world *w = arg;
    struct pfl_recording_view v = {.state = PFL_RECORDING_VIEW_BEGINS};
    uint32_t id = 0;
    int rc;

    prepare(w);
    rc = open_world(w);
    if (rc == 0)
        id = start(w);
    while (id != 0 && pfl_recordings_get(w->recordings, id, &v) &&
           v.state != PFL_RECORDING_VIEW_OVER)
        uv_run(&w->loop, UV_RUN_ONCE);
    end(w);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(use_once, &world, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recording_becomes_a_trace_of_both_hosts),
        cmocka_unit_test(host_that_dies_is_said_and_the_other_is_in_the_trace),
        cmocka_unit_test(stop_is_that_of_the_command),
        cmocka_unit_test(trace_that_is_too_large_ends_with_what_came),
        cmocka_unit_test(part_of_the_disk_stays_free),
        cmocka_unit_test(four_run_and_eight_are_kept),
        cmocka_unit_test(time_removes_what_is_over),
        cmocka_unit_test(it_can_be_closed_at_any_moment),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
