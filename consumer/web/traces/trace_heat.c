/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The map of traces: see trace_heat.h. A row is an SVG, whose neighbouring cells of the same kind
 * are one block, and the same in words: how much of the time has traces, where there are none,
 * gaps and losses. Colours are never all that tells. Failures: those of html.h; a cell that is out
 * of range is ignored.
 */
#include "consumer/web/traces/trace_heat.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "consumer/web/html/layout.h"

#define CELL_WIDTH 10u
#define HEIGHT     18u
#define LEVELS     4u
#define NS_PER_S   UINT64_C(1000000000)

struct cell {
    uint64_t traces;
    bool has_gap;
    bool has_loss;
};

/* Of all rows. */
struct scale {
    uint64_t largest; /* traces of a cell */
    unsigned first;   /* cell of which all traces were looked at */
};

struct row {
    struct cell cells[PFL_TRACE_HEAT_CELLS];
    unsigned first; /* cells before it were not, or not wholly, looked at */
    uint64_t bytes;
    uint64_t losses;
    unsigned covered;
};

static void take_row(const Perfleet__TraceSum *sum, unsigned first, struct row *row)
{
    memset(row, 0, sizeof(*row));
    row->first = first;
    for (size_t i = 0; i < sum->n_cell; i++) {
        const Perfleet__TraceSum__Cell *c = sum->cell[i];
        struct cell *cell = c->index < PFL_TRACE_HEAT_CELLS ? &row->cells[c->index] : NULL;

        if (cell == NULL)
            continue;
        row->covered += c->index >= first && cell->traces == 0 && c->traces != 0;
        cell->traces += c->traces;
        cell->has_gap = cell->has_gap || c->gaps != 0;
        cell->has_loss = cell->has_loss || c->losses != 0;
        row->bytes += c->bytes;
        row->losses += c->losses;
    }
}

static uint64_t find_largest(const Perfleet__CollectorReply *reply)
{
    uint64_t largest = 1;

    for (size_t i = 0; i < reply->n_sum; i++)
        for (size_t k = 0; k < reply->sum[i]->n_cell; k++)
            if (reply->sum[i]->cell[k]->traces > largest)
                largest = reply->sum[i]->cell[k]->traces;
    return largest;
}

/* Traces that begin later were looked at: the first cell of which all are. */
static unsigned find_first(const struct pfl_trace_selection *f,
                           const Perfleet__CollectorReply *reply)
{
    uint64_t cell_ns = (f->end_unix_ns - f->begin_unix_ns) / PFL_TRACE_HEAT_CELLS;
    uint64_t to_ns = reply->looked_to_unix_ns;
    uint64_t cells;

    if (!reply->has_looked_to_unix_ns)
        return 0;
    cells = to_ns > f->begin_unix_ns && cell_ns != 0 ? (to_ns - f->begin_unix_ns) / cell_ns : 0;
    return cells < PFL_TRACE_HEAT_CELLS ? (unsigned)cells + 1 : PFL_TRACE_HEAT_CELLS;
}

/* ---- blocks ---- */

/* 0: none. A collector may send a cell twice: there are more traces than in the largest one. */
static unsigned level_of(uint64_t traces, uint64_t largest)
{
    if (traces >= largest)
        return LEVELS;
    return traces == 0 ? 0
                       : 1 + (unsigned)((double)(LEVELS - 1) * (double)traces / (double)largest);
}

static void add_block(struct pfl_html *h, unsigned first, unsigned end, const char *kind)
{
    bool is_mark = strcmp(kind, "gap") == 0 || strcmp(kind, "lossy") == 0;

    pfl_html_open(h, "rect");
    pfl_html_attrf(h, "x", "%u", first * CELL_WIDTH);
    pfl_html_attr(h, "y", is_mark ? "12" : "0");
    pfl_html_attrf(h, "width", "%u", (end - first) * CELL_WIDTH);
    pfl_html_attr(h, "height", is_mark ? "6" : "18");
    pfl_html_attr(h, "class", kind);
    pfl_html_close(h);
}

static const char *level_name(const struct cell *cell, uint64_t largest)
{
    static const char *const names[] = {"", "level1", "level2", "level3", "level4"};

    return names[level_of(cell->traces, largest)];
}

static const char *mark_name(const struct cell *cell, uint64_t largest)
{
    (void)largest;
    return cell->has_gap ? "gap" : cell->has_loss ? "lossy" : "";
}

static void add_blocks(struct pfl_html *h, const struct row *row, uint64_t largest,
                       const char *(*name_of)(const struct cell *cell, uint64_t largest))
{
    unsigned end;

    for (unsigned first = 0; first < PFL_TRACE_HEAT_CELLS; first = end) {
        const char *name = name_of(&row->cells[first], largest);

        for (end = first + 1;
             end < PFL_TRACE_HEAT_CELLS && strcmp(name, name_of(&row->cells[end], largest)) == 0;
             end++)
            ;
        if (name[0] != '\0')
            add_block(h, first, end, name);
    }
}

/* The words beside it say the same: it is hidden from who listens to the page. */
static void add_picture(struct pfl_html *h, const struct row *row, uint64_t largest)
{
    pfl_html_open(h, "td");
    pfl_html_attr(h, "class", "heat");
    pfl_html_open(h, "svg");
    pfl_html_attrf(h, "viewBox", "0 0 %u %u", PFL_TRACE_HEAT_CELLS * CELL_WIDTH, HEIGHT);
    pfl_html_attr(h, "preserveAspectRatio", "none");
    pfl_html_attr(h, "aria-hidden", "true");
    if (row->first != 0)
        add_block(h, 0, row->first, "unseen");
    add_blocks(h, row, largest, level_name);
    add_blocks(h, row, largest, mark_name);
    pfl_html_close(h);
    pfl_html_close(h);
}

/* ---- words ---- */

static void write_time(const struct pfl_trace_selection *f, unsigned cell, char *room,
                       size_t room_len)
{
    uint64_t length_ns = f->end_unix_ns - f->begin_unix_ns;
    time_t at = (time_t)((f->begin_unix_ns + length_ns / PFL_TRACE_HEAT_CELLS * cell) / NS_PER_S);
    struct tm tm;

    if (localtime_r(&at, &tm) == NULL ||
        strftime(room, room_len, length_ns > 86400 * NS_PER_S ? "%m-%d %H:%M" : "%H:%M:%S", &tm) ==
            0)
        (void)snprintf(room, room_len, "?");
}

static bool is_empty(const struct cell *cell)
{
    return cell->traces == 0 && !cell->has_gap;
}

static bool is_gap(const struct cell *cell)
{
    return cell->has_gap;
}

static bool is_lossy(const struct cell *cell)
{
    return cell->has_loss;
}

/* "none 10:00:00–10:15:00, ... and 2 more; " */
static void add_ranges(struct pfl_html *h, const struct pfl_trace_selection *f,
                       const struct row *row, const char *word,
                       bool (*is_of)(const struct cell *cell))
{
    char from[32];
    char to[32];
    unsigned count = 0;
    unsigned end;

    for (unsigned first = is_of == is_empty ? row->first : 0; first < PFL_TRACE_HEAT_CELLS;
         first = end) {
        end = first + 1;
        if (!is_of(&row->cells[first]))
            continue;
        while (end < PFL_TRACE_HEAT_CELLS && is_of(&row->cells[end]))
            end++;
        if (++count > PFL_TRACE_HEAT_RANGES)
            continue;
        write_time(f, first, from, sizeof(from));
        write_time(f, end, to, sizeof(to));
        pfl_html_textf(h, "%s%s–%s", count == 1 ? word : ", ", from, to);
    }
    if (count > PFL_TRACE_HEAT_RANGES)
        pfl_html_textf(h, " and %u more", count - PFL_TRACE_HEAT_RANGES);
    if (count != 0)
        pfl_html_text(h, "; ");
}

static void add_name(struct pfl_html *h, const struct pfl_trace_selection *f,
                     const Perfleet__TraceSum *sum)
{
    const char *name = sum->name != NULL ? sum->name : "";

    pfl_html_open(h, "th");
    pfl_html_attr(h, "scope", "row");
    if (sum->is_rest) {
        pfl_html_text(h, "all others");
    } else if (f->group[0] != '\0') {
        pfl_html_text(h, name[0] != '\0' ? name : "(without it)");
    } else {
        pfl_html_open(h, "a");
        pfl_html_href(h, "/traces", "since", f->since, "until", f->until, "host", name, "order",
                      f->order, "trigger", f->trigger, "lossy", f->lossy);
        pfl_html_text(h, name);
        pfl_html_close(h);
    }
    pfl_html_close(h);
}

static void add_row(struct pfl_html *h, const struct pfl_trace_selection *f,
                    const Perfleet__TraceSum *sum, const struct scale *scale)
{
    struct row row;
    char size[32];

    take_row(sum, scale->first, &row);
    pfl_html_open(h, "tr");
    add_name(h, f, sum);
    add_picture(h, &row, scale->largest);
    pfl_layout_begin_cell(h, "Covered", true);
    if (row.first < PFL_TRACE_HEAT_CELLS)
        pfl_html_textf(h, "%u %%", row.covered * 100 / (PFL_TRACE_HEAT_CELLS - row.first));
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Size", true);
    pfl_html_text(h, pfl_layout_bytes(row.bytes, size, sizeof(size)));
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Losses", true);
    pfl_html_textf(h, "%" PRIu64, row.losses);
    pfl_html_close(h);
    pfl_layout_begin_cell(h, "Notes", false);
    add_ranges(h, f, &row, "gaps ", is_gap);
    add_ranges(h, f, &row, "losses ", is_lossy);
    add_ranges(h, f, &row, "none ", is_empty);
    pfl_html_close(h);
    pfl_html_close(h);
}

/* ---- the map ---- */

static void add_looked_to(struct pfl_html *h, const struct pfl_trace_selection *f,
                          uint64_t looked_to_unix_ns)
{
    char time[32];

    pfl_html_open(h, "p");
    pfl_html_textf(h, "Counted: the newest %u traces, which begin after %s. ",
                   PFL_TRACE_SELECTION_MAP_MAX,
                   pfl_trace_selection_write_time(looked_to_unix_ns, time, sizeof(time)));
    pfl_trace_selection_add_link(f, looked_to_unix_ns, "Count those before that", h);
    pfl_trace_selection_add_link(f, 0, "Count all of them, which may take long", h);
    pfl_html_close(h);
}

static void add_head(struct pfl_html *h, const struct pfl_trace_selection *f)
{
    static const char *const columns[] = {"#Covered", "#Size", "#Losses", "Notes"};
    char from[32];
    char to[32];

    write_time(f, 0, from, sizeof(from));
    write_time(f, PFL_TRACE_HEAT_CELLS, to, sizeof(to));
    pfl_html_open(h, "thead");
    pfl_html_open(h, "tr");
    pfl_html_open(h, "th"); /* a label's name may begin with # */
    pfl_html_attr(h, "scope", "col");
    pfl_html_text(h, f->group[0] != '\0' ? f->group : "Host");
    pfl_html_close(h);
    pfl_html_open(h, "th");
    pfl_html_attr(h, "scope", "col");
    pfl_html_textf(h, "%s to %s", from, to);
    pfl_html_close(h);
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        pfl_layout_add_column(h, columns[i]);
    pfl_html_close(h);
    pfl_html_close(h);
}

void pfl_trace_heat_write(const struct pfl_trace_selection *filter,
                          const Perfleet__CollectorReply *reply, struct pfl_html *h)
{
    static const char *const key[] = {"level1",      "few traces", "level4", "many", "lossy",
                                      "with losses", "gap",        "gap",    NULL};
    static const char *const unseen[] = {"unseen", "not looked at", NULL};
    const struct scale scale = {find_largest(reply), find_first(filter, reply)};

    if (scale.first != 0)
        add_looked_to(h, filter, reply->looked_to_unix_ns);
    if (reply->n_sum == 0)
        return;
    pfl_layout_begin_scroll(h, "Traces by host and time");
    pfl_html_open(h, "table");
    pfl_html_attr(h, "class", "heatmap");
    add_head(h, filter);
    pfl_html_open(h, "tbody");
    for (size_t i = 0; i < reply->n_sum && i < PFL_TRACE_HEAT_ROWS; i++)
        add_row(h, filter, reply->sum[i], &scale);
    pfl_layout_end_table(h);
    pfl_html_open(h, "p");
    pfl_layout_add_key(h, key);
    if (scale.first != 0)
        pfl_layout_add_key(h, unseen);
    pfl_html_close(h);
}
