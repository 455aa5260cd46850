/* SPDX-License-Identifier: Apache-2.0 */
/* See recording_world.h. */
#include "tests/unit/consumer/recording/recording_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/loop.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/support/sweep.h"

static void on_progress(void *user, const struct pfl_recording *recording,
                        const struct pfl_host_recording *host_recording)
{
    struct recording_world *w = user;

    if (host_recording == NULL && pfl_recording_get_phase(recording) == PFL_RECORDING_RUN)
        w->has_run = true;
    if (w->has_run && w->loses_file) {
        char partial[80];

        snprintf(partial, sizeof(partial), "%s.partial", w->path);
        unlink(partial);
    }
}

static void on_over(void *user)
{
    struct recording_world *w = user;

    w->is_over = true;
    for (size_t i = 0; i < HOSTS; i++)
        fake_host_close(&w->fakes[i]);
}

void recording_world_prepare(struct recording_world *w)
{
    *w = (struct recording_world){.quorum = 1, .step_ms = STEP_MS};
    pfl_log_set_level(PFL_LOG_ERROR);
    for (size_t i = 0; i < HOSTS; i++) {
        w->fakes[i].packets = PACKETS;
        w->fakes[i].packet_bytes = 100;
        w->fakes[i].offset_ns = (int64_t)i * OFFSET_NS;
    }
    memcpy(w->path, "/tmp/perfleet-test-XXXXXX", 26);
    close(mkstemp(w->path));
}

int recording_world_start(struct recording_world *w)
{
    static const uint8_t config[] = {0x0a, 0x02, 0x08, 0x40};
    struct pfl_recording_conf conf = {
        .each_host = {.conn = {.loop = &w->loop},
                      .is_streamed = w->passes != 0,
                      .ring_bytes = 100,
                      .trace_config = pfl_span_of(config, sizeof(config)),
                      .flush_timeout_ms = 1,
                      .stop_timeout_ms = 1,
                      .step_timeout_ms = w->step_ms,
                      .has_read_limit = w->read_limit != 0,
                      .read_limit_bytes = w->read_limit},
        .specs = w->specs,
        .specs_len = HOSTS,
        .output_path = w->path,
        .rotation = w->rotation,
        .change_ms = 1000,
        .has_keep_free = true,
        .keep_free_bytes = w->keep_free,
        .quorum = w->quorum,
        .on_progress = on_progress,
        .on_over = on_over,
        .user = w,
    };
    int rc = pfl_loop_init(&w->loop) == 0 ? 0 : PFL_ENOMEM;

    for (size_t i = 0; rc == 0 && i < HOSTS; i++) {
        rc = fake_host_open(&w->fakes[i], &w->loop);
        w->specs[i] = (struct pfl_host_spec){.kind = PFL_HOST_UNIX, .is_named = true};
        snprintf(w->specs[i].name, sizeof(w->specs[i].name), "h%zu", i);
        snprintf(w->specs[i].address, sizeof(w->specs[i].address), "%s", w->fakes[i].address);
        snprintf(w->specs[i].text, sizeof(w->specs[i].text), "fake");
    }
    return rc != 0 ? rc : pfl_recording_new(&conf, &w->recording);
}

static bool has_been_read(const struct recording_world *w)
{
    for (size_t i = 0; i < pfl_recording_get_hosts_len(w->recording); i++) {
        struct pfl_recording_host h;

        pfl_recording_get_host(w->recording, i, &h);
        if (h.report->passes < w->passes && h.report->why[0] == '\0')
            return false;
    }
    return true;
}

void recording_world_finish(struct recording_world *w)
{
    if (w->recording == NULL)
        on_over(w);
    while (uv_run(&w->loop, UV_RUN_ONCE) != 0)
        if (w->has_run && !w->is_left_running && w->recording != NULL && !w->is_over &&
            has_been_read(w))
            pfl_recording_stop(w->recording);
}

void recording_world_fini(struct recording_world *w)
{
    pfl_recording_free(w->recording);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    unlink(w->path);
    pfl_sweep_assert_no_leak();
}

void recording_world_run(struct recording_world *w)
{
    assert_int_equal(recording_world_start(w), 0);
    recording_world_finish(w);
    assert_true(w->is_over);
}

struct pfl_recording_host recording_world_result(const struct recording_world *w, size_t host)
{
    struct pfl_recording_host h;

    pfl_recording_get_host(w->recording, host, &h);
    return h;
}

size_t recording_world_count_packets(const struct recording_world *w)
{
    static uint8_t bytes[1u << 20];
    FILE *f = fopen(w->path, "rb");
    struct pfl_reader r;
    struct pfl_field field;
    size_t n = 0;

    assert_non_null(f);
    r = pfl_reader_of(pfl_span_of(bytes, fread(bytes, 1, sizeof(bytes), f)));
    fclose(f);
    while (pfl_reader_field(&r, &field))
        n++;
    assert_false(r.failed);
    return n;
}
