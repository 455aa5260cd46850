/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libperfleet: a program's own data in a system-wide trace.
 *
 * The program opens one connection to the tracing service of its host (perfleetd or any service
 * that speaks the same protocol), and registers data sources by name. When a tracing session uses a
 * data source, the library calls the program back, and the program writes packets, which are
 * protobuf messages, straight into memory shared with the service. Without a session PERFLEET_TRACE
 * costs one load and one branch.
 *
 *     struct perfleet *tracing;
 *     struct perfleet_source *source;
 *     struct perfleet_conf conf = {.producer_name = "my-program"};
 *     struct perfleet_source_conf source_conf = {.name = "com.example.mine"};
 *
 *     perfleet_open(&conf, &tracing);
 *     perfleet_register(tracing, &source_conf, &source);
 *     ...
 *     struct perfleet_writer *w;
 *     PERFLEET_TRACE (source, w) {                       // once for each session that listens
 *         perfleet_packet_begin(w);
 *         perfleet_uint(w, 8, perfleet_time_ns());       // TracePacket.timestamp
 *         perfleet_begin(w, 900);                        // TracePacket.for_testing, nested
 *         perfleet_string(w, 1, "hello");                // TestEvent.str
 *         perfleet_end(w);
 *         perfleet_packet_end(w);
 *     }
 *     ...
 *     perfleet_close(tracing);
 *
 * The fields of a packet: perfleet_packet.h. Slices, instants and counters have a header of their
 * own, perfleet_track_event.h.
 *
 * Threads. Functions on `struct perfleet` and `struct perfleet_source` may be called from any
 * thread. A `struct perfleet_writer` belongs to the thread that got it. Callbacks run on the
 * library's own thread, one at a time; they may write packets, but not call perfleet_unregister,
 * perfleet_sync or perfleet_close. Signals are blocked on that thread.
 *
 * The service may start and stop at any time: packets are dropped while it is not running, and
 * sessions are set up again when it is back.
 *
 * fork. The child of a fork is disconnected: its data sources are off, what it writes is dropped,
 * and every function returns PERFLEET_EFORK or does nothing. exec is not affected.
 *
 * Signal handlers may use PERFLEET_TRACE and the macros of perfleet_track_event.h, and nothing
 * else. In a handler that interrupted the library on its own thread (including the block of
 * PERFLEET_TRACE) the block does not run. Otherwise it runs, without using the heap.
 *
 * Needs gcc or clang. Usable from C11 and C++11.
 */
#ifndef PERFLEET_H
#define PERFLEET_H

#include "perfleet_packet.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bounds. */
#define PERFLEET_MAX_SOURCES   32u      /* data sources of one connection; 64 in the process */
#define PERFLEET_MAX_INSTANCES 8u       /* concurrent sessions of one data source */
#define PERFLEET_MAX_STATE     1048576u /* bytes of state of a session or a thread */

enum perfleet_err {
    PERFLEET_OK = 0,
    PERFLEET_ENOMEM = -1,
    PERFLEET_EINVAL = -2,     /* invalid argument */
    PERFLEET_ELIMIT = -3,     /* one of the bounds above */
    PERFLEET_EEXIST = -4,     /* a data source of this name is already registered */
    PERFLEET_ESYSTEM = -5,    /* the kernel refused: see errno */
    PERFLEET_ETIMEOUT = -6,   /* timeout */
    PERFLEET_EGONE = -7,      /* there is no connection to the service */
    PERFLEET_EFORK = -8,      /* in the child of a fork */
    PERFLEET_EDEADLK = -9,    /* not legal inside a callback */
    PERFLEET_ESTRANGER = -10, /* an untrusted user serves the socket */
};

/* The code in words; static storage. */
PERFLEET_API const char *perfleet_err_str(int err);

/* --- the connection ---------------------------------------------------------------------- */

struct perfleet;

/* Zero is a valid value for every member except producer_name. */
struct perfleet_conf {
    const char *producer_name; /* this program's name for the service; copied */
    /* A UNIX socket: a path, or '@' and an abstract name; or "host:port", "[v6]:port" or
     * "vsock://cid:port": then packets are sent instead of shared. NULL:
     * PERFETTO_PRODUCER_SOCK_NAME from the environment, else the default place; with more rights
     * than the caller's: /run/perfetto. */
    const char *socket;
    uint32_t smb_kb;   /* requested size of the shared memory; 0: the service chooses (256) */
    uint32_t page_kb;  /* requested size of its pages: 4, 8, 16 or 32; 0: the service chooses (4) */
    uint32_t batch_ms; /* how long finished memory may wait to be batched; 0: 5 ms */
    bool no_scraping;  /* the service must not read unfinished memory at flush and stop */
    uint32_t own_smb_kb; /* provide memory of this size, for perfleet_startup; 0: none */
};

/*
 * Starts the library's thread, which connects, and reconnects whenever the connection is lost:
 * after 1 s, 2 s, ... 10 s, then every 30 s. A missing service is no error. PERFLEET_EINVAL (no
 * name, an invalid socket name, sizes out of range), PERFLEET_ENOMEM, PERFLEET_ESYSTEM,
 * PERFLEET_EFORK.
 */
PERFLEET_API int perfleet_open(const struct perfleet_conf *conf, struct perfleet **ret_tracing);

/*
 * Stops every instance (on_stop runs), commits what was written, ends the thread and frees the
 * connection with its data sources. No other thread may use them from now on; what remaining
 * writers of other threads write is dropped. NULL is legal. Not inside a callback.
 */
PERFLEET_API void perfleet_close(struct perfleet *tracing);

/* Waits until the service has accepted this program and all data sources are registered.
 * PERFLEET_ETIMEOUT; PERFLEET_ESTRANGER: a timeout, and perfleet_get_refusal has the reason. */
PERFLEET_API int perfleet_wait_connected(struct perfleet *tracing, uint32_t timeout_ms);
PERFLEET_API bool perfleet_is_connected(struct perfleet *tracing);

/*
 * The process that serves a UNIX socket gets what this program writes. The library therefore
 * connects only to root, to the user that the program runs as, to a user named in the environment
 * (PERFLEET_SERVICE_USER, names or numbers with commas), and to any user whose socket is in a place
 * that only root, this user and that user can write, up to the root folder and without symbolic
 * links (/run/perfetto is one, /tmp is not). A program with more rights than the user who runs it
 * (setuid, setgid, file capabilities) reads no environment, and does not connect to that user.
 * Others get no data, and are tried again like a missing service. True: the last attempt was
 * refused, and `ret_text` has the user, the socket and the remedy, in at most 511 bytes.
 */
PERFLEET_API bool perfleet_get_refusal(struct perfleet *tracing, char *ret_text, size_t text_bytes);

/* Commits everything finished so far and waits until the service has processed it. Chunks that
 * writers are still filling are not finished: see perfleet_writer_flush. */
PERFLEET_API int perfleet_sync(struct perfleet *tracing, uint32_t timeout_ms);

/* For a callback that waits for another thread's packets: commits what is finished, as the
 * library's thread does between callbacks. Without it a stalled writer would wait for the callback,
 * and the callback for the writer. On other threads it does nothing. */
PERFLEET_API void perfleet_commit(struct perfleet *tracing);

/*
 * Activates a trigger; sessions that wait for it act on it. Without a connection the trigger waits
 * for one at most `ttl_ms`; 0: PERFLEET_EGONE. PERFLEET_ELIMIT: 16 wait already.
 */
PERFLEET_API int perfleet_trigger_within(struct perfleet *tracing, const char *trigger_name,
                                         uint32_t ttl_ms);
PERFLEET_API int perfleet_trigger(struct perfleet *tracing, const char *trigger_name);

/* --- data sources ------------------------------------------------------------------------ */

/* The first word is private, and read here so that an unused data source costs nothing. */
struct perfleet_source {
    uint32_t active; /* bit i: instance i is started; read it by perfleet_active */
};

enum perfleet_policy {
    PERFLEET_DROP = 0,            /* memory full: the packet is lost, and the trace records it */
    PERFLEET_STALL = 1,           /* wait until there is room or the connection is lost */
    PERFLEET_STALL_THEN_DROP = 2, /* wait about 30 seconds, then drop */
};

enum perfleet_source_flags {
    /* A stop is complete only when the program calls perfleet_stop_done. */
    PERFLEET_ASYNC_STOP = 1,
    /* Flushes of the session skip this data source. */
    PERFLEET_NO_FLUSH = 2,
    /* A flush is complete only when the program calls perfleet_flush_done. */
    PERFLEET_ASYNC_FLUSH = 8,
    /* The session's config may choose the policy (DataSourceConfig.buffer_exhausted_policy). */
    PERFLEET_POLICY_BY_CONFIG = 4,
};

/* An instance is a number below PERFLEET_MAX_INSTANCES; a session has it from on_setup to the end
 * of on_stop (PERFLEET_ASYNC_STOP: of perfleet_stop_done). Every callback may be NULL. */
struct perfleet_source_conf {
    const char *name; /* as in the session's config, e.g. "com.example.mine"; copied */
    void *user;       /* first argument of every callback */
    enum perfleet_policy policy;
    uint32_t flags; /* enum perfleet_source_flags */
    /* A session uses the data source. `config` is the DataSourceConfig, byte for byte as the
     * service sent it, and is valid during the call. */
    void (*on_setup)(void *user, uint32_t instance, const void *config, size_t config_bytes);
    void (*on_start)(void *user, uint32_t instance); /* the instance is active already */
    void (*on_stop)(void *user, uint32_t instance);  /* the instance is no longer active */
    /* The session flushes; what the callback writes is still part of it. */
    void (*on_flush)(void *user, uint32_t instance, uint64_t flush_flags);
    /* Readers discard interned data: see perfleet_writer_take_reset. */
    void (*on_clear_incremental_state)(void *user, uint32_t instance);
    /* Further fields of DataSourceDescriptor, already encoded, e.g. a TrackEventDescriptor;
     * copied. */
    const void *descriptor_fields;
    size_t descriptor_fields_bytes;
    /* State that the library keeps, initially zeroed: one block for each session, one for each
     * thread that writes to it. The `end` functions run on the thread that releases the last
     * reference, even after perfleet_unregister: a thread notices only when it traces again, or
     * ends. */
    size_t session_state_bytes;
    size_t thread_state_bytes;
    void (*on_session_state_end)(void *user, void *state);
    void (*on_thread_state_end)(void *user, void *state);
};

/* PERFLEET_EINVAL, PERFLEET_ELIMIT, PERFLEET_EEXIST, PERFLEET_ENOMEM, PERFLEET_EFORK. Lives until
 * perfleet_unregister or perfleet_close. */
PERFLEET_API int perfleet_register(struct perfleet *tracing,
                                   const struct perfleet_source_conf *conf,
                                   struct perfleet_source **ret_source);

/* Stops its instances and frees it; returns when no callback will run any more. No other thread
 * may use it from now on. PERFLEET_EDEADLK inside a callback. */
PERFLEET_API int perfleet_unregister(struct perfleet *tracing, struct perfleet_source *source);

/* Changes descriptor_fields; consumers see the change at once if the service supports that. */
PERFLEET_API int perfleet_update(struct perfleet *tracing, struct perfleet_source *source,
                                 const void *descriptor_fields, size_t bytes);

/* Ends a stop of a PERFLEET_ASYNC_STOP data source. No effect if none is pending. Until then
 * PERFLEET_TRACE skips the session; perfleet_writer_open still opens writers for it. */
PERFLEET_API void perfleet_stop_done(struct perfleet_source *source, uint32_t instance);

/* Ends the oldest flush of a PERFLEET_ASYNC_FLUSH data source: one call for each on_flush. Flush
 * the writers first. No effect if none is pending. */
PERFLEET_API void perfleet_flush_done(struct perfleet_source *source, uint32_t instance);

/*
 * Startup tracing: starts a session of the program's own at once, before the service has started
 * one, or is running. `config` is an encoded DataSourceConfig. Data is kept in memory; a session
 * with the same config (except buffers, times and ids) takes all of it over. If none comes within
 * `timeout_ms`, the data is discarded and the session stops.
 *
 * Needs own_smb_kb, or a running session of the service. When the memory is full packets are
 * dropped, whatever the policy. A service that refuses the memory ends the session. PERFLEET_EGONE
 * (no memory), PERFLEET_ELIMIT (too many sessions), PERFLEET_EINVAL, PERFLEET_ENOMEM,
 * PERFLEET_ETIMEOUT (0 was given), PERFLEET_EFORK, PERFLEET_EDEADLK.
 */
PERFLEET_API int perfleet_startup(struct perfleet *tracing, struct perfleet_source *source,
                                  const void *config, size_t config_bytes, uint32_t timeout_ms);

/* --- writers ----------------------------------------------------------------------------- */

/* Exact for this writer: every packet that was ended is in one of the first two. */
struct perfleet_writer_stats {
    uint64_t packets; /* complete in shared memory */
    uint64_t dropped; /* not, or not completely, written */
    uint64_t stalls;  /* sleeps while waiting for memory */
    uint64_t chunks;  /* pieces of shared memory used */
};

static inline uint32_t perfleet_active(const struct perfleet_source *source)
{
    return __atomic_load_n(&source->active, __ATOMIC_RELAXED);
}

/* Iterates over the instances in `left`; private. */
struct perfleet_block {
    struct perfleet_source *source;
    uint32_t left;
    struct perfleet_writer *writer; /* of the current round; NULL: none */
};

PERFLEET_API struct perfleet_writer *perfleet_block_next_(struct perfleet_block *block);
PERFLEET_API void perfleet_block_leave_(struct perfleet_block *block);

static inline struct perfleet_block perfleet_block_of_(struct perfleet_source *source)
{
    struct perfleet_block block = {source, perfleet_active(source), NULL};

    return block;
}

static inline void perfleet_block_end_(struct perfleet_block *block)
{
    if (block->writer != NULL)
        perfleet_block_leave_(block);
}

/* Runs the block once for each active instance, with the calling thread's writer for it. `break`,
 * `return` and exceptions may leave it, longjmp may not; an open packet then ends. This thread
 * traces nothing else meanwhile: tracing in functions that the block calls is skipped. */
#define PERFLEET_TRACE(source, writer)                                                             \
    for (struct perfleet_block perfleet_block_                                                     \
         __attribute__((cleanup(perfleet_block_end_))) = perfleet_block_of_(source);               \
         __builtin_expect(perfleet_block_.left != 0, 0) &&                                         \
         ((writer) = perfleet_block_next_(&perfleet_block_)) != NULL;)

/*
 * Opens a separate writer, e.g. for several sequences in a thread. It belongs to the instance's
 * current session: when that stops, what is written is dropped. PERFLEET_EINVAL (not active),
 * PERFLEET_ELIMIT (32767 writers), PERFLEET_ENOMEM, PERFLEET_EFORK.
 */
PERFLEET_API int perfleet_writer_open(struct perfleet_source *source, uint32_t instance,
                                      struct perfleet_writer **ret_writer);
PERFLEET_API void perfleet_writer_close(struct perfleet_writer *writer);

PERFLEET_API uint32_t perfleet_writer_instance(const struct perfleet_writer *writer);
/* The session's state, shared by all threads, and the writer's own; NULL if none was requested.
 * They live at least as long as the writer. */
PERFLEET_API void *perfleet_session_state(struct perfleet_writer *writer);
PERFLEET_API void *perfleet_thread_state(struct perfleet_writer *writer);
/* The session's state, inside a callback; NULL outside. */
PERFLEET_API void *perfleet_instance_state(struct perfleet_source *source, uint32_t instance);
PERFLEET_API void perfleet_writer_stats_get(const struct perfleet_writer *writer,
                                            struct perfleet_writer_stats *ret_stats);

/* Commits the current chunk, even if nearly empty: the service gets it with the next batch. */
PERFLEET_API void perfleet_writer_flush(struct perfleet_writer *writer);

/*
 * True once for a new writer, after a loss, and after on_clear_incremental_state: readers do not
 * have what earlier packets of this writer interned. Send it again, with TracePacket.sequence_flags
 * = 1 in the first packet. Call it between packets.
 */
PERFLEET_API bool perfleet_writer_take_reset(struct perfleet_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
