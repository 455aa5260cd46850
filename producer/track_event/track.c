/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Track ids and TrackDescriptors.
 *
 * The process's id is random; a thread's is derived from it and the thread id; every other track's
 * from its parent's id and a hash of kind, name and id, so that equal tracks are one track in every
 * thread and session. Hash and id are cached in the track: relaxed, because every thread computes
 * the same; the id only if no thread track is above. Tracks below the global one have the same id
 * in every process: that is how processes share them.
 *
 * Failures: without random numbers the id is derived from pid and time.
 */
#include "producer/track_event/track.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "perfetto/trace_packet.fields.h"
#include "perfetto/track_event.fields.h"

#define CMDLINE_MAX 4096u

struct perfleet_track perfleet_thread_track = {.kind = PERFLEET_TRACK_THREAD};
struct perfleet_track perfleet_process_track = {.kind = PERFLEET_TRACK_PROCESS};
struct perfleet_track perfleet_global_track = {.kind = PERFLEET_TRACK_GLOBAL};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t process_uuid;
static char cmdline[CMDLINE_MAX]; /* NUL-separated strings */
static size_t cmdline_len;
static _Thread_local uint64_t thread_uuid;
static _Thread_local pid_t thread_id;

/* A bijection that spreads every bit. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

/* Never 0, and of 56 bits: 8 bytes as a varint, in every event that is not on its thread's track.
 */
static uint64_t to_uuid(uint64_t x)
{
    x >>= 8;
    return x != 0 ? x : 1;
}

static void read_cmdline(void)
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, cmdline, sizeof(cmdline) - 1);

    if (fd >= 0)
        close(fd);
    cmdline_len = len > 0 ? (size_t)len : 0;
}

static void look_at_process(void)
{
    uint64_t random;

    read_cmdline();

    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random))
        random = mix((uint64_t)getpid()) ^ perfleet_time_ns();
    process_uuid = to_uuid(random);
}

uint64_t pfl_track_process_uuid(void)
{
    pthread_once(&once, look_at_process);
    return process_uuid;
}

uint64_t pfl_track_thread_uuid(void)
{
    if (thread_uuid == 0) {
        thread_id = (pid_t)syscall(SYS_gettid);
        thread_uuid = to_uuid(mix(pfl_track_process_uuid() + (uint64_t)thread_id));
    }
    return thread_uuid;
}

static uint64_t hash_track(const struct perfleet_track *track)
{
    uint64_t hash = mix((uint64_t)track->kind + 1);

    for (const char *c = track->name == NULL ? "" : track->name; *c != '\0'; c++)
        hash = (hash ^ (uint8_t)*c) * 0x100000001b3u;
    return to_uuid(mix(hash ^ mix(track->id)));
}

static uint64_t uuid_of(struct perfleet_track *track, uint32_t level, bool *is_of_thread);

/* Below its parent; *is_of_thread: another one in another thread. */
static uint64_t uuid_below(struct perfleet_track *track, uint32_t level, bool *is_of_thread)
{
    uint64_t hash = __atomic_load_n(&track->hash_, __ATOMIC_RELAXED);
    uint64_t parent;

    if (hash == 0) {
        hash = hash_track(track);
        __atomic_store_n(&track->hash_, hash, __ATOMIC_RELAXED);
    }
    if (track->parent == NULL || level == PFL_TRACK_LEVELS_MAX)
        parent = pfl_track_process_uuid();
    else
        parent = uuid_of(track->parent, level + 1, is_of_thread);
    return to_uuid(mix(parent + hash));
}

static uint64_t uuid_of(struct perfleet_track *track, uint32_t level, bool *is_of_thread)
{
    switch (track->kind) {
    case PERFLEET_TRACK_THREAD:
        *is_of_thread = true;
        return pfl_track_thread_uuid();
    case PERFLEET_TRACK_PROCESS:
        return pfl_track_process_uuid();
    case PERFLEET_TRACK_GLOBAL:
        return 0;
    case PERFLEET_TRACK_NAMED:
    case PERFLEET_TRACK_COUNTER:
    case PERFLEET_TRACK_STATE:
    default:
        return uuid_below(track, level, is_of_thread);
    }
}

uint64_t perfleet_track_uuid(struct perfleet_track *track)
{
    uint64_t uuid = __atomic_load_n(&track->uuid_, __ATOMIC_RELAXED);
    bool is_of_thread = false;

    if (__builtin_expect(uuid != 0, 1))
        return uuid;
    uuid = uuid_of(track, 1, &is_of_thread);
    if (!is_of_thread)
        __atomic_store_n(&track->uuid_, uuid, __ATOMIC_RELAXED);
    return uuid;
}

/* --- descriptors ------------------------------------------------------------------------- */

static void write_thread(struct perfleet_writer *w)
{
    char name[17] = {0};

    perfleet_begin(w, TRACK_DESCRIPTOR__THREAD);
    perfleet_int(w, THREAD_DESCRIPTOR__PID, getpid());
    perfleet_int(w, THREAD_DESCRIPTOR__TID, thread_id);
    if (prctl(PR_GET_NAME, name) == 0 && name[0] != '\0')
        perfleet_string(w, THREAD_DESCRIPTOR__THREAD_NAME, name);
    perfleet_end(w);
}

static void write_process(struct perfleet_writer *w)
{
    perfleet_begin(w, TRACK_DESCRIPTOR__PROCESS);
    perfleet_int(w, PROCESS_DESCRIPTOR__PID, getpid());
    if (cmdline_len > 0)
        perfleet_string(w, PROCESS_DESCRIPTOR__PROCESS_NAME, cmdline);
    for (size_t at = 0; at < cmdline_len; at += strlen(cmdline + at) + 1)
        perfleet_string(w, PROCESS_DESCRIPTOR__CMDLINE, cmdline + at);
    perfleet_end(w);
}

static void write_string(struct perfleet_writer *w, uint32_t field, const char *str)
{
    if (str != NULL)
        perfleet_string(w, field, str);
}

static void write_number(struct perfleet_writer *w, uint32_t field, int64_t value)
{
    if (value != 0)
        perfleet_int(w, field, value);
}

static void write_counter(struct perfleet_writer *w, const struct perfleet_track *track)
{
    perfleet_begin(w, TRACK_DESCRIPTOR__COUNTER);
    write_number(w, COUNTER_DESCRIPTOR__UNIT, track->unit);
    write_number(w, COUNTER_DESCRIPTOR__UNIT_MULTIPLIER, track->unit_multiplier);
    write_number(w, COUNTER_DESCRIPTOR__IS_INCREMENTAL, track->is_incremental);
    write_string(w, COUNTER_DESCRIPTOR__UNIT_NAME, track->unit_name);
    write_string(w, COUNTER_DESCRIPTOR__Y_AXIS_SHARE_KEY, track->y_axis_share_key);
    perfleet_end(w);
}

static uint64_t parent_uuid(struct perfleet_track *track)
{
    switch (track->kind) {
    case PERFLEET_TRACK_PROCESS:
    case PERFLEET_TRACK_GLOBAL:
        return 0;
    case PERFLEET_TRACK_THREAD:
        return pfl_track_process_uuid();
    case PERFLEET_TRACK_NAMED:
    case PERFLEET_TRACK_COUNTER:
    case PERFLEET_TRACK_STATE:
    default:
        return track->parent == NULL ? pfl_track_process_uuid()
                                     : perfleet_track_uuid(track->parent);
    }
}

void pfl_track_write_descriptor(struct perfleet_writer *w, struct perfleet_track *track)
{
    uint64_t parent = parent_uuid(track);

    perfleet_begin(w, TRACE_PACKET__TRACK_DESCRIPTOR);
    perfleet_uint(w, TRACK_DESCRIPTOR__UUID, perfleet_track_uuid(track));
    if (parent != 0)
        perfleet_uint(w, TRACK_DESCRIPTOR__PARENT_UUID, parent);
    write_string(w, TRACK_DESCRIPTOR__NAME, track->name);
    write_string(w, TRACK_DESCRIPTOR__DESCRIPTION, track->description);
    write_number(w, TRACK_DESCRIPTOR__CHILD_ORDERING, track->child_ordering);
    write_number(w, TRACK_DESCRIPTOR__SIBLING_ORDER_RANK, track->sibling_order_rank);
    write_number(w, TRACK_DESCRIPTOR__SIBLING_MERGE_BEHAVIOR, track->merge_behavior);
    if (track->merge_behavior == PERFLEET_MERGE_BY_KEY)
        write_string(w, TRACK_DESCRIPTOR__SIBLING_MERGE_KEY, track->merge_key);
    if (track->kind == PERFLEET_TRACK_THREAD)
        write_thread(w);
    else if (track->kind == PERFLEET_TRACK_PROCESS)
        write_process(w);
    else if (track->kind == PERFLEET_TRACK_COUNTER)
        write_counter(w, track);
    else if (track->kind == PERFLEET_TRACK_STATE) {
        perfleet_begin(w, TRACK_DESCRIPTOR__STATE);
        perfleet_end(w);
    }
    perfleet_end(w);
}
