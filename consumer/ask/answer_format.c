/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms of rows: see answer_format.h.
 *
 * Strings of a trace are strangers' strings. As text and as a summary, what is no printable ASCII
 * is \xNN; JSON escapes what a terminal interprets (consumer/text.h); CSV, which is for programs,
 * has them as they are. Failures: out of memory, and the buffer's maximum. Owns nothing. Limits:
 * TEXT_MAX_BYTES of a string in a line of text.
 */
#include "consumer/ask/answer_format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "consumer/text.h"

#define TEXT_MAX_BYTES 120u
#define WIDTH_MIN      10u
#define NUMBER_BYTES   32u

void pfl_answer_format_start(uint64_t unix_ns, char ret_text[PFL_ANSWER_START_BYTES])
{
    time_t at = (time_t)(unix_ns / 1000000000);
    struct tm tm;
    size_t len;

    ret_text[0] = '\0';
    if (unix_ns == 0 || gmtime_r(&at, &tm) == NULL)
        return;
    len = strftime(ret_text, PFL_ANSWER_START_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(ret_text + len, PFL_ANSWER_START_BYTES - len, ".%03uZ",
                   (unsigned)(unix_ns / 1000000 % 1000));
}

/* Of a cell that is no string. */
static size_t write_number(const struct pfl_cell *cell, char ret_text[NUMBER_BYTES])
{
    int len = cell->type == PFL_CELL_INTEGER
                  ? snprintf(ret_text, NUMBER_BYTES, "%" PRId64, cell->integer)
                  : snprintf(ret_text, NUMBER_BYTES, "%.17g", cell->real);

    return len > 0 ? (size_t)len : 0;
}

static int add(struct pfl_buf *out, const char *text)
{
    return pfl_buf_append(out, text, strlen(text));
}

static int add_hex(struct pfl_span bytes, struct pfl_buf *out)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t *room;
    int rc = bytes.len != 0 ? pfl_buf_reserve(out, 2 * bytes.len, &room) : 0;

    if (rc != 0 || bytes.len == 0)
        return rc;
    for (size_t i = 0; i < bytes.len; i++) {
        room[2 * i] = (uint8_t)digits[bytes.data[i] >> 4];
        room[2 * i + 1] = (uint8_t)digits[bytes.data[i] & 15];
    }
    pfl_buf_extend(out, 2 * bytes.len);
    return 0;
}

/* ---- text ---- */

/* `keeps_lines`: a new line stays one. */
static int add_plain(struct pfl_span text, bool keeps_lines, struct pfl_buf *out)
{
    size_t begin = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < text.len; i++) {
        char escape[8];

        if ((text.data[i] >= ' ' && text.data[i] <= '~') || (keeps_lines && text.data[i] == '\n'))
            continue;
        (void)snprintf(escape, sizeof(escape), "\\x%02x", text.data[i]);
        if (i != begin)
            rc = pfl_buf_append(out, text.data + begin, i - begin);
        if (rc == 0)
            rc = add(out, escape);
        begin = i + 1;
    }
    return rc == 0 && begin != text.len ? pfl_buf_append(out, text.data + begin, text.len - begin)
                                        : rc;
}

static size_t width_of(const char *name, size_t index)
{
    static const size_t ours[PFL_ANSWER_COLUMNS_OURS] = {16, 24, 26};
    size_t len = strlen(name);

    if (index < PFL_ANSWER_COLUMNS_OURS)
        return ours[index];
    return len > WIDTH_MIN ? len : WIDTH_MIN;
}

/* Everything that was appended since `begin` is one column. */
static int pad(struct pfl_buf *out, size_t begin, size_t width)
{
    static const char spaces[] = "                                ";
    size_t len = out->len - begin;
    int rc = 0;

    while (rc == 0 && len < width) {
        size_t some = width - len < sizeof(spaces) - 1 ? width - len : sizeof(spaces) - 1;

        rc = pfl_buf_append(out, spaces, some);
        len += some;
    }
    return rc == 0 ? pfl_buf_append(out, spaces, 2) : rc;
}

static int add_text_cell(const struct pfl_cell *cell, struct pfl_buf *out)
{
    struct pfl_span bytes = cell->bytes;
    char number[NUMBER_BYTES];
    bool is_cut = bytes.len > TEXT_MAX_BYTES;
    int rc;

    switch (cell->type) {
    case PFL_CELL_NULL:
        return add(out, "-");
    case PFL_CELL_REAL:
        return pfl_text_add(out, "%.6g", cell->real);
    case PFL_CELL_INTEGER:
        return pfl_buf_append(out, number, write_number(cell, number));
    default:
        break;
    }
    bytes.len = is_cut ? TEXT_MAX_BYTES : bytes.len;
    rc = cell->type == PFL_CELL_BLOB ? add_hex(bytes, out) : add_plain(bytes, false, out);
    return rc == 0 && is_cut ? add(out, "...") : rc;
}

static int add_text_column(const struct pfl_answer_columns *columns, size_t index,
                           const struct pfl_cell *cell, struct pfl_buf *out)
{
    size_t begin = out->len;
    int rc = add_text_cell(cell, out);
    bool is_end = index + 1 == pfl_answer_columns_get_len(columns);

    if (rc != 0)
        return rc;
    return is_end ? add(out, "\n")
                  : pad(out, begin, width_of(pfl_answer_columns_get_name(columns, index), index));
}

static struct pfl_cell cell_of(const char *text)
{
    return text[0] == '\0'
               ? (struct pfl_cell){.type = PFL_CELL_NULL}
               : (struct pfl_cell){.type = PFL_CELL_TEXT, .bytes = pfl_span_of(text, strlen(text))};
}

/* ---- CSV ---- */

static bool wants_quotes(struct pfl_span text)
{
    for (size_t i = 0; i < text.len; i++)
        if (strchr(",\"\r\n", text.data[i]) != NULL) /* finds NUL, too */
            return true;
    return text.len == 0; /* NULL is empty without */
}

static int add_quoted(struct pfl_span text, struct pfl_buf *out)
{
    size_t begin = 0;
    int rc = add(out, "\"");

    for (size_t i = 0; rc == 0 && i < text.len; i++) {
        if (text.data[i] != '"')
            continue;
        rc = pfl_buf_append(out, text.data + begin, i + 1 - begin); /* and once more */
        begin = i;
    }
    if (rc == 0 && begin != text.len)
        rc = pfl_buf_append(out, text.data + begin, text.len - begin);
    return rc == 0 ? add(out, "\"") : rc;
}

static int add_csv_cell(const struct pfl_cell *cell, struct pfl_buf *out)
{
    char number[NUMBER_BYTES];

    switch (cell->type) {
    case PFL_CELL_NULL:
        return 0;
    case PFL_CELL_TEXT:
        return wants_quotes(cell->bytes) ? add_quoted(cell->bytes, out)
                                         : pfl_buf_append(out, cell->bytes.data, cell->bytes.len);
    case PFL_CELL_BLOB:
        return add_hex(cell->bytes, out);
    default:
        return pfl_buf_append(out, number, write_number(cell, number));
    }
}

static int add_csv_column(const struct pfl_answer_columns *columns, size_t index,
                          const struct pfl_cell *cell, struct pfl_buf *out)
{
    int rc = add_csv_cell(cell, out);
    bool is_end = index + 1 == pfl_answer_columns_get_len(columns);

    return rc == 0 ? add(out, is_end ? "\r\n" : ",") : rc;
}

/* ---- JSON ---- */

static json_t *json_of_text(struct pfl_span text)
{
    json_t *whole = json_stringn((const char *)text.data, text.len);

    return whole != NULL ? whole : json_string(pfl_log_quote((const char *)text.data, text.len));
}

static json_t *json_of_blob(struct pfl_span bytes)
{
    struct pfl_buf hex;
    json_t *text = NULL;

    pfl_buf_init(&hex, PFL_ANSWER_ROW_MAX_BYTES);
    if (add_hex(bytes, &hex) == 0)
        text = json_stringn((const char *)pfl_buf_get(&hex).data, hex.len);
    pfl_buf_fini(&hex);
    return bytes.len != 0 ? text : json_string("");
}

static json_t *json_of(const struct pfl_cell *cell)
{
    switch (cell->type) {
    case PFL_CELL_INTEGER:
        return json_integer(cell->integer);
    case PFL_CELL_REAL:
        return isfinite(cell->real) ? json_real(cell->real) : json_null();
    case PFL_CELL_TEXT:
        return json_of_text(cell->bytes);
    case PFL_CELL_BLOB:
        return json_of_blob(cell->bytes);
    default:
        return json_null();
    }
}

static int add_json_row(const struct pfl_answer_columns *columns, const struct pfl_cell *cells,
                        struct pfl_buf *out)
{
    json_t *object = json_object();
    bool is_whole = object != NULL;

    for (size_t i = 0; is_whole && i < pfl_answer_columns_get_len(columns); i++)
        is_whole = json_object_set_new(object, pfl_answer_columns_get_name(columns, i),
                                       json_of(&cells[i])) == 0;
    if (is_whole)
        return pfl_text_dump_json_line(object, out);
    json_decref(object);
    return PFL_ENOMEM;
}

/* ---- all ---- */

int pfl_answer_format_head(enum pfl_answer_form form, const struct pfl_answer_columns *columns,
                           struct pfl_buf *out)
{
    size_t len = pfl_answer_columns_get_len(columns);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < len; i++) {
        struct pfl_cell name = cell_of(pfl_answer_columns_get_name(columns, i));

        if (form == PFL_ANSWER_TEXT)
            rc = add_text_column(columns, i, &name, out);
        else if (form == PFL_ANSWER_CSV)
            rc = add_csv_column(columns, i, &name, out);
    }
    return rc;
}

static int add_summary(const struct pfl_answer_row *row, struct pfl_buf *out)
{
    const char *const ours[] = {row->host, row->start, row->trace};
    int rc = add(out, "#");

    for (size_t i = 0; rc == 0 && i < PFL_ANSWER_COLUMNS_OURS; i++) {
        if (ours[i][0] == '\0')
            continue;
        rc = add(out, " ");
        if (rc == 0)
            rc = add_plain(pfl_span_of(ours[i], strlen(ours[i])), false, out);
    }
    if (rc == 0)
        rc = add(out, "\n");
    if (rc == 0)
        rc = add_plain(row->cells[0].bytes, true, out);
    return rc == 0 ? add(out, "\n") : rc;
}

int pfl_answer_format_row(enum pfl_answer_form form, const struct pfl_answer_columns *columns,
                          const struct pfl_answer_row *row, struct pfl_buf *out)
{
    struct pfl_cell cells[PFL_ANSWER_COLUMNS_OURS + PFL_QUERY_COLUMNS_MAX];
    size_t len = pfl_answer_columns_get_len(columns);
    size_t before = out->len;
    int rc = 0;

    if (form == PFL_ANSWER_SUMMARY) {
        rc = add_summary(row, out);
    } else {
        cells[0] = cell_of(row->host);
        cells[1] = cell_of(row->start);
        cells[2] = cell_of(row->trace);
        memcpy(cells + PFL_ANSWER_COLUMNS_OURS, row->cells,
               (len - PFL_ANSWER_COLUMNS_OURS) * sizeof(cells[0]));
        if (form == PFL_ANSWER_JSON)
            rc = add_json_row(columns, cells, out);
        for (size_t i = 0; form != PFL_ANSWER_JSON && rc == 0 && i < len; i++)
            rc = form == PFL_ANSWER_TEXT ? add_text_column(columns, i, &cells[i], out)
                                         : add_csv_column(columns, i, &cells[i], out);
    }
    if (rc != 0)
        out->len = before;
    return rc;
}
