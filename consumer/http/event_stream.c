/* SPDX-License-Identifier: Apache-2.0 */
/* An event: "data: " before each line, an empty line behind it. See event_stream.h. */
#include "consumer/http/event_stream.h"

#include <string.h>

int pfl_event_stream_add(struct pfl_buf *out, struct pfl_span text)
{
    const uint8_t *at = text.data;
    size_t left = text.len;
    int rc = 0;

    do {
        const uint8_t *end = left != 0 ? memchr(at, '\n', left) : NULL;
        size_t len = end != NULL ? (size_t)(end - at) : left;

        rc = pfl_buf_append(out, "data: ", 6);
        if (rc == 0)
            rc = pfl_buf_append(out, at, len);
        if (rc == 0)
            rc = pfl_buf_append(out, "\n", 1);
        at = end != NULL ? end + 1 : at + len;
        left -= end != NULL ? len + 1 : len;
    } while (rc == 0 && left != 0);
    return rc == 0 ? pfl_buf_append(out, "\n", 1) : rc;
}
