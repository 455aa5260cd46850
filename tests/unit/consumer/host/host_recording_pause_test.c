/* SPDX-License-Identifier: Apache-2.0 */
/* A host that is held back while the disk is slow, also by its last packets. */
#include "consumer/host/host_recording.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/io/loop.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/fake_host.h"

#define PACKETS 100u
#define LONG_MS 60000u

struct world {
    uv_loop_t loop;
    struct fake_host fake;
    struct pfl_host_spec spec;
    struct pfl_host_recording *recording;
    unsigned packets;
    bool is_hurried; /* once it frees its session */
};

static int on_packet(void *user, struct pfl_host_recording *recording, const struct iovec *slices,
                     int slices_len, size_t bytes)
{
    struct world *w = user;

    (void)slices;
    (void)slices_len;
    (void)bytes;
    w->packets++;
    pfl_host_recording_pause(recording);
    return 0;
}

/* Each barrier is passed at once. */
static void on_change(void *user, struct pfl_host_recording *recording)
{
    struct world *w = user;

    switch (pfl_host_recording_get_state(recording)) {
    case PFL_HOST_READY:
        pfl_host_recording_begin(recording);
        break;
    case PFL_HOST_RECORDING:
        pfl_host_recording_end(recording);
        break;
    case PFL_HOST_STOPPED:
        pfl_host_recording_read(recording);
        break;
    case PFL_HOST_READ_OUT:
        pfl_host_recording_free_session(recording);
        break;
    case PFL_HOST_FREEING:
        if (w->is_hurried)
            pfl_host_recording_hurry(recording);
        break;
    case PFL_HOST_DONE:
    case PFL_HOST_FAILED:
        fake_host_close(&w->fake);
        break;
    default:
        break;
    }
}

static void run(struct world *w, const char *silent_at)
{
    static const uint8_t config[] = {0x0a, 0x02, 0x08, 0x40};
    struct pfl_host_recording_conf conf = {
        .conn = {.loop = &w->loop, .spec = &w->spec},
        .trace_config = pfl_span_of(config, sizeof(config)),
        .flush_timeout_ms = 1,
        .stop_timeout_ms = 1,
        .step_timeout_ms = silent_at != NULL ? 150 : LONG_MS,
        .on_change = on_change,
        .on_packet = on_packet,
        .user = w,
    };

    assert_int_equal(pfl_loop_init(&w->loop), 0);
    w->fake = (struct fake_host){.packets = PACKETS, .packet_bytes = 100};
    if (silent_at != NULL) {
        w->fake.trick = FAKE_SILENT;
        w->fake.method = silent_at;
    }
    assert_int_equal(fake_host_open(&w->fake, &w->loop), 0);
    w->spec = (struct pfl_host_spec){.kind = PFL_HOST_UNIX, .is_named = true, .name = "one"};
    (void)snprintf(w->spec.address, sizeof(w->spec.address), "%s", w->fake.address);
    assert_int_equal(pfl_host_recording_new(&conf, &w->recording), 0);
    while (uv_run(&w->loop, UV_RUN_ONCE) != 0)
        if (pfl_host_recording_get_state(w->recording) == PFL_HOST_READING)
            pfl_host_recording_resume(w->recording); /* the disk has room again */
    assert_int_equal(pfl_host_recording_get_state(w->recording), PFL_HOST_DONE);
    assert_int_equal(w->packets, PACKETS);
    pfl_host_recording_free(w->recording);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    pfl_sweep_assert_no_leak();
}

static void last_packets_hold_it_back_and_it_ends(void **state)
{
    struct world w = {.is_hurried = false};

    (void)state;
    run(&w, NULL);
}

static void so_it_does_when_it_is_hurried(void **state)
{
    struct world w = {.is_hurried = true};

    (void)state;
    run(&w, NULL);
}

static void and_when_freeing_is_not_answered(void **state)
{
    struct world w = {.is_hurried = false};

    (void)state;
    run(&w, "FreeBuffers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_packets_hold_it_back_and_it_ends),
        cmocka_unit_test(so_it_does_when_it_is_hurried),
        cmocka_unit_test(and_when_freeing_is_not_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
