/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the producer library's callbacks to the data sources.
 *
 * Happy path: run registers the data sources and loops: poll for a request of the library's thread,
 * for the end, and until the next thing is due (drain the kernel's buffers, read /proc).
 *
 *     library's thread: callback --request--> [loop] handle --done--> callback returns
 *
 * A flush callback returns only when the session's data is written. Threads that linux.ftrace meets
 * are described by the linux.process_stats instance of the same tracing session, if there is one.
 * Failure: a data source that cannot start is logged and stays silent in that session. The loop
 * waits for the library only in perfleet_close, when requests are refused already. Ownership:
 * sources[] holds all sessions; the library owns the writers.
 */
#include "agent/probes/probes.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/probes/ftrace/ftrace.h"
#include "agent/probes/ftrace/print_look.h"
#include "agent/probes/privilege.h"
#include "agent/probes/procfs/process_stats.h"
#include "agent/probes/procfs/sys_stats.h"
#include "agent/probes/refusal.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/notify.h"
#include "perfetto/data_source_config.fields.h"

#define DEFAULT_SMB_KB   4096u
#define PAGE_KB          32u
#define BATCH_MS         50u /* half of the usual period: finished data is not urgent */
#define NS_PER_MS        UINT64_C(1000000)
#define COMMIT_PERIOD_MS 5
#define SESSIONS         PERFLEET_MAX_INSTANCES
#define FDS_MAX          258
#define MAX_CONFIG_BYTES (4u * 1024u * 1024u)

enum source_kind { FTRACE, PROCESS_STATS, SYS_STATS, SYSTEM_INFO, SOURCE_KINDS };

static const struct {
    const char *name;
    uint32_t config_field; /* in DataSourceConfig */
} kinds[SOURCE_KINDS] = {
    [FTRACE] = {"linux.ftrace", 100},
    [PROCESS_STATS] = {"linux.process_stats", 103},
    [SYS_STATS] = {"linux.sys_stats", 104},
    [SYSTEM_INFO] = {"linux.system_info", 119},
};

enum request_kind { REQUEST_SETUP, REQUEST_START, REQUEST_STOP, REQUEST_FLUSH, REQUEST_CLEAR };

struct instance {
    bool is_open;
    bool is_started;
    uint64_t session_id;
    struct pfl_buf config; /* owned; the data source's own config */
    struct perfleet_writer *writer;
    union {
        struct pfl_process_stats process;
        struct pfl_sys_stats sys;
    } u;
    uint64_t due_ns;
};

struct probes;

struct source {
    struct probes *probes; /* borrowed: the owner */
    enum source_kind kind;
    struct perfleet_source *handle; /* owned by the library; NULL: not offered */
    struct instance instances[SESSIONS];
};

struct request {
    enum request_kind kind;
    struct source *source;
    uint32_t instance;
    struct pfl_span config;
};

struct probes {
    struct source sources[SOURCE_KINDS];
    struct perfleet *tracing; /* owned; set before the first callback */
    struct pfl_ftrace ftrace;
    uint64_t drain_due_ns;
    struct pfl_print_look print_look;
    pthread_mutex_t lock;
    pthread_cond_t done;
    const struct request *request; /* shared: of the library's waiting thread; under lock */
    bool is_closing;               /* under lock */
    struct pfl_refusal refusal;
    int wake_fd;
};

/* --- hand-over --------------------------------------------------------------------------- */

/* The loop may be waiting for room in the shared memory, which it gets from commits only. */
static void wait_a_moment(struct probes *p)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += COMMIT_PERIOD_MS * (long)NS_PER_MS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    if (pthread_cond_timedwait(&p->done, &p->lock, &until) != ETIMEDOUT)
        return;
    pthread_mutex_unlock(&p->lock);
    perfleet_commit(p->tracing);
    pthread_mutex_lock(&p->lock);
}

static void ask_loop(struct source *source, enum request_kind kind, uint32_t instance,
                     struct pfl_span config)
{
    struct probes *p = source->probes;
    struct request request = {kind, source, instance, config};
    uint64_t one = 1;

    pthread_mutex_lock(&p->lock);
    if (!p->is_closing) {
        p->request = &request;
        if (write(p->wake_fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
            pfl_log_warn("wake-failed", "errno=%d", errno);
        while (p->request == &request && !p->is_closing)
            wait_a_moment(p);
        p->request = NULL;
    }
    pthread_mutex_unlock(&p->lock);
}

static void on_setup(void *user, uint32_t instance, const void *config, size_t config_bytes)
{
    ask_loop(user, REQUEST_SETUP, instance, pfl_span_of(config, config_bytes));
}

static void on_start(void *user, uint32_t instance)
{
    ask_loop(user, REQUEST_START, instance, pfl_span_of(NULL, 0));
}

static void on_stop(void *user, uint32_t instance)
{
    ask_loop(user, REQUEST_STOP, instance, pfl_span_of(NULL, 0));
}

static void on_flush(void *user, uint32_t instance, uint64_t flush_flags)
{
    (void)flush_flags;
    ask_loop(user, REQUEST_FLUSH, instance, pfl_span_of(NULL, 0));
}

static void on_clear(void *user, uint32_t instance)
{
    ask_loop(user, REQUEST_CLEAR, instance, pfl_span_of(NULL, 0));
}

/* --- sessions ---------------------------------------------------------------------------- */

static struct instance *find_process_stats(struct probes *p, uint64_t session_id)
{
    for (uint32_t i = 0; i < SESSIONS; i++) {
        struct instance *in = &p->sources[PROCESS_STATS].instances[i];

        if (in->is_started && in->session_id == session_id && !in->u.process.conf.no_on_demand)
            return in;
    }
    return NULL;
}

/* Assigns to each ftrace session the process_stats that receives its threads and files; call it
 * after every change. */
static void link_sessions(struct probes *p)
{
    for (uint32_t i = 0; i < SESSIONS; i++) {
        const struct instance *in = &p->sources[FTRACE].instances[i];
        struct instance *process = in->is_started ? find_process_stats(p, in->session_id) : NULL;

        if (in->is_started)
            pfl_ftrace_set_met(&p->ftrace, i, process != NULL ? &process->u.process : NULL);
    }
}

static void describe_fresh(struct probes *p)
{
    for (uint32_t i = 0; i < SESSIONS; i++) {
        struct instance *in = &p->sources[PROCESS_STATS].instances[i];

        if (in->is_started)
            pfl_process_stats_describe_fresh(&in->u.process);
    }
}

static void drain(struct probes *p)
{
    pfl_ftrace_drain_lazily(&p->ftrace);
    describe_fresh(p);
}

static void stop_instance(struct source *source, uint32_t index)
{
    struct instance *in = &source->instances[index];
    struct perfleet_writer *writer = in->writer;

    if (!in->is_open)
        return;
    if (source->kind == FTRACE)
        pfl_ftrace_close_session(&source->probes->ftrace, index);
    in->is_started = false;
    link_sessions(source->probes);
    if (source->kind == PROCESS_STATS)
        pfl_process_stats_fini(&in->u.process);
    else if (source->kind == SYS_STATS)
        pfl_sys_stats_fini(&in->u.sys);
    pfl_buf_fini(&in->config);
    memset(in, 0, sizeof(*in));
    if (writer != NULL)
        perfleet_writer_close(writer);
}

static int keep_config(const struct source *source, struct instance *in, struct pfl_span config)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;
    int rc = 0;

    pfl_buf_init(&in->config, MAX_CONFIG_BYTES);
    while (rc == 0 && pfl_reader_field(&r, &f)) {
        if (f.id == DATA_SOURCE_CONFIG__TRACING_SESSION_ID)
            in->session_id = f.value;
        else if (f.id == kinds[source->kind].config_field)
            rc = pfl_buf_append(&in->config, f.bytes.data, f.bytes.len);
    }
    return r.failed ? PFL_EPARSE : rc;
}

static int setup_instance(struct source *source, uint32_t index, struct pfl_span config)
{
    struct instance *in = &source->instances[index];
    int rc;

    stop_instance(source, index);
    rc = keep_config(source, in, config);
    if (rc == 0 && source->kind == FTRACE)
        rc = pfl_ftrace_open_session(&source->probes->ftrace, index, pfl_buf_get(&in->config));
    if (rc != 0) {
        pfl_buf_fini(&in->config);
        memset(in, 0, sizeof(*in));
        return rc;
    }
    if (source->kind == PROCESS_STATS)
        pfl_process_stats_init(&in->u.process, pfl_buf_get(&in->config));
    else if (source->kind == SYS_STATS)
        pfl_sys_stats_init(&in->u.sys, pfl_buf_get(&in->config));
    in->is_open = true;
    in->due_ns = UINT64_MAX;
    return 0;
}

static uint64_t next_due_ns(uint64_t now_ns, uint64_t period_ms)
{
    uint64_t period_ns = period_ms * NS_PER_MS;

    return now_ns - now_ns % period_ns + period_ns;
}

static int start_instance(struct source *source, uint32_t index)
{
    struct instance *in = &source->instances[index];
    struct probes *p = source->probes;
    int rc;

    if (!in->is_open || in->is_started)
        return PFL_ESTATE;
    if (perfleet_writer_open(source->handle, index, &in->writer) != 0)
        return PFL_EIO;
    rc = source->kind == FTRACE ? pfl_ftrace_start_session(&p->ftrace, index, in->writer) : 0;
    if (rc != 0)
        return rc;
    in->is_started = true;
    link_sessions(p);
    if (source->kind == FTRACE) {
        p->drain_due_ns = 0;
    } else if (source->kind == PROCESS_STATS) {
        pfl_process_stats_start(&in->u.process, in->writer);
        in->due_ns = in->u.process.conf.poll_ms != 0 ? 0 : UINT64_MAX;
    } else if (source->kind == SYS_STATS) {
        in->due_ns = pfl_sys_stats_get_due_ns(&in->u.sys);
    } else {
        pfl_system_info_write(pfl_buf_get(&in->config), in->writer);
        perfleet_writer_flush(in->writer);
    }
    return 0;
}

/* A flush of one data source completes its whole session: what ftrace reads makes process_stats
 * write. */
static void flush_instance(struct source *source, uint32_t index)
{
    struct probes *p = source->probes;
    struct instance *in = &source->instances[index];
    struct instance *process;

    if (!in->is_started)
        return;
    if (source->kind == FTRACE) {
        pfl_ftrace_flush_session(&p->ftrace, index);
        describe_fresh(p);
        process = find_process_stats(p, in->session_id);
        if (process != NULL)
            perfleet_writer_flush(process->writer);
    } else {
        perfleet_writer_flush(in->writer);
    }
}

static void handle_request(struct probes *p, const struct request *request)
{
    struct source *source = request->source;
    int rc = 0;

    switch (request->kind) {
    case REQUEST_SETUP:
        rc = setup_instance(source, request->instance, request->config);
        break;
    case REQUEST_START:
        rc = start_instance(source, request->instance);
        if (rc != 0)
            stop_instance(source, request->instance);
        break;
    case REQUEST_STOP:
        stop_instance(source, request->instance);
        break;
    case REQUEST_FLUSH:
        flush_instance(source, request->instance);
        break;
    case REQUEST_CLEAR:
        if (source->kind == PROCESS_STATS && source->instances[request->instance].is_started)
            pfl_process_stats_clear(&source->instances[request->instance].u.process);
        break;
    }
    pfl_log_debug("request-handled", "kind=%d name=%s instance=%u at_ms=%llu pages=%llu",
                  (int)request->kind, kinds[source->kind].name, request->instance,
                  (unsigned long long)(perfleet_time_ns() / NS_PER_MS),
                  (unsigned long long)pfl_ftrace_count_pages(&p->ftrace));
    if (rc != 0)
        pfl_log_warn("data-source-silent", "name=%s reason=\"%s\"", kinds[source->kind].name,
                     pfl_err_str(rc));
}

/* --- the loop ---------------------------------------------------------------------------- */

static void poll_instance(struct source *source, uint32_t index, uint64_t now_ns)
{
    struct instance *in = &source->instances[index];

    if (!in->is_started || in->due_ns > now_ns)
        return;
    if (source->kind == PROCESS_STATS) {
        if (pfl_process_stats_poll(&in->u.process))
            in->due_ns = next_due_ns(perfleet_time_ns(), in->u.process.conf.poll_ms);
    } else if (source->kind == SYS_STATS) {
        pfl_sys_stats_poll(&in->u.sys, now_ns, in->writer);
        in->due_ns = pfl_sys_stats_get_due_ns(&in->u.sys);
    }
}

/* Does due work and returns the time of the next. */
static uint64_t work(struct probes *p)
{
    uint32_t period_ms = pfl_ftrace_get_period_ms(&p->ftrace);
    uint64_t now_ns = perfleet_time_ns();
    uint64_t due_ns = pfl_print_look_work(&p->print_look, &p->ftrace, p->tracing,
                                          p->sources[FTRACE].handle, now_ns);

    if (period_ms != 0) {
        if (p->drain_due_ns <= now_ns) {
            drain(p);
            p->drain_due_ns = next_due_ns(perfleet_time_ns(), period_ms);
        }
        due_ns = p->drain_due_ns;
    }
    for (size_t kind = 0; kind < SOURCE_KINDS; kind++) {
        for (uint32_t i = 0; i < SESSIONS; i++) {
            struct instance *in = &p->sources[kind].instances[i];

            poll_instance(&p->sources[kind], i, now_ns);
            if (in->is_started && in->due_ns < due_ns)
                due_ns = in->due_ns;
        }
    }
    return due_ns;
}

static int judge_timeout_ms(uint64_t due_ns)
{
    uint64_t now_ns = perfleet_time_ns();
    uint64_t ms;

    if (due_ns == UINT64_MAX)
        return -1;
    if (due_ns <= now_ns)
        return 0;
    ms = (due_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
    return ms > 3600000 ? 3600000 : (int)ms;
}

static void take_request(struct probes *p)
{
    const struct request *request;
    uint64_t count;

    if (read(p->wake_fd, &count, sizeof(count)) != (ssize_t)sizeof(count))
        return;
    pthread_mutex_lock(&p->lock);
    request = p->request;
    pthread_mutex_unlock(&p->lock);
    if (request == NULL)
        return;
    handle_request(p, request);
    pthread_mutex_lock(&p->lock);
    p->request = NULL;
    pthread_cond_signal(&p->done);
    pthread_mutex_unlock(&p->lock);
}

/* The two fixed descriptors and those of the kernel's buffers. */
static nfds_t fill_fds(const struct probes *p, int stop_fd, struct pollfd fds[FDS_MAX])
{
    int cpus[FDS_MAX - 2];
    size_t count = pfl_ftrace_get_fds(&p->ftrace, cpus, FDS_MAX - 2);

    fds[0] = (struct pollfd){.fd = p->wake_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = stop_fd, .events = POLLIN};
    for (size_t i = 0; i < count; i++)
        fds[2 + i] = (struct pollfd){.fd = cpus[i], .events = POLLIN};
    return (nfds_t)count + 2;
}

static void drain_full(struct probes *p, const struct pollfd *fds, nfds_t count)
{
    for (nfds_t i = 2; i < count; i++) {
        if (fds[i].revents != 0) {
            pfl_ftrace_drain_full(&p->ftrace);
            describe_fresh(p);
            return;
        }
    }
}

static void loop(struct probes *p, int stop_fd)
{
    struct pollfd fds[FDS_MAX];
    uint64_t watchdog_due_ms = 0;

    for (;;) {
        int timeout_ms = pfl_refusal_look(&p->refusal, p->tracing, judge_timeout_ms(work(p)));
        nfds_t count = fill_fds(p, stop_fd, fds);
        int n;

        timeout_ms = pfl_notify_watch(&watchdog_due_ms,
                                      pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) / 1000000, timeout_ms);
        n = poll(fds, count, timeout_ms);
        if (n < 0 && errno != EINTR) {
            pfl_log_error("poll-failed", "errno=%d", errno);
            return;
        }
        if (n <= 0)
            continue;
        drain_full(p, fds, count);
        if ((fds[0].revents & POLLIN) != 0)
            take_request(p);
        if (fds[1].revents != 0 && !pfl_log_take_signal(stop_fd))
            return;
    }
}

static void refuse_requests(struct probes *p)
{
    pthread_mutex_lock(&p->lock);
    p->is_closing = true;
    pthread_cond_broadcast(&p->done);
    pthread_mutex_unlock(&p->lock);
    p->ftrace.host.is_ending = true;
    for (size_t kind = 0; kind < SOURCE_KINDS; kind++) {
        for (uint32_t i = 0; i < SESSIONS; i++)
            stop_instance(&p->sources[kind], i);
    }
}

/* --- start ------------------------------------------------------------------------------- */

static int register_source(struct probes *p, enum source_kind kind)
{
    struct source *source = &p->sources[kind];
    struct perfleet_source_conf conf = {
        .name = kinds[kind].name,
        .user = source,
        /* Without room the data stays in the kernel's buffers meanwhile. */
        .policy = PERFLEET_STALL_THEN_DROP,
        .on_setup = on_setup,
        .on_start = on_start,
        .on_stop = on_stop,
        .on_flush = on_flush,
        .on_clear_incremental_state = kind == PROCESS_STATS ? on_clear : NULL,
    };
    int rc = perfleet_register(p->tracing, &conf, &source->handle);

    if (rc != 0)
        pfl_log_error("register-failed", "name=%s reason=\"%s\"", conf.name, perfleet_err_str(rc));
    return rc == 0 ? 0 : PFL_EIO;
}

static int register_all(struct probes *p, bool has_ftrace)
{
    int rc = 0;

    for (enum source_kind kind = FTRACE; kind < SOURCE_KINDS && rc == 0; kind++) {
        if (kind != FTRACE || has_ftrace)
            rc = register_source(p, kind);
    }
    return rc;
}

static bool init_ftrace(struct probes *p, const struct pfl_probes_conf *conf)
{
    int rc = pfl_ftrace_init(&p->ftrace);

    if (conf->no_ftrace || rc == 0)
        return !conf->no_ftrace;
    pfl_log_warn("ftrace-not-offered", "reason=\"%s\"", pfl_err_str(rc));
    return false;
}

static int connect_and_loop(struct probes *p, const struct pfl_probes_conf *conf, int stop_fd)
{
    struct perfleet_conf library = {
        .producer_name = "perfleet-probes",
        .socket = conf->producer_socket,
        .smb_kb = conf->smb_kb != 0 ? conf->smb_kb : DEFAULT_SMB_KB,
        .page_kb = PAGE_KB,
        .batch_ms = BATCH_MS,
    };
    bool has_ftrace = init_ftrace(p, conf);
    int rc;

    if (!pfl_privilege_drop())
        pfl_log_warn("privileges-kept", "errno=%d", errno);
    if (has_ftrace)
        pfl_ftrace_prepare(&p->ftrace);
    rc = perfleet_open(&library, &p->tracing);
    if (rc != 0) {
        pfl_log_error("producer-not-opened", "reason=\"%s\"", perfleet_err_str(rc));
        return rc == PERFLEET_EINVAL ? PFL_EINVAL : PFL_EIO;
    }
    rc = register_all(p, has_ftrace);
    if (rc == 0) {
        pfl_log_info("probes-started", "ftrace=%s", has_ftrace ? "yes" : "no");
        pfl_notify_send("READY=1");
        loop(p, stop_fd);
        pfl_notify_send("STOPPING=1");
    }
    refuse_requests(p);
    perfleet_close(p->tracing);
    return rc;
}

int pfl_probes_run(const struct pfl_probes_conf *conf, int stop_fd)
{
    struct probes *p = pfl_mem_zalloc(sizeof(*p));
    pthread_condattr_t clock;
    int rc = PFL_EIO;

    if (p == NULL)
        return PFL_ENOMEM;
    for (enum source_kind kind = FTRACE; kind < SOURCE_KINDS; kind++)
        p->sources[kind] = (struct source){.probes = p, .kind = kind};
    pthread_mutex_init(&p->lock, NULL);
    (void)pthread_condattr_init(&clock);
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&p->done, &clock);
    (void)pthread_condattr_destroy(&clock);
    p->ftrace.fs.root_fd = -1;
    p->ftrace.fs.instance_fd = -1;
    p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (p->wake_fd >= 0) {
        rc = connect_and_loop(p, conf, stop_fd);
        close(p->wake_fd);
    }
    pfl_ftrace_fini(&p->ftrace);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
    pfl_mem_free(p);
    return rc;
}
