/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text as a trace config and as a type with a field of every kind. What is accepted must unpack;
 * what is refused must say where, within the text, and leave nothing behind.
 */
#include "proto/text/text_format.h"

#include <stdlib.h>

#include "perfetto/trace_config.pb-c.h"
#include "proto/unpack.h"
#include "tests/support/fuzz_note.h"
#include "tests/unit/proto/text/text_types.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUT_MAX_BYTES (64u << 10)

static void check_error(const struct pfl_text_error *error, struct pfl_span text, size_t out_len)
{
    unsigned lines = 1;

    for (size_t i = 0; i < text.len; i++)
        lines += text.data[i] == '\n';
    if (error->line == 0 || error->line > lines || error->column == 0 ||
        error->column > text.len + 1 || out_len != 0 ||
        memchr(error->message, '\0', sizeof(error->message)) == NULL)
        abort();
}

static int parse(const ProtobufCMessageDescriptor *type, struct pfl_span text, struct pfl_buf *out)
{
    struct pfl_text_error error = {0};
    int rc = pfl_text_format_parse(type, text, out, &error);

    if (rc != 0)
        note("%u:%u: %s", (unsigned)error.line, (unsigned)error.column, error.message);
    else
        note_message("message", pfl_buf_get(out));
    if (rc != 0)
        check_error(&error, text, out->len);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_span text = pfl_span_of(data, size);
    ProtobufCMessage *message = NULL;
    struct pfl_buf out;

    pfl_buf_init(&out, OUT_MAX_BYTES);
    if (parse(&perfetto__protos__trace_config__descriptor, text, &out) == 0) {
        int rc = pfl_proto_unpack(&perfetto__protos__trace_config__descriptor, pfl_buf_get(&out),
                                  &message);

        if (rc != 0 && rc != PFL_ELIMIT)
            abort();
        pfl_proto_free(message);
    }
    pfl_buf_clear(&out);
    (void)parse(&text_types_descriptor, text, &out);
    pfl_buf_fini(&out);
    return 0;
}
