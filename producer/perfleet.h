/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libperfleet: a program's own data in a system-wide trace.
 *
 * The program opens one connection to the tracing service of its host (perfleetd or any service
 * that speaks the same protocol), registers data sources by name, and waits to be asked. When a
 * tracing session wants a data source, the library tells the program by callbacks, and the
 * program writes packets, which are protobuf messages, straight into memory shared with the
 * service. Nobody listens: PERFLEET_TRACE costs one load and one branch.
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
 * Fields are written in any order; numbers come from Perfetto's trace_packet.proto. Every begin
 * needs its end: the library closes what a packet left open, and ignores an end too many.
 *
 * Threads. Functions on `struct perfleet` and `struct perfleet_source` may be called from any
 * thread. A `struct perfleet_writer` belongs to the thread that got it. Callbacks run on the
 * library's own thread, one at a time; they may write packets, but not call perfleet_unregister,
 * perfleet_sync or perfleet_close.
 *
 * The service may come, go and come back at any time: packets are dropped while it is away, and
 * sessions are announced anew when it is back.
 *
 * fork. The child of a fork is cut off: its data sources are off, nothing it writes reaches
 * anybody, and every function returns PERFLEET_EFORK or does nothing. exec is not affected.
 *
 * Needs gcc or clang. Usable from C11 and C++11.
 */
#ifndef PERFLEET_H
#define PERFLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PERFLEET_API __attribute__((visibility("default")))

/* Bounds. */
#define PERFLEET_MAX_SOURCES   32u         /* data sources of one connection; 64 in the process */
#define PERFLEET_MAX_INSTANCES 8u          /* sessions that use one data source at a time */
#define PERFLEET_MAX_NESTING   32u         /* open messages in a packet; deeper ones are left out */
#define PERFLEET_MAX_PACKET    0x0fffffffu /* bytes; a longer packet is dropped */

enum perfleet_err {
    PERFLEET_OK = 0,
    PERFLEET_ENOMEM = -1,
    PERFLEET_EINVAL = -2,   /* an argument makes no sense */
    PERFLEET_ELIMIT = -3,   /* one of the bounds above */
    PERFLEET_EEXIST = -4,   /* a data source of this name is registered already */
    PERFLEET_ESYSTEM = -5,  /* the kernel refused: see errno */
    PERFLEET_ETIMEOUT = -6, /* not within the time given */
    PERFLEET_EGONE = -7,    /* there is no connection to the service */
    PERFLEET_EFORK = -8,    /* in the child of a fork */
    PERFLEET_EDEADLK = -9,  /* not legal inside a callback */
};

/* The code in words; static storage. */
PERFLEET_API const char *perfleet_err_str(int err);

/* --- the connection ---------------------------------------------------------------------- */

struct perfleet;

/* Zero is a fine value for every member but producer_name. */
struct perfleet_conf {
    const char *producer_name; /* how the service knows this program; copied */
    /* A UNIX socket: a path, or '@' and an abstract name. NULL: PERFETTO_PRODUCER_SOCK_NAME from
     * the environment, else the default place. */
    const char *socket;
    uint32_t smb_kb;   /* wish for the shared memory; 0: the service chooses (256) */
    uint32_t page_kb;  /* wish for its pages: 4, 8, 16 or 32; 0: the service chooses (4) */
    uint32_t batch_ms; /* how long finished memory may wait for company; 0: 5 ms */
    bool no_scraping;  /* the service must not look into unfinished memory at flush and stop */
};

/*
 * Starts the library's thread, which connects, and connects again whenever the connection is
 * lost: after 1 s, 2 s, ... 10 s, then every 30 s. A service that is away is no error.
 * PERFLEET_EINVAL (no name, a socket name too long or not of the UNIX family), PERFLEET_ENOMEM,
 * PERFLEET_ESYSTEM, PERFLEET_EFORK.
 */
PERFLEET_API int perfleet_open(const struct perfleet_conf *conf, struct perfleet **ret_tracing);

/*
 * Stops every instance (on_stop runs), hands over what was written, ends the thread and frees the
 * connection with its data sources. No other thread may use them from now on; writers that other
 * threads still hold write into the void. NULL is legal. Not inside a callback.
 */
PERFLEET_API void perfleet_close(struct perfleet *tracing);

/* Waits until the service has accepted this program and all data sources are registered. */
PERFLEET_API int perfleet_wait_connected(struct perfleet *tracing, uint32_t timeout_ms);
PERFLEET_API bool perfleet_is_connected(struct perfleet *tracing);

/* Hands over everything finished so far and waits until the service has processed it. Chunks that
 * writers are still filling are not finished: see perfleet_writer_flush. */
PERFLEET_API int perfleet_sync(struct perfleet *tracing, uint32_t timeout_ms);

/* For a callback that waits for another thread's packets: hands over what is finished, as the
 * library's thread does between callbacks. Without it a writer that stalls would wait for the
 * callback, and the callback for the writer. On other threads it does nothing. */
PERFLEET_API void perfleet_commit(struct perfleet *tracing);

/* Tells the service that something happened; sessions that wait for this trigger act on it. */
PERFLEET_API int perfleet_trigger(struct perfleet *tracing, const char *trigger_name);

/* --- data sources ------------------------------------------------------------------------ */

/* The first word is the library's, read here so that an unused data source costs nothing. */
struct perfleet_source {
    uint32_t active; /* bit i: instance i is started; read it by perfleet_active */
};

enum perfleet_policy {
    PERFLEET_DROP = 0,            /* memory full: the packet is lost, and the trace says so */
    PERFLEET_STALL = 1,           /* wait until there is room or the connection is gone */
    PERFLEET_STALL_THEN_DROP = 2, /* wait about 30 seconds, then drop */
};

enum perfleet_source_flags {
    /* A stop is over only when the program calls perfleet_stop_done. */
    PERFLEET_ASYNC_STOP = 1,
    /* Flushes of the session do not ask this data source. */
    PERFLEET_NO_FLUSH = 2,
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
    /* A session wants the data source. `config` is the DataSourceConfig, byte for byte as the
     * service sent it, and lives during the call. */
    void (*on_setup)(void *user, uint32_t instance, const void *config, size_t config_bytes);
    void (*on_start)(void *user, uint32_t instance); /* the instance is active already */
    void (*on_stop)(void *user, uint32_t instance);  /* the instance is no longer active */
    /* The session wants to see everything; what the callback writes is still part of it. */
    void (*on_flush)(void *user, uint32_t instance, uint64_t flush_flags);
    /* Readers forget what was interned: see perfleet_writer_take_reset. */
    void (*on_clear_incremental_state)(void *user, uint32_t instance);
    /* Any more of DataSourceDescriptor, already encoded, e.g. a TrackEventDescriptor; copied. */
    const void *descriptor_fields;
    size_t descriptor_fields_bytes;
};

/* PERFLEET_EINVAL, PERFLEET_ELIMIT, PERFLEET_EEXIST, PERFLEET_ENOMEM, PERFLEET_EFORK. Lives until
 * perfleet_unregister or perfleet_close. */
PERFLEET_API int perfleet_register(struct perfleet *tracing,
                                   const struct perfleet_source_conf *conf,
                                   struct perfleet_source **ret_source);

/* Stops its instances and frees it; returns when no callback will run any more. No other thread
 * may use it from now on. PERFLEET_EDEADLK inside a callback. */
PERFLEET_API int perfleet_unregister(struct perfleet *tracing, struct perfleet_source *source);

/* Ends a stop of a PERFLEET_ASYNC_STOP data source. Harmless when nothing waits for it. */
PERFLEET_API void perfleet_stop_done(struct perfleet_source *source, uint32_t instance);

/* --- writers ----------------------------------------------------------------------------- */

/* What the inline functions below need; the rest is the library's. */
struct perfleet_writer {
    uint8_t *pos; /* next byte */
    uint8_t *end; /* of the room at hand */
};

/* Exact for this writer: every packet that was ended is in one of the first two. */
struct perfleet_writer_stats {
    uint64_t packets; /* in shared memory, whole */
    uint64_t dropped; /* not, or not whole */
    uint64_t stalls;  /* sleeps while waiting for memory */
    uint64_t chunks;  /* pieces of shared memory used */
};

static inline uint32_t perfleet_active(const struct perfleet_source *source)
{
    return __atomic_load_n(&source->active, __ATOMIC_RELAXED);
}

/* The calling thread's writer for the lowest instance in *mask, which it takes out; NULL when
 * none is left. The writer stays the thread's and ends with it. */
PERFLEET_API struct perfleet_writer *perfleet_next_writer(struct perfleet_source *source,
                                                          uint32_t *mask);

/* Runs the block once for each active instance. `break` and `return` are legal between packets. */
#define PERFLEET_TRACE(source, writer)                                                             \
    for (uint32_t perfleet_mask_ = perfleet_active(source);                                        \
         __builtin_expect(perfleet_mask_ != 0, 0) &&                                               \
         ((writer) = perfleet_next_writer((source), &perfleet_mask_)) != NULL;)

/*
 * A writer of one's own, e.g. to have several sequences in a thread. It belongs to the instance
 * as it is now: when that stops, what is written is dropped. PERFLEET_EINVAL (not active),
 * PERFLEET_ELIMIT (32767 writers), PERFLEET_ENOMEM, PERFLEET_EFORK.
 */
PERFLEET_API int perfleet_writer_open(struct perfleet_source *source, uint32_t instance,
                                      struct perfleet_writer **ret_writer);
PERFLEET_API void perfleet_writer_close(struct perfleet_writer *writer);

PERFLEET_API uint32_t perfleet_writer_instance(const struct perfleet_writer *writer);
PERFLEET_API void perfleet_writer_stats_get(const struct perfleet_writer *writer,
                                            struct perfleet_writer_stats *ret_stats);

/* Gives back the memory in hand, even if nearly empty: the service gets it with the next batch. */
PERFLEET_API void perfleet_writer_flush(struct perfleet_writer *writer);

/*
 * True once for a new writer, after a loss, and after on_clear_incremental_state: what earlier
 * packets of this writer interned is unknown to readers. Send it again, with
 * TracePacket.sequence_flags = 1 in the first packet. Ask between packets.
 */
PERFLEET_API bool perfleet_writer_take_reset(struct perfleet_writer *writer);

/* --- packets ----------------------------------------------------------------------------- */

PERFLEET_API void perfleet_packet_begin(struct perfleet_writer *w);
PERFLEET_API void perfleet_packet_end(struct perfleet_writer *w);

/* A nested message (a field of a message type): its fields come until perfleet_end. */
PERFLEET_API void perfleet_begin(struct perfleet_writer *w, uint32_t field);
PERFLEET_API void perfleet_end(struct perfleet_writer *w);

/* Bytes as they are, e.g. fields encoded elsewhere. */
PERFLEET_API void perfleet_raw(struct perfleet_writer *w, const void *data, size_t bytes);

/* The default clock of timestamps: CLOCK_BOOTTIME in nanoseconds. */
PERFLEET_API uint64_t perfleet_time_ns(void);

static inline uint8_t *perfleet_put_varint_(uint8_t *p, uint64_t v)
{
    while (__builtin_expect(v >= 0x80, 0)) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

/* With a constant field number the compiler keeps one of the branches. */
static inline uint8_t *perfleet_put_tag_(uint8_t *p, uint32_t field, uint32_t wire_type)
{
    uint32_t tag = field << 3 | wire_type;

    if (tag < 0x80) {
        *p++ = (uint8_t)tag;
        return p;
    }
    if (tag < 0x4000) {
        *p++ = (uint8_t)(tag | 0x80);
        *p++ = (uint8_t)(tag >> 7);
        return p;
    }
    return perfleet_put_varint_(p, tag);
}

#define PERFLEET_FIELD_MAX_ 16 /* tag of 5 bytes, varint of 10 */

/* uint32, uint64, bool, enum; int32 and int64 too (see perfleet_int). */
static inline void perfleet_uint(struct perfleet_writer *w, uint32_t field, uint64_t value)
{
    uint8_t spare[PERFLEET_FIELD_MAX_];

    if (__builtin_expect(w->end - w->pos >= PERFLEET_FIELD_MAX_, 1)) {
        w->pos = perfleet_put_varint_(perfleet_put_tag_(w->pos, field, 0), value);
        return;
    }
    perfleet_raw(w, spare,
                 (size_t)(perfleet_put_varint_(perfleet_put_tag_(spare, field, 0), value) - spare));
}

static inline void perfleet_int(struct perfleet_writer *w, uint32_t field, int64_t value)
{
    perfleet_uint(w, field, (uint64_t)value);
}

static inline void perfleet_bool(struct perfleet_writer *w, uint32_t field, bool value)
{
    perfleet_uint(w, field, value ? 1 : 0);
}

/* sint32, sint64. */
static inline void perfleet_sint(struct perfleet_writer *w, uint32_t field, int64_t value)
{
    perfleet_uint(w, field, ((uint64_t)value << 1) ^ (value < 0 ? ~(uint64_t)0 : 0));
}

/* fixed64, sfixed64, and by perfleet_double double. */
static inline void perfleet_fixed64(struct perfleet_writer *w, uint32_t field, uint64_t value)
{
    uint8_t spare[PERFLEET_FIELD_MAX_];
    bool fits = w->end - w->pos >= PERFLEET_FIELD_MAX_;
    uint8_t *p = perfleet_put_tag_(fits ? w->pos : spare, field, 1);

    memcpy(p, &value, sizeof(value));
    if (__builtin_expect(fits, 1))
        w->pos = p + sizeof(value);
    else
        perfleet_raw(w, spare, (size_t)(p - spare) + sizeof(value));
}

static inline void perfleet_double(struct perfleet_writer *w, uint32_t field, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    perfleet_fixed64(w, field, bits);
}

/* fixed32, sfixed32, and by perfleet_float float. */
static inline void perfleet_fixed32(struct perfleet_writer *w, uint32_t field, uint32_t value)
{
    uint8_t spare[PERFLEET_FIELD_MAX_];
    bool fits = w->end - w->pos >= PERFLEET_FIELD_MAX_;
    uint8_t *p = perfleet_put_tag_(fits ? w->pos : spare, field, 5);

    memcpy(p, &value, sizeof(value));
    if (__builtin_expect(fits, 1))
        w->pos = p + sizeof(value);
    else
        perfleet_raw(w, spare, (size_t)(p - spare) + sizeof(value));
}

static inline void perfleet_float(struct perfleet_writer *w, uint32_t field, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    perfleet_fixed32(w, field, bits);
}

static inline void perfleet_bytes(struct perfleet_writer *w, uint32_t field, const void *data,
                                  size_t bytes)
{
    uint8_t spare[PERFLEET_FIELD_MAX_];
    uint8_t *p;

    if (__builtin_expect((size_t)(w->end - w->pos) >= PERFLEET_FIELD_MAX_ + bytes, 1)) {
        p = perfleet_put_varint_(perfleet_put_tag_(w->pos, field, 2), bytes);
        if (bytes != 0)
            memcpy(p, data, bytes);
        w->pos = p + bytes;
        return;
    }
    p = perfleet_put_varint_(perfleet_put_tag_(spare, field, 2), bytes);
    perfleet_raw(w, spare, (size_t)(p - spare));
    perfleet_raw(w, data, bytes);
}

static inline void perfleet_string(struct perfleet_writer *w, uint32_t field, const char *str)
{
    perfleet_bytes(w, field, str, strlen(str));
}

#ifdef __cplusplus
}
#endif

#endif
