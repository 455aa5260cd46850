/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's thread: one connection, its commands and commits.
 *
 * Happy path: connect; bind ProducerPort and look up the methods by name; InitializeConnection and
 * GetAsyncCommand at once; register the data sources; the reply to a Sync means that they are
 * registered. Then poll: commands become callbacks; finished memory is committed when its batch is
 * due.
 *
 * Failures: any error of the connection, a refused greeting, malformed messages: everything of this
 * connection ends (instances stop, its memory is dead for writers) and a new one is tried after 1
 * s, 2 s, ... 10 s, then every 30 s. A method that the service lacks is not called. Ownership: this
 * thread owns the connection and a reference on the arbiter. Locks are never held while the
 * program's callbacks run. Limits: the connection's queue; commits wait until earlier ones have
 * left.
 */
#include "producer/ipc/client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "perfetto/producer_port.fields.h"
#include "producer/data_source/layer.h"
#include "producer/ipc/commands.h"
#include "producer/ipc/commits.h"
#include "producer/ipc/requests.h"
#include "producer/ipc/startups.h"
#include "producer/platform/clock.h"
#include "producer/platform/fork.h"
#include "producer/platform/heap.h"
#include "producer/platform/note.h"

uint32_t pfl_client_retry_step_ms = 1000;

/* --- replies ----------------------------------------------------------------------------- */

static void on_bind_reply(struct perfleet *p, struct pfl_span body)
{
    if (p->state != PFL_CLIENT_BINDING)
        return;
    if (pfl_ipc_parse_bind(body, &p->service) != 0 ||
        p->service.method_ids[PFL_IPC_INITIALIZE_CONNECTION] == 0 ||
        p->service.method_ids[PFL_IPC_GET_ASYNC_COMMAND] == 0 ||
        p->service.method_ids[PFL_IPC_COMMIT_DATA] == 0) {
        p->connection.has_failed = true;
        return;
    }
    p->state = PFL_CLIENT_GREETING;
    pfl_requests_greet(p);
}

/* The service does without our memory: so do we, with the next connection, at once. */
static void on_own_memory_refused(struct perfleet *p)
{
    pfl_startups_drop_memory(p);
    p->is_refused = true;
    p->connection.has_failed = true;
}

static void on_greeting_reply(struct perfleet *p, const struct pfl_ipc_reply *reply)
{
    struct pfl_reader r = pfl_reader_of(reply->body);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == INITIALIZE_CONNECTION_RESPONSE__USE_SHMEM_EMULATION)
            p->is_emulated = f.value != 0;
        else if (f.id == INITIALIZE_CONNECTION_RESPONSE__USING_SHMEM_PROVIDED_BY_PRODUCER)
            p->is_own_adopted = f.value != 0;
    }
    if (!reply->is_success || r.failed)
        p->connection.has_failed = true;
    else if (p->own_fd >= 0 && !p->is_own_adopted && !p->is_emulated)
        on_own_memory_refused(p);
    if (p->connection.has_failed)
        return;
    pfl_startups_drop_memory(p); /* the service has it now */
    p->state = PFL_CLIENT_READY;
    if (p->arbiter != NULL)
        pfl_arbiter_set_online(p->arbiter, true, p->connection.fd);
    p->retries = 0;
    pfl_note("connected as %s%s", p->conf.producer_name,
             p->is_emulated ? ", without shared memory" : "");
    pthread_mutex_lock(&p->lock);
    p->is_ready = true;
    p->registered_at = ++p->syncs_wanted;
    pthread_mutex_unlock(&p->lock);
}

static void finish_sync(struct perfleet *p)
{
    p->sync_request = 0;
    pthread_mutex_lock(&p->lock);
    p->syncs_done = p->syncs_asked;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void on_reply(struct perfleet *p, const struct pfl_ipc_reply *reply)
{
    bool is_error = reply->kind == PFL_IPC_REQUEST_ERROR;

    if (reply->kind == PFL_IPC_BIND_REPLY) {
        on_bind_reply(p, reply->body);
    } else if (p->state == PFL_CLIENT_BINDING) {
        p->connection.has_failed = p->connection.has_failed || is_error;
    } else if (reply->request_id == p->greeting_request) {
        on_greeting_reply(p, reply);
    } else if (reply->request_id == p->command_request) {
        if (is_error || !reply->is_success || !reply->has_more)
            p->connection.has_failed = true;
        else
            pfl_commands_do(p, reply->body);
    } else if (p->sync_request != 0 && reply->request_id == p->sync_request) {
        finish_sync(p);
    }
}

static void read_connection(struct perfleet *p)
{
    struct pfl_ipc_reply reply;
    struct pfl_span frame;

    pfl_connection_read(&p->connection);
    /* Frames that came before the end of the stream still count. */
    while (!pfl_fork_is_child() && pfl_connection_next_frame(&p->connection, &frame)) {
        if (pfl_ipc_parse_frame(frame, &reply) == 0 && reply.kind != PFL_IPC_OTHER)
            on_reply(p, &reply);
    }
}

/* --- what the program asked for ---------------------------------------------------------- */

/* Takes the first source in `stage` and moves it on to `next`; NULL: none. */
static struct pfl_source *take_source(struct perfleet *p, enum pfl_source_stage stage,
                                      enum pfl_source_stage next)
{
    struct pfl_source *found = NULL;

    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < PERFLEET_MAX_SOURCES && found == NULL; i++) {
        if (p->sources[i] != NULL && p->sources[i]->stage == stage) {
            found = p->sources[i];
            found->stage = next;
        }
    }
    pthread_mutex_unlock(&p->lock);
    return found;
}

static void let_sources_go(struct perfleet *p)
{
    struct pfl_source *s;

    /* LEFT is announced only after the source was released: two steps. */
    while ((s = take_source(p, PFL_SOURCE_LEAVING, PFL_SOURCE_NEW)) != NULL) {
        pthread_mutex_lock(&p->lock);
        s->stage = PFL_SOURCE_LEAVING;
        pthread_mutex_unlock(&p->lock);
        pfl_source_stop_all(s);
        if (p->state == PFL_CLIENT_READY) {
            pfl_requests_commit(p);
            pfl_requests_unregister_source(p, s);
        }
        pthread_mutex_lock(&p->lock);
        s->stage = PFL_SOURCE_LEFT;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
    }
}

static void finish_stops(struct perfleet *p)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_SOURCES; i++) {
        struct pfl_source *s;

        pthread_mutex_lock(&p->lock);
        s = p->sources[i];
        pthread_mutex_unlock(&p->lock);
        for (uint32_t at = 0; s != NULL && at < PERFLEET_MAX_INSTANCES; at++) {
            bool has_id = s->instances[at].has_id;
            uint64_t id = s->instances[at].id;

            if (pfl_source_finish_stop(s, at) && has_id)
                pfl_commands_say_stopped(p, id);
        }
    }
}

static void send_triggers(struct perfleet *p)
{
    uint64_t now = pfl_clock_monotonic_ms();

    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < p->triggers_len; i++) {
        uint8_t bytes[PFL_CLIENT_TRIGGER_NAME_MAX + 16];
        struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
        char *name = p->triggers[i].name;

        pfl_writer_field_bytes(&w, ACTIVATE_TRIGGERS_REQUEST__TRIGGER_NAMES, name, strlen(name));
        pfl_heap_free(name);
        if (now <= p->triggers[i].deadline_ms)
            pfl_requests_invoke(p, PFL_IPC_ACTIVATE_TRIGGERS,
                                pfl_span_of(bytes, sizeof(bytes) - w.left), true);
    }
    p->triggers_len = 0;
    pthread_mutex_unlock(&p->lock);
}

static void send_sync(struct perfleet *p)
{
    bool is_wanted;

    pthread_mutex_lock(&p->lock);
    is_wanted = p->syncs_wanted > p->syncs_done && p->sync_request == 0;
    if (is_wanted)
        p->syncs_asked = p->syncs_wanted;
    pthread_mutex_unlock(&p->lock);
    if (!is_wanted)
        return;
    pfl_requests_commit(p);
    p->sync_request = pfl_requests_invoke(p, PFL_IPC_SYNC, pfl_span_of(NULL, 0), false);
    if (p->sync_request == 0)
        finish_sync(p); /* a service without Sync: sent is all that can be known */
}

static void serve_program(struct perfleet *p)
{
    struct pfl_source *s;

    let_sources_go(p);
    finish_stops(p);
    pfl_startups_serve(p);
    pfl_layer_on_turn(p);
    if (p->state != PFL_CLIENT_READY)
        return;
    while ((s = take_source(p, PFL_SOURCE_NEW, PFL_SOURCE_REGISTERED)) != NULL)
        pfl_requests_register_source(p, s);
    while ((s = take_source(p, PFL_SOURCE_CHANGED, PFL_SOURCE_REGISTERED)) != NULL)
        pfl_requests_update_source(p, s);
    pfl_commands_settle_flushes(p);
    send_triggers(p);
    send_sync(p);
}

/* --- the connection's life --------------------------------------------------------------- */

static void stop_sources(struct perfleet *p)
{
    struct pfl_source *s;

    while ((s = take_source(p, PFL_SOURCE_CHANGED, PFL_SOURCE_NEW)) != NULL)
        pfl_source_stop_all(s);
    while ((s = take_source(p, PFL_SOURCE_REGISTERED, PFL_SOURCE_NEW)) != NULL)
        pfl_source_stop_all(s);
}

/* Data in the connection's memory is lost with it. */
static void drop_arbiter(struct perfleet *p)
{
    if (p->arbiter != NULL)
        pfl_arbiter_kill(p->arbiter);
    stop_sources(p);
    pfl_startups_end_all(p);
    pfl_source_drop_thread();
    pfl_arbiter_unref(p->arbiter);
    p->arbiter = NULL;
}

static void disconnect(struct perfleet *p)
{
    pthread_mutex_lock(&p->lock);
    p->is_ready = false;
    p->lives++;
    p->syncs_done = p->syncs_wanted;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    /* Memory that no service has got yet is kept for the next one, and so are startup sessions. */
    if (p->own_fd >= 0 && p->arbiter != NULL)
        pfl_arbiter_set_online(p->arbiter, false, -1);
    else
        drop_arbiter(p);
    p->is_emulated = p->is_own_adopted = false;
    p->flushes_len = 0;
    p->state = PFL_CLIENT_AWAY;
    p->sync_request = 0;
    p->commit_at_ms = 0;
    pfl_connection_close(&p->connection);
}

static void schedule_retry(struct perfleet *p)
{
    uint64_t delay = PFL_CLIENT_RETRY_SLOW_MS;

    if (p->is_refused)
        delay = 0;
    else if (p->retries < PFL_CLIENT_RETRY_STEPS)
        delay = (uint64_t)++p->retries * pfl_client_retry_step_ms;
    p->is_refused = false;
    p->retry_at_ms = pfl_clock_monotonic_ms() + delay;
}

/* An attempt that fails like the one before is not said again. */
static void note_attempt(struct perfleet *p, int rc, const char *why)
{
    bool is_abstract = p->address.un.sun_path[0] == '\0';
    const char *name = p->address.un.sun_path + is_abstract;

    if (rc == 0)
        pfl_note("connecting to %s%s", is_abstract ? "@" : "", name);
    else if (rc != p->noted_err)
        pfl_note("no tracing service at %s%s: %s; trying again until there is one",
                 is_abstract ? "@" : "", name, why[0] != '\0' ? why : strerror(errno));
    p->noted_err = rc;
}

static void try_connect(struct perfleet *p)
{
    char why[PFL_SERVICE_USER_WHY_BYTES] = "";
    struct pfl_writer w;
    int rc;

    if (pfl_clock_monotonic_ms() < p->retry_at_ms)
        return;
    rc = pfl_connection_open(&p->connection, &p->address, why);
    note_attempt(p, rc, why);
    pthread_mutex_lock(&p->lock);
    memcpy(p->refusal, why, sizeof(why));
    pthread_mutex_unlock(&p->lock);
    if (rc != 0) {
        schedule_retry(p);
        return;
    }
    p->state = PFL_CLIENT_BINDING;
    if (p->arbiter != NULL)
        pfl_arbiter_set_online(p->arbiter, false, p->connection.fd);
    p->last_request = 1;
    p->greeting_request = p->command_request = 0;
    w = pfl_connection_reserve(&p->connection, PFL_REQUESTS_FRAME_ROOM);
    pfl_ipc_encode_bind(&w, p->last_request);
    pfl_connection_commit(&p->connection, &w);
}

static int poll_timeout_ms(struct perfleet *p)
{
    uint64_t at = p->state == PFL_CLIENT_AWAY ? p->retry_at_ms : p->commit_at_ms;
    uint64_t startup_at = pfl_startups_deadline_ms(p);
    uint64_t now = pfl_clock_monotonic_ms();

    /* While the socket is full the timer does not count: the socket wakes us (commits.c). */
    if (p->state != PFL_CLIENT_AWAY && pfl_requests_queued(p) > 0)
        at = 0;
    if (startup_at != 0 && (at == 0 || startup_at < at))
        at = startup_at;
    if (at == 0 && p->state != PFL_CLIENT_AWAY)
        return -1;
    return at <= now ? 0 : (int)(at - now);
}

static void wait_for_events(struct perfleet *p)
{
    struct pollfd fds[2] = {
        {.fd = p->wake_fd, .events = POLLIN},
        {.fd = p->state == PFL_CLIENT_AWAY ? -1 : p->connection.fd, .events = POLLIN},
    };
    uint64_t count;
    ssize_t n;

    if (pfl_requests_queued(p) > 0)
        fds[1].events |= POLLOUT;
    if (poll(fds, 2, poll_timeout_ms(p)) <= 0)
        return;
    if (fds[0].revents != 0) {
        n = read(p->wake_fd, &count, sizeof(count));
        (void)n;
    }
    if ((fds[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
        read_connection(p);
}

/* The last things of a connection that the program ends. */
static void finish_sources(struct perfleet *p)
{
    if (p->state == PFL_CLIENT_READY && !p->connection.has_failed) {
        stop_sources(p);
        pfl_source_drop_thread();
        pfl_requests_commit(p);
        pfl_commits_drain(p, PFL_CLIENT_CLOSE_MS);
    }
    pfl_startups_drop_memory(p);
    disconnect(p);
}

void *pfl_client_run(void *arg)
{
    struct perfleet *p = arg;
    bool is_ending = false;

    if (p->arbiter != NULL)
        pfl_arbiter_set_commit_thread(p->arbiter);
    while (!is_ending) {
        if (p->state == PFL_CLIENT_AWAY)
            try_connect(p);
        serve_program(p);
        /* A callback forked and came back in the child too: this thread is the parent's. */
        if (pfl_fork_is_child())
            return NULL;
        pfl_commits_turn(p);
        if (p->state != PFL_CLIENT_AWAY && p->connection.has_failed) {
            pfl_note("the connection to the tracing service ended%s",
                     p->state == PFL_CLIENT_READY ? "" : " before it was accepted");
            disconnect(p);
            schedule_retry(p);
        }
        wait_for_events(p);
        if (pfl_fork_is_child())
            return NULL;
        pthread_mutex_lock(&p->lock);
        is_ending = p->is_ending;
        pthread_mutex_unlock(&p->lock);
    }
    let_sources_go(p);
    finish_sources(p);
    pfl_arbiter_batch_fini(&p->batch);
    return NULL;
}
