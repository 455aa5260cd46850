/* SPDX-License-Identifier: Apache-2.0 */
/* Filter bytecode and TraceFilter configs for tests. */
#ifndef PFL_TESTS_UNIT_SERVICE_FILTER_KIT_H
#define PFL_TESTS_UNIT_SERVICE_FILTER_KIT_H

#include "base/bytes.h"

#define PFL_KIT_BYTES 4096u

/* The words of messages, by opcode. */
#define KIT_FIELD(id)       ((uint32_t)(id) << 3 | 1)
#define KIT_RANGE(id, len)  ((uint32_t)(id) << 3 | 2), (len)
#define KIT_NESTED(id, msg) ((uint32_t)(id) << 3 | 3), (msg)
#define KIT_STRING(id)      ((uint32_t)(id) << 3 | 4)
#define KIT_TYPED(id, type) ((uint32_t)(id) << 3 | 5), (type)
#define KIT_END             0

struct kit_bytes {
    uint8_t data[PFL_KIT_BYTES];
    size_t len;
};

/* Varints and the checksum. */
struct kit_bytes kit_bytecode_of(const uint32_t *words, size_t len);
#define kit_bytecode(...)                                                                          \
    kit_bytecode_of((const uint32_t[]){__VA_ARGS__},                                               \
                    sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

struct kit_rule {
    uint32_t policy;
    const char *pattern;
    const char *payload_start; /* or NULL */
    const char *name;          /* or NULL */
    int type;                  /* -1: no list */
};
/* A StringFilterChain. */
struct kit_bytes kit_chain(const struct kit_rule *rules, size_t len);

void kit_put(struct kit_bytes *message, uint32_t id, const void *data, size_t len);
void kit_put_varint(struct kit_bytes *message, uint32_t id, uint64_t value);

static inline struct pfl_span kit_span(const struct kit_bytes *bytes)
{
    return pfl_span_of(bytes->data, bytes->len);
}

#endif
