/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets of producers through a filter with every opcode and rule: filtered in other memory and
 * in place gives the same, never more than came in, and filtering the result again changes nothing
 * but lengths' redundant bytes (so it never fails).
 */
#include "service/output/trace_filter.h"
#include "tests/support/fuzz_note.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 8192u

/* StringFilterChain: match and redact pin=(.*?) */
static const uint8_t chain[] = {0x1a, 0x0f, 0x0a, 0x0d, 0x08, 0x01, 0x12, 0x09, 'p',
                                'i',  'n',  '=',  '(',  '.',  '*',  '?',  ')'};

/* As trace_filter_test.c's: Trace.packet -> {1, 2; 3 -> {1}; 4 string; 5 -> itself}. */
static struct pfl_trace_filter *make(void)
{
    static const uint32_t words[] = {1 << 3 | 3, 1, 0, 1 << 3 | 2, 2, 3 << 3 | 3, 2, 4 << 3 | 4,
                                     5 << 3 | 3, 1, 0, 1 << 3 | 1, 0};
    uint8_t bytes[128];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    uint8_t code[64];
    struct pfl_writer c = pfl_writer_of(code, sizeof(code));
    uint64_t hash = 14695981039346656037ull;
    struct pfl_trace_filter *filter = NULL;
    char why[PFL_FILTER_WHY_BYTES];

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        for (unsigned byte = 0; byte < 4; byte++)
            hash = (hash ^ (words[i] >> (8 * byte) & 0xff)) * 1099511628211ull;
        pfl_writer_varint(&c, words[i]);
    }
    pfl_writer_varint(&c, (uint32_t)hash);
    pfl_writer_field_bytes(&w, 2, code, sizeof(code) - c.left);
    pfl_writer_bytes(&w, chain, sizeof(chain));
    if (pfl_trace_filter_new(pfl_span_of(bytes, sizeof(bytes) - w.left), &filter, why) != 0)
        abort();
    return filter;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pfl_trace_filter *filter;
    static uint8_t in[INPUT_MAX];
    static uint8_t out[INPUT_MAX];
    size_t out_len = 0;
    size_t in_len = 0;
    int rc;

    if (filter == NULL)
        filter = make();
    if (size > INPUT_MAX)
        return 0;
    if (size != 0)
        memcpy(in, data, size);
    rc = pfl_trace_filter_packet(filter, pfl_span_of(in, size), out, &out_len);
    note("filtered: %s", pfl_err_str(rc));
    if (rc == 0)
        note_message("packet", pfl_span_of(out, out_len));
    if (pfl_trace_filter_packet(filter, pfl_span_of(in, size), in, &in_len) != rc)
        abort();
    if (rc != 0 || out_len == 0)
        return 0;
    if (out_len > size || out_len != in_len || memcmp(in, out, out_len) != 0)
        abort();
    if (pfl_trace_filter_packet(filter, pfl_span_of(out, out_len), in, &in_len) != 0 ||
        in_len > out_len)
        abort();
    return 0;
}
