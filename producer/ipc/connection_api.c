/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's side of the connection: open, register, wait, close. Any thread.
 *
 * Functions change data under the lock, wake the library's thread, and wait for it if necessary.
 * Failures leave nothing behind. Ownership: the connection owns its data sources.
 */
#include "producer/perfleet.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "producer/data_source/fork_handlers.h"
#include "producer/data_source/layer.h"
#include "producer/ipc/client.h"
#include "producer/ipc/commits.h"
#include "producer/ipc/startups.h"
#include "producer/platform/clock.h"
#include "producer/platform/fork.h"
#include "producer/platform/heap.h"

static int public_err(int rc)
{
    switch (rc) {
    case 0:
        return PERFLEET_OK;
    case PFL_ENOMEM:
        return PERFLEET_ENOMEM;
    case PFL_ELIMIT:
        return PERFLEET_ELIMIT;
    case PFL_EINVAL:
        return PERFLEET_EINVAL;
    case PFL_ECLOSED:
        return PERFLEET_EGONE;
    default:
        return PERFLEET_ESYSTEM;
    }
}

const char *perfleet_err_str(int err)
{
    static const char *const words[] = {
        "ok",
        "out of memory",
        "invalid argument",
        "a limit was met",
        "a data source of this name exists",
        "the system refused",
        "timed out",
        "no connection to the service",
        "not available in the child of a fork",
        "not legal inside a callback",
        "an untrusted user serves the socket",
    };

    if (err > 0 || (size_t)-err >= sizeof(words) / sizeof(words[0]))
        return "unknown error";
    return words[-err];
}

/* --- open and close ---------------------------------------------------------------------- */

static void free_connection(struct perfleet *p)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_SOURCES; i++) {
        if (p->sources[i] != NULL)
            pfl_layer_on_source_free(&p->sources[i]->pub);
        pfl_source_free(p->sources[i]);
    }
    for (uint32_t i = 0; i < p->triggers_len; i++)
        pfl_heap_free(p->triggers[i].name);
    if (p->wake_fd >= 0)
        close(p->wake_fd);
    pfl_connection_close(&p->connection);
    pfl_startups_drop_memory(p);
    pfl_arbiter_unref(p->arbiter);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    pfl_heap_free((void *)(uintptr_t)p->conf.producer_name);
    pfl_heap_free(p);
}

static int init_sync(struct perfleet *p)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);

    if (rc != 0)
        return PERFLEET_ESYSTEM;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, &attr);
    pthread_condattr_destroy(&attr);
    return 0;
}

/* The library's thread takes no signals: they are the program's. */
static int start_thread(struct perfleet *p)
{
    sigset_t all;
    sigset_t before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&p->thread, NULL, pfl_client_run, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        errno = rc;
        return PERFLEET_ESYSTEM;
    }
    pthread_setname_np(p->thread, "perfleet");
    return 0;
}

int perfleet_open(const struct perfleet_conf *conf, struct perfleet **ret_tracing)
{
    struct pfl_connection_address address;
    struct perfleet *p;
    int rc;

    if (pfl_fork_is_child())
        return PERFLEET_EFORK;
    if (conf->producer_name == NULL || conf->producer_name[0] == '\0' ||
        strlen(conf->producer_name) > PFL_SOURCE_NAME_MAX || conf->smb_kb > UINT32_MAX / 1024 ||
        conf->page_kb > UINT32_MAX / 1024 || conf->own_smb_kb > UINT32_MAX / 1024 ||
        pfl_connection_find_address(conf->socket, &address) != 0)
        return PERFLEET_EINVAL;
    if (!pfl_fork_handlers_install())
        return PERFLEET_ESYSTEM;
    pfl_clock_init();
    p = pfl_heap_zalloc(sizeof(*p));
    if (p == NULL)
        return PERFLEET_ENOMEM;
    p->wake_fd = p->own_fd = -1;
    p->connection.fd = p->connection.recv_fd = p->connection.send_fd = -1;
    p->address = address;
    p->conf = *conf;
    p->conf.socket = NULL;
    p->conf.batch_ms = conf->batch_ms == 0 ? PFL_CLIENT_BATCH_MS : conf->batch_ms;
    p->conf.producer_name = pfl_heap_copy(conf->producer_name, strlen(conf->producer_name));
    rc = init_sync(p);
    if (rc == 0 && p->conf.producer_name == NULL)
        rc = PERFLEET_ENOMEM;
    if (rc == 0) {
        p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        rc = p->wake_fd < 0 ? PERFLEET_ESYSTEM : 0;
    }
    if (rc == 0 && p->conf.own_smb_kb != 0)
        rc = public_err(pfl_startups_make_memory(p));
    if (rc == 0)
        rc = start_thread(p);
    if (rc != 0) {
        free_connection(p);
        return rc;
    }
    *ret_tracing = p;
    return 0;
}

void perfleet_close(struct perfleet *tracing)
{
    if (tracing == NULL || pfl_fork_is_child() || pthread_equal(tracing->thread, pthread_self()))
        return;
    pfl_source_flush_thread();
    pthread_mutex_lock(&tracing->lock);
    tracing->is_ending = true;
    pthread_mutex_unlock(&tracing->lock);
    pfl_client_wake(tracing);
    pthread_join(tracing->thread, NULL);
    free_connection(tracing);
}

/* --- waiting ----------------------------------------------------------------------------- */

static struct timespec deadline_of(uint32_t timeout_ms)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    ts.tv_sec += timeout_ms / 1000;
    ts.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (ts.tv_nsec >= 1000000000) {
        ts.tv_sec++;
        ts.tv_nsec -= 1000000000;
    }
    return ts;
}

/* Locked. */
static bool is_connected(const struct perfleet *p)
{
    return p->is_ready && p->syncs_done >= p->registered_at;
}

int perfleet_wait_connected(struct perfleet *tracing, uint32_t timeout_ms)
{
    struct timespec deadline = deadline_of(timeout_ms);
    int rc = 0;

    if (pfl_fork_is_child())
        return PERFLEET_EFORK;
    if (pthread_equal(tracing->thread, pthread_self()))
        return PERFLEET_EDEADLK;
    pthread_mutex_lock(&tracing->lock);
    while (!is_connected(tracing) && rc == 0)
        rc = pthread_cond_timedwait(&tracing->changed, &tracing->lock, &deadline);
    rc = PERFLEET_ETIMEOUT;
    if (is_connected(tracing))
        rc = 0;
    else if (tracing->refusal[0] != '\0')
        rc = PERFLEET_ESTRANGER;
    pthread_mutex_unlock(&tracing->lock);
    return rc;
}

bool perfleet_is_connected(struct perfleet *tracing)
{
    bool answer;

    if (pfl_fork_is_child())
        return false;
    pthread_mutex_lock(&tracing->lock);
    answer = is_connected(tracing);
    pthread_mutex_unlock(&tracing->lock);
    return answer;
}

bool perfleet_get_refusal(struct perfleet *tracing, char *ret_text, size_t text_bytes)
{
    if (text_bytes == 0 || pfl_fork_is_child())
        return false;
    pthread_mutex_lock(&tracing->lock);
    (void)snprintf(ret_text, text_bytes, "%s", tracing->refusal);
    pthread_mutex_unlock(&tracing->lock);
    return ret_text[0] != '\0';
}

int perfleet_sync(struct perfleet *tracing, uint32_t timeout_ms)
{
    struct timespec deadline = deadline_of(timeout_ms);
    uint64_t wanted;
    uint64_t lives;
    int rc = 0;

    if (pfl_fork_is_child())
        return PERFLEET_EFORK;
    if (pthread_equal(tracing->thread, pthread_self()))
        return PERFLEET_EDEADLK;
    pthread_mutex_lock(&tracing->lock);
    lives = tracing->lives;
    if (!tracing->is_ready) {
        rc = PERFLEET_EGONE;
        goto out;
    }
    wanted = ++tracing->syncs_wanted;
    pfl_client_wake(tracing);
    while (tracing->syncs_done < wanted && rc == 0)
        rc = pthread_cond_timedwait(&tracing->changed, &tracing->lock, &deadline);
    if (tracing->lives != lives)
        rc = PERFLEET_EGONE;
    else
        rc = tracing->syncs_done < wanted ? PERFLEET_ETIMEOUT : 0;
out:
    pthread_mutex_unlock(&tracing->lock);
    return rc;
}

void perfleet_commit(struct perfleet *tracing)
{
    if (!pfl_fork_is_child() && pthread_equal(tracing->thread, pthread_self()) &&
        tracing->arbiter != NULL)
        (void)pfl_commits_now(tracing);
}

/* Locked. */
static void forget_late_triggers(struct perfleet *p, uint64_t now_ms)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < p->triggers_len; i++) {
        if (now_ms > p->triggers[i].deadline_ms)
            pfl_heap_free(p->triggers[i].name);
        else
            p->triggers[kept++] = p->triggers[i];
    }
    p->triggers_len = kept;
}

int perfleet_trigger(struct perfleet *tracing, const char *trigger_name)
{
    return perfleet_trigger_within(tracing, trigger_name, 0);
}

int perfleet_trigger_within(struct perfleet *tracing, const char *trigger_name, uint32_t ttl_ms)
{
    uint64_t now_ms = pfl_clock_monotonic_ms();
    size_t len = strlen(trigger_name);
    char *copy;
    int rc = PERFLEET_ELIMIT;

    if (pfl_fork_is_child())
        return PERFLEET_EFORK;
    if (len == 0 || len > PFL_CLIENT_TRIGGER_NAME_MAX)
        return PERFLEET_EINVAL;
    copy = pfl_heap_copy(trigger_name, len);
    if (copy == NULL)
        return PERFLEET_ENOMEM;
    pthread_mutex_lock(&tracing->lock);
    forget_late_triggers(tracing, now_ms);
    if (!tracing->is_ready && ttl_ms == 0) {
        rc = PERFLEET_EGONE;
    } else if (tracing->triggers_len < PFL_CLIENT_TRIGGERS_MAX) {
        /* With a connection it is sent at once, or a moment later. */
        tracing->triggers[tracing->triggers_len++] =
            (struct pfl_client_trigger){copy, now_ms + (tracing->is_ready ? UINT32_MAX : ttl_ms)};
        copy = NULL;
        rc = 0;
    }
    pthread_mutex_unlock(&tracing->lock);
    pfl_heap_free(copy);
    pfl_client_wake(tracing);
    return rc;
}

/* --- data sources ------------------------------------------------------------------------ */

/* Locked. A free place, or a negative error. */
static int find_place(const struct perfleet *p, const char *name)
{
    int place = PERFLEET_ELIMIT;

    for (uint32_t i = 0; i < PERFLEET_MAX_SOURCES; i++) {
        if (p->sources[i] == NULL)
            place = place < 0 ? (int)i : place;
        else if (strcmp(p->sources[i]->conf.name, name) == 0)
            return PERFLEET_EEXIST;
    }
    return place;
}

int perfleet_register(struct perfleet *tracing, const struct perfleet_source_conf *conf,
                      struct perfleet_source **ret_source)
{
    struct pfl_source *s = NULL;
    int place;
    int rc;

    if (pfl_fork_is_child())
        return PERFLEET_EFORK;
    rc = pfl_source_new(tracing, tracing->thread, conf, &s);
    if (rc != 0)
        return public_err(rc);
    pthread_mutex_lock(&tracing->lock);
    place = find_place(tracing, s->conf.name);
    if (place >= 0) {
        *ret_source = &s->pub;
        tracing->sources[place] = s;
        tracing->registered_at = ++tracing->syncs_wanted;
    }
    pthread_mutex_unlock(&tracing->lock);
    if (place < 0) {
        pfl_source_free(s);
        return place;
    }
    pfl_client_wake(tracing);
    return 0;
}

int perfleet_unregister(struct perfleet *tracing, struct perfleet_source *source)
{
    struct pfl_source *s = (struct pfl_source *)(void *)source;

    if (pfl_fork_is_child())
        return PERFLEET_EFORK;
    if (pthread_equal(tracing->thread, pthread_self()))
        return PERFLEET_EDEADLK;
    pfl_source_flush_thread();
    pthread_mutex_lock(&tracing->lock);
    s->stage = PFL_SOURCE_LEAVING;
    pfl_client_wake(tracing);
    while (s->stage != PFL_SOURCE_LEFT)
        pthread_cond_wait(&tracing->changed, &tracing->lock);
    for (uint32_t i = 0; i < PERFLEET_MAX_SOURCES; i++) {
        if (tracing->sources[i] == s)
            tracing->sources[i] = NULL;
    }
    pthread_mutex_unlock(&tracing->lock);
    pfl_layer_on_source_free(source);
    pfl_source_free(s);
    return 0;
}

int perfleet_update(struct perfleet *tracing, struct perfleet_source *source,
                    const void *descriptor_fields, size_t bytes)
{
    struct pfl_source *s = (struct pfl_source *)(void *)source;
    const void *old;
    char *copy;

    if (pfl_fork_is_child())
        return PERFLEET_EFORK;
    if (bytes > PFL_DESCRIPTOR_MAX)
        return PERFLEET_EINVAL;
    copy = pfl_heap_copy(descriptor_fields, bytes);
    if (copy == NULL)
        return PERFLEET_ENOMEM;
    pthread_mutex_lock(&tracing->lock);
    old = s->conf.descriptor_fields;
    s->conf.descriptor_fields = copy;
    s->conf.descriptor_fields_bytes = bytes;
    if (s->stage == PFL_SOURCE_REGISTERED)
        s->stage = PFL_SOURCE_CHANGED;
    pthread_mutex_unlock(&tracing->lock);
    pfl_heap_free((void *)(uintptr_t)old);
    pfl_client_wake(tracing);
    return 0;
}

void perfleet_flush_done(struct perfleet_source *source, uint32_t instance)
{
    struct pfl_source *s = (struct pfl_source *)(void *)source;

    if (pfl_fork_is_child() || instance >= PERFLEET_MAX_INSTANCES)
        return;
    atomic_fetch_add(&s->flush_done[instance], 1);
    pfl_client_wake(s->owner);
}

void perfleet_stop_done(struct perfleet_source *source, uint32_t instance)
{
    struct pfl_source *s = (struct pfl_source *)(void *)source;

    if (pfl_fork_is_child() || instance >= PERFLEET_MAX_INSTANCES)
        return;
    atomic_fetch_or(&s->stop_done, 1u << instance);
    pfl_client_wake(s->owner);
}

int perfleet_writer_open(struct perfleet_source *source, uint32_t instance,
                         struct perfleet_writer **ret_writer)
{
    struct pfl_source *s = (struct pfl_source *)(void *)source;
    struct pfl_trace_writer *writer;
    int rc;

    if (pfl_fork_is_child())
        return PERFLEET_EFORK;
    if (instance >= PERFLEET_MAX_INSTANCES)
        return PERFLEET_EINVAL;
    rc = pfl_source_open_writer(s, instance, &writer);
    if (rc != 0)
        return public_err(rc);
    *ret_writer = pfl_trace_writer_get_public(writer);
    return 0;
}
