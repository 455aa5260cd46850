/* SPDX-License-Identifier: Apache-2.0 */
/* What retention asks of an index, on every engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "collector/index/index_impl.h"
#include "tests/unit/collector/index/index_cases_impl.h"

#define S  UINT64_C(1000000000)
#define T0 (UINT64_C(1795432296) * S)

struct what {
    const char *host;
    const char *order;
    const char *class_name; /* NULL: default */
    const char *trigger;    /* NULL: none */
    uint32_t number;
    uint64_t bytes;
    uint64_t stored_ns;
};

static unsigned ids;

static Perfleet__Segment *make(const struct what *what)
{
    static Perfleet__Segment segment;
    static Perfleet__SegmentTrigger trigger;
    static uint8_t sha256[32];

    perfleet__segment__init(&segment);
    perfleet__segment_trigger__init(&trigger);
    segment.host = (char *)(uintptr_t)what->host;
    segment.orderer = "me";
    segment.order = (char *)(uintptr_t)what->order;
    segment.incarnation = "01JD0000000000000000000009";
    segment.has_number = segment.has_bytes = segment.has_sha256 = 1;
    segment.number = what->number;
    segment.bytes = what->bytes;
    memset(sha256, (int)what->number, sizeof(sha256));
    segment.sha256 = (ProtobufCBinaryData){sizeof(sha256), sha256};
    segment.has_begin_unix_ns = segment.has_end_unix_ns = 1;
    segment.begin_unix_ns = T0 + what->number * S;
    segment.end_unix_ns = segment.begin_unix_ns + S;
    segment.retention = (char *)(uintptr_t)what->class_name;
    trigger.name = (char *)(uintptr_t)what->trigger;
    segment.trigger = what->trigger != NULL ? &trigger : NULL;
    return &segment;
}

static uint64_t count_bytes(const struct what *what)
{
    return PFL_INDEX_TRACE_BYTES + what->bytes +
           8 * protobuf_c_message_get_packed_size(&make(what)->base);
}

static const char *put(const struct what *what)
{
    static struct pfl_index_place place;
    enum pfl_index_reserve result;

    (void)snprintf(place.id, sizeof(place.id), "01JR%022u", ++ids);
    (void)snprintf(place.key, sizeof(place.key), "v1/lab/%s.pftrace", place.id);
    assert_int_equal(
        pfl_index_reserve(index_cases_get(), make(what), what->stored_ns, &place, &result), 0);
    assert_int_equal(result, PFL_INDEX_RESERVE_NEW);
    assert_int_equal(pfl_index_set_live(index_cases_get(), place.id, what->stored_ns), 0);
    return place.id;
}

struct kinds {
    unsigned len;
    char classes[8][32];
    uint64_t ids[8];
    uint64_t bytes[8];
};

static bool on_kind(void *user, const struct pfl_index_kind *kind)
{
    struct kinds *kinds = user;

    if (kind->traces == 0)
        return true;
    assert_true(kinds->len < 8);
    (void)snprintf(kinds->classes[kinds->len], 32, "%s/%s", kind->class_name, kind->order);
    kinds->ids[kinds->len] = kind->id;
    kinds->bytes[kinds->len++] = kind->bytes;
    return true;
}

static struct kinds list_kinds(void)
{
    struct kinds kinds = {.len = 0};

    assert_int_equal(pfl_index_list_kinds(index_cases_get(), on_kind, &kinds), 0);
    return kinds;
}

static bool on_row(void *user, const struct pfl_index_row *row)
{
    (void)snprintf(user, PFL_INDEX_ID_BYTES, "%s", row->id);
    return true;
}

static const char *get_oldest(const struct pfl_index_oldest *query)
{
    static char id[PFL_INDEX_ID_BYTES];

    id[0] = '\0';
    assert_int_equal(pfl_index_get_oldest(index_cases_get(), query, on_row, id), 0);
    return id;
}

void kinds_are_summed_and_their_oldest_found(void **state)
{
    struct pfl_index_oldest query = {
        .of = PFL_INDEX_OF_KIND, .before_unix_ns = UINT64_MAX, .now_unix_ns = T0 + 100 * S};
    const struct what what[] = {{"a", "cpu", "crash", NULL, 2, 20, T0 + 5 * S},
                                {"b", "cpu", "crash", NULL, 1, 10, T0 + 4 * S},
                                {"b", "cpu", "crash", "oom", 2, 7, T0 + 3 * S}};
    char first[PFL_INDEX_ID_BYTES];
    char triggered[PFL_INDEX_ID_BYTES];
    struct kinds kinds;

    (void)state;
    (void)put(&what[0]);
    (void)snprintf(first, sizeof(first), "%s", put(&what[1]));
    (void)snprintf(triggered, sizeof(triggered), "%s", put(&what[2]));
    (void)put(&(struct what){"a", "net", NULL, NULL, 1, 1, T0 + S});
    kinds = list_kinds();
    assert_int_equal(kinds.len, 2);
    assert_string_equal(kinds.classes[0], "crash/cpu");
    assert_int_equal(kinds.bytes[0],
                     count_bytes(&what[0]) + count_bytes(&what[1]) + count_bytes(&what[2]));
    assert_string_equal(kinds.classes[1], "default/net");
    query.kind = kinds.ids[0];
    assert_string_equal(get_oldest(&query), first);
    query.is_triggered = true;
    assert_string_equal(get_oldest(&query), triggered);
    query.before_unix_ns = T0 + 3 * S; /* stored before, not at */
    assert_string_equal(get_oldest(&query), "");
}

void what_is_pinned_or_kept_is_not_the_oldest(void **state)
{
    Perfleet__StoredTrace__Pin pin = PERFLEET__STORED_TRACE__PIN__INIT;
    struct pfl_index_oldest query = {
        .of = PFL_INDEX_OF_KIND, .before_unix_ns = UINT64_MAX, .now_unix_ns = T0 + 10 * S};
    struct pfl_index_deletion deletion = {
        .who = "retention", .reason = "r", .now_unix_ns = T0 + 10 * S, .is_bound_by_keep = true};
    char pinned[PFL_INDEX_ID_BYTES];
    char kept[PFL_INDEX_ID_BYTES];

    (void)state;
    (void)snprintf(pinned, sizeof(pinned), "%s",
                   put(&(struct what){"a", "cpu", NULL, NULL, 1, 1, T0}));
    (void)snprintf(kept, sizeof(kept), "%s",
                   put(&(struct what){"a", "cpu", NULL, NULL, 2, 1, T0 + 1}));
    query.kind = list_kinds().ids[0];
    pin.who = "ann";
    pin.has_end_unix_ns = 1;
    pin.end_unix_ns = T0 + 20 * S;
    assert_int_equal(pfl_index_pin(index_cases_get(), pinned, &pin), 0);
    assert_int_equal(pfl_index_keep(index_cases_get(), kept, T0 + 15 * S), 0);
    assert_string_equal(get_oldest(&query), "");
    assert_int_equal(pfl_index_tombstone(index_cases_get(), kept, &deletion), PFL_EPERM);
    query.now_unix_ns = deletion.now_unix_ns = T0 + 16 * S;
    assert_string_equal(get_oldest(&query), kept);
    assert_int_equal(pfl_index_tombstone(index_cases_get(), kept, &deletion), 0);
    assert_string_equal(get_oldest(&query), "");
    query.now_unix_ns = T0 + 21 * S;
    assert_string_equal(get_oldest(&query), pinned);
}

struct uses {
    unsigned len;
    uint64_t host_id;
    char name[64];
    uint64_t amount;
};

static bool on_use(void *user, const struct pfl_index_use *use)
{
    struct uses *uses = user;

    uses->len++;
    uses->host_id = use->host_id;
    (void)snprintf(uses->name, sizeof(uses->name), "%s", use->name);
    uses->amount = use->amount;
    return true;
}

void hosts_and_triggers_above_a_bound_are_listed(void **state)
{
    struct pfl_index_use_query query = {
        .class_name = "default", .above = 40000, .after_trigger = "", .limit = 8};
    const struct what cpu = {"a", "cpu", NULL, NULL, 2, 30000, T0};
    const struct what net = {"a", "net", NULL, NULL, 1, 11000, T0 + 9};
    struct pfl_index_oldest oldest = {
        .of = PFL_INDEX_OF_HOST, .class_name = "default", .now_unix_ns = T0 + 100 * S};
    struct uses uses = {.len = 0};
    char first[PFL_INDEX_ID_BYTES];

    (void)state;
    (void)put(&cpu);
    (void)snprintf(first, sizeof(first), "%s", put(&net));
    (void)put(&(struct what){"a", "dump", "crash", NULL, 1, 1000000, T0});
    (void)put(&(struct what){"b", "cpu", NULL, "oom", 1, 20, T0});
    (void)put(&(struct what){"b", "cpu", NULL, "oom", 2, 20, T0});
    assert_int_equal(pfl_index_list_host_use(index_cases_get(), &query, on_use, &uses), 0);
    assert_int_equal(uses.len, 1);
    assert_string_equal(uses.name, "a");
    assert_int_equal(uses.amount, count_bytes(&cpu) + count_bytes(&net));
    oldest.host_id = uses.host_id;
    assert_string_equal(get_oldest(&oldest), first); /* the first recorded */
    query.after_host = uses.host_id;
    uses.len = 0;
    assert_int_equal(pfl_index_list_host_use(index_cases_get(), &query, on_use, &uses), 0);
    assert_int_equal(uses.len, 0);

    query = (struct pfl_index_use_query){.above = 1, .after_trigger = "", .limit = 8};
    query.kind = list_kinds().ids[1];
    assert_int_equal(pfl_index_list_trigger_use(index_cases_get(), &query, on_use, &uses), 0);
    assert_int_equal(uses.len, 1);
    assert_string_equal(uses.name, "oom");
    assert_int_equal(uses.amount, 2);
    oldest = (struct pfl_index_oldest){.of = PFL_INDEX_OF_TRIGGER,
                                       .kind = query.kind,
                                       .host_id = uses.host_id,
                                       .trigger = "oom",
                                       .now_unix_ns = T0 + 100 * S};
    assert_string_not_equal(get_oldest(&oldest), "");
    oldest.trigger = "other";
    assert_string_equal(get_oldest(&oldest), "");
    query.after_host = uses.host_id;
    query.after_trigger = "oom";
    uses.len = 0;
    assert_int_equal(pfl_index_list_trigger_use(index_cases_get(), &query, on_use, &uses), 0);
    assert_int_equal(uses.len, 0);
}

static const struct pfl_index_run_query all_runs = {.after_host = "",
                                                    .after_incarnation = "",
                                                    .after_orderer = "",
                                                    .after_order = "",
                                                    .limit = 1000};

static bool on_run(void *user, const struct pfl_index_run *run)
{
    *(struct pfl_index_run *)user = *run;
    return true;
}

static struct pfl_index_run get_run(void)
{
    struct pfl_index_run run = {.last = 0};

    assert_int_equal(pfl_index_list_runs(index_cases_get(), &all_runs, on_run, &run), 0);
    return run;
}

struct page {
    struct pfl_index_run_query query;
    char last[4][PFL_INDEX_NAME_BYTES]; /* what `query` begins behind */
    char seen[64];                      /* the orders of all pages */
    unsigned len;                       /* of this page */
};

static bool on_paged_run(void *user, const struct pfl_index_run *run)
{
    struct page *page = user;
    const char *const names[] = {run->host, run->incarnation, run->orderer, run->order};
    size_t len = strlen(page->seen);

    for (unsigned i = 0; i < 4; i++)
        (void)snprintf(page->last[i], sizeof(page->last[i]), "%s", names[i]);
    (void)snprintf(page->seen + len, sizeof(page->seen) - len, "%s%s ", run->host, run->order);
    page->len++;
    return true;
}

static void read_runs(struct page *page)
{
    struct page copy = *page;

    copy.query.after_host = page->last[0];
    copy.query.after_incarnation = page->last[1];
    copy.query.after_orderer = page->last[2];
    copy.query.after_order = page->last[3];
    copy.len = 0;
    assert_int_equal(pfl_index_list_runs(index_cases_get(), &copy.query, on_paged_run, &copy), 0);
    *page = copy;
}

void runs_come_in_pages_while_others_come_and_go(void **state)
{
    struct page page = {.query.limit = 2};

    (void)state;
    (void)put(&(struct what){"b", "1", NULL, NULL, 1, 1, T0});
    (void)put(&(struct what){"a", "3", NULL, NULL, 1, 1, T0});
    (void)put(&(struct what){"a", "1", NULL, NULL, 1, 1, T0});
    (void)put(&(struct what){"a", "2", NULL, NULL, 1, 1, T0});
    (void)put(&(struct what){"c", "1", NULL, NULL, 1, 1, T0});
    read_runs(&page);
    assert_string_equal(page.seen, "a1 a2 ");
    (void)put(&(struct what){"a", "0", NULL, NULL, 1, 1, T0}); /* before: not in this list */
    (void)put(&(struct what){"a", "4", NULL, NULL, 1, 1, T0});
    read_runs(&page);
    assert_string_equal(page.seen, "a1 a2 a3 a4 ");
    read_runs(&page);
    assert_string_equal(page.seen, "a1 a2 a3 a4 b1 c1 ");
    read_runs(&page);
    assert_int_equal(page.len, 0);
}

void a_lost_trace_is_a_hole_until_it_is_found(void **state)
{
    const struct what what = {"a", "cpu", NULL, NULL, 1, 10, T0};
    const struct pfl_index_deletion why = {
        .who = "sweep", .reason = "the store does not have it", .now_unix_ns = T0 + S};
    struct pfl_index_place place;
    enum pfl_index_reserve result;
    char id[PFL_INDEX_ID_BYTES];
    bool has = true;

    (void)state;
    (void)snprintf(id, sizeof(id), "%s", put(&what));
    assert_int_equal(pfl_index_set_lost(index_cases_get(), id, &why), 0);
    assert_int_equal(pfl_index_set_lost(index_cases_get(), id, &why), PFL_ENOENT);
    assert_int_equal(get_run().holes, 1);
    assert_int_equal(get_run().bytes, 0);
    assert_int_equal(pfl_index_set_found(index_cases_get(), id, T0 + 2 * S), 0);
    assert_int_equal(pfl_index_set_found(index_cases_get(), id, T0 + 2 * S), PFL_ENOENT);
    assert_int_equal(get_run().holes, 0);
    assert_int_equal(get_run().bytes, count_bytes(&what));
    assert_int_equal(pfl_index_has_number(index_cases_get(), make(&what), id, &has), 0);
    assert_false(has);
    assert_int_equal(pfl_index_has_number(index_cases_get(), make(&what), "other", &has), 0);
    assert_true(has);
    /* A host that still has it may send it again. */
    assert_int_equal(pfl_index_set_lost(index_cases_get(), id, &why), 0);
    assert_int_equal(pfl_index_reserve(index_cases_get(), make(&what), T0, &place, &result), 0);
    assert_int_equal(result, PFL_INDEX_RESERVE_AGAIN);
    assert_string_equal(place.id, id);
    assert_int_equal(pfl_index_set_live(index_cases_get(), id, T0), 0);
    assert_int_equal(get_run().stored, 1);
}

/* A segment without bytes fills a disk by its description. */
void descriptions_count_as_bytes(void **state)
{
    const struct what empty = {"a", "cpu", NULL, NULL, 1, 0, T0};
    const struct what missing = {"a", "cpu", NULL, NULL, 2, 0, T0};
    const struct pfl_index_deletion why = {
        .who = "retention", .reason = "too many", .now_unix_ns = T0 + S};
    Perfleet__SegmentGap gap = PERFLEET__SEGMENT_GAP__INIT;
    struct pfl_index_place place = {.id = "01JG", .key = ""};
    enum pfl_index_reserve result;
    char id[PFL_INDEX_ID_BYTES];

    (void)state;
    (void)snprintf(id, sizeof(id), "%s", put(&empty));
    assert_int_equal(get_run().bytes, count_bytes(&empty));
    gap.has_last = 1;
    for (gap.last = 3; gap.last <= 3000;
         gap.last += 2997) { /* it grows, and its description, too */
        Perfleet__Segment *segment = make(&missing);

        segment->gap = &gap;
        assert_int_equal(pfl_index_reserve(index_cases_get(), segment, T0, &place, &result), 0);
        assert_int_equal(get_run().bytes,
                         PFL_INDEX_TRACE_BYTES +
                             8 * protobuf_c_message_get_packed_size(&segment->base) +
                             count_bytes(&empty));
    }
    assert_int_equal(pfl_index_tombstone(index_cases_get(), place.id, &why), 0);
    assert_int_equal(get_run().bytes, count_bytes(&empty));
    assert_int_equal(pfl_index_tombstone(index_cases_get(), id, &why), 0);
    assert_int_equal(get_run().bytes, 0);
}

/* Another collector, which took over the retention of one that was held up, deletes by new sums. */
void who_has_lost_its_lease_deletes_nothing(void **state)
{
    const struct what what = {"web1", "cpu", NULL, NULL, 1, 10, T0};
    const struct pfl_index_deletion why = {
        .who = "retention", .reason = "old", .now_unix_ns = T0, .lease = "/clean"};
    bool is_held = false;
    const char *id;

    (void)state;
    id = put(&what);
    assert_int_equal(pfl_index_tombstone(index_cases_get(), id, &why), PFL_ESTATE);
    assert_int_equal(pfl_index_lease(index_cases_get(), "/clean", &is_held), 0);
    assert_true(is_held);
    index_cases_script("UPDATE lease SET generation = generation + 1");
    assert_int_equal(pfl_index_tombstone(index_cases_get(), id, &why), PFL_ESTATE);
    index_cases_script("UPDATE lease SET generation = generation - 1");
    assert_int_equal(pfl_index_tombstone(index_cases_get(), id, &why), 0);
}

static bool on_kind_of(void *user, const struct pfl_index_row *row)
{
    ((struct pfl_index_row *)user)->kind = row->kind;
    return true;
}

static const char *put_of_class(const char *orderer, unsigned class_number,
                                struct pfl_index_row *ret)
{
    static struct pfl_index_place place;
    enum pfl_index_reserve result;
    char name[32];
    char run[32];
    struct what what = {"shared", "cpu", name, NULL, 1, 1, T0};
    Perfleet__Segment *segment;

    (void)snprintf(name, sizeof(name), "%s%u", orderer, class_number);
    (void)snprintf(run, sizeof(run), "run%u", class_number);
    segment = make(&what);
    segment->orderer = (char *)(uintptr_t)orderer;
    segment->incarnation = run;
    (void)snprintf(place.id, sizeof(place.id), "01JR%022u", ++ids);
    place.key[0] = '\0';
    assert_int_equal(pfl_index_reserve(index_cases_get(), segment, T0, &place, &result), 0);
    assert_int_equal(pfl_index_set_live(index_cases_get(), place.id, T0), 0);
    assert_int_equal(pfl_index_get(index_cases_get(), place.id, on_kind_of, ret), 0);
    return place.id;
}

/* An orderer with many orders at a host leaves classes to others, and has them again when its runs
 * are forgotten. */
void an_orderer_has_a_share_of_a_hosts_classes(void **state)
{
    const struct pfl_index_deletion why = {.who = "me", .reason = "old", .now_unix_ns = T0};
    struct pfl_index_row row;
    uint64_t count;

    (void)state;
    for (unsigned i = 0; i < PFL_INDEX_OWN_KINDS_MAX / 2 + 3; i++) {
        const char *id = put_of_class("greedy", i, &row);

        if (i < PFL_INDEX_OWN_KINDS_MAX / 2)
            assert_int_not_equal(row.kind, 1);
        else
            assert_int_equal(row.kind, 1);
        assert_int_equal(pfl_index_tombstone(index_cases_get(), id, &why), 0);
    }
    (void)put_of_class("other", 0, &row);
    assert_int_not_equal(row.kind, 1);
    index_cases_script("DELETE FROM segment WHERE state = 2");
    assert_int_equal(pfl_index_forget_runs(index_cases_get(), T0 + 1, &count), 0);
    (void)put_of_class("greedy", 999, &row);
    assert_int_not_equal(row.kind, 1);
}

/* Classes that a host invents share the first kind when it has too many. */
void a_host_has_bounds_in_the_index(void **state)
{
    char name[32];
    struct what what = {"evil", "cpu", name, NULL, 1, 1, T0};
    uint64_t sum = 0;
    uint64_t expected = 0;
    struct kinds kinds;

    (void)state;
    for (unsigned i = 0; i < PFL_INDEX_OWN_KINDS_MAX / 2 + 3; i++) {
        struct pfl_index_place place;
        enum pfl_index_reserve result;
        char run[32];
        Perfleet__Segment *segment = make(&what);

        (void)snprintf(name, sizeof(name), "c%u", i);
        (void)snprintf(run, sizeof(run), "run%u", i);
        segment->incarnation = run;
        (void)snprintf(place.id, sizeof(place.id), "01JR%022u", ++ids);
        place.key[0] = '\0';
        assert_int_equal(pfl_index_reserve(index_cases_get(), segment, T0, &place, &result), 0);
        if (i < PFL_INDEX_OWN_KINDS_MAX / 2)
            continue;
        assert_int_equal(pfl_index_set_live(index_cases_get(), place.id, T0), 0);
        expected += PFL_INDEX_TRACE_BYTES + segment->bytes +
                    8 * protobuf_c_message_get_packed_size(&segment->base);
    }
    kinds = list_kinds();
    assert_int_equal(kinds.len, 1);
    assert_string_equal(kinds.classes[0], "default/");
    for (unsigned i = 0; i < kinds.len; i++)
        sum += kinds.bytes[i];
    assert_int_equal(sum, expected);
}

/* Notes of deletions have a bound, too, and the number that a note is of goes with it. */
void the_oldest_deletions_are_forgotten_above_a_number(void **state)
{
    char forgotten[PFL_INDEX_ID_BYTES];
    char noted[PFL_INDEX_ID_BYTES];
    uint64_t count = 9;

    (void)state;
    assert_int_equal(pfl_index_count_deletions(index_cases_get(), &count), 0);
    assert_int_equal(count, 0);
    for (uint32_t i = 1; i <= 5; i++) {
        const struct pfl_index_deletion why = {.who = "me", .reason = "r", .now_unix_ns = T0 + i};
        const char *id = put(&(struct what){"a", "cpu", NULL, NULL, i, 1, T0});

        assert_int_equal(pfl_index_tombstone(index_cases_get(), id, &why), 0);
        assert_int_equal(pfl_index_set_gone(index_cases_get(), id, T0 + i), 0);
        (void)snprintf(i == 1 ? forgotten : noted, PFL_INDEX_ID_BYTES, "%s", id);
    }
    assert_int_equal(pfl_index_count_deletions(index_cases_get(), &count), 0);
    assert_int_equal(count, 5);
    assert_int_equal(pfl_index_forget_above(index_cases_get(), 5, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(pfl_index_forget_above(index_cases_get(), 2, &count), 0);
    assert_int_equal(count, 3);
    assert_int_equal(pfl_index_count_deletions(index_cases_get(), &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(pfl_index_get(index_cases_get(), forgotten, on_row, forgotten), PFL_ENOENT);
    assert_int_equal(pfl_index_get(index_cases_get(), noted, on_row, noted), 0);
}

void runs_of_which_nothing_is_left_are_forgotten(void **state)
{
    const struct pfl_index_deletion why = {.who = "me", .reason = "r", .now_unix_ns = T0 + S};
    char id[PFL_INDEX_ID_BYTES];
    uint64_t count = 0;

    (void)state;
    (void)snprintf(id, sizeof(id), "%s", put(&(struct what){"a", "cpu", "x", NULL, 1, 1, T0}));
    assert_int_equal(pfl_index_forget_runs(index_cases_get(), T0 + 9 * S, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(pfl_index_tombstone(index_cases_get(), id, &why), 0);
    assert_int_equal(pfl_index_postpone(index_cases_get(), id), 0);
    assert_int_equal(pfl_index_count_tombstones(index_cases_get(), &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(pfl_index_set_gone(index_cases_get(), id, T0 + 3 * S), 0);
    assert_int_equal(pfl_index_count_tombstones(index_cases_get(), &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(pfl_index_forget_runs(index_cases_get(), T0 + 9 * S, &count), 0);
    assert_int_equal(count, 0); /* its number is known yet */
    assert_int_equal(pfl_index_forget(index_cases_get(), T0 + 9 * S, &count), 0);
    assert_int_equal(pfl_index_forget_runs(index_cases_get(), T0, &count), 0);
    assert_int_equal(count, 0); /* it changed since */
    assert_int_equal(pfl_index_forget_runs(index_cases_get(), T0 + 9 * S, &count), 0);
    assert_int_equal(count, 3); /* the run, the host, the kind */
    (void)put(&(struct what){"a", "cpu", "x", NULL, 2, 1, T0});
    assert_int_equal(list_kinds().len, 1);
}

static void script(const char *text)
{
    struct pfl_sql *sql = index_cases_get()->sql;

    if (sql->engine->script(sql, text) != 0)
        fail_msg("%s", sql->why);
}

static uint64_t forget(int (*forget_some)(struct pfl_index *, uint64_t, uint64_t *))
{
    uint64_t count = 0;

    assert_int_equal(forget_some(index_cases_get(), T0, &count), 0);
    return count;
}

#define KNOWN "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 5001) "

/* One that a host makes up may be over millions: what the index looks at for it is bounded. */
void a_gap_over_many_known_numbers_is_refused(void **state)
{
    const struct what what = {"a", "cpu", NULL, NULL, 1, 0, T0};
    Perfleet__SegmentGap gap = PERFLEET__SEGMENT_GAP__INIT;
    Perfleet__Segment *segment = make(&what);
    struct pfl_index_place place = {.id = "01JG", .key = ""};
    enum pfl_index_reserve result;

    (void)state;
    script("INSERT INTO host(id, name) VALUES(100000, 'a');"
           "INSERT INTO run(id, host_id, orderer, order_name, incarnation, kind_id)"
           " VALUES(100000, 100000, 'me', 'cpu', 'run', 1)");
    script(KNOWN "INSERT INTO segment(id, run_id, host_id, number, last, is_gap, is_long, state,"
                 " begin_ns, end_ns, bytes, object_key, collector, generation, changed_ns,"
                 " stored_ns) SELECT 'k' || i, 100000, 100000, i, i, 0, 0, 3, 0, 0, 0, '', 'c', 1,"
                 " 0, 0 FROM n");
    segment->orderer = (char *)(uintptr_t) "me";
    segment->incarnation = (char *)(uintptr_t) "run";
    segment->gap = &gap;
    gap.has_last = 1;
    gap.last = UINT32_MAX;
    assert_int_equal(pfl_index_reserve(index_cases_get(), segment, T0, &place, &result),
                     PFL_ELIMIT);
    assert_non_null(strstr(pfl_index_get_error(index_cases_get()), "numbers that are known"));
    gap.last = PFL_INDEX_COVER_MAX; /* one less is known of these */
    assert_int_equal(pfl_index_reserve(index_cases_get(), segment, T0, &place, &result), 0);
    assert_int_equal(get_run().in_gaps, 1);
}

/* What a fleet leaves behind after a purge: one transaction for all of it stalls the collectors. */
void a_transaction_forgets_a_bounded_number(void **state)
{
#define MANY "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5003) "
    (void)state;
    script("INSERT INTO host(id, name) VALUES(1, 'h');"
           "INSERT INTO run(id, host_id, orderer, order_name, incarnation, kind_id)"
           " VALUES(100000, 1, 'me', 'cpu', 'r', 1)");
    script(
        MANY
        "INSERT INTO segment(id, run_id, host_id, number, last, is_gap, is_long, state,"
        " begin_ns, end_ns, bytes, object_key, collector, generation, changed_ns,"
        " stored_ns) SELECT 'gone' || i, 100000, 1, i, i, 0, 0, 3 + i % 2, 5, 6, 1, '', '', 0, 9,"
        " 9 FROM n");
    assert_int_equal(forget(pfl_index_forget), PFL_INDEX_FORGET_MAX);
    assert_int_equal(forget(pfl_index_forget_runs), 0);
    script(MANY "INSERT INTO deletion(at_ns, segment_id, host, orderer, order_name, number, bytes,"
                " who, reason) SELECT i, 'x', 'h', 'me', 'cpu', i, 1, 'me', '' FROM n");
    assert_int_equal(forget(pfl_index_forget), 3 + PFL_INDEX_FORGET_MAX);
    assert_int_equal(forget(pfl_index_forget), 3);
    assert_int_equal(forget(pfl_index_forget), 0);
    script(MANY "INSERT INTO run(host_id, orderer, order_name, incarnation, kind_id)"
                " SELECT 1, 'me', 'cpu', 'r' || i, 1 FROM n");
    assert_int_equal(forget(pfl_index_forget_runs), PFL_INDEX_FORGET_MAX);
    assert_int_equal(forget(pfl_index_forget_runs), 4 + 1); /* with the first, and the host */
    assert_int_equal(forget(pfl_index_forget_runs), 0);
#undef MANY
}

static bool has_lease(struct pfl_index *index, const char *host)
{
    bool is_held = false;

    assert_int_equal(pfl_index_lease(index, host, &is_held), 0);
    return is_held;
}

void leases_that_nobody_holds_are_forgotten(void **state)
{
    struct pfl_index_leases leases = {.all = 0};

    (void)state;
    script("INSERT INTO host(id, name) VALUES(1, 'gone');"
           "INSERT INTO host(id, name, bytes) VALUES(2, 'here', 10);"
           "INSERT INTO lease(name, collector, generation) VALUES('old', 'c0', 1)");
    assert_true(has_lease(index_cases_get(), "gone"));
    assert_true(has_lease(index_cases_get(), "here"));
    assert_true(has_lease(index_cases_get(), "/clean"));
    assert_true(has_lease(index_cases_get(), "new")); /* nothing of it was stored yet */
    assert_int_equal(pfl_index_beat(index_cases_get()), 0);
    assert_int_equal(forget(pfl_index_forget_runs), 3); /* the host, its lease, and "old" */
    assert_int_equal(pfl_index_count_leases(index_cases_get(), &leases), 0);
    assert_int_equal(leases.own, 3);
    assert_int_equal(forget(pfl_index_forget_runs), 0);
}

/* The name of an instance may be new with each start, as a container's is. */
void collectors_that_do_not_come_back_are_forgotten(void **state)
{
    struct pfl_index *index = index_cases_get();
    uint64_t generation;

    (void)state;
    script("INSERT INTO collector(name, generation, beat_ms) VALUES('died', 7, 1000);"
           "INSERT INTO collector(name, generation, beat_ms) VALUES('ended', 3, -1000);"
           "INSERT INTO lease(name, collector, generation) VALUES('a', 'died', 7)");
    assert_int_equal(pfl_index_join(index, "c2", &generation), 0);
    assert_int_equal(pfl_index_leave(index), 0);
    assert_int_equal(pfl_index_join(index, "c3", &generation), 0);
    script("UPDATE collector SET beat_ms = 1000 WHERE name = 'c3'"); /* the clock jumped */
    assert_int_equal(forget(pfl_index_forget_runs), 3);
    assert_int_equal(pfl_index_beat(index), 0);
    assert_int_equal(forget(pfl_index_forget_runs), 0);
    assert_int_equal(pfl_index_join(index, "died", &generation), 0);
    assert_int_equal(generation, 1);
    assert_int_equal(pfl_index_join(index, "ended", &generation), 0);
    assert_int_equal(generation, 1);
    assert_int_equal(pfl_index_join(index, "c2", &generation), 0); /* it ended just now */
    assert_int_equal(generation, 2);
}

static uint64_t get_clock(void)
{
    uint64_t unix_ns = 1;

    assert_int_equal(pfl_index_get_clock(index_cases_get(), &unix_ns), 0);
    return unix_ns;
}

void the_clock_is_the_noted_one_or_that_of_the_newest_trace(void **state)
{
    const struct pfl_index_deletion why = {.who = "me", .reason = "r", .now_unix_ns = T0 + 99 * S};
    char id[PFL_INDEX_ID_BYTES];

    (void)state;
    assert_int_equal(get_clock(), 0);
    (void)put(&(struct what){"a", "cpu", NULL, NULL, 1, 1, T0 + 3 * S});
    (void)put(&(struct what){"a", "net", "x", NULL, 1, 1, T0 + 2 * S});
    assert_int_equal(get_clock(), T0 + 3 * S);
    (void)snprintf(id, sizeof(id), "%s",
                   put(&(struct what){"b", "cpu", "x", "oom", 1, 1, T0 + 4 * S}));
    assert_int_equal(get_clock(), T0 + 4 * S);
    assert_int_equal(pfl_index_tombstone(index_cases_get(), id, &why), 0);
    assert_int_equal(get_clock(), T0 + 3 * S);
    assert_int_equal(pfl_index_note_clock(index_cases_get(), T0 + 9 * S), 0);
    assert_int_equal(get_clock(), T0 + 9 * S);
    assert_int_equal(pfl_index_note_clock(index_cases_get(), T0 + S), 0); /* it was set back */
    assert_int_equal(get_clock(), T0 + S);
}
