/* SPDX-License-Identifier: Apache-2.0 */
/* Programs and messages for tests of VMs, put together from bytes (docs/abi/protovm.md). */
#ifndef PFL_TESTS_VM_KIT_H
#define PFL_TESTS_VM_KIT_H

#include "service/vm/vm.h"

struct kit_bytes {
    uint8_t data[4096];
    size_t len;
};

static inline struct pfl_span kit_span(const struct kit_bytes *bytes)
{
    return pfl_span_of(bytes->data, bytes->len);
}

struct kit_bytes kit_number(uint32_t id, uint64_t value);
struct kit_bytes kit_fixed32(uint32_t id, uint32_t value);
struct kit_bytes kit_fixed64(uint32_t id, uint64_t value);
struct kit_bytes kit_text(uint32_t id, const char *text);
struct kit_bytes kit_field(uint32_t id, struct kit_bytes content);
struct kit_bytes kit_join(const struct kit_bytes *parts, size_t len);
#define KIT_JOIN(...)                                                                              \
    kit_join((const struct kit_bytes[]){__VA_ARGS__},                                              \
             sizeof((const struct kit_bytes[]){__VA_ARGS__}) / sizeof(struct kit_bytes))
#define KIT_MESSAGE(id, ...) kit_field(id, KIT_JOIN(__VA_ARGS__))
#define KIT_NONE             ((struct kit_bytes){.len = 0})

/* Components of a path. */
struct kit_bytes kit_step(uint32_t id);
struct kit_bytes kit_each(uint32_t id);
struct kit_bytes kit_index(uint32_t index);
struct kit_bytes kit_key(uint32_t id, uint32_t register_id);

/* Instructions; KIT_LEVEL and KIT_NESTED are added to one by KIT_JOIN. */
#define KIT_PATH(...) KIT_JOIN(__VA_ARGS__)
#define KIT_LEVEL(n)  kit_number(6, n)
#define KIT_NESTED(...)                                                                            \
    kit_nested((const struct kit_bytes[]){__VA_ARGS__},                                            \
               sizeof((const struct kit_bytes[]){__VA_ARGS__}) / sizeof(struct kit_bytes))
struct kit_bytes kit_nested(const struct kit_bytes *instructions, size_t len);
struct kit_bytes kit_select(int cursor, bool creates, struct kit_bytes path);
struct kit_bytes kit_load(int cursor, uint32_t register_id);
struct kit_bytes kit_merge(unsigned flags);
struct kit_bytes kit_set(void);
struct kit_bytes kit_del(void);
struct kit_bytes kit_program(const struct kit_bytes *instructions, size_t len);
#define KIT_PROGRAM(...)                                                                           \
    kit_program((const struct kit_bytes[]){__VA_ARGS__},                                           \
                sizeof((const struct kit_bytes[]){__VA_ARGS__}) / sizeof(struct kit_bytes))

#define KIT_MEMORY 65536u
struct pfl_vm *kit_vm(struct kit_bytes program, uint64_t memory_bytes);
void kit_expect_state(const struct pfl_vm *vm, struct kit_bytes expected);
/* Runs the program over these packets, all of which it takes, and compares the state. */
void kit_expect(struct kit_bytes program, const struct kit_bytes *packets, size_t len,
                struct kit_bytes expected);
#define KIT_EXPECT(program, expected, ...)                                                         \
    kit_expect(program, (const struct kit_bytes[]){__VA_ARGS__},                                   \
               sizeof((const struct kit_bytes[]){__VA_ARGS__}) / sizeof(struct kit_bytes),         \
               expected)

#endif
