/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures for the guardrails: see guardrails_port.h.
 *
 * Every period it reads resident memory from /proc/self/statm, which stays open, and CPU time from
 * getrusage. It also restarts the kernel's real timer, which kills a process whose loop is stuck.
 * Failures: open, without a descriptor; a failed measurement is skipped.
 */
#include "service/port/guardrails_port.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/log.h"

static uint64_t ms_of(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_usec / 1000;
}

static bool measure(const struct pfl_guardrails_port *self, struct pfl_guardrails_look *ret_look)
{
    struct rusage usage;
    char text[128];
    char *resident;
    ssize_t len;

    if (lseek(self->statm, 0, SEEK_SET) != 0 || getrusage(RUSAGE_SELF, &usage) != 0)
        return false;
    len = read(self->statm, text, sizeof(text) - 1);
    if (len <= 0)
        return false;
    text[len] = '\0';
    (void)strtoull(text, &resident, 10); /* of the whole address space */
    *ret_look = (struct pfl_guardrails_look){
        .now_ms = pfl_service_now_ms(self->service),
        .resident_bytes = strtoull(resident, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE),
        .cpu_ms = ms_of(usage.ru_utime) + ms_of(usage.ru_stime),
    };
    return true;
}

static void wind_up(uint32_t seconds)
{
    const struct itimerval timer = {.it_value = {.tv_sec = (time_t)seconds}};

    (void)setitimer(ITIMER_REAL, &timer, NULL);
}

static void on_timer(void *user)
{
    struct pfl_guardrails_port *self = user;
    uint64_t limit_bytes = pfl_guardrails_get_limit(self->service);
    enum pfl_guardrails_verdict verdict = PFL_GUARDRAILS_WELL;
    struct pfl_guardrails_look look;

    wind_up(PFL_GUARDRAILS_STUCK_S);
    if (measure(self, &look))
        verdict = pfl_guardrails_judge(&self->guardrails, &look, limit_bytes);
    if (verdict != PFL_GUARDRAILS_WELL) {
        pfl_log_error("guardrail-hit", "what=%s resident_bytes=%" PRIu64 " limit_bytes=%" PRIu64,
                      verdict == PFL_GUARDRAILS_MEMORY ? "memory" : "cpu", look.resident_bytes,
                      limit_bytes);
        abort();
    }
    pfl_deadline_timer_set(&self->timer,
                           pfl_service_now_ms(self->service) + PFL_GUARDRAILS_PERIOD_MS);
}

int pfl_guardrails_port_open(struct pfl_guardrails_port *self, uv_loop_t *loop,
                             const struct pfl_service *service)
{
    int rc;

    self->service = service;
    self->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (self->statm < 0)
        return PFL_EIO;
    rc = pfl_deadline_timer_open(&self->timer, loop, on_timer, self);
    if (rc != 0) {
        (void)close(self->statm);
        return rc;
    }
    self->is_open = true;
    pfl_deadline_timer_set(&self->timer, 0);
    return 0;
}

void pfl_guardrails_port_close(struct pfl_guardrails_port *self)
{
    if (!self->is_open)
        return;
    self->is_open = false;
    wind_up(0);
    pfl_deadline_timer_close(&self->timer);
    (void)close(self->statm);
}
