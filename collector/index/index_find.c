/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches in the index. A window of one host is read from an index of (host, begin); a window of
 * more hosts from one of (begin). The rest of a query is judged row by row, in pages of PAGE rows,
 * so a search holds one page at a time, and ends with a cursor after PFL_INDEX_SCAN_MAX rows, or
 * PFL_INDEX_SCAN_UNITS of work, some 0.1 s.
 *
 *           15 min before, or long       the window
 *     ------|------------------------|=====================|---> begin of a segment
 *             part BEFORE, in strips   part IN, each row overlaps
 *
 * Of segments that begin before the window the database passes those that do not overlap it. Which
 * ones begin there is the host's word. So it looks at a strip of STRIP_ROWS (of short ones, and of
 * long ones) at a time, which is work, too, and the cursor continues behind a strip as behind a
 * row.
 *
 *     cursor: 1 byte direction, 8 bytes begin, the id
 *
 * Failures: the database's; a cursor that is malformed. Owns nothing. Limits: those of index.h.
 */
#include <string.h>

#include "collector/index/index_impl.h"
#include "collector/index/index_row.h"
#include "perfleet/segment.fields.h"
#include "proto/gate/role.h"

#define PAGE        500u
#define ROW_UNITS   32u /* of work: to read a row, besides its UNIT_BYTES */
#define UNIT_BYTES  64u
#define STRIP_ROWS  4096u
#define STRIP_UNITS 65536u /* of work: to pass them twice, of short and of long segments */
#define LONG_NS     (UINT64_C(900) * 1000000000)
#define LAST_ID     'z' /* behind each id, which begins with a digit */

/* In the order of the index. No segment has the id "": such a place is before those of its begin.
 */
struct place {
    uint64_t begin_ns;
    char id[PFL_INDEX_ID_BYTES];
};

/* What a statement looks at. */
struct range {
    struct place from_short;
    struct place from_long;
    struct place to;
};

struct search {
    const struct pfl_index_find *find;
    const Perfleet__TraceQuery *query;
    uint64_t now_unix_ns;
    uint64_t limit;
    uint64_t scan_max;
    uint64_t found;
    uint64_t scanned;
    uint64_t page; /* rows that are read next */
    uint64_t in_page;
    uint64_t work;
    bool is_oldest_first;
    bool is_host;
    bool is_stopped;
    bool is_cut;    /* the page may have more rows than were looked at */
    bool is_before; /* in the part before the window */
    bool has_strip;
    struct place strip; /* its last row */
    struct place at;    /* the last row that was looked at */
};

static struct pfl_span span_of(const char *text)
{
    return pfl_span_of(text, strlen(text));
}

/* A pattern may try each of its characters at each place. */
static bool fits(struct search *s, const char *pattern, struct pfl_span text)
{
    struct pfl_span p = span_of(pattern);

    s->work += 1 + (uint64_t)p.len * text.len / UNIT_BYTES;
    return pfl_pattern_matches(p, text);
}

/* No patterns: any name. */
static bool one_fits(struct search *s, char *const *patterns, size_t len, const char *name)
{
    for (size_t i = 0; i < len; i++)
        if (fits(s, patterns[i], span_of(name)))
            return true;
    return len == 0;
}

/* Whether a field of the segment, which may be repeated, has a text that fits. */
static bool field_fits(struct search *s, struct pfl_span segment, uint32_t id, const char *pattern)
{
    struct pfl_reader reader = pfl_reader_of(segment);
    struct pfl_field field;

    s->work += segment.len / UNIT_BYTES;
    while (pfl_reader_field(&reader, &field))
        if (field.id == id && fits(s, pattern, field.bytes))
            return true;
    return false;
}

static bool any_field_fits(struct search *s, struct pfl_span segment, uint32_t id,
                           char *const *patterns, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (field_fits(s, segment, id, patterns[i]))
            return true;
    return len == 0;
}

static bool has_field(struct search *s, struct pfl_span segment, uint32_t id,
                      struct pfl_span *ret_bytes)
{
    struct pfl_reader reader = pfl_reader_of(segment);
    struct pfl_field field;

    s->work += segment.len / UNIT_BYTES;
    while (pfl_reader_field(&reader, &field)) {
        if (field.id != id)
            continue;
        *ret_bytes = field.bytes;
        return true;
    }
    return false;
}

static bool trigger_fits(struct search *s, struct pfl_span segment)
{
    const Perfleet__TraceQuery *q = s->query;
    struct pfl_span trigger;

    if (q->n_trigger == 0)
        return true;
    return has_field(s, segment, SEGMENT__TRIGGER, &trigger) &&
           any_field_fits(s, trigger, SEGMENT_TRIGGER__NAME, q->trigger, q->n_trigger);
}

static bool id_fits(const Perfleet__TraceQuery *q, const char *id)
{
    for (size_t i = 0; i < q->n_id; i++)
        if (strcmp(q->id[i], id) == 0)
            return true;
    return q->n_id == 0;
}

static bool labels_fit(struct search *s, struct pfl_span segment)
{
    for (size_t i = 0; i < s->query->n_label; i++)
        if (!field_fits(s, segment, SEGMENT__LABEL, s->query->label[i]))
            return false;
    return true;
}

static bool row_fits(struct search *s, const struct pfl_index_row *row)
{
    const Perfleet__TraceQuery *q = s->query;
    struct pfl_span ignored;

    s->work += ROW_UNITS + row->segment.len / UNIT_BYTES;
    if (row->state != PFL_INDEX_LIVE || !id_fits(q, row->id) ||
        !one_fits(s, q->host, q->n_host, row->host) ||
        !one_fits(s, q->order, q->n_order, row->order) ||
        (q->orderer != NULL && strcmp(q->orderer, row->orderer) != 0) ||
        (q->pinned && row->pin_who[0] == '\0'))
        return false;
    if (q->lossy && !has_field(s, row->segment, SEGMENT__LOSS, &ignored) &&
        !has_field(s, row->segment, SEGMENT__GAP, &ignored))
        return false;
    return labels_fit(s, row->segment) && trigger_fits(s, row->segment) &&
           any_field_fits(s, row->segment, SEGMENT__DATA_SOURCE, q->data_source, q->n_data_source);
}

/* Who judges reads the labels, once. */
static bool is_visible(struct search *s, const struct pfl_index_row *row)
{
    if (s->find->is_visible == NULL)
        return true;
    s->work += row->segment.len / UNIT_BYTES;
    return s->find->is_visible(s->find->user, row, &s->work);
}

static bool is_tired(const struct search *s)
{
    return s->scanned >= s->scan_max || s->work >= PFL_INDEX_SCAN_UNITS;
}

static bool is_looking(const struct search *s)
{
    return !s->is_stopped && s->found < s->limit && !is_tired(s);
}

static bool on_found(void *user, const struct pfl_sql_row *sql_row)
{
    struct search *search = user;
    struct pfl_index_row_texts texts;
    struct pfl_index_row row;

    pfl_index_row_read(sql_row, &texts, &row);
    search->in_page++;
    search->scanned++;
    search->at.begin_ns = row.begin_unix_ns;
    memcpy(search->at.id, texts.id, sizeof(search->at.id));
    if (row_fits(search, &row) && is_visible(search, &row)) {
        search->work += row.segment.len / UNIT_BYTES; /* who gets it reads it, too */
        search->found++;
        search->is_stopped = !search->find->on_row(search->find->user, &row);
    }
    search->is_cut = !is_looking(search);
    return !search->is_cut;
}

/* The cursor of a query that is continued, or the place before the first row. */
static int take_cursor(struct pfl_index *self, struct search *search)
{
    const ProtobufCBinaryData *after = &search->query->after;
    struct pfl_reader reader = pfl_reader_of(pfl_span_of(after->data, after->len));
    struct pfl_span id;

    if (after->len == 0) {
        search->at.begin_ns = search->is_oldest_first ? 0 : INT64_MAX;
        search->at.id[0] = search->is_oldest_first ? '\0' : LAST_ID;
        return 0;
    }
    if (pfl_reader_u8(&reader) != search->is_oldest_first + 1)
        return pfl_index_fail(self, PFL_EINVAL, "the cursor is of another query");
    search->at.begin_ns = pfl_reader_u64(&reader);
    id = pfl_reader_bytes(&reader, reader.left);
    if (reader.failed || id.len == 0 || id.len >= sizeof(search->at.id) ||
        memchr(id.data, 0, id.len) != NULL || search->at.begin_ns > INT64_MAX)
        return pfl_index_fail(self, PFL_EINVAL, "the cursor is malformed");
    memcpy(search->at.id, id.data, id.len);
    return pfl_index_check_name(self, "the cursor", search->at.id);
}

static void give_cursor(const struct search *search, struct pfl_index_cursor *ret_cursor)
{
    struct pfl_writer w = pfl_writer_of(ret_cursor->bytes, sizeof(ret_cursor->bytes));

    pfl_writer_u8(&w, search->is_oldest_first + 1);
    pfl_writer_u64(&w, search->at.begin_ns);
    pfl_writer_bytes(&w, search->at.id, strlen(search->at.id));
    ret_cursor->len = sizeof(ret_cursor->bytes) - w.left;
    ret_cursor->looked_to_unix_ns = search->at.begin_ns;
}

/* -- what is looked at next -- */

/* A row is compared with ends of parts, whose ids are "" and LAST_ID, and not with another row: of
 * their ids the engine alone knows which is first. */
static bool is_ahead(const struct place *a, const struct place *b)
{
    return a->begin_ns != b->begin_ns ? a->begin_ns > b->begin_ns : strcmp(a->id, b->id) > 0;
}

static void make_at_least(struct place *place, const struct place *least)
{
    if (is_ahead(least, place))
        *place = *least;
}

static void make_at_most(struct place *place, const struct place *most)
{
    if (is_ahead(place, most))
        *place = *most;
}

/* The window without its begin. Segments that begin at it may have no length. */
static struct place inside_of(const Perfleet__TraceQuery *q)
{
    return (struct place){q->begin_unix_ns < INT64_MAX ? q->begin_unix_ns + 1 : INT64_MAX, ""};
}

static void get_part(const struct search *s, struct range *ret_range)
{
    const Perfleet__TraceQuery *q = s->query;
    const struct place inside = inside_of(q);
    struct place end = {INT64_MAX, {LAST_ID}};

    if (q->end_unix_ns != 0 && q->end_unix_ns <= INT64_MAX)
        end = (struct place){q->end_unix_ns, ""};
    *ret_range = (struct range){inside, inside, end};
    if (!s->is_before)
        return;
    ret_range->from_short.begin_ns = q->begin_unix_ns > LONG_NS ? q->begin_unix_ns - LONG_NS : 0;
    ret_range->from_long.begin_ns = 0;
    make_at_most(&ret_range->to, &inside);
}

/* What is left of the part, or of the strip. */
static struct range range_of(const struct search *s)
{
    const struct place *strip = s->has_strip ? &s->strip : NULL;
    const struct place *first = s->is_oldest_first ? &s->at : strip;
    const struct place *last = s->is_oldest_first ? strip : &s->at;
    struct range range;

    get_part(s, &range);
    if (first != NULL) {
        make_at_least(&range.from_short, first);
        make_at_least(&range.from_long, first);
    }
    if (last != NULL)
        make_at_most(&range.to, last);
    return range;
}

#define RANGE_PARAMS(range)                                                                        \
    pfl_sql_int((range).from_short.begin_ns), pfl_sql_text((range).from_short.id),                 \
        pfl_sql_int((range).from_long.begin_ns), pfl_sql_text((range).from_long.id),               \
        pfl_sql_int((range).to.begin_ns), pfl_sql_text((range).to.id)

static const char *host_of(const struct search *s)
{
    return s->is_host ? s->query->host[0] : "";
}

static bool on_strip(void *user, const struct pfl_sql_row *row)
{
    struct search *search = user;
    struct pfl_span id = pfl_sql_row_bytes(row, 1);

    if (id.len == 0 || id.len >= sizeof(search->strip.id))
        return false;
    search->strip = (struct place){.begin_ns = pfl_sql_row_int(row, 0)};
    memcpy(search->strip.id, id.data, id.len);
    search->has_strip = true;
    return false;
}

/* Where fewer rows are left there is no strip, but all of them. */
static int find_strip(struct pfl_index *self, struct search *search)
{
    static const enum pfl_statement statements[2][2] = {
        {PFL_SQL_FLEET_STRIP_DOWN, PFL_SQL_FLEET_STRIP_UP},
        {PFL_SQL_HOST_STRIP_DOWN, PFL_SQL_HOST_STRIP_UP}};
    const struct range range = range_of(search);
    const struct pfl_sql_value params[] = {RANGE_PARAMS(range), pfl_sql_int(STRIP_ROWS - 1),
                                           pfl_sql_text(host_of(search))};
    struct pfl_sql_call call = {statements[search->is_host][search->is_oldest_first],
                                params,
                                search->is_host ? 8 : 7,
                                on_strip,
                                search,
                                0};

    search->work += STRIP_UNITS;
    return pfl_index_run(self, &call);
}

static int find_page(struct pfl_index *self, struct search *search)
{
    static const enum pfl_statement statements[2][2] = {
        {PFL_SQL_FLEET_NEWEST, PFL_SQL_FLEET_OLDEST}, {PFL_SQL_HOST_NEWEST, PFL_SQL_HOST_OLDEST}};
    const struct range range = range_of(search);
    const struct pfl_sql_value params[] = {RANGE_PARAMS(range), pfl_sql_int(search->page),
                                           pfl_sql_int(search->query->begin_unix_ns),
                                           pfl_sql_text(host_of(search))};
    struct pfl_sql_call call = {statements[search->is_host][search->is_oldest_first],
                                params,
                                search->is_host ? 9 : 8,
                                on_found,
                                search,
                                0};

    search->in_page = 0;
    search->is_cut = false;
    return pfl_index_run(self, &call);
}

/* Nothing is left of a strip, or of a part; false: nor of the last part. */
static bool go_on(struct search *search)
{
    if (search->has_strip) {
        search->at = search->strip;
        search->has_strip = false;
        return true;
    }
    if (search->is_before != search->is_oldest_first)
        return false;
    search->is_before = !search->is_before;
    return true;
}

static int look(struct pfl_index *self, struct search *search, bool *ret_is_over)
{
    uint64_t left = search->scan_max - search->scanned;
    int rc = 0;

    search->page = search->page < PAGE ? search->page : PAGE;
    search->page = search->page < left ? search->page : left;
    if (search->is_before && !search->has_strip)
        rc = find_strip(self, search);
    if (rc == 0)
        rc = find_page(self, search);
    if (rc == 0 && !search->is_cut && search->in_page < search->page)
        *ret_is_over = !go_on(search);
    return rc;
}

static int find_ids(struct pfl_index *self, struct search *search)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && !search->is_stopped && i < search->query->n_id; i++) {
        struct pfl_sql_call call = {PFL_SQL_GET_SEGMENT,
                                    PFL_INDEX_PARAMS(pfl_sql_text(search->query->id[i])), on_found,
                                    search, 0};

        rc = pfl_index_check_name(self, "an id", search->query->id[i]);
        if (rc == 0)
            rc = pfl_index_run(self, &call);
    }
    return rc;
}

/* Each row is compared with each of them. */
static int check_patterns(struct pfl_index *self, const Perfleet__TraceQuery *q)
{
    const struct {
        char *const *patterns;
        size_t len;
    } lists[] = {{q->host, q->n_host},
                 {q->order, q->n_order},
                 {q->label, q->n_label},
                 {q->trigger, q->n_trigger},
                 {q->data_source, q->n_data_source}};
    size_t count = 0;

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        count += lists[i].len;
    if (count > PFL_INDEX_PATTERNS_MAX)
        return pfl_index_fail(self, PFL_ELIMIT, "at most %u patterns", PFL_INDEX_PATTERNS_MAX);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        for (size_t k = 0; k < lists[i].len; k++)
            if (strlen(lists[i].patterns[k]) >= PFL_INDEX_NAME_BYTES)
                return pfl_index_fail(self, PFL_ELIMIT, "a pattern has at most %u bytes",
                                      PFL_INDEX_NAME_BYTES - 1);
    return 0;
}

static int check_query(struct pfl_index *self, const Perfleet__TraceQuery *q)
{
    for (size_t i = 0; i < q->n_host; i++) {
        int rc = pfl_index_check_name(self, "a host", q->host[i]);

        if (rc != 0)
            return rc;
    }
    if (q->n_id > PFL_INDEX_LIMIT_MAX)
        return pfl_index_fail(self, PFL_ELIMIT, "at most %u ids", PFL_INDEX_LIMIT_MAX);
    return check_patterns(self, q);
}

int pfl_index_find(struct pfl_index *self, const struct pfl_index_find *find,
                   struct pfl_index_cursor *ret_cursor)
{
    const Perfleet__TraceQuery *q = find->query;
    struct search search = {
        .find = find,
        .query = q,
        .is_oldest_first = q->oldest_first,
        .is_host = q->n_host == 1 && strchr(q->host[0], '*') == NULL,
    };
    bool is_over = false;
    int rc = check_query(self, q);

    *ret_cursor = (struct pfl_index_cursor){.len = 0};
    search.limit = q->limit == 0                    ? PFL_INDEX_LIMIT
                   : q->limit > PFL_INDEX_LIMIT_MAX ? PFL_INDEX_LIMIT_MAX
                                                    : q->limit;
    search.scan_max =
        q->look_at != 0 && q->look_at < PFL_INDEX_SCAN_MAX ? q->look_at : PFL_INDEX_SCAN_MAX;
    if (rc == 0 && q->n_id != 0) {
        rc = find_ids(self, &search);
        return rc == 0 && search.is_stopped ? PFL_ECLOSED : rc;
    }
    if (rc == 0)
        rc = take_cursor(self, &search);
    search.is_before = search.at.begin_ns <= q->begin_unix_ns;
    /* The first page is enough where each row of it is wanted. */
    for (search.page = search.limit; rc == 0 && !is_over && is_looking(&search); search.page = PAGE)
        rc = look(self, &search, &is_over);
    ret_cursor->looked_at = search.scanned;
    if (rc == 0 && !is_over)
        give_cursor(&search, ret_cursor);
    return rc == 0 && search.is_stopped ? PFL_ECLOSED : rc;
}

/* -- rows by id and by state -- */

struct each {
    pfl_index_on_row on_row;
    void *user;
    uint64_t count;
};

static bool on_each(void *user, const struct pfl_sql_row *sql_row)
{
    struct each *each = user;
    struct pfl_index_row_texts texts;
    struct pfl_index_row row;

    pfl_index_row_read(sql_row, &texts, &row);
    each->count++;
    return each->on_row(each->user, &row);
}

int pfl_index_get(struct pfl_index *self, const char *id, pfl_index_on_row on_row, void *user)
{
    struct each each = {.on_row = on_row, .user = user};
    struct pfl_sql_call call = {PFL_SQL_GET_SEGMENT, PFL_INDEX_PARAMS(pfl_sql_text(id)), on_each,
                                &each, 0};
    int rc = pfl_index_check_name(self, "an id", id);

    if (rc == 0)
        rc = pfl_index_run(self, &call);
    if (rc == 0 && each.count == 0)
        rc = pfl_index_fail(self, PFL_ENOENT, "%s: no such trace", id);
    return rc;
}

int pfl_index_find_state(struct pfl_index *self, enum pfl_index_state state,
                         uint64_t before_unix_ns, pfl_index_on_row on_row, void *user)
{
    struct each each = {.on_row = on_row, .user = user};
    struct pfl_sql_call call = {
        PFL_SQL_FIND_STATE,
        PFL_INDEX_PARAMS(pfl_sql_int(state), pfl_sql_int(before_unix_ns), pfl_sql_int(PAGE)),
        on_each, &each, 0};

    return pfl_index_run(self, &call);
}
