/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Track events: slices, instants and counters of a program on the timeline of a trace.
 *
 * Two lines trace a program:
 *
 *     PERFLEET_CATEGORY_DEFINE(app, "app", "What my program does", NULL)  // at file scope
 *     ...
 *     perfleet_track_event_open("my-program", NULL);                      // in main
 *
 * and then, anywhere:
 *
 *     PERFLEET_TRACE_EVENT(&app, "request");               // a slice until the end of the scope
 *     PERFLEET_TRACE_EVENT_INSTANT(&app, "cache miss");
 *     PERFLEET_TRACE_COUNTER(&app, &queue, length);
 *
 *     PERFLEET_EVENT (ev, &app, PERFLEET_SLICE_BEGIN, "read") {   // with more to say
 *         perfleet_arg(ev, "bytes", n);
 *         perfleet_arg(ev, "file", find_file_name());     // called only for a session
 *         perfleet_event_flow(ev, request_id);
 *     }
 *     ...
 *     PERFLEET_TRACE_EVENT_END(&app);
 *
 * The block runs once for each session that enables the category. Otherwise an event is one load
 * and one branch, and none of its arguments is evaluated. `break`, `return` and exceptions may
 * leave the block, longjmp may not. An event inside the block of another, on the same thread, is
 * skipped; so is one in a signal handler that interrupted an event.
 *
 * Sessions choose categories by their TrackEventConfig (data source "track_event"): first exact
 * names, then patterns with a `*` at the end, then `*`; within one of these steps
 * enabled_categories take precedence over disabled_categories, disabled_tags and enabled_tags, in
 * this order. A category that nothing matches is enabled, unless it has the tag "slow" or "debug".
 *
 * Strings. The name of an event that is a literal in the call is sent once and then by a number;
 * any other is sent in full (say PERFLEET_STATIC_NAME with the type if it never changes). Names of
 * arguments are always sent once. If the string at a known address has changed, this is detected,
 * and it is sent in full.
 *
 * Threads, fork: as in perfleet.h. Needs gcc or clang; usable from C11 and C++11.
 */
#ifndef PERFLEET_TRACK_EVENT_H
#define PERFLEET_TRACK_EVENT_H

#include "perfleet.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- start ------------------------------------------------------------------------------- */

/*
 * Registers the data source "track_event" on a connection; one connection of the process has it at
 * a time. PERFLEET_EEXIST and the errors of perfleet_register.
 */
PERFLEET_API int perfleet_track_event_register(struct perfleet *tracing);

/* perfleet_open with defaults, and perfleet_track_event_register. ret_tracing may be NULL: the
 * connection then lives as long as the program. */
PERFLEET_API int perfleet_track_event_open(const char *producer_name,
                                           struct perfleet **ret_tracing);

/* Commits what the calling thread wrote: as perfleet_writer_flush. */
PERFLEET_API void perfleet_track_event_flush(void);

/* --- categories -------------------------------------------------------------------------- */

/* The first word is private, and read here so that a disabled category costs nothing. */
struct perfleet_category {
    uint32_t active;         /* bit i: session i enables it */
    uint32_t number_;        /* the library's */
    const char *name;        /* "net"; or "net,disk": enabled if one of the two is */
    const char *description; /* or NULL */
    const char *tags;        /* separated by commas, or NULL; "slow" and "debug": off by default */
    struct perfleet_category *next_;
};

#define PERFLEET_CATEGORY_INIT(name, description, tags)                                            \
    {                                                                                              \
        0, 0, name, description, tags, NULL                                                        \
    }

/* NOLINTBEGIN(bugprone-macro-parentheses): names of what is declared */
/* Defines `struct perfleet_category id`, registered before main until the end of the program (or
 * from dlopen to dlclose). */
#define PERFLEET_CATEGORY_DEFINE(id, name, description, tags)                                      \
    struct perfleet_category id = PERFLEET_CATEGORY_INIT(name, description, tags);                 \
    __attribute__((constructor)) static void perfleet_category_register_##id##_(void)              \
    {                                                                                              \
        perfleet_category_register(&id);                                                           \
    }                                                                                              \
    __attribute__((destructor)) static void perfleet_category_unregister_##id##_(void)             \
    {                                                                                              \
        perfleet_category_unregister(&id);                                                         \
    }
/* For the other files that use it. */
#define PERFLEET_CATEGORY_DECLARE(id) extern struct perfleet_category id
/* NOLINTEND(bugprone-macro-parentheses) */

/*
 * Registers a category: current and later sessions may enable it. The struct and its strings must
 * stay in place until perfleet_category_unregister. Registering twice has no effect. Consumers see
 * in the list of data sources those that were registered before the data source.
 */
PERFLEET_API void perfleet_category_register(struct perfleet_category *category);
/* No other thread may use it from now on. */
PERFLEET_API void perfleet_category_unregister(struct perfleet_category *category);

/* A dynamic category: found by name or made. At most 1024 in a process; beyond, one that is always
 * off. Lives forever. Costs a look-up: keep the pointer if you can. */
PERFLEET_API struct perfleet_category *perfleet_category_get(const char *name);

/* Does any session enable it? */
static inline bool perfleet_category_is_enabled(const struct perfleet_category *category)
{
    return __builtin_expect(__atomic_load_n(&category->active, __ATOMIC_RELAXED) != 0, 0);
}

/* --- tracks ------------------------------------------------------------------------------ */

/* TrackDescriptor and CounterDescriptor, with the numbers of Perfetto's protos. */
enum perfleet_track_kind {
    PERFLEET_TRACK_NAMED = 0,
    PERFLEET_TRACK_COUNTER,
    PERFLEET_TRACK_STATE,
    PERFLEET_TRACK_THREAD, /* of the calling thread */
    PERFLEET_TRACK_PROCESS,
    PERFLEET_TRACK_GLOBAL, /* as a parent: none */
};

enum perfleet_child_ordering {
    PERFLEET_LEXICOGRAPHIC = 1,
    PERFLEET_CHRONOLOGICAL = 2,
    PERFLEET_EXPLICIT = 3, /* by the children's sibling_order_rank */
};

enum perfleet_merge_behavior {
    PERFLEET_MERGE_BY_TRACK_NAME = 1,
    PERFLEET_MERGE_NONE = 2,
    PERFLEET_MERGE_BY_KEY = 3,
};

enum perfleet_unit {
    PERFLEET_UNIT_TIME_NS = 1,
    PERFLEET_UNIT_COUNT = 2,
    PERFLEET_UNIT_SIZE_BYTES = 3,
};

/*
 * Kind, name, id and parent identify a track: equal ones are the same track. Zero is a valid value
 * for every member except the name. A static one is fastest; one on the stack works too. Once used
 * it must not change, nor may its parents.
 */
struct perfleet_track {
    enum perfleet_track_kind kind;
    const char *name;
    uint64_t id;                   /* distinguishes tracks of one name and parent */
    struct perfleet_track *parent; /* NULL: the process; at most 16 levels */
    const char *description;
    enum perfleet_child_ordering child_ordering; /* how this track's children are shown */
    int32_t sibling_order_rank;                  /* if the parent orders explicitly */
    enum perfleet_merge_behavior merge_behavior;
    const char *merge_key; /* with PERFLEET_MERGE_BY_KEY */
    /* Counters. */
    enum perfleet_unit unit;
    const char *unit_name;   /* "requests"; instead of a unit */
    int64_t unit_multiplier; /* value * this = in units; 0: 1 */
    bool is_incremental;     /* values are differences; keep to one thread */
    const char *y_axis_share_key;
    uint64_t hash_; /* the library's */
    uint64_t uuid_;
};

#define PERFLEET_TRACK_INIT_(kind, name, id, parent, unit_name)                                    \
    {                                                                                              \
        kind, name, id, parent, NULL, (enum perfleet_child_ordering)0, 0,                          \
            (enum perfleet_merge_behavior)0, NULL, (enum perfleet_unit)0, unit_name, 0, false,     \
            NULL, 0, 0                                                                             \
    }
/* struct perfleet_track t = PERFLEET_NAMED_TRACK("downloads", 7, NULL); */
#define PERFLEET_NAMED_TRACK(name, id, parent)                                                     \
    PERFLEET_TRACK_INIT_(PERFLEET_TRACK_NAMED, name, id, parent, NULL)
#define PERFLEET_COUNTER_TRACK(name, unit_name, parent)                                            \
    PERFLEET_TRACK_INIT_(PERFLEET_TRACK_COUNTER, name, 0, parent, unit_name)

extern PERFLEET_API struct perfleet_track perfleet_thread_track;
extern PERFLEET_API struct perfleet_track perfleet_process_track;
extern PERFLEET_API struct perfleet_track perfleet_global_track;

/* TrackDescriptor.uuid of the track, for the calling thread. */
PERFLEET_API uint64_t perfleet_track_uuid(struct perfleet_track *track);

/* --- events ------------------------------------------------------------------------------ */

enum perfleet_event_type {
    PERFLEET_SLICE_BEGIN = 1,
    PERFLEET_SLICE_END = 2, /* of the slice that began last on the track; no name */
    PERFLEET_INSTANT = 3,
    PERFLEET_COUNTER = 4,         /* on a counter track; no name; call perfleet_event_counter_... */
    PERFLEET_STATE = 5,           /* on a state track; the name is the state */
    PERFLEET_STATIC_NAME = 0x100, /* with one of the above: the name never changes */
};

/* Clocks of explicit times; others as in Perfetto's builtin_clock.proto, or 128 and more for those
 * that the program's own ClockSnapshot packets describe. */
enum perfleet_clock {
    PERFLEET_NOW = 0, /* the default clock, read by the library */
    PERFLEET_REALTIME = 1,
    PERFLEET_MONOTONIC = 3,
    PERFLEET_MONOTONIC_RAW = 5,
    PERFLEET_BOOTTIME = 6, /* the default clock: perfleet_time_ns */
};

struct pfl_event_sequence;

/* An event in progress, in one session; all members are private. */
struct perfleet_event {
    struct perfleet_category *category_;
    uint32_t left_; /* remaining sessions */
    uint32_t type_;
    const char *name_;
    struct perfleet_track *track_;
    uint64_t value_;
    uint32_t clock_;
    uint32_t depth_;  /* open dictionaries and arrays */
    uint64_t arrays_; /* bit i: level i is an array */
    struct pfl_event_sequence *sequence_;
    struct perfleet_writer *writer_;
};

PERFLEET_API bool perfleet_event_next_(struct perfleet_event *ev);
PERFLEET_API void perfleet_event_end_(struct perfleet_event *ev);
PERFLEET_API void perfleet_event_write_(struct perfleet_category *category, uint32_t type,
                                        const char *name);

static inline struct perfleet_event perfleet_event_init_(struct perfleet_category *category)
{
    struct perfleet_event ev = {category, 0, 0, NULL, NULL, 0, 0, 0, 0, NULL, NULL};

    ev.left_ = __atomic_load_n(&category->active, __ATOMIC_RELAXED);
    return ev;
}

static inline void perfleet_event_fini_(struct perfleet_event *ev)
{
    if (ev->sequence_ != NULL)
        perfleet_event_end_(ev);
}

#define PERFLEET_TYPE_(type, name)                                                                 \
    ((uint32_t)(type) | (__builtin_constant_p(name) ? (uint32_t)PERFLEET_STATIC_NAME : 0u))

/*
 * An event with a block, on the calling thread's track, now. `ev` names a struct perfleet_event *
 * that lives in the block.
 */
#define PERFLEET_EVENT(ev, category, type, name)                                                   \
    PERFLEET_EVENT_AT (ev, category, type, name, NULL, PERFLEET_NOW, 0)
/* On another track: a struct perfleet_track *; NULL: the calling thread's. */
#define PERFLEET_EVENT_ON(ev, category, type, name, track)                                         \
    PERFLEET_EVENT_AT (ev, category, type, name, track, PERFLEET_NOW, 0)
/* NOLINTBEGIN(bugprone-macro-parentheses): `ev` is declared here */
/* At another time: `value` on clock `clock`. */
#define PERFLEET_EVENT_AT(ev, category, type, name, track, clock, value)                           \
    for (struct perfleet_category *ev##_category_ = (category);                                    \
         ev##_category_ != NULL && perfleet_category_is_enabled(ev##_category_);                   \
         ev##_category_ = NULL)                                                                    \
        for (struct perfleet_event ev##_storage_ __attribute__((cleanup(perfleet_event_fini_))) =  \
                 perfleet_event_init_(ev##_category_),                                             \
                                                 *const ev = &ev##_storage_;                       \
             ev->left_ != 0 &&                                                                     \
             (ev->type_ = PERFLEET_TYPE_(type, name), ev->name_ = (name), ev->track_ = (track),    \
             ev->clock_ = (uint32_t)(clock), ev->value_ = (value), perfleet_event_next_(ev));      \
             perfleet_event_end_(ev))
/* NOLINTEND(bugprone-macro-parentheses) */

/* Without a block. */
#define PERFLEET_EVENT_WRITE_(category, type, name)                                                \
    do {                                                                                           \
        struct perfleet_category *const perfleet_category_ = (category);                           \
        if (perfleet_category_is_enabled(perfleet_category_))                                      \
            perfleet_event_write_(perfleet_category_, PERFLEET_TYPE_(type, name), name);           \
    } while (0)
#define PERFLEET_TRACE_EVENT_BEGIN(category, name)                                                 \
    PERFLEET_EVENT_WRITE_(category, PERFLEET_SLICE_BEGIN, name)
#define PERFLEET_TRACE_EVENT_END(category) PERFLEET_EVENT_WRITE_(category, PERFLEET_SLICE_END, NULL)
#define PERFLEET_TRACE_EVENT_INSTANT(category, name)                                               \
    PERFLEET_EVENT_WRITE_(category, PERFLEET_INSTANT, name)

/* A slice from here to the end of the enclosing scope. */
#define PERFLEET_TRACE_EVENT(category, name)                                                       \
    PERFLEET_TRACE_EVENT_BEGIN(category, name);                                                    \
    PERFLEET_TRACE_EVENT_END_OF_SCOPE(category)
/* Ends a slice that begins here, in any way, when the enclosing scope ends. Sessions that started
 * in the meantime do not get the end. */
#define PERFLEET_TRACE_EVENT_END_OF_SCOPE(category)                                                \
    struct perfleet_scope PERFLEET_PASTE_(perfleet_scope_, __LINE__)                               \
        __attribute__((cleanup(perfleet_scope_end_), unused)) = perfleet_scope_begin_(category)

#define PERFLEET_PASTE_(a, b)  PERFLEET_PASTE2_(a, b)
#define PERFLEET_PASTE2_(a, b) a##b

struct perfleet_scope {
    struct perfleet_category *category;
    uint32_t active;
};

PERFLEET_API void perfleet_scope_write_end_(struct perfleet_category *category, uint32_t active);

static inline struct perfleet_scope perfleet_scope_begin_(struct perfleet_category *category)
{
    struct perfleet_scope scope = {category, 0};

    scope.active = __atomic_load_n(&category->active, __ATOMIC_RELAXED);
    return scope;
}

static inline void perfleet_scope_end_(struct perfleet_scope *scope)
{
    if (__builtin_expect(scope->active != 0, 0))
        perfleet_scope_write_end_(scope->category, scope->active);
}

/* --- counters ---------------------------------------------------------------------------- */

PERFLEET_API void perfleet_counter_write_int_(struct perfleet_category *category,
                                              struct perfleet_track *track, int64_t value);
PERFLEET_API void perfleet_counter_write_double_(struct perfleet_category *category,
                                                 struct perfleet_track *track, double value);

#define PERFLEET_TRACE_COUNTER(category, track, value)                                             \
    do {                                                                                           \
        struct perfleet_category *const perfleet_category_ = (category);                           \
        if (perfleet_category_is_enabled(perfleet_category_))                                      \
            perfleet_counter_write_int_(perfleet_category_, track, value);                         \
    } while (0)
#define PERFLEET_TRACE_COUNTER_DOUBLE(category, track, value)                                      \
    do {                                                                                           \
        struct perfleet_category *const perfleet_category_ = (category);                           \
        if (perfleet_category_is_enabled(perfleet_category_))                                      \
            perfleet_counter_write_double_(perfleet_category_, track, value);                      \
    } while (0)

/* --- in the block of an event ------------------------------------------------------------ */

/* The value of a PERFLEET_COUNTER event. */
PERFLEET_API void perfleet_event_counter_int(struct perfleet_event *ev, int64_t value);
PERFLEET_API void perfleet_event_counter_double(struct perfleet_event *ev, double value);

/* Arrows between events with the same id; the terminating one is the last. An id is valid in the
 * whole trace: perfleet_process_scoped_id makes one from a number that is unique only in the
 * process, such as a pointer. */
PERFLEET_API void perfleet_event_flow(struct perfleet_event *ev, uint64_t id);
PERFLEET_API void perfleet_event_terminating_flow(struct perfleet_event *ev, uint64_t id);
PERFLEET_API uint64_t perfleet_process_scoped_id(uint64_t id);

/* Events with the same id belong together, e.g. to one request; use one of the two. */
PERFLEET_API void perfleet_event_correlation_id(struct perfleet_event *ev, uint64_t id);
PERFLEET_API void perfleet_event_correlation_id_str(struct perfleet_event *ev, const char *id);

/* A place in the source; a static one is sent once. */
struct perfleet_source_location {
    const char *file;
    const char *function;
    uint32_t line;
    uint32_t number_; /* the library's */
};
PERFLEET_API void perfleet_event_source_location(struct perfleet_event *ev,
                                                 struct perfleet_source_location *location);
/* The line of this macro. */
#define PERFLEET_EVENT_SOURCE_LOCATION(ev)                                                         \
    do {                                                                                           \
        static struct perfleet_source_location perfleet_here_ = {__FILE__, __func__, __LINE__, 0}; \
        perfleet_event_source_location(ev, &perfleet_here_);                                       \
    } while (0)

enum perfleet_log_priority {
    PERFLEET_LOG_VERBOSE = 2,
    PERFLEET_LOG_DEBUG = 3,
    PERFLEET_LOG_INFO = 4,
    PERFLEET_LOG_WARN = 5,
    PERFLEET_LOG_ERROR = 6,
    PERFLEET_LOG_FATAL = 7,
};
/* A line for the trace's table of log messages. Longer ones than PERFLEET_LOG_MAX are cut. `where`
 * may be NULL. */
#define PERFLEET_LOG_MAX 1024u
PERFLEET_API void perfleet_event_log(struct perfleet_event *ev, enum perfleet_log_priority priority,
                                     const char *body, struct perfleet_source_location *where);

/* The writer, with the TrackEvent message open: for further fields of TrackEvent, including
 * extension fields, by perfleet_uint, perfleet_begin and so on. Every begin needs its end. */
static inline struct perfleet_writer *perfleet_event_writer(struct perfleet_event *ev)
{
    return ev->writer_;
}

/* --- arguments (DebugAnnotation) --------------------------------------------------------- */

/* A name, NULL inside an array, and a value. Strings may be NULL: then they are "(null)". */
PERFLEET_API void perfleet_arg_bool(struct perfleet_event *ev, const char *name, bool value);
PERFLEET_API void perfleet_arg_uint(struct perfleet_event *ev, const char *name, uint64_t value);
PERFLEET_API void perfleet_arg_int(struct perfleet_event *ev, const char *name, int64_t value);
PERFLEET_API void perfleet_arg_double(struct perfleet_event *ev, const char *name, double value);
PERFLEET_API void perfleet_arg_pointer(struct perfleet_event *ev, const char *name,
                                       const void *value);
PERFLEET_API void perfleet_arg_string(struct perfleet_event *ev, const char *name,
                                      const char *value);
/* Not NUL-terminated. */
PERFLEET_API void perfleet_arg_string_len(struct perfleet_event *ev, const char *name,
                                          const char *value, size_t bytes);
/* A whole value in JSON. */
PERFLEET_API void perfleet_arg_json(struct perfleet_event *ev, const char *name, const char *json);

/* An encoded message of a type whose descriptor is in the trace, e.g. ".my.package.Message". */
struct perfleet_proto {
    const char *type_name;
    const void *data;
    size_t bytes;
};
PERFLEET_API void perfleet_arg_proto(struct perfleet_event *ev, const char *name,
                                     const struct perfleet_proto *message);

/* Nested values: those until perfleet_arg_end. At most 24 levels. */
PERFLEET_API void perfleet_arg_dict(struct perfleet_event *ev, const char *name);
PERFLEET_API void perfleet_arg_array(struct perfleet_event *ev, const char *name);
PERFLEET_API void perfleet_arg_end(struct perfleet_event *ev);

#ifndef __cplusplus
/* perfleet_arg(ev, name, value): by the value's type; `true` is an int in C. */
#define perfleet_arg(ev, name, value)                                                              \
    _Generic((value),                                                                              \
        bool: perfleet_arg_bool,                                                                   \
        char *: perfleet_arg_string,                                                               \
        const char *: perfleet_arg_string,                                                         \
        float: perfleet_arg_double,                                                                \
        double: perfleet_arg_double,                                                               \
        unsigned char: perfleet_arg_uint,                                                          \
        unsigned short: perfleet_arg_uint,                                                         \
        unsigned int: perfleet_arg_uint,                                                           \
        unsigned long: perfleet_arg_uint,                                                          \
        unsigned long long: perfleet_arg_uint,                                                     \
        char: perfleet_arg_int,                                                                    \
        signed char: perfleet_arg_int,                                                             \
        short: perfleet_arg_int,                                                                   \
        int: perfleet_arg_int,                                                                     \
        long: perfleet_arg_int,                                                                    \
        long long: perfleet_arg_int,                                                               \
        default: perfleet_arg_pointer)(ev, name, value)
#endif

#ifdef __cplusplus
}

inline void perfleet_arg(perfleet_event *ev, const char *name, bool value)
{
    perfleet_arg_bool(ev, name, value);
}
inline void perfleet_arg(perfleet_event *ev, const char *name, const char *value)
{
    perfleet_arg_string(ev, name, value);
}
inline void perfleet_arg(perfleet_event *ev, const char *name, double value)
{
    perfleet_arg_double(ev, name, value);
}
inline void perfleet_arg(perfleet_event *ev, const char *name, unsigned value)
{
    perfleet_arg_uint(ev, name, value);
}
inline void perfleet_arg(perfleet_event *ev, const char *name, unsigned long value)
{
    perfleet_arg_uint(ev, name, value);
}
inline void perfleet_arg(perfleet_event *ev, const char *name, unsigned long long value)
{
    perfleet_arg_uint(ev, name, value);
}
inline void perfleet_arg(perfleet_event *ev, const char *name, int value)
{
    perfleet_arg_int(ev, name, value);
}
inline void perfleet_arg(perfleet_event *ev, const char *name, long value)
{
    perfleet_arg_int(ev, name, value);
}
inline void perfleet_arg(perfleet_event *ev, const char *name, long long value)
{
    perfleet_arg_int(ev, name, value);
}
inline void perfleet_arg(perfleet_event *ev, const char *name, const void *value)
{
    perfleet_arg_pointer(ev, name, value);
}
#endif

#endif
