/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytecode and overlay of an operator: the first byte says where the second begins; the checksums
 * are made good, so that the fuzzer gets behind them. Whatever is taken leads nowhere but to
 * messages that exist.
 */
#include "service/output/filter_bytecode.h"
#include "tests/support/fuzz_note.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 4096u

struct signed_bytes {
    uint8_t data[INPUT_MAX + PFL_VARINT_MAX_BYTES];
    size_t len;
};

static void sign(struct pfl_span words, struct signed_bytes *ret)
{
    struct pfl_reader r = pfl_reader_of(words);
    struct pfl_writer w = pfl_writer_of(ret->data, sizeof(ret->data));
    uint64_t hash = 14695981039346656037ull;

    while (r.left != 0) {
        uint32_t word = (uint32_t)pfl_reader_varint(&r);

        if (r.failed)
            break;
        for (unsigned byte = 0; byte < 4; byte++)
            hash = (hash ^ (word >> (8 * byte) & 0xff)) * 1099511628211ull;
        pfl_writer_varint(&w, word);
    }
    pfl_writer_varint(&w, (uint32_t)hash);
    ret->len = sizeof(ret->data) - w.left;
}

static void check(const struct pfl_filter_bytecode *b)
{
    static const uint32_t ids[] = {0, 1, 5, 127, 128, 1000, UINT32_MAX};

    for (uint32_t message = 0; message <= b->messages_len; message++) {
        for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
            pfl_filter_action action = pfl_filter_bytecode_find(b, message, ids[i]);

            note("message %u, field %u: %d %u", message, ids[i], (int)pfl_filter_kind_of(action),
                 (unsigned)pfl_filter_argument_of(action));

            if (pfl_filter_kind_of(action) > PFL_FILTER_STRING ||
                (pfl_filter_kind_of(action) == PFL_FILTER_NESTED &&
                 pfl_filter_argument_of(action) >= b->messages_len))
                abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct signed_bytes code;
    static struct signed_bytes over;
    struct pfl_filter_bytecode b;
    char why[PFL_FILTER_WHY_BYTES];
    size_t cut;

    if (size == 0 || size > INPUT_MAX)
        return 0;
    cut = data[0] < size - 1 ? data[0] : size - 1;
    sign(pfl_span_of(data + 1, cut), &code);
    sign(pfl_span_of(data + 1 + cut, size - 1 - cut), &over);
    if (size - 1 == cut)
        over.len = 0;
    if (pfl_filter_bytecode_parse(pfl_span_of(code.data, code.len),
                                  pfl_span_of(over.data, over.len), &b, why) == 0) {
        check(&b);
        pfl_filter_bytecode_fini(&b);
    } else {
        note("refused: %s", why);
    }
    if (pfl_filter_bytecode_parse(pfl_span_of(data, size), (struct pfl_span){0}, &b, why) == 0)
        pfl_filter_bytecode_fini(&b);
    else
        note("unsigned: %s", why);
    return 0;
}
