/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message type with a field of every kind, for tests of text format and fuzzing; written by hand
 * because only tests want it:
 *
 *     i32 1 int32 · u32 2 uint32 · i64 3 int64 · u64 4 uint64 · s32 5 sint32 · s64 6 sint64 ·
 *     f32 7 fixed32 · sf64 8 sfixed64 · flt 9 float · dbl 10 double · rb 11 repeated bool ·
 *     en 12 enum {MINUS = -1, ONE = 1, TWO = 2} · str 13 string · byt 14 bytes · sub 15 Types ·
 *     rs 16 repeated Types · oneof {alt_a 17 uint32, alt_b 18 uint32}
 */
#ifndef PFL_TESTS_UNIT_PROTO_TEXT_TYPES_H
#define PFL_TESTS_UNIT_PROTO_TEXT_TYPES_H

#include <protobuf-c/protobuf-c.h>

/* For text_format alone: the offsets are no struct's, so nothing can be unpacked with it. */
extern const ProtobufCMessageDescriptor text_types_descriptor;

#endif
