/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and configs of detached sessions: see detach_request.h. Limits:
 * PFL_DETACH_REQUEST_KEY_BYTES. */
#include "consumer/proxy/detach_request.h"

#include <string.h>

#include "perfetto/consumer_port.fields.h"

bool pfl_detach_request_read_key(struct pfl_span args, char key[PFL_DETACH_REQUEST_KEY_BYTES])
{
    struct pfl_reader r = pfl_reader_of(args);
    struct pfl_field f;

    key[0] = '\0';
    while (pfl_reader_field(&r, &f)) {
        if (f.id != DETACH_REQUEST__KEY || f.type != PFL_WIRE_BYTES ||
            f.bytes.len >= PFL_DETACH_REQUEST_KEY_BYTES ||
            memchr(f.bytes.data, '\0', f.bytes.len) != NULL)
            continue;
        memcpy(key, f.bytes.data, f.bytes.len);
        key[f.bytes.len] = '\0';
    }
    return key[0] != '\0';
}

/* The field of an EnableTracingRequest is that of an AttachResponse. */
int pfl_detach_request_keep_config(struct pfl_span args, struct pfl_buf *out)
{
    struct pfl_reader r = pfl_reader_of(args);
    struct pfl_field f;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f))
        if (f.id == ATTACH_RESPONSE__TRACE_CONFIG)
            rc = pfl_buf_append(out, f.raw.data, f.raw.len);
    return rc;
}
