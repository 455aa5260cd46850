/* SPDX-License-Identifier: Apache-2.0 */
/* A stream's memory with something in all of it, for tests. */
#ifndef PFL_TESTS_UNIT_AGENT_MEMORY_KIT_H
#define PFL_TESTS_UNIT_AGENT_MEMORY_KIT_H

#include "agent/daemon/stream/stream_memory.h"

#define MIB        (1024u * 1024)
#define OUT_BYTES  MIB
#define HEAD_BYTES 4096u

extern const struct pfl_stream_facts memory_kit_facts;
/* All of it is something else than 0. */
extern const struct pfl_stream_record memory_kit_full;

int memory_kit_count_fds(void);
struct pfl_stream_memory *memory_kit_make(void);
int memory_kit_take_dup(int fd, struct pfl_stream_memory **ret_memory);
void memory_kit_fill(uint8_t *at, size_t len, uint64_t seed);
bool memory_kit_is_filled(const uint8_t *at, size_t len, uint64_t seed);
void memory_kit_save_gate(struct pfl_stream_memory *m, size_t len, uint64_t seed);
uint8_t *memory_kit_get_out(struct pfl_stream_memory *m, size_t capacity);
void memory_kit_give_back(struct pfl_stream_memory *m, uint8_t *data, size_t capacity);
void memory_kit_assert_is_record(const struct pfl_stream_memory *m,
                                 const struct pfl_stream_record *r);
void memory_kit_fill_areas(struct pfl_stream_memory *m);
void memory_kit_read_head(int fd, uint8_t *dst);
int memory_kit_count_before(void **state);
int memory_kit_assert_nothing_is_left(void **state);

#endif
