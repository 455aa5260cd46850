/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of hosts: see host_table.h.
 *
 * Happy path: each host's state is unpacked once and becomes a row of cells; columns are as wide as
 * their widest cell, and the least important default ones are omitted until a row fits; then a line
 * for each host that failed or needs attention, and with more than one host a summary line. If no
 * host answers, there is no table. On a screen, rows and these lines share its height, and lines
 * are cut. Failures: out of memory. A malformed state makes its host a failed one. Peers' strings
 * are cut to CELL_MAX and lose what is not printable ASCII. Ownership: the rows live in one call.
 */
#include "consumer/report/host_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/suggest.h"
#include "consumer/report/paint.h"
#include "consumer/text.h"
#include "perfetto/service_state.pb-c.h"
#include "proto/unpack.h"

#define CELL_MAX        64u
#define CERT_WARN_DAYS  14
#define LONG_AWAY_S     86400
#define LINES_MAX_BYTES (4u << 20) /* of a screen, before they are cut */

typedef Perfetto__Protos__TracingServiceState state_t;

enum column {
    COLUMN_NAME,
    COLUMN_STATE,
    COLUMN_ADDRESS,
    COLUMN_SERVICE,
    COLUMN_AGENT,
    COLUMN_PRODUCERS,
    COLUMN_SOURCES,
    COLUMN_SESSIONS,
    COLUMN_STREAMS,
    COLUMN_CLOCK,
    COLUMN_CERTIFICATE,
    COLUMN_LABELS,
    COLUMNS,
};

static const char *const names[COLUMNS] = {"name",    "state",     "address",     "service",
                                           "agent",   "producers", "sources",     "sessions",
                                           "streams", "clock",     "certificate", "labels"};

#define USUAL_DIRECT "name,state,address,service,producers,sources,sessions"
#define USUAL_RELAY  "name,state,service,producers,sources,sessions,clock,labels"

struct row {
    char cells[COLUMNS][CELL_MAX];
    char problem[512]; /* "" when all is well */
    bool is_up;
    bool has_failed;
    size_t producers;
    int sessions;
};

/* ---- columns ---- */

const char *pfl_host_table_get_column(size_t n)
{
    return n < COLUMNS ? names[n] : NULL;
}

static enum column find_column(const char *name, size_t len)
{
    for (unsigned i = 0; i < COLUMNS; i++)
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
            return (enum column)i;
    return COLUMNS;
}

/* The column at `*at`, which moves on behind it. */
static enum column take_column(const char **at)
{
    size_t len = strcspn(*at, ",");
    enum column column = find_column(*at, len);

    *at += len + ((*at)[len] == ',');
    return column;
}

int pfl_host_table_check(const char *columns, char *ret_why, size_t why_len)
{
    const char *at = columns;

    do {
        const char *word = at;
        char name[32];
        struct pfl_suggest suggest;

        if (take_column(&at) != COLUMNS)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, ","), word);
        pfl_suggest_init(&suggest, name);
        for (unsigned i = 0; i < COLUMNS; i++)
            pfl_suggest_offer(&suggest, names[i]);
        if (pfl_suggest_get(&suggest) != NULL)
            snprintf(ret_why, why_len, "there is no column %s; did you mean %s?", name,
                     pfl_suggest_get(&suggest));
        else
            snprintf(ret_why, why_len,
                     "there is no column %s; there are name, state, address, service, agent, "
                     "producers, sources, sessions, streams, clock, certificate, labels",
                     name);
        return PFL_EINVAL;
    } while (*at != '\0');
    return 0;
}

static const char *columns_of(const struct pfl_host_table_conf *conf)
{
    if (conf->columns != NULL)
        return conf->columns;
    return conf->hosts_len != 0 && conf->hosts[0].relay_facts != NULL ? USUAL_RELAY : USUAL_DIRECT;
}

/* ---- cells ---- */

static void set_cell(struct row *row, enum column column, const char *text)
{
    char *cell = row->cells[column];

    snprintf(cell, CELL_MAX, "%s", text != NULL && text[0] != '\0' ? text : "-");
    for (; *cell != '\0'; cell++)
        if (*cell < 0x20 || *cell > 0x7e)
            *cell = '?';
}

static void set_number(struct row *row, enum column column, uint64_t number)
{
    snprintf(row->cells[column], CELL_MAX, "%" PRIu64, number);
}

static void write_age(double seconds, char *text, size_t room)
{
    if (seconds < 120)
        snprintf(text, room, "%.0fs", seconds);
    else if (seconds < 7200)
        snprintf(text, room, "%.0fm", seconds / 60);
    else if (seconds < 172800)
        snprintf(text, room, "%.0fh", seconds / 3600);
    else
        snprintf(text, room, "%.0fd", seconds / 86400);
}

static void set_labels(struct row *row, const json_t *labels)
{
    char text[CELL_MAX] = "";
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)labels, name, value)
    {
        size_t len = strlen(text);

        if (json_string_value(value) != NULL)
            snprintf(text + len, sizeof(text) - len, "%s%s=%s", len != 0 ? "," : "", name,
                     json_string_value(value));
    }
    set_cell(row, COLUMN_LABELS, text);
}

static void add_problem(struct row *row, const char *text)
{
    size_t len = strlen(row->problem);

    snprintf(row->problem + len, sizeof(row->problem) - len, "%s%s", len != 0 ? "; " : "", text);
}

static void set_certificate(struct row *row, int64_t end_s, int64_t now_s)
{
    time_t time = (time_t)end_s;
    char text[96];
    char day[16] = "?";
    struct tm tm;

    if (end_s == 0)
        return;
    if (gmtime_r(&time, &tm) != NULL)
        (void)strftime(day, sizeof(day), "%Y-%m-%d", &tm);
    set_cell(row, COLUMN_CERTIFICATE, day);
    if (end_s - now_s > CERT_WARN_DAYS * 86400)
        return;
    snprintf(text, sizeof(text), "its certificate expires on %s: renew it", day);
    add_problem(row, text);
}

/* Takes the relay's facts. */
static void take_relay_facts(struct row *row, const struct pfl_inventory_host *relay_facts,
                             int64_t now_s)
{
    char text[CELL_MAX];
    char age[16];

    set_cell(row, COLUMN_AGENT, relay_facts->version);
    set_cell(row, COLUMN_ADDRESS, relay_facts->address);
    set_number(row, COLUMN_STREAMS, relay_facts->streams);
    if (relay_facts->has_clock) {
        snprintf(text, sizeof(text), "%+.6fs+-%.6fs", (double)relay_facts->offset_ns / 1e9,
                 (double)relay_facts->error_ns / 1e9);
        set_cell(row, COLUMN_CLOCK, text);
    }
    set_labels(row, json_object_get(relay_facts->entry, "labels"));
    set_certificate(row, relay_facts->certificate_end_s, now_s);
    if (relay_facts->is_connected)
        return;
    write_age(relay_facts->last_seen_s, age, sizeof(age));
    snprintf(row->cells[COLUMN_STATE], CELL_MAX, "away:%s", age);
    if (relay_facts->last_seen_s >= LONG_AWAY_S)
        add_problem(row, "if it does not come back, perfleet forget takes it off the list");
}

static int take_state(struct row *row, const struct pfl_service_state_host *host)
{
    ProtobufCMessage *message;
    const state_t *state;
    int rc = pfl_proto_unpack(&perfetto__protos__tracing_service_state__descriptor, host->state,
                              &message);

    if (rc == PFL_EPARSE) {
        row->has_failed = true;
        add_problem(row, "its service state is malformed");
        return 0;
    }
    if (rc != 0)
        return rc;
    state = (const state_t *)message;
    set_cell(row, COLUMN_STATE, "up");
    set_cell(row, COLUMN_SERVICE, state->tracing_service_version);
    set_number(row, COLUMN_PRODUCERS, state->n_producers);
    set_number(row, COLUMN_SOURCES, state->n_data_sources);
    set_number(row, COLUMN_SESSIONS, state->num_sessions > 0 ? (uint64_t)state->num_sessions : 0);
    row->is_up = true;
    row->producers = state->n_producers;
    row->sessions = state->num_sessions;
    if (state->perfleet_left_out != NULL)
        add_problem(row, "its answer has no room for all that is registered there: see query");
    pfl_proto_free(message);
    return 0;
}

static int fill_row(const struct pfl_host_table_conf *conf, size_t i, struct row *row)
{
    const struct pfl_service_state_host *host = &conf->hosts[i];
    int rc = 0;

    for (unsigned c = 0; c < COLUMNS; c++)
        set_cell(row, (enum column)c, NULL);
    set_cell(row, COLUMN_NAME, host->name[0] != '\0' ? host->name : host->address);
    set_cell(row, COLUMN_ADDRESS, host->address);
    set_cell(row, COLUMN_STATE, "failed");
    if (host->why[0] != '\0') {
        row->has_failed = true;
        add_problem(row, host->why);
    } else {
        rc = take_state(row, host);
    }
    if (rc == 0 && host->relay_facts != NULL)
        take_relay_facts(row, host->relay_facts, conf->now_s);
    return rc;
}

/* ---- lines ---- */

static bool is_shown(const struct pfl_host_table_conf *conf, const struct row *row)
{
    return !conf->is_problems || row->problem[0] != '\0';
}

struct layout {
    enum column columns[COLUMNS * 2]; /* as the operator may name them twice */
    size_t len;
    size_t widths[COLUMNS];
    char left_out[128]; /* "clock,labels"; "": none */
};

static size_t row_width(const struct layout *l)
{
    size_t width = 0;

    for (size_t i = 0; i < l->len; i++)
        width += l->widths[l->columns[i]] + (i != 0 ? 2 : 0);
    return width;
}

static void leave_out(struct layout *l, enum column column)
{
    for (size_t i = 0; i < l->len; i++) {
        size_t named = strlen(l->left_out);

        if (l->columns[i] != column)
            continue;
        memmove(&l->columns[i], &l->columns[i + 1], (l->len - i - 1) * sizeof(l->columns[0]));
        l->len--;
        snprintf(l->left_out + named, sizeof(l->left_out) - named, "%s%s", named != 0 ? "," : "",
                 names[column]);
        return;
    }
}

static void fit(struct layout *l, unsigned width)
{
    static const enum column least_wanted[] = {COLUMN_CLOCK,    COLUMN_SERVICE, COLUMN_SOURCES,
                                               COLUMN_SESSIONS, COLUMN_LABELS,  COLUMN_ADDRESS,
                                               COLUMN_PRODUCERS};

    for (size_t i = 0; i < sizeof(least_wanted) / sizeof(least_wanted[0]); i++)
        if (row_width(l) > width)
            leave_out(l, least_wanted[i]);
}

static void lay_out(const struct pfl_host_table_conf *conf, const struct row *rows,
                    struct layout *l)
{
    const char *at = columns_of(conf);

    while (*at != '\0' && l->len < sizeof(l->columns) / sizeof(l->columns[0]))
        l->columns[l->len++] = take_column(&at);
    for (unsigned c = 0; c < COLUMNS; c++)
        l->widths[c] = strlen(names[c]);
    for (size_t i = 0; i < conf->hosts_len; i++)
        for (unsigned c = 0; is_shown(conf, &rows[i]) && c < COLUMNS; c++)
            if (strlen(rows[i].cells[c]) > l->widths[c])
                l->widths[c] = strlen(rows[i].cells[c]);
    if (conf->columns == NULL && conf->width != 0)
        fit(l, conf->width);
}

static int add_cells(const struct pfl_host_table_conf *conf, const struct row *row,
                     const struct layout *l, struct pfl_buf *out)
{
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < l->len; k++) {
        enum column c = l->columns[k];
        bool is_last = k + 1 == l->len;
        bool is_bad = row != NULL && c == COLUMN_STATE && !row->is_up;
        char upper[16] = "";
        const char *text = upper;

        for (size_t i = 0; row == NULL && names[c][i] != '\0'; i++) {
            upper[i] = (char)(names[c][i] - 'a' + 'A');
            upper[i + 1] = '\0';
        }
        if (row != NULL)
            text = row->cells[c];
        rc =
            pfl_text_add(out, "%s%-*s%s%s", pfl_paint(conf->is_color && is_bad, PFL_PAINT_BAD),
                         is_last ? 0 : (int)l->widths[c], text,
                         pfl_paint(conf->is_color && is_bad, PFL_PAINT_END), is_last ? "\n" : "  ");
    }
    return rc;
}

/* Numbers of rows and problem lines, and how many of them are shown. */
struct share {
    size_t rows;
    size_t problems;
    size_t rows_fit;
    size_t problems_fit;
};

#define LOW_SCREEN 8u /* has no line for the columns that are left out */

static void share_height(const struct pfl_host_table_conf *conf, const struct layout *l,
                         struct share *s)
{
    size_t room = conf->height;
    size_t fixed = 1;

    fixed += s->rows != 0;
    fixed += conf->height >= LOW_SCREEN && l->left_out[0] != '\0';
    s->rows_fit = s->rows;
    s->problems_fit = s->problems;
    if (conf->height == 0 || s->rows + s->problems + fixed <= room)
        return;
    room = room > fixed ? room - fixed : 0;
    if (s->problems > room / 3)
        s->problems_fit = s->rows < room - room / 3 ? room - s->rows : room / 3;
    s->rows_fit = room - s->problems_fit;
    if (s->rows_fit > s->rows)
        s->rows_fit = s->rows;
}

static struct share measure(const struct pfl_host_table_conf *conf, const struct row *rows)
{
    struct share s = {0};
    size_t up = 0;

    for (size_t i = 0; i < conf->hosts_len; i++) {
        up += rows[i].is_up;
        s.rows += is_shown(conf, &rows[i]);
        s.problems += rows[i].problem[0] != '\0';
    }
    if (up == 0)
        s.rows = 0;
    return s;
}

/* All in their order, or as many as fit: those with problems first. */
static int add_rows(const struct pfl_host_table_conf *conf, const struct row *rows,
                    const struct layout *l, const struct share *share, struct pfl_buf *out)
{
    bool is_all = share->rows_fit == share->rows;
    size_t fit = share->rows_fit;
    int rc = 0;

    for (unsigned turn = 0; turn < (is_all ? 1 : 2); turn++)
        for (size_t i = 0; rc == 0 && fit != 0 && i < conf->hosts_len; i++) {
            bool is_problem = rows[i].problem[0] != '\0';

            if (!is_shown(conf, &rows[i]) || (!is_all && is_problem != (turn == 0)))
                continue;
            rc = add_cells(conf, &rows[i], l, out);
            fit--;
        }
    return rc;
}

static int add_table(const struct pfl_host_table_conf *conf, const struct row *rows,
                     struct share *share, struct pfl_buf *out)
{
    struct layout layout = {0};
    int rc = 0;

    *share = measure(conf, rows);
    if (share->rows != 0)
        lay_out(conf, rows, &layout);
    share_height(conf, &layout, share);
    if (share->rows_fit == 0)
        return 0;
    rc = add_cells(conf, NULL, &layout, out);
    if (rc == 0)
        rc = add_rows(conf, rows, &layout, share, out);
    if (rc == 0 && layout.left_out[0] != '\0' && (conf->height == 0 || conf->height >= LOW_SCREEN))
        rc = pfl_text_add(out, "no room for: %s (--columns)\n", layout.left_out);
    return rc;
}

static int add_problems(const struct pfl_host_table_conf *conf, const struct row *rows, size_t fit,
                        struct pfl_buf *out)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && fit != 0 && i < conf->hosts_len; i++) {
        const struct row *row = &rows[i];

        if (row->problem[0] == '\0')
            continue;
        fit--;
        rc = pfl_text_add(out, "%s: %s%s%s%s\n", row->cells[COLUMN_NAME],
                          pfl_paint(conf->is_color, PFL_PAINT_BAD),
                          row->has_failed ? "FAILED: " : "note: ",
                          pfl_paint(conf->is_color, PFL_PAINT_END), row->problem);
    }
    return rc;
}

/* "477 rows, 2 problems not shown; ". */
static int add_rest(const struct share *s, struct pfl_buf *out)
{
    size_t rows = s->rows - s->rows_fit;
    size_t problems = s->problems - s->problems_fit;

    if (rows == 0 && problems == 0)
        return 0;
    if (problems == 0)
        return pfl_text_add(out, "%zu rows not shown; ", rows);
    return pfl_text_add(out, "%zu rows, %zu problems not shown; ", rows, problems);
}

static int add_sum(const struct pfl_host_table_conf *conf, const struct row *rows,
                   const struct share *share, struct pfl_buf *out)
{
    size_t up = 0;
    size_t noted = 0;
    size_t producers = 0;
    size_t versions = 0;
    int sessions = 0;
    int rc = add_rest(share, out);

    if (rc != 0 || conf->hosts_len < 2)
        return rc;
    for (size_t i = 0; i < conf->hosts_len; i++) {
        bool is_new = rows[i].is_up;

        up += rows[i].is_up;
        noted += rows[i].is_up && rows[i].problem[0] != '\0';
        producers += rows[i].producers;
        sessions += rows[i].sessions;
        for (size_t k = 0; is_new && k < i; k++)
            is_new = !rows[k].is_up ||
                     strcmp(rows[k].cells[COLUMN_SERVICE], rows[i].cells[COLUMN_SERVICE]) != 0;
        versions += is_new;
    }
    return pfl_text_add(
        out, "%zu of %zu hosts up, %zu to look at; %zu producers, %d sessions, %zu versions\n", up,
        conf->hosts_len, conf->hosts_len - up + noted, producers, sessions, versions);
}

static int add_lines(const struct pfl_host_table_conf *conf, struct pfl_buf *out)
{
    struct row *rows = pfl_mem_calloc(conf->hosts_len + 1, sizeof(*rows));
    struct share share = {0};
    int rc = rows != NULL ? 0 : PFL_ENOMEM;

    for (size_t i = 0; rc == 0 && i < conf->hosts_len; i++)
        rc = fill_row(conf, i, &rows[i]);
    if (rc == 0)
        rc = add_table(conf, rows, &share, out);
    if (rc == 0)
        rc = add_problems(conf, rows, share.problems_fit, out);
    if (rc == 0)
        rc = add_sum(conf, rows, &share, out);
    pfl_mem_free(rows);
    return rc;
}

int pfl_host_table_text(const struct pfl_host_table_conf *conf, struct pfl_buf *out)
{
    struct pfl_buf lines;
    int rc;

    if (conf->height == 0)
        return add_lines(conf, out);
    pfl_buf_init(&lines, LINES_MAX_BYTES);
    rc = add_lines(conf, &lines);
    if (rc == 0)
        rc = pfl_paint_cut_lines(pfl_buf_get(&lines), conf->width, out);
    pfl_buf_fini(&lines);
    return rc;
}
