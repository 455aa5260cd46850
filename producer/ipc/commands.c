/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes the service's commands, on the library's thread (docs/abi/service.md).
 *
 * Happy path: SetupTracing brings the memory, once; setup, start and stop of an instance become the
 * program's callbacks and are answered; a flush asks the instances and is acknowledged when all of
 * them have done it. A setup with the config of a startup session takes that over without a
 * callback; its start binds the written data to the session's buffer.
 *
 * Failures: memory that cannot be used, or a second one: the connection ends. Commands for unknown
 * instances, or one too many, are answered, too, so that the service does not wait.
 */
#include "producer/ipc/commands.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "producer/ipc/commits.h"
#include "producer/ipc/requests.h"
#include "producer/ipc/startups.h"
#include "producer/platform/foreign_fd.h"
#include "producer/platform/note.h"

#define EMULATED_SMB_BYTES 1048576u

static struct pfl_source *find_source_by_name(struct perfleet *p, struct pfl_span name)
{
    struct pfl_source *found = NULL;

    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < PERFLEET_MAX_SOURCES && found == NULL; i++) {
        struct pfl_source *s = p->sources[i];

        if (s != NULL && pfl_source_is_registered(s) && strlen(s->conf.name) == name.len &&
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

/* Private memory: chunks are sent in CommitData. */
static void *map_emulated(const struct perfleet *p, struct pfl_arbiter_conf *conf)
{
    size_t bytes = p->conf.smb_kb == 0 ? EMULATED_SMB_BYTES : (size_t)p->conf.smb_kb * 1024;

    if (!pfl_limits_is_layout(bytes, conf->page_bytes))
        bytes = EMULATED_SMB_BYTES;
    conf->smb_bytes = bytes;
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void *map_shared(int fd, struct pfl_arbiter_conf *conf)
{
    struct stat st;
    struct statfs fs;
    int seals;

    /* The service is not trusted: memory that shrinks, or huge pages with an empty pool, would
     * cause SIGBUS in this program. */
    seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstatfs(fd, &fs) != 0 ||
        fs.f_type != TMPFS_MAGIC || fstat(fd, &st) != 0 || st.st_size < 0 ||
        !pfl_limits_is_layout((uint64_t)st.st_size, conf->page_bytes))
        return MAP_FAILED;
    conf->smb_bytes = (size_t)st.st_size;
    return mmap(NULL, conf->smb_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static bool make_arbiter(struct perfleet *p, int fd)
{
    uint64_t page_bytes = (uint64_t)(p->command.page_kb == 0 ? 4 : p->command.page_kb) * 1024;
    struct pfl_arbiter_conf conf = {
        .page_bytes = (uint32_t)page_bytes,
        .wake_fd = p->wake_fd,
        .connection_fd = p->connection.fd,
        .commit_now = pfl_commits_now,
        .commit_here = pfl_commits_here,
        .user = p,
    };

    if (page_bytes > PFL_PAGE_MAX_BYTES)
        return false;
    conf.base = p->is_emulated ? map_emulated(p, &conf) : map_shared(fd, &conf);
    if (conf.base == MAP_FAILED)
        return false;
    if (pfl_arbiter_new(&conf, &p->arbiter) == 0)
        return true;
    munmap(conf.base, conf.smb_bytes);
    return false;
}

static void setup_tracing(struct perfleet *p)
{
    int fd = pfl_connection_take_fd(&p->connection);

    /* For memory that we brought along the message is empty; without memory it may be repeated. */
    if (p->arbiter == NULL) {
        if (!make_arbiter(p, fd))
            p->connection.has_failed = true;
    } else if (!p->is_own_adopted && !p->is_emulated) {
        p->connection.has_failed = true;
    }
    if (p->connection.has_failed)
        pfl_foreign_fd_close(fd); /* it may be anything */
    else if (fd >= 0)
        close(fd);
}

static int setup_source(struct perfleet *p, struct pfl_source *s)
{
    struct pfl_source_instance_conf conf = {.id = p->command.instance_id,
                                            .config = p->command.config};

    if (pfl_startups_take_over(s, &conf))
        return pfl_source_find_instance(s, conf.id);
    return pfl_source_setup(s, &conf, p->arbiter);
}

static void on_setup_command(struct perfleet *p)
{
    struct pfl_source *s = find_source_by_name(p, p->command.name);
    int instance;

    if (s == NULL)
        pfl_note("a session wants a data source that we do not have");
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
    if (instance >= 0) {
        pfl_note("data source %s starts for instance %llu", s->conf.name,
                 (unsigned long long)p->command.instance_id);
        pfl_source_start(s, (uint32_t)instance);
        pfl_startups_bind(s, (uint32_t)instance);
    }
    /* Also without an instance, so that the service does not wait. */
    pfl_requests_invoke_number(p, PFL_IPC_NOTIFY_STARTED, p->command.instance_id);
}

void pfl_commands_say_stopped(struct perfleet *p, uint64_t id)
{
    pfl_requests_commit(p);
    pfl_requests_invoke_number(p, PFL_IPC_NOTIFY_STOPPED, id);
}

static void on_stop_command(struct perfleet *p)
{
    uint64_t id = p->command.instance_id;
    int instance = -1;
    struct pfl_source *s = find_source_by_instance(p, id, &instance);

    if (s != NULL)
        pfl_note("data source %s stops for instance %llu", s->conf.name, (unsigned long long)id);
    if (s == NULL || pfl_source_stop(s, (uint32_t)instance))
        pfl_commands_say_stopped(p, id);
}

/* Acknowledges the flushes that are done, as far as none before them is not. */
void pfl_commands_settle_flushes(struct perfleet *p)
{
    uint64_t oldest = UINT64_MAX;
    uint64_t done = 0;
    uint32_t kept = 0;

    if (p->arbiter == NULL || p->flushes_len == 0)
        return;
    for (uint32_t i = 0; i < PERFLEET_MAX_SOURCES; i++) {
        struct pfl_source *s;

        pthread_mutex_lock(&p->lock);
        s = p->sources[i];
        pthread_mutex_unlock(&p->lock);
        if (s != NULL && (s->conf.flags & PERFLEET_ASYNC_FLUSH) != 0)
            pfl_source_settle_flushes(s, &oldest);
    }
    for (uint32_t i = 0; i < p->flushes_len; i++) {
        if (p->flushes[i] >= oldest)
            p->flushes[kept++] = p->flushes[i];
        else if (p->flushes[i] > done)
            done = p->flushes[i];
    }
    p->flushes_len = kept;
    if (done == 0)
        return;
    pfl_source_flush_thread();
    pfl_arbiter_ack_flush(p->arbiter, done);
}

static void on_flush_command(struct perfleet *p)
{
    uint64_t flush_id = p->command.flush_id;

    for (size_t i = 0; i < p->command.ids_len; i++) {
        int instance = -1;
        struct pfl_source *s = find_source_by_instance(p, p->command.ids[i], &instance);

        if (s != NULL)
            pfl_source_flush(s, (uint32_t)instance, flush_id, p->command.flush_flags);
    }
    /* An answer answers all older ones, too: one that has no place is answered with the next. */
    if (p->flushes_len < PFL_CLIENT_FLUSHES_MAX)
        p->flushes[p->flushes_len++] = flush_id;
    pfl_commands_settle_flushes(p);
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

void pfl_commands_do(struct perfleet *p, struct pfl_span body)
{
    if (pfl_ipc_parse_command(body, &p->command) != 0) {
        p->connection.has_failed = true;
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
