/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets, field by field: what perfleet.h calls "write a packet". Included by it.
 *
 *     perfleet_packet_begin(w);
 *     perfleet_uint(w, 8, perfleet_time_ns());            // TracePacket.timestamp
 *     perfleet_begin(w, 900);                             // TracePacket.for_testing, nested
 *     perfleet_string(w, 1, "hello");                     // TestEvent.str
 *     perfleet_begin(w, 5);                               // ... as deep as needed
 *     perfleet_double(w, 2, 0.5);
 *     perfleet_end(w);
 *     perfleet_packed_uint(w, 6, values, values_len);     // repeated uint64, packed
 *     perfleet_end(w);
 *     perfleet_packet_end(w);
 *
 * Numbers and types come from the .proto file: Perfetto's trace_packet.proto and, for extensions,
 * your own. Fields are written in any order, repeated ones once for each value. Every begin needs
 * its end: the library closes messages that a packet left open, and ignores a superfluous end. A
 * message may be longer than a chunk, or than the whole shared memory: it is committed as it grows,
 * and the sizes of open messages follow as patches.
 *
 *   uint32 uint64 bool enum    perfleet_uint      int32 int64        perfleet_int
 *   sint32 sint64              perfleet_sint      bool               perfleet_bool
 *   fixed32 sfixed32           perfleet_fixed32   float              perfleet_float
 *   fixed64 sfixed64           perfleet_fixed64   double             perfleet_double
 *   string                     perfleet_string    bytes              perfleet_bytes
 *   message                    perfleet_begin ... perfleet_end
 *   repeated ... packed        perfleet_packed_*, or perfleet_begin, perfleet_item_* ..., _end
 */
#ifndef PERFLEET_PACKET_H
#define PERFLEET_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PERFLEET_API __attribute__((visibility("default")))

/* open messages in a packet, the limit of protobuf's own parsers */
#define PERFLEET_MAX_NESTING 100u
/* bytes; a packet beyond one of these two limits is dropped */
#define PERFLEET_MAX_PACKET 0x0fffffffu

/* Used by the inline functions; the rest is private. */
struct perfleet_writer {
    uint8_t *pos; /* next byte */
    uint8_t *end; /* of the current chunk's space */
};

/* --- packets ----------------------------------------------------------------------------- */

PERFLEET_API void perfleet_packet_begin(struct perfleet_writer *w);
PERFLEET_API void perfleet_packet_end(struct perfleet_writer *w);

/* A nested message (a field of a message type): the following fields up to perfleet_end. */
PERFLEET_API void perfleet_begin(struct perfleet_writer *w, uint32_t field);
PERFLEET_API void perfleet_end(struct perfleet_writer *w);

/* Bytes without encoding, e.g. fields encoded elsewhere. */
PERFLEET_API void perfleet_raw(struct perfleet_writer *w, const void *data, size_t bytes);

/* The default clock of timestamps: CLOCK_BOOTTIME in nanoseconds, to 1 us. On one thread it never
 * goes back. After the first perfleet_open it is computed from the CPU's counter if the kernel does
 * that, too: half the cost of clock_gettime. */
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

static inline uint64_t perfleet_zigzag_(int64_t value)
{
    return ((uint64_t)value << 1) ^ (value < 0 ? ~(uint64_t)0 : 0);
}

static inline void perfleet_sint(struct perfleet_writer *w, uint32_t field, int64_t value)
{
    perfleet_uint(w, field, perfleet_zigzag_(value));
}

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

/* --- packed fields ----------------------------------------------------------------------- */

static inline void perfleet_put_item_(struct perfleet_writer *w, const void *value, size_t bytes)
{
    if (__builtin_expect((size_t)(w->end - w->pos) < bytes, 0)) {
        perfleet_raw(w, value, bytes);
        return;
    }
    memcpy(w->pos, value, bytes);
    w->pos += bytes;
}

/* Values of a packed field, between perfleet_begin and perfleet_end. */
static inline void perfleet_item_uint(struct perfleet_writer *w, uint64_t value)
{
    uint8_t spare[PERFLEET_FIELD_MAX_];

    if (__builtin_expect(w->end - w->pos >= PERFLEET_FIELD_MAX_, 1))
        w->pos = perfleet_put_varint_(w->pos, value);
    else
        perfleet_raw(w, spare, (size_t)(perfleet_put_varint_(spare, value) - spare));
}

static inline void perfleet_item_int(struct perfleet_writer *w, int64_t value)
{
    perfleet_item_uint(w, (uint64_t)value);
}

static inline void perfleet_item_sint(struct perfleet_writer *w, int64_t value)
{
    perfleet_item_uint(w, perfleet_zigzag_(value));
}

static inline void perfleet_item_fixed32(struct perfleet_writer *w, uint32_t value)
{
    perfleet_put_item_(w, &value, sizeof(value));
}

static inline void perfleet_item_fixed64(struct perfleet_writer *w, uint64_t value)
{
    perfleet_put_item_(w, &value, sizeof(value));
}

static inline void perfleet_item_float(struct perfleet_writer *w, float value)
{
    perfleet_put_item_(w, &value, sizeof(value));
}

static inline void perfleet_item_double(struct perfleet_writer *w, double value)
{
    perfleet_put_item_(w, &value, sizeof(value));
}

/* Whole arrays. */
PERFLEET_API void perfleet_packed_uint(struct perfleet_writer *w, uint32_t field,
                                       const uint64_t *values, size_t count);
PERFLEET_API void perfleet_packed_int(struct perfleet_writer *w, uint32_t field,
                                      const int64_t *values, size_t count);
PERFLEET_API void perfleet_packed_sint(struct perfleet_writer *w, uint32_t field,
                                       const int64_t *values, size_t count);

static inline void perfleet_packed_fixed32(struct perfleet_writer *w, uint32_t field,
                                           const uint32_t *values, size_t count)
{
    perfleet_bytes(w, field, values, count * sizeof(*values));
}

static inline void perfleet_packed_fixed64(struct perfleet_writer *w, uint32_t field,
                                           const uint64_t *values, size_t count)
{
    perfleet_bytes(w, field, values, count * sizeof(*values));
}

static inline void perfleet_packed_float(struct perfleet_writer *w, uint32_t field,
                                         const float *values, size_t count)
{
    perfleet_bytes(w, field, values, count * sizeof(*values));
}

static inline void perfleet_packed_double(struct perfleet_writer *w, uint32_t field,
                                          const double *values, size_t count)
{
    perfleet_bytes(w, field, values, count * sizeof(*values));
}

#ifdef __cplusplus
}
#endif

#endif
