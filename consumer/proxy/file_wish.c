/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes write_into_file and what belongs to it out of a request. Happy path: the config is copied
 * field by field; everything else of the request stays. Failure: a malformed request.
 */
#include "consumer/proxy/file_wish.h"

enum {
    REQUEST_CONFIG = 1,
    CONFIG_WRITE_INTO_FILE = 8,
    CONFIG_PERIOD = 9,
    CONFIG_MAX_BYTES = 10,
    CONFIG_OUTPUT_PATH = 29,
    CONFIG_FLUSH_MODE = 44,
    CONFIG_FFLUSH = 45,
    HEADER_MAX_BYTES = 16,
};

/* What the config wishes; also when it wishes for nothing. */
static int read_config(struct pfl_span config, struct pfl_file_wish *wish)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;
    bool has_path = false;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == CONFIG_WRITE_INTO_FILE)
            wish->is_wished = f.value != 0;
        else if (f.id == CONFIG_PERIOD && f.value != 0)
            wish->period_ms = (uint32_t)f.value;
        else if (f.id == CONFIG_MAX_BYTES)
            wish->max_bytes = f.value;
        else if (f.id == CONFIG_OUTPUT_PATH)
            has_path = f.bytes.len != 0;
    }
    wish->is_wished = wish->is_wished && !has_path;
    if (wish->period_ms < PFL_FILE_WISH_MIN_PERIOD_MS)
        wish->period_ms = PFL_FILE_WISH_MIN_PERIOD_MS;
    return r.failed ? PFL_EPARSE : 0;
}

static bool is_of_file(uint32_t id)
{
    return id == CONFIG_WRITE_INTO_FILE || id == CONFIG_PERIOD || id == CONFIG_MAX_BYTES ||
           id == CONFIG_FLUSH_MODE || id == CONFIG_FFLUSH;
}

static int append_config(struct pfl_span config, struct pfl_buf *out)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;
    struct pfl_writer w;
    uint8_t header[HEADER_MAX_BYTES];
    size_t kept = 0;
    int rc;

    while (pfl_reader_field(&r, &f))
        kept += is_of_file(f.id) ? 0 : f.raw.len;
    w = pfl_writer_of(header, sizeof(header));
    pfl_writer_field_header(&w, REQUEST_CONFIG, kept);
    rc = pfl_buf_append(out, header, sizeof(header) - w.left);
    r = pfl_reader_of(config);
    while (rc == 0 && pfl_reader_field(&r, &f))
        if (!is_of_file(f.id))
            rc = pfl_buf_append(out, f.raw.data, f.raw.len);
    return rc;
}

int pfl_file_wish_take(struct pfl_span request, struct pfl_buf *out, struct pfl_file_wish *ret_wish)
{
    struct pfl_file_wish wish = {.period_ms = PFL_FILE_WISH_PERIOD_MS};
    struct pfl_reader r = pfl_reader_of(request);
    struct pfl_field f;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f))
        if (f.id == REQUEST_CONFIG && f.type == PFL_WIRE_BYTES)
            rc = read_config(f.bytes, &wish);
    if (rc == 0 && r.failed)
        rc = PFL_EPARSE;
    r = pfl_reader_of(request);
    while (rc == 0 && wish.is_wished && pfl_reader_field(&r, &f))
        rc = f.id == REQUEST_CONFIG && f.type == PFL_WIRE_BYTES
                 ? append_config(f.bytes, out)
                 : pfl_buf_append(out, f.raw.data, f.raw.len);
    if (rc == 0)
        *ret_wish = wish;
    return rc;
}
