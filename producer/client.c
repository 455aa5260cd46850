/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's thread: one connection, its commands and commits.
 *
 * Happy path: connect; bind ProducerPort and learn the methods by name; InitializeConnection and
 * GetAsyncCommand at once; register the data sources; a Sync tells when they are known. Then poll:
 * commands become callbacks; finished memory is committed when its batch is due.
 *
 * Failures: any error of the link, a refused greeting, malformed messages: everything of this
 * connection ends (instances stop, its memory is dead for writers) and a new one is tried after
 * 1 s, 2 s, ... 10 s, then every 30 s. A method that the service lacks is not called.
 * Ownership: this thread owns the link and a reference on the arbiter. Locks are never held while
 * the program's callbacks run.
 * Limits: the link's queue; commits wait until earlier ones have left.
 */
#include "producer/client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "producer/commits.h"
#include "producer/fork.h"
#include "producer/heap.h"
#include "producer/requests.h"

enum { INIT_REPLY_EMULATION = 3 };

uint32_t pfl_client_retry_step_ms = 1000;

uint64_t pfl_client_now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void pfl_client_wake(struct perfleet *p)
{
    uint64_t one = 1;
    ssize_t n = write(p->wake_fd, &one, sizeof(one));

    (void)n; /* full means readable: fine */
}

/* --- commands ---------------------------------------------------------------------------- */

static struct pfl_source *find_source_by_name(struct perfleet *p, struct pfl_span name)
{
    struct pfl_source *found = NULL;

    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < PERFLEET_MAX_SOURCES && found == NULL; i++) {
        struct pfl_source *s = p->sources[i];

        if (s != NULL && s->stage == PFL_SOURCE_REGISTERED && strlen(s->conf.name) == name.len &&
            memcmp(s->conf.name, name.data, name.len) == 0)
            found = s;
    }
    pthread_mutex_unlock(&p->lock);
    return found;
}

/* Sources are freed only after this thread let them go: the pointer stays good here. */
static struct pfl_source *find_source_by_instance(struct perfleet *p, uint64_t id,
                                                  int *ret_instance)
{
    struct pfl_source *found = NULL;

    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < PERFLEET_MAX_SOURCES && found == NULL; i++) {
        int at = p->sources[i] == NULL ? -1 : pfl_source_find_instance(p->sources[i], id);

        if (at >= 0) {
            found = p->sources[i];
            *ret_instance = at;
        }
    }
    pthread_mutex_unlock(&p->lock);
    return found;
}

static void setup_tracing(struct perfleet *p)
{
    uint32_t page_kb = p->command.page_kb == 0 ? 4 : p->command.page_kb;
    uint64_t page_bytes = (uint64_t)page_kb * 1024;
    struct pfl_arbiter_conf conf = {
        .page_bytes = (uint32_t)page_bytes,
        .wake_fd = p->wake_fd,
        .link_fd = p->link.fd,
        .commit_now = pfl_commits_now,
        .commit_here = pfl_commits_here,
        .user = p,
    };
    int fd = pfl_link_take_fd(&p->link);
    bool had_failed = p->link.has_failed;
    struct stat st;

    p->link.has_failed = true; /* until all is well */
    if (fd < 0 || p->arbiter != NULL)
        goto out;
    if (fstat(fd, &st) != 0 || st.st_size < 0 ||
        !pfl_limits_is_layout((uint64_t)st.st_size, page_bytes))
        goto out;
    conf.smb_bytes = (size_t)st.st_size;
    conf.base = mmap(NULL, conf.smb_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (conf.base == MAP_FAILED)
        goto out;
    if (pfl_arbiter_new(&conf, &p->arbiter) != 0) {
        munmap(conf.base, conf.smb_bytes);
        goto out;
    }
    p->link.has_failed = had_failed;
out:
    if (fd >= 0)
        close(fd);
}

static int setup_source(struct perfleet *p, struct pfl_source *s)
{
    struct pfl_instance_conf conf = {.id = p->command.instance_id, .config = p->command.config};

    return pfl_source_setup(s, &conf, p->arbiter);
}

static void on_setup_command(struct perfleet *p)
{
    struct pfl_source *s = find_source_by_name(p, p->command.name);
    int instance;

    if (s != NULL && p->arbiter != NULL &&
        find_source_by_instance(p, p->command.instance_id, &instance) == NULL)
        (void)setup_source(p, s);
}

static void on_start_command(struct perfleet *p)
{
    int instance = -1;
    struct pfl_source *s = find_source_by_instance(p, p->command.instance_id, &instance);

    if (s == NULL) { /* a service that does not announce it first */
        s = find_source_by_name(p, p->command.name);
        instance = s == NULL || p->arbiter == NULL ? -1 : setup_source(p, s);
    }
    if (instance >= 0)
        pfl_source_start(s, (uint32_t)instance);
    /* Also when we do without: nobody shall wait for us. */
    pfl_requests_invoke_number(p, PFL_IPC_NOTIFY_STARTED, p->command.instance_id);
}

static void say_stopped(struct perfleet *p, uint64_t id)
{
    pfl_requests_commit(p);
    pfl_requests_invoke_number(p, PFL_IPC_NOTIFY_STOPPED, id);
}

static void on_stop_command(struct perfleet *p)
{
    uint64_t id = p->command.instance_id;
    int instance = -1;
    struct pfl_source *s = find_source_by_instance(p, id, &instance);

    if (s == NULL || pfl_source_stop(s, (uint32_t)instance))
        say_stopped(p, id);
}

static void on_flush_command(struct perfleet *p)
{
    uint64_t flush_id = p->command.flush_id;

    for (size_t i = 0; i < p->command.ids_len; i++) {
        int instance = -1;
        struct pfl_source *s = find_source_by_instance(p, p->command.ids[i], &instance);

        if (s != NULL && s->conf.on_flush != NULL &&
            s->instances[instance].state != PFL_INSTANCE_SET_UP)
            s->conf.on_flush(s->conf.user, (uint32_t)instance, p->command.flush_flags);
    }
    pfl_source_flush_thread();
    if (p->arbiter != NULL)
        pfl_arbiter_ack_flush(p->arbiter, flush_id);
}

static void on_clear_command(struct perfleet *p)
{
    for (size_t i = 0; i < p->command.ids_len; i++) {
        int instance = -1;
        struct pfl_source *s = find_source_by_instance(p, p->command.ids[i], &instance);

        if (s != NULL)
            pfl_source_clear_incremental(s, (uint32_t)instance);
    }
}

static void on_command(struct perfleet *p, struct pfl_span body)
{
    if (pfl_ipc_parse_command(body, &p->command) != 0) {
        p->link.has_failed = true;
        return;
    }
    switch (p->command.kind) {
    case PFL_IPC_CMD_SETUP_TRACING:
        setup_tracing(p);
        break;
    case PFL_IPC_CMD_SETUP_DATA_SOURCE:
        on_setup_command(p);
        break;
    case PFL_IPC_CMD_START_DATA_SOURCE:
        on_start_command(p);
        break;
    case PFL_IPC_CMD_STOP_DATA_SOURCE:
        on_stop_command(p);
        break;
    case PFL_IPC_CMD_FLUSH:
        on_flush_command(p);
        break;
    case PFL_IPC_CMD_CLEAR_INCREMENTAL:
        on_clear_command(p);
        break;
    case PFL_IPC_CMD_UNKNOWN:
        break;
    }
}

/* --- replies ----------------------------------------------------------------------------- */

static void on_bind_reply(struct perfleet *p, struct pfl_span body)
{
    if (p->state != PFL_CLIENT_BINDING)
        return;
    if (pfl_ipc_parse_bind(body, &p->service) != 0 ||
        p->service.method_ids[PFL_IPC_INITIALIZE_CONNECTION] == 0 ||
        p->service.method_ids[PFL_IPC_GET_ASYNC_COMMAND] == 0 ||
        p->service.method_ids[PFL_IPC_COMMIT_DATA] == 0) {
        p->link.has_failed = true;
        return;
    }
    p->state = PFL_CLIENT_GREETING;
    pfl_requests_greet(p);
}

static void on_greeting_reply(struct perfleet *p, const struct pfl_ipc_reply *reply)
{
    struct pfl_reader r = pfl_reader_of(reply->body);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == INIT_REPLY_EMULATION && f.value != 0)
            p->link.has_failed = true; /* no shared memory: not supported */
    }
    if (!reply->is_success || r.failed)
        p->link.has_failed = true;
    if (p->link.has_failed)
        return;
    p->state = PFL_CLIENT_READY;
    p->retries = 0;
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
        p->link.has_failed = p->link.has_failed || is_error;
    } else if (reply->request_id == p->greeting_request) {
        on_greeting_reply(p, reply);
    } else if (reply->request_id == p->command_request) {
        if (is_error || !reply->is_success || !reply->has_more)
            p->link.has_failed = true;
        else
            on_command(p, reply->body);
    } else if (p->sync_request != 0 && reply->request_id == p->sync_request) {
        finish_sync(p);
    }
}

static void read_link(struct perfleet *p)
{
    struct pfl_ipc_reply reply;
    struct pfl_span frame;

    pfl_link_read(&p->link);
    /* Frames that came before the end of the stream still count. */
    while (!pfl_fork_is_child() && pfl_link_next_frame(&p->link, &frame)) {
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

    /* LEFT is announced only when the source was let go: two steps. */
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
        s = p->sources[i] != NULL && p->sources[i]->stage == PFL_SOURCE_REGISTERED ? p->sources[i]
                                                                                   : NULL;
        pthread_mutex_unlock(&p->lock);
        for (uint32_t at = 0; s != NULL && at < PERFLEET_MAX_INSTANCES; at++) {
            uint64_t id = s->instances[at].id;

            if (pfl_source_finish_stop(s, at))
                say_stopped(p, id);
        }
    }
}

static void send_triggers(struct perfleet *p)
{
    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < p->triggers_len; i++) {
        uint8_t bytes[PFL_CLIENT_TRIGGER_NAME_MAX + 16];
        struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
        char *name = p->triggers[i];

        pfl_writer_field_bytes(&w, 1, name, strlen(name));
        pfl_heap_free(name);
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
    if (p->state != PFL_CLIENT_READY)
        return;
    while ((s = take_source(p, PFL_SOURCE_NEW, PFL_SOURCE_REGISTERED)) != NULL)
        pfl_requests_register_source(p, s);
    finish_stops(p);
    send_triggers(p);
    send_sync(p);
}

/* --- the connection's life --------------------------------------------------------------- */

static void stop_sources(struct perfleet *p)
{
    struct pfl_source *s;

    while ((s = take_source(p, PFL_SOURCE_REGISTERED, PFL_SOURCE_NEW)) != NULL)
        pfl_source_stop_all(s);
}

static void disconnect(struct perfleet *p)
{
    pthread_mutex_lock(&p->lock);
    p->is_ready = false;
    p->lives++;
    p->syncs_done = p->syncs_wanted;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    if (p->arbiter != NULL)
        pfl_arbiter_kill(p->arbiter);
    stop_sources(p);
    pfl_source_drop_thread();
    pfl_arbiter_unref(p->arbiter);
    p->arbiter = NULL;
    p->state = PFL_CLIENT_AWAY;
    p->sync_request = 0;
    p->commit_at_ms = 0;
    pfl_link_close(&p->link);
}

static void schedule_retry(struct perfleet *p)
{
    uint64_t delay = PFL_CLIENT_RETRY_SLOW_MS;

    if (p->retries < PFL_CLIENT_RETRY_STEPS)
        delay = (uint64_t)++p->retries * pfl_client_retry_step_ms;
    p->retry_at_ms = pfl_client_now_ms() + delay;
}

static void try_connect(struct perfleet *p)
{
    struct pfl_writer w;

    if (pfl_client_now_ms() < p->retry_at_ms)
        return;
    if (pfl_link_open(&p->link, &p->address) != 0) {
        schedule_retry(p);
        return;
    }
    p->state = PFL_CLIENT_BINDING;
    p->last_request = 1;
    p->greeting_request = p->command_request = 0;
    w = pfl_link_reserve(&p->link, PFL_REQUESTS_FRAME_ROOM);
    pfl_ipc_encode_bind(&w, p->last_request);
    pfl_link_commit(&p->link, &w);
}

static int poll_timeout_ms(struct perfleet *p)
{
    uint64_t at = p->state == PFL_CLIENT_AWAY ? p->retry_at_ms : p->commit_at_ms;
    uint64_t now = pfl_client_now_ms();

    /* While the socket is full the timer does not count: the socket wakes us (commits.c). */
    if (p->state != PFL_CLIENT_AWAY && (at == 0 || pfl_requests_queued(p) > 0))
        return -1;
    return at <= now ? 0 : (int)(at - now);
}

static void wait_for_events(struct perfleet *p)
{
    struct pollfd fds[2] = {
        {.fd = p->wake_fd, .events = POLLIN},
        {.fd = p->state == PFL_CLIENT_AWAY ? -1 : p->link.fd, .events = POLLIN},
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
        read_link(p);
}

/* The last things of a connection that the program ends. */
static void say_goodbye(struct perfleet *p)
{
    if (p->state == PFL_CLIENT_READY && !p->link.has_failed) {
        stop_sources(p);
        pfl_source_drop_thread();
        pfl_requests_commit(p);
        pfl_commits_drain(p, PFL_CLIENT_CLOSE_MS);
    }
    disconnect(p);
}

void *pfl_client_run(void *arg)
{
    struct perfleet *p = arg;
    bool is_ending = false;

    while (!is_ending) {
        if (p->state == PFL_CLIENT_AWAY)
            try_connect(p);
        serve_program(p);
        /* A callback forked and came back in the child too: this thread is the parent's. */
        if (pfl_fork_is_child())
            return NULL;
        pfl_commits_turn(p);
        if (p->state != PFL_CLIENT_AWAY && p->link.has_failed) {
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
    say_goodbye(p);
    pfl_arbiter_batch_fini(&p->batch);
    return NULL;
}
