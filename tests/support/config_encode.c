/* SPDX-License-Identifier: Apache-2.0 */
/* A TraceConfig in text format on stdin -> its bytes on stdout; exit code 1 with the place. */
#include <stdio.h>

#include "perfetto/trace_config.pb-c.h"
#include "proto/text/text_format.h"

#define MAX_BYTES (1u << 20)

int main(void)
{
    static char text[MAX_BYTES];
    size_t len = fread(text, 1, sizeof(text), stdin);
    struct pfl_text_error error;
    struct pfl_buf buf;
    int rc;

    pfl_buf_init(&buf, MAX_BYTES);
    rc = pfl_text_format_parse(&perfetto__protos__trace_config__descriptor, pfl_span_of(text, len),
                               &buf, &error);
    if (rc != 0)
        (void)fprintf(stderr, "%u:%u: %s\n", error.line, error.column, error.message);
    else if (fwrite(buf.data, 1, buf.len, stdout) != buf.len || fflush(stdout) != 0)
        rc = 1;
    pfl_buf_fini(&buf);
    return rc != 0;
}
