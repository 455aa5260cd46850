/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts that are disconnected while an answer is expected: an agent died, or a network is down.
 * Happy path: a check four times a second; no host is disconnected, or it reconnects while the
 * others continue.
 *
 * Failures: when nothing else is left to do, disconnected hosts are waited for, and then they fail:
 * before the recording runs after the time of a step, because no data is lost; later after wait_ms,
 * because their data is lost then. If the relay itself is unreachable, no host can continue: unless
 * the operator set a time, the lifetime of streams (ten minutes) limits the wait.
 */
#include <stdio.h>

#include "consumer/recording/recording_impl.h"

#define IN(state) (1u << PFL_HOST_##state)

unsigned pfl_recording_waited_states(const struct pfl_recording *self)
{
    switch (self->phase) {
    case PFL_RECORDING_CONNECT:
        return IN(CONNECTING) | IN(CLOCK_BEFORE) | IN(SETUP);
    case PFL_RECORDING_START:
        return IN(READY) | IN(STARTING);
    case PFL_RECORDING_RUN:
        return IN(STARTING) | IN(RECORDING);
    case PFL_RECORDING_STOP:
    case PFL_RECORDING_READ:
        return IN(STARTING) | IN(RECORDING) | IN(FLUSHING) | IN(DISABLING) | IN(DETACHING) |
               IN(CLONING) | IN(STATS) | IN(CLOCK_AFTER) |
               (self->phase == PFL_RECORDING_READ ? IN(STOPPED) | IN(READING) : 0);
    default:
        return 0;
    }
}

static uint64_t wait_ms_of(const struct pfl_recording *r)
{
    uint64_t ms = r->conf.wait_ms != 0 ? r->conf.wait_ms : PFL_RECORDING_WAIT_MS;

    return r->phase <= PFL_RECORDING_START && r->conf.each_host.step_timeout_ms < ms
               ? r->conf.each_host.step_timeout_ms
               : ms;
}

static bool is_relay_away(const struct pfl_recording *r)
{
    const struct pfl_tunnel_client *tunnel = r->conf.each_host.conn.tunnel;

    return tunnel != NULL && !pfl_tunnel_client_is_up(tunnel);
}

static void count_absent(struct pfl_recording *r)
{
    unsigned states = pfl_recording_waited_states(r);
    struct pfl_recording_absent found = {.is_waited_for = true};

    for (size_t i = 0; i < r->hosts_len; i++) {
        struct pfl_host_recording *host_recording = r->hosts[i].recording;
        uint64_t ms = pfl_host_recording_get_away_ms(host_recording);

        if ((states >> r->hosts[i].state & 1) == 0)
            continue;
        if (ms == 0)
            found.is_waited_for = false;
        found.hosts += ms != 0;
        if (ms > found.away_ms) {
            found.away_ms = ms;
            found.longest = host_recording;
        }
    }
    found.is_waited_for = found.is_waited_for && found.hosts != 0 && r->phase != PFL_RECORDING_RUN;
    found.is_relay = found.hosts != 0 && is_relay_away(r);
    r->absent = found;
}

void pfl_recording_watch(struct pfl_recording *self)
{
    uint64_t now_ms = uv_now(self->conf.each_host.conn.loop);
    char why[160];
    bool has_begun = self->phase > PFL_RECORDING_START;

    count_absent(self);
    if (!self->absent.is_waited_for ||
        (has_begun && self->absent.is_relay && !self->conf.has_wait)) {
        self->waiting_since_ms = 0;
        return;
    }
    if (self->waiting_since_ms == 0)
        self->waiting_since_ms = now_ms;
    if (now_ms - self->waiting_since_ms < wait_ms_of(self))
        return;
    snprintf(why, sizeof(why), "it was away, and was not waited for any longer than %.0f s (%s)",
             (double)wait_ms_of(self) / 1e3,
             wait_ms_of(self) == self->conf.each_host.step_timeout_ms ? "--timeout" : "--wait");
    pfl_recording_leave_absent(self, why);
}

void pfl_recording_leave_absent(struct pfl_recording *self, const char *why)
{
    unsigned states = pfl_recording_waited_states(self);

    self->waiting_since_ms = 0;
    for (size_t i = 0; i < self->hosts_len; i++)
        if ((states >> self->hosts[i].state & 1) != 0 &&
            pfl_host_recording_get_away_ms(self->hosts[i].recording) != 0)
            pfl_host_recording_fail(self->hosts[i].recording, why);
}

void pfl_recording_get_absent(const struct pfl_recording *self,
                              struct pfl_recording_absent *ret_absent)
{
    *ret_absent = self->absent;
}
