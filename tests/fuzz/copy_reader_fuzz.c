/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tracing service sends anything as the packets of a copied ring: the bytes of the trace stay
 * below the maximum and are whole fields, and the copy begins while the ring was there. Layout:
 * size of the replies, their bytes.
 */
#include <stdlib.h>

#include "agent/daemon/order/copy_reader.h"
#include "base/mem.h"
#include "tests/support/fuzz_note.h"

#define MAX_BYTES 4096u
#define RING_NS   1000u
#define NOW_NS    UINT64_C(1000000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_fine)
{
    if (!is_fine)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_copy_reader_conf conf = {
        .max_bytes = MAX_BYTES, .ring_ns = RING_NS, .now_ns = NOW_NS};
    struct pfl_copy_reader copy;
    struct pfl_reader r;
    struct pfl_field f;
    size_t piece;
    int rc = 0;

    if (size < 2)
        return 0;
    piece = data[0] != 0 ? data[0] : 1;
    pfl_copy_reader_init(&copy, &conf);
    for (size_t at = 1; rc == 0 && at < size; at += piece)
        rc = pfl_copy_reader_feed(&copy,
                                  pfl_span_of(data + at, size - at < piece ? size - at : piece));
    note("%s, %llu bytes, begins %llu", pfl_err_str(rc), (unsigned long long)copy.bytes,
         (unsigned long long)pfl_copy_reader_get_begin_ns(&copy));
    note_fields("packet", pfl_buf_get(&copy.out));
    check(rc != 0 || copy.bytes <= MAX_BYTES);
    check(pfl_copy_reader_get_begin_ns(&copy) >= RING_NS &&
          pfl_copy_reader_get_begin_ns(&copy) <= NOW_NS);
    r = pfl_reader_of(pfl_buf_get(&copy.out));
    while (rc == 0 && pfl_reader_field(&r, &f))
        check(f.id == 1 && f.type == PFL_WIRE_BYTES);
    check(rc != 0 || !r.failed);
    pfl_copy_reader_fini(&copy);
    return 0;
}
