/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of messages: see message_copy.h. Happy path: measured, then copied field by field in its
 * encoded form. Failures: the buffer's; a malformed message ends at the error.
 */
#include "consumer/proxy/message_copy.h"

#include "base/message.h"

static size_t measure(struct pfl_span message, pfl_message_copy_leave *leave)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;
    size_t kept = 0;

    while (pfl_reader_field(&r, &f))
        kept += leave(&f) ? 0 : f.raw.len;
    return kept;
}

size_t pfl_message_copy_bytes(uint32_t id, struct pfl_span message, pfl_message_copy_leave *leave)
{
    size_t len = measure(message, leave);

    return pfl_varint_size((uint64_t)id << 3) + pfl_varint_size(len) + len;
}

int pfl_message_copy_append(uint32_t id, struct pfl_span message, pfl_message_copy_leave *leave,
                            struct pfl_buf *out)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;
    int rc = pfl_message_append_header(out, id, measure(message, leave));

    while (rc == 0 && pfl_reader_field(&r, &f))
        if (!leave(&f))
            rc = pfl_buf_append(out, f.raw.data, f.raw.len);
    return rc;
}
