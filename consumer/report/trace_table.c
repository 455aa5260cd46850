/* SPDX-License-Identifier: Apache-2.0 */
/* Stored traces as text and JSON: see trace_table.h. Peers' strings are quoted. */
#include "consumer/report/trace_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/log.h"
#include "consumer/text.h"

#define TIME_BYTES 32u
#define NAME_BYTES 160u
#define WIDE       112u /* columns of all that is shown */
#define MEDIUM     81u  /* without number, seconds and bytes; below this without the order */

static void write_time(uint64_t unix_ns, char ret_text[TIME_BYTES])
{
    time_t at = (time_t)(unix_ns / 1000000000);
    struct tm tm;

    if (localtime_r(&at, &tm) == NULL || strftime(ret_text, TIME_BYTES, "%F %T", &tm) == 0)
        (void)snprintf(ret_text, TIME_BYTES, "?");
}

static uint64_t count_losses(const Perfleet__Segment *s)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < s->n_loss; i++)
        sum += s->loss[i]->count;
    return sum;
}

static double seconds_of(const Perfleet__Segment *s)
{
    return s->end_unix_ns > s->begin_unix_ns ? (double)(s->end_unix_ns - s->begin_unix_ns) / 1e9
                                             : 0;
}

static bool is_wide(unsigned width)
{
    return width == 0 || width >= WIDE;
}

int pfl_trace_table_head(unsigned width, struct pfl_buf *out)
{
    if (!is_wide(width))
        return pfl_text_add(out, "%-26s  %-12s %-19s%s\n", "ID", "HOST", "BEGIN",
                            width >= MEDIUM ? " ORDER" : "");
    return pfl_text_add(out, "%-26s  %-16s %-20s %5s  %-19s %8s %10s\n", "ID", "HOST", "ORDER",
                        "NO.", "BEGIN", "SECONDS", "MB");
}

static int add_narrow(const Perfleet__StoredTrace *trace, const Perfleet__Segment *s,
                      unsigned width, struct pfl_buf *out)
{
    char begin[TIME_BYTES];
    int rc;

    write_time(s->begin_unix_ns, begin);
    rc = pfl_text_add(out, "%-26.60s  %-12.80s ", pfl_text_name(trace->id), pfl_text_name(s->host));
    if (rc == 0)
        rc = pfl_text_add(out, "%-19s", begin);
    return rc == 0 && width >= MEDIUM ? pfl_text_add(out, " %-20.80s", pfl_text_name(s->order))
                                      : rc;
}

static int add_wide(const Perfleet__StoredTrace *trace, const Perfleet__Segment *s,
                    struct pfl_buf *out)
{
    char begin[TIME_BYTES];
    int rc;

    write_time(s->begin_unix_ns, begin);
    rc = pfl_text_add(out, "%-26.60s  %-16.80s ", pfl_text_name(trace->id), pfl_text_name(s->host));
    if (rc == 0)
        rc = pfl_text_add(out, "%-20.80s %5" PRIu32 "  %-19s %8.1f %10.2f", pfl_text_name(s->order),
                          s->number, begin, seconds_of(s), (double)s->bytes / 1e6);
    return rc;
}

static int add_notes(const Perfleet__StoredTrace *trace, const Perfleet__Segment *s,
                     struct pfl_buf *out)
{
    int rc = 0;

    if (s->trigger != NULL)
        rc = pfl_text_add(out, "  trigger %s", pfl_text_name(s->trigger->name));
    if (rc == 0 && s->gap != NULL)
        rc = pfl_text_add(out, "  missing up to %" PRIu32, s->gap->last);
    if (rc == 0 && count_losses(s) != 0)
        rc = pfl_text_add(out, "  %" PRIu64 " losses", count_losses(s));
    if (rc == 0 && trace->pin != NULL)
        rc = pfl_text_add(
            out, "  pinned: %s",
            pfl_log_quote_reason(trace->pin->reason != NULL ? trace->pin->reason : ""));
    return rc == 0 ? pfl_text_add(out, "\n") : rc;
}

int pfl_trace_table_line(const Perfleet__StoredTrace *trace, unsigned width, struct pfl_buf *out)
{
    static const Perfleet__Segment none = PERFLEET__SEGMENT__INIT;
    const Perfleet__Segment *s = trace->segment != NULL ? trace->segment : &none;
    int rc = is_wide(width) ? add_wide(trace, s, out) : add_narrow(trace, s, width, out);

    return rc == 0 ? add_notes(trace, s, out) : rc;
}

static json_t *texts(char *const *list, size_t len)
{
    json_t *out = json_array();

    for (size_t i = 0; i < len; i++)
        json_array_append_new(out, pfl_text_json_peer(list[i]));
    return out;
}

static void add_segment(json_t *out, const Perfleet__Segment *s)
{
    json_object_set_new(out, "host", pfl_text_json_peer(s->host));
    json_object_set_new(out, "orderer", pfl_text_json_peer(s->orderer));
    json_object_set_new(out, "order", pfl_text_json_peer(s->order));
    json_object_set_new(out, "incarnation", pfl_text_json_peer(s->incarnation));
    pfl_text_json_number(out, "number", s->number);
    pfl_text_json_number(out, "bytes", s->bytes);
    pfl_text_json_number(out, "begin_unix_ns", s->begin_unix_ns);
    pfl_text_json_number(out, "end_unix_ns", s->end_unix_ns);
    pfl_text_json_number(out, "losses", count_losses(s));
    json_object_set_new(out, "labels", texts(s->label, s->n_label));
    json_object_set_new(out, "data_sources", texts(s->data_source, s->n_data_source));
    if (s->trigger != NULL)
        json_object_set_new(out, "trigger", pfl_text_json_peer(s->trigger->name));
    if (s->gap != NULL)
        pfl_text_json_number(out, "missing_to", s->gap->last);
}

int pfl_trace_table_json(const Perfleet__StoredTrace *trace, struct pfl_buf *out)
{
    json_t *object = json_object();

    json_object_set_new(object, "id", pfl_text_json_peer(trace->id));
    if (trace->segment != NULL)
        add_segment(object, trace->segment);
    pfl_text_json_number(object, "stored_unix_ns", trace->stored_unix_ns);
    if (trace->expires_unix_ns != 0)
        pfl_text_json_number(object, "expires_unix_ns", trace->expires_unix_ns);
    if (trace->pin != NULL) {
        json_object_set_new(object, "pinned_by", pfl_text_json_peer(trace->pin->who));
        json_object_set_new(object, "pin_reason", pfl_text_json_peer(trace->pin->reason));
        pfl_text_json_number(object, "pin_end_unix_ns", trace->pin->end_unix_ns);
    }
    return pfl_text_dump_json_line(object, out);
}

int pfl_trace_table_missing(const Perfleet__MissingRow *row, bool is_json, struct pfl_buf *out,
                            uint64_t *ret_holes)
{
    json_t *object;

    *ret_holes += row->holes;
    if (!is_json) {
        char order[NAME_BYTES];
        char removed[48] = "";
        uint64_t known = (uint64_t)row->stored + row->in_gaps + row->holes;
        uint64_t all =
            row->last >= row->first && row->first != 0 ? (uint64_t)row->last - row->first + 1 : 0;

        (void)snprintf(order, sizeof(order), "%s", pfl_text_name(row->order));
        if (all > known)
            (void)snprintf(removed, sizeof(removed), "%" PRIu64 " removed, ", all - known);
        return pfl_text_add(out,
                            "%-16.80s %-20s %" PRIu32 " to %" PRIu32 ": %" PRIu32
                            " stored, %s%" PRIu32 " reported missing, %" PRIu32 " unexplained\n",
                            pfl_text_name(row->host), order, row->first, row->last, row->stored,
                            removed, row->in_gaps, row->holes);
    }
    object = json_object();
    json_object_set_new(object, "host", pfl_text_json_peer(row->host));
    json_object_set_new(object, "orderer", pfl_text_json_peer(row->orderer));
    json_object_set_new(object, "order", pfl_text_json_peer(row->order));
    json_object_set_new(object, "incarnation", pfl_text_json_peer(row->incarnation));
    pfl_text_json_number(object, "first", row->first);
    pfl_text_json_number(object, "last", row->last);
    pfl_text_json_number(object, "stored", row->stored);
    pfl_text_json_number(object, "in_gaps", row->in_gaps);
    pfl_text_json_number(object, "holes", row->holes);
    return pfl_text_dump_json_line(object, out);
}
