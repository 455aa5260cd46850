/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracing before there is a session, or a service (docs/abi/smb.md sections 5 and 7).
 *
 * Happy path: the program provides memory; perfleet_startup begins an instance whose buffer is a
 * reservation, so that its data is held back. The service adopts the memory with
 * InitializeConnection; a session with the same config takes the instance over, and its start binds
 * the reservation.
 *
 * Failures: the memory is full: packets are dropped. After the deadline the instance stops, and its
 * chunks are committed to buffer 0, which frees them. If the service refuses the memory, all
 * instances stop, and the next connection is made without it. While there is no service everything
 * waits. Ownership: an instance owns its pfl_startup; the connection owns the memory's descriptor
 * until a service has it. Limits: PFL_RESERVATIONS_MAX sessions for one memory.
 */
#include "producer/ipc/startups.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perfetto/data_source_config.fields.h"
#include "producer/ipc/commits.h"
#include "producer/platform/clock.h"
#include "producer/platform/fork.h"
#include "producer/platform/heap.h"

#define OWN_PAGE_KB 4u

/* --- memory ------------------------------------------------------------------------------- */

static int seal(int fd, size_t bytes)
{
    if (ftruncate(fd, (off_t)bytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return PFL_EIO;
    return 0;
}

int pfl_startups_make_memory(struct perfleet *p)
{
    uint32_t page_kb = p->conf.page_kb == 0 ? OWN_PAGE_KB : p->conf.page_kb;
    struct pfl_arbiter_conf conf = {
        .smb_bytes = (size_t)p->conf.own_smb_kb * 1024,
        .page_bytes = page_kb * 1024,
        .wake_fd = p->wake_fd,
        .connection_fd = -1,
        .commit_now = pfl_commits_now,
        .commit_here = pfl_commits_here,
        .user = p,
    };
    int rc;

    if (!pfl_limits_is_smb(conf.smb_bytes, conf.page_bytes))
        return PFL_EINVAL;
    p->conf.page_kb = page_kb;
    p->own_fd = memfd_create("perfleet", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    rc = p->own_fd < 0 ? PFL_EIO : seal(p->own_fd, conf.smb_bytes);
    if (rc != 0)
        return rc;
    conf.base = mmap(NULL, conf.smb_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->own_fd, 0);
    if (conf.base == MAP_FAILED)
        return PFL_ENOMEM;
    rc = pfl_arbiter_new(&conf, &p->arbiter);
    if (rc != 0)
        munmap(conf.base, conf.smb_bytes);
    return rc;
}

void pfl_startups_drop_memory(struct perfleet *p)
{
    if (p->own_fd >= 0)
        close(p->own_fd);
    p->own_fd = -1;
}

/* --- sessions ----------------------------------------------------------------------------- */

static int begin(struct perfleet *p, const struct pfl_startup_request *request)
{
    struct pfl_source_instance_conf conf = {.config = request->config};
    int instance;
    int rc;

    if (p->arbiter == NULL)
        return PERFLEET_EGONE;
    rc = pfl_startup_new(request->config, &conf.startup);
    if (rc != 0)
        return rc == PFL_ENOMEM ? PERFLEET_ENOMEM : PERFLEET_EINVAL;
    conf.startup->deadline_ms = pfl_clock_monotonic_ms() + request->timeout_ms;
    conf.startup->reservation = pfl_arbiter_reserve(p->arbiter);
    instance =
        conf.startup->reservation == 0 ? -1 : pfl_source_setup(request->source, &conf, p->arbiter);
    if (instance < 0) {
        pfl_arbiter_unreserve(p->arbiter, conf.startup->reservation);
        pfl_startup_free(conf.startup);
        return PERFLEET_ELIMIT;
    }
    pfl_source_start(request->source, (uint32_t)instance);
    p->has_startups = true;
    return 0;
}

static struct pfl_startup_request *take_request(struct perfleet *p)
{
    struct pfl_startup_request *request;

    pthread_mutex_lock(&p->lock);
    request = p->startup_requests;
    if (request != NULL)
        p->startup_requests = request->next;
    pthread_mutex_unlock(&p->lock);
    return request;
}

static struct pfl_source *source_at(struct perfleet *p, uint32_t place)
{
    struct pfl_source *s;

    pthread_mutex_lock(&p->lock);
    s = p->sources[place];
    pthread_mutex_unlock(&p->lock);
    return s;
}

/* The earliest deadline of the source; those that are over by `now_ms` end. 0: none. */
static uint64_t end_late(struct pfl_source *s, uint64_t now_ms)
{
    uint64_t next = 0;

    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        const struct pfl_source_instance *at = &s->instances[i];

        if (at->startup == NULL || at->startup->is_taken ||
            at->state != PFL_SOURCE_INSTANCE_STARTED)
            continue;
        if (now_ms >= at->startup->deadline_ms)
            pfl_source_stop(s, i);
        else if (next == 0 || at->startup->deadline_ms < next)
            next = at->startup->deadline_ms;
    }
    return next;
}

uint64_t pfl_startups_deadline_ms(struct perfleet *p)
{
    uint64_t next = 0;

    for (uint32_t i = 0; i < PERFLEET_MAX_SOURCES && p->has_startups; i++) {
        struct pfl_source *s = source_at(p, i);
        uint64_t at = s == NULL ? 0 : end_late(s, 0);

        if (at != 0 && (next == 0 || at < next))
            next = at;
    }
    p->has_startups = next != 0;
    return next;
}

void pfl_startups_serve(struct perfleet *p)
{
    struct pfl_startup_request *request;
    uint64_t now_ms = pfl_clock_monotonic_ms();

    while ((request = take_request(p)) != NULL) {
        int rc = begin(p, request);

        pthread_mutex_lock(&p->lock);
        request->rc = rc;
        request->is_done = true;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
    }
    for (uint32_t i = 0; i < PERFLEET_MAX_SOURCES && p->has_startups; i++) {
        struct pfl_source *s = source_at(p, i);

        if (s != NULL)
            end_late(s, now_ms);
    }
}

void pfl_startups_end_all(struct perfleet *p)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_SOURCES; i++) {
        struct pfl_source *s = source_at(p, i);
        bool has_one = false;

        for (uint32_t at = 0; s != NULL && at < PERFLEET_MAX_INSTANCES; at++)
            has_one = has_one || s->instances[at].startup != NULL;
        if (has_one)
            pfl_source_stop_all(s);
    }
}

/* --- a session comes ---------------------------------------------------------------------- */

static uint32_t target_buffer_of(struct pfl_span config)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;
    uint32_t buffer = 0;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == DATA_SOURCE_CONFIG__TARGET_BUFFER && f.type == PFL_WIRE_VARINT)
            buffer = (uint16_t)f.value;
    }
    return buffer;
}

bool pfl_startups_take_over(struct pfl_source *s, const struct pfl_source_instance_conf *conf)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        struct pfl_source_instance *at = &s->instances[i];

        if (at->startup == NULL || at->startup->is_taken ||
            at->state != PFL_SOURCE_INSTANCE_STARTED ||
            !pfl_startup_is_for(at->startup, conf->config))
            continue;
        at->startup->is_taken = true;
        at->startup->buffer = target_buffer_of(conf->config);
        at->id = conf->id;
        at->has_id = true;
        return true;
    }
    return false;
}

void pfl_startups_bind(struct pfl_source *s, uint32_t instance)
{
    struct pfl_source_instance *at = &s->instances[instance];

    if (at->startup == NULL)
        return;
    pfl_arbiter_resolve(at->arbiter, at->startup->reservation, at->startup->buffer);
    pfl_startup_free(at->startup);
    at->startup = NULL;
}

/* --- the program's side ------------------------------------------------------------------- */

int perfleet_startup(struct perfleet *tracing, struct perfleet_source *source, const void *config,
                     size_t config_bytes, uint32_t timeout_ms)
{
    struct pfl_startup_request request = {
        .source = (struct pfl_source *)(void *)source,
        .config = pfl_span_of(config, config_bytes),
        .timeout_ms = timeout_ms,
    };

    if (pfl_fork_is_child())
        return PERFLEET_EFORK;
    if (pthread_equal(tracing->thread, pthread_self()))
        return PERFLEET_EDEADLK;
    if (timeout_ms == 0)
        return PERFLEET_ETIMEOUT;
    pthread_mutex_lock(&tracing->lock);
    request.next = tracing->startup_requests;
    tracing->startup_requests = &request;
    pfl_client_wake(tracing);
    while (!request.is_done)
        pthread_cond_wait(&tracing->changed, &tracing->lock);
    pthread_mutex_unlock(&tracing->lock);
    return request.rc;
}
