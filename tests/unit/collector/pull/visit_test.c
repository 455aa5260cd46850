/* SPDX-License-Identifier: Apache-2.0 */
/* A visit against a model of a host, an index and a store: which steps follow which. */
#include "collector/pull/visit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proto/unpack.h"
#include "tests/support/recorded.h"
#include "tests/support/sweep.h"

#define ROOM  200u
#define PIECE 100u /* bytes of a reply */

struct item {
    uint32_t number;
    uint32_t gap_last; /* not 0: a gap */
    uint64_t bytes;
    int32_t priority;
    const char *retention;
    const char *incarnation;
    bool is_released;
    bool is_live;
    enum pfl_visit_reserve reserve;
};

struct world {
    struct pfl_visit *visit;
    struct pfl_corrupt_segments corrupt;
    uint64_t now_ms;
    struct item items[ROOM];
    unsigned len;
    unsigned page; /* segments of a reply; 0: 256 */
    unsigned steps;
    unsigned lose_at;   /* the n-th READ_MORE meets a lost stream */
    unsigned lose_each; /* and from then on each n-th after it; 0: no other */
    unsigned reads;
    unsigned connects_refused; /* at first */
    unsigned stop_at;          /* before this step */
    enum pfl_visit_step fail;  /* this step fails with `fail_rc` */
    int fail_rc;
    bool sends_too_much;
    bool sends_nothing;
    uint32_t read_status; /* of each READ */
    bool has_reservation;
    bool is_leased; /* by another collector */
    bool has_lease;
    bool has_object;
    bool has_stream;
    uint64_t written;
    uint64_t data_len;
    uint64_t asked;
    struct item *current;
    uint32_t order[ROOM]; /* numbers, as they became live */
    unsigned live_len;
    char trail[512]; /* letters of the steps */
    size_t trail_len;
};

static void add(struct world *w, struct item item)
{
    if (item.incarnation == NULL)
        item.incarnation = "01JD0000000000000000000000";
    w->items[w->len++] = item;
}

static int fill(Perfleet__Segment *s, struct item *item, uint8_t *sha, Perfleet__SegmentGap *gap)
{
    perfleet__segment__init(s);
    s->incarnation = (char *)(uintptr_t)item->incarnation;
    s->number = item->number;
    s->has_number = true;
    s->orderer = (char *)(uintptr_t) "ann";
    s->order = (char *)(uintptr_t) "web";
    s->retention = (char *)(uintptr_t)item->retention;
    s->has_priority = true;
    s->priority = item->priority;
    s->has_bytes = true;
    s->bytes = item->bytes;
    if (item->gap_last != 0) {
        perfleet__segment_gap__init(gap);
        gap->has_last = true;
        gap->last = item->gap_last;
        s->gap = gap;
    } else {
        s->has_sha256 = true;
        s->sha256 = (ProtobufCBinaryData){32, sha};
    }
    return 0;
}

/* As the host has it: those that are not released, after the cursor. */
static int make_list(struct world *w, Perfleet__SpoolReply **ret_reply)
{
    static Perfleet__Segment segments[ROOM];
    static Perfleet__Segment *list[ROOM];
    static Perfleet__SegmentGap gaps[ROOM];
    static uint8_t sha[32];
    Perfleet__SpoolReply reply = PERFLEET__SPOOL_REPLY__INIT;
    Perfleet__SpoolRequest__ListSegments ask;
    struct pfl_buf packed;
    ProtobufCMessage *message = NULL;
    unsigned room = w->page != 0 ? w->page : 256;
    int rc;

    pfl_visit_get_list(w->visit, &ask);
    pfl_record("list after %s %u, newest %d",
               ask.after_incarnation != NULL ? ask.after_incarnation : "-", ask.after_number,
               ask.newest_first);
    reply.has_status = true;
    reply.segment = list;
    for (unsigned n = 0; n < w->len; n++) {
        struct item *item = &w->items[ask.newest_first ? w->len - 1 - n : n];

        if (item->is_released)
            continue;
        if (ask.after_incarnation != NULL && (ask.newest_first ? item->number >= ask.after_number
                                                               : item->number <= ask.after_number))
            continue;
        if (reply.n_segment == room) {
            reply.has_has_more = reply.has_more = true;
            break;
        }
        (void)fill(&segments[reply.n_segment], item, sha, &gaps[reply.n_segment]);
        list[reply.n_segment] = &segments[reply.n_segment];
        reply.n_segment++;
    }
    pfl_buf_init(&packed, 1u << 20);
    rc = pfl_proto_pack(&reply.base, &packed);
    if (rc == 0)
        rc = pfl_proto_unpack(&perfleet__spool_reply__descriptor, pfl_buf_get(&packed), &message);
    pfl_buf_fini(&packed);
    *ret_reply = (Perfleet__SpoolReply *)message;
    return rc;
}

static struct item *get_current(struct world *w)
{
    uint32_t number = pfl_visit_get_segment(w->visit)->number;

    for (unsigned i = 0; i < w->len; i++) {
        if (w->items[i].number == number)
            return &w->items[i];
    }
    fail_msg("no such segment");
    return NULL;
}

static void read_on(struct world *w, bool is_new)
{
    static const uint8_t bytes[PIECE];
    struct item *item = get_current(w);
    uint64_t at = pfl_visit_get_offset(w->visit);
    uint64_t left = item->bytes - at;

    assert_true(w->has_stream);
    assert_int_equal(at, w->written);
    w->asked = is_new ? at : w->asked;
    w->reads++;
    if (w->reads == w->lose_at) {
        w->lose_at += w->lose_each;
        w->has_stream = false;
        pfl_visit_on_lost(w->visit);
        return;
    }
    if (w->read_status != 0) {
        pfl_visit_on_status(w->visit, w->read_status);
        return;
    }
    w->data_len = w->sends_nothing ? 0 : left < PIECE ? left : PIECE;
    pfl_visit_on_data(w->visit, pfl_span_of(bytes, w->data_len),
                      w->sends_too_much || left > w->data_len);
}

static void make_live(struct world *w)
{
    struct item *item = get_current(w);

    assert_false(item->is_live);
    assert_false(w->has_object);
    assert_true(item->gap_last != 0 || w->written == item->bytes);
    item->is_live = true;
    w->order[w->live_len++] = item->number;
}

static int do_engine(struct world *w, enum pfl_visit_step step)
{
    if (step == w->fail)
        return w->fail_rc;
    if (step == PFL_VISIT_BEGIN) {
        assert_false(w->has_object);
        w->has_object = true;
        w->written = 0;
    } else if (step == PFL_VISIT_WRITE) {
        assert_true(w->has_object);
        w->written += w->data_len;
    } else if (step == PFL_VISIT_SET_LIVE) {
        make_live(w);
    } else if (step == PFL_VISIT_DROP) {
        assert_true(w->has_reservation && !w->has_object);
    }
    if (step == PFL_VISIT_SET_LIVE || step == PFL_VISIT_DROP)
        w->has_reservation = false;
    if (step == PFL_VISIT_COMMIT || step == PFL_VISIT_ABORT)
        w->has_object = false;
    return 0;
}

static void connect(struct world *w)
{
    if (w->connects_refused != 0) {
        w->connects_refused--;
        pfl_visit_on_done(w->visit, PFL_EAGAIN);
        return;
    }
    w->has_stream = true;
    pfl_visit_on_done(w->visit, 0);
}

static void release(struct world *w)
{
    struct item *item = get_current(w);

    assert_true(w->has_stream);
    assert_true(item->is_live || item->gap_last != 0 || item->reserve == PFL_VISIT_IS_LIVE);
    item->is_released = true;
    pfl_visit_on_status(w->visit, 0);
}

static void record_step(const struct world *w, enum pfl_visit_step step)
{
    const struct pfl_visit_figures *f = pfl_visit_get_figures(w->visit);
    bool has_segment = step == PFL_VISIT_RESERVE || step == PFL_VISIT_BEGIN ||
                       step == PFL_VISIT_READ || step == PFL_VISIT_READ_MORE ||
                       step == PFL_VISIT_WRITE || step == PFL_VISIT_RELEASE;

    pfl_record("%d: segment %u at %llu, stored %llu %llu gaps %llu released %llu", (int)step,
               has_segment ? pfl_visit_get_segment(w->visit)->number : 0,
               (unsigned long long)pfl_visit_get_offset(w->visit), (unsigned long long)f->stored,
               (unsigned long long)f->stored_bytes, (unsigned long long)f->gaps,
               (unsigned long long)f->released);
    for (unsigned i = 0; i < PFL_VISIT_LEFT_REASONS; i++)
        pfl_record("left %llu", (unsigned long long)f->left[i]);
}

static int run_step(struct world *w, enum pfl_visit_step step)
{
    Perfleet__SpoolReply *reply;
    int rc;

    record_step(w, step);
    if (step == PFL_VISIT_CONNECT) {
        connect(w);
    } else if (step == PFL_VISIT_LEASE) {
        w->has_lease = w->fail != step && !w->is_leased;
        pfl_visit_on_lease(w->visit, w->fail == step ? w->fail_rc : 0, !w->is_leased);
    } else if (step == PFL_VISIT_GIVE_LEASE) {
        assert_true(w->has_lease);
        w->has_lease = false;
        pfl_visit_on_done(w->visit, w->fail == step ? w->fail_rc : 0);
    } else if (step == PFL_VISIT_LIST) {
        assert_true(w->has_stream);
        rc = make_list(w, &reply);
        if (rc != 0)
            return rc;
        pfl_visit_on_list(w->visit, reply);
    } else if (step == PFL_VISIT_RESERVE) {
        assert_false(w->has_reservation);
        w->has_reservation = w->fail != step && get_current(w)->gap_last == 0 &&
                             get_current(w)->reserve == PFL_VISIT_RESERVED;
        pfl_visit_on_reserve(w->visit, w->fail == step ? w->fail_rc : 0, get_current(w)->reserve);
    } else if (step == PFL_VISIT_READ || step == PFL_VISIT_READ_MORE) {
        read_on(w, step == PFL_VISIT_READ);
    } else if (step == PFL_VISIT_RELEASE) {
        release(w);
    } else {
        rc = do_engine(w, step);
        if (rc != 0 && step == PFL_VISIT_COMMIT)
            w->has_object = false;
        pfl_visit_on_done(w->visit, rc);
    }
    return 0;
}

/* -1: until its end. */
static int run(struct world *w, const struct pfl_visit_conf *conf, enum pfl_visit_end *ret_end)
{
    static const char letters[] = ".clvbrmwCdLRADHGE";
    struct pfl_visit_conf own = *conf;
    enum pfl_visit_step step;
    int rc;

    own.corrupt = &w->corrupt;
    own.now_ms = w->now_ms;
    rc = pfl_visit_new(&own, &w->visit);

    if (rc != 0)
        return rc;
    while ((step = pfl_visit_take(w->visit)) != PFL_VISIT_END) {
        assert_int_not_equal(step, PFL_VISIT_WAIT);
        if (w->trail_len + 1 < sizeof(w->trail))
            w->trail[w->trail_len++] = letters[step];
        rc = run_step(w, step);
        if (rc != 0)
            break;
        if (++w->steps == w->stop_at)
            pfl_visit_stop(w->visit);
        assert_in_range(w->steps, 0, 100000);
    }
    record_step(w, PFL_VISIT_END);
    pfl_record("end %d of %u", (int)pfl_visit_get_end(w->visit), w->steps);
    if (rc == 0)
        *ret_end = pfl_visit_get_end(w->visit);
    assert_true(rc != 0 || !w->has_object);
    return rc;
}

static enum pfl_visit_end visit(struct world *w)
{
    static const struct pfl_visit_conf conf = {.host = "web1"};
    enum pfl_visit_end end = PFL_VISIT_MORE;

    assert_int_equal(run(w, &conf, &end), 0);
    return end;
}

static int end_world(struct world *w)
{
    pfl_visit_free(w->visit);
    pfl_sweep_assert_no_leak();
    return 0;
}

static unsigned count_released(const struct world *w)
{
    unsigned count = 0;

    for (unsigned i = 0; i < w->len; i++)
        count += w->items[i].is_released;
    return count;
}

/* ---- cases ---- */

static void a_segment_is_live_after_its_bytes_and_released_after_that(void **state)
{
    static struct world w;

    (void)state;
    w = (struct world){0};
    add(&w, (struct item){.number = 1, .bytes = 250});
    assert_int_equal(visit(&w), PFL_VISIT_DRAINED);
    assert_string_equal(w.trail, "clvbrwmwmwCdLR");
    assert_int_equal(pfl_visit_get_figures(w.visit)->stored_bytes, 250);
    end_world(&w);
}

static void a_gap_is_described_and_has_no_object(void **state)
{
    static struct world w;

    (void)state;
    w = (struct world){0};
    add(&w, (struct item){.number = 1, .gap_last = 7});
    assert_int_equal(visit(&w), PFL_VISIT_DRAINED);
    assert_string_equal(w.trail, "clvdR");
    assert_int_equal(pfl_visit_get_figures(w.visit)->gaps, 1);
    end_world(&w);
}

static void what_is_live_is_released_without_a_read(void **state)
{
    static struct world w;

    (void)state;
    w = (struct world){0};
    add(&w, (struct item){.number = 1, .bytes = 250, .reserve = PFL_VISIT_IS_LIVE});
    assert_int_equal(visit(&w), PFL_VISIT_DRAINED);
    assert_int_equal(w.reads, 0);
    assert_int_equal(count_released(&w), 1);
    end_world(&w);
}

static void a_lost_stream_goes_on_where_the_read_ended(void **state)
{
    static struct world w;

    (void)state;
    for (unsigned at = 1; at <= 5; at++) {
        w = (struct world){.lose_at = at};
        add(&w, (struct item){.number = 1, .bytes = 450});
        assert_int_equal(visit(&w), PFL_VISIT_DRAINED);
        assert_int_equal(w.asked, (at - 1) * PIECE);
        assert_int_equal(count_released(&w), 1);
        end_world(&w);
    }
}

static void losses_with_progress_between_them_do_not_end_the_visit(void **state)
{
    static struct world w;

    (void)state;
    w = (struct world){.lose_at = 2, .lose_each = 2};
    add(&w, (struct item){.number = 1, .bytes = 3 * PFL_VISIT_CONNECTS_MAX * PIECE});
    assert_int_equal(visit(&w), PFL_VISIT_DRAINED);
    assert_int_equal(count_released(&w), 1);
    end_world(&w);
}

static void a_host_that_cannot_be_reached_ends_the_visit(void **state)
{
    static struct world w;

    (void)state;
    w = (struct world){.connects_refused = PFL_VISIT_CONNECTS_MAX - 1};
    assert_int_equal(visit(&w), PFL_VISIT_DRAINED);
    end_world(&w);
    w = (struct world){.connects_refused = PFL_VISIT_CONNECTS_MAX};
    assert_int_equal(visit(&w), PFL_VISIT_LOST);
    end_world(&w);
}

static void other_bytes_than_promised_are_left_at_the_host(void **state)
{
    struct pfl_visit_left_segment left;
    static struct world w;

    (void)state;
    w = (struct world){.fail = PFL_VISIT_COMMIT, .fail_rc = PFL_EPARSE};
    add(&w, (struct item){.number = 1, .bytes = 250});
    assert_int_equal(visit(&w), PFL_VISIT_CORRUPT);
    assert_int_equal(pfl_visit_get_figures(w.visit)->left[PFL_VISIT_LEFT_CORRUPT], 1);
    pfl_visit_take_left(w.visit, &left);
    assert_string_equal(left.why, "corrupt");
    assert_string_equal(left.fault.field, "sha256");
    assert_int_equal(left.fault.value, 250);
    assert_int_equal(left.number, 1);
    assert_string_equal(left.order, "web");
    assert_false(w.has_reservation);
    pfl_visit_take_left(w.visit, &left);
    assert_null(left.why);
    assert_int_equal(count_released(&w) + w.live_len, 0);
    end_world(&w);
    for (int too_much = 0; too_much < 2; too_much++) {
        w = (struct world){.sends_too_much = too_much != 0, .sends_nothing = too_much == 0};
        add(&w, (struct item){.number = 1, .bytes = 250});
        assert_int_equal(visit(&w), PFL_VISIT_CORRUPT);
        assert_int_equal(count_released(&w) + w.live_len, 0);
        end_world(&w);
    }
}

/* The next visits take the others, and read it again after a while. */
static void a_corrupt_segment_is_not_read_at_each_visit(void **state)
{
    static struct world w;

    (void)state;
    w = (struct world){.fail = PFL_VISIT_COMMIT, .fail_rc = PFL_EPARSE};
    add(&w, (struct item){.number = 1, .bytes = 250});
    assert_int_equal(visit(&w), PFL_VISIT_CORRUPT);
    end_world(&w);
    w.fail = PFL_VISIT_WAIT;
    add(&w, (struct item){.number = 2, .bytes = 250});
    w.reads = 0;
    assert_int_equal(visit(&w), PFL_VISIT_STUCK);
    assert_int_equal(pfl_visit_get_figures(w.visit)->left[PFL_VISIT_LEFT_CORRUPT], 1);
    assert_int_equal(w.live_len, 1);
    assert_int_equal(w.order[0], 2);
    end_world(&w);
    w.now_ms = PFL_CORRUPT_SEGMENTS_WAIT_MS;
    assert_int_equal(visit(&w), PFL_VISIT_DRAINED);
    assert_int_equal(w.live_len, 2);
    assert_int_equal(w.order[1], 1);
    end_world(&w);
}

/* A host may announce what it never gives: the index has no row of it then. */
static void what_a_host_does_not_give_leaves_no_reservation(void **state)
{
    static struct world w;

    (void)state;
    w = (struct world){.read_status = 404};
    add(&w, (struct item){.number = 1, .bytes = 250});
    add(&w, (struct item){.number = 2, .bytes = 250});
    assert_int_equal(visit(&w), PFL_VISIT_DRAINED); /* the next list has gaps in their places */
    assert_string_equal(w.trail, "clvbrADvbrAD");
    assert_false(w.has_reservation);
    assert_int_equal(count_released(&w) + w.live_len, 0);
    end_world(&w);
    w = (struct world){.read_status = 503};
    add(&w, (struct item){.number = 1, .bytes = 250});
    assert_int_equal(visit(&w), PFL_VISIT_STUCK);
    assert_string_equal(w.trail, "clvbrAD");
    assert_int_equal(pfl_visit_get_figures(w.visit)->left[PFL_VISIT_LEFT_REFUSED], 1);
    end_world(&w);
    w = (struct world){.read_status = 404, .fail = PFL_VISIT_DROP, .fail_rc = PFL_EIO};
    add(&w, (struct item){.number = 1, .bytes = 250});
    assert_int_equal(visit(&w), PFL_VISIT_STUCK);
    end_world(&w);
}

static void conflicts_and_those_of_other_collectors_are_left_and_others_taken(void **state)
{
    static struct world w;

    (void)state;
    w = (struct world){0};
    add(&w, (struct item){.number = 1, .bytes = 10, .reserve = PFL_VISIT_CONFLICT});
    add(&w, (struct item){.number = 2, .bytes = 10, .reserve = PFL_VISIT_BUSY});
    add(&w, (struct item){.number = 3, .bytes = 10});
    assert_int_equal(visit(&w), PFL_VISIT_STUCK);
    assert_int_equal(w.live_len, 1);
    assert_true(w.items[2].is_released && !w.items[0].is_released && !w.items[1].is_released);
    end_world(&w);
}

static enum pfl_visit_end visit_shared(struct world *w)
{
    static const struct pfl_visit_conf conf = {.host = "web1", .is_shared = true};
    enum pfl_visit_end end = PFL_VISIT_MORE;

    assert_int_equal(run(w, &conf, &end), 0);
    return end;
}

static void a_shared_host_is_leased_for_the_visit(void **state)
{
    static struct world w;

    (void)state;
    w = (struct world){.len = 0};
    add(&w, (struct item){.number = 1, .bytes = 10});
    assert_int_equal(visit_shared(&w), PFL_VISIT_DRAINED);
    assert_string_equal(w.trail, "HclvbrwCdLRG");
    assert_false(w.has_lease);
    (void)end_world(&w);
    w = (struct world){.is_leased = true};
    assert_int_equal(visit_shared(&w), PFL_VISIT_LEASED);
    assert_string_equal(w.trail, "H");
    (void)end_world(&w);
    w = (struct world){.fail = PFL_VISIT_LEASE, .fail_rc = PFL_EAGAIN};
    assert_int_equal(visit_shared(&w), PFL_VISIT_STUCK);
    (void)end_world(&w);
    w = (struct world){.fail = PFL_VISIT_GIVE_LEASE, .fail_rc = PFL_EAGAIN};
    assert_int_equal(visit_shared(&w), PFL_VISIT_DRAINED);
    (void)end_world(&w);
    w = (struct world){.fail = PFL_VISIT_WRITE, .fail_rc = PFL_EAGAIN};
    add(&w, (struct item){.number = 1, .bytes = 10});
    assert_int_equal(visit_shared(&w), PFL_VISIT_STUCK);
    assert_string_equal(w.trail, "HclvbrwAG");
    (void)end_world(&w);
    w = (struct world){.stop_at = 3}; /* who stops gives all back at once */
    add(&w, (struct item){.number = 1, .bytes = 10});
    assert_int_equal(visit_shared(&w), PFL_VISIT_LOST);
    assert_string_equal(w.trail, "Hcl");
    (void)end_world(&w);
}

static void a_failing_engine_ends_the_visit_without_an_object(void **state)
{
    static const enum pfl_visit_step steps[] = {PFL_VISIT_RESERVE,  PFL_VISIT_BEGIN,
                                                PFL_VISIT_WRITE,    PFL_VISIT_COMMIT,
                                                PFL_VISIT_DESCRIBE, PFL_VISIT_SET_LIVE};
    static struct world w;

    (void)state;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        w = (struct world){.fail = steps[i], .fail_rc = PFL_EIO};
        add(&w, (struct item){.number = 1, .bytes = 250});
        add(&w, (struct item){.number = 2, .bytes = 250});
        assert_int_equal(visit(&w), PFL_VISIT_STUCK);
        assert_int_equal(count_released(&w) + w.live_len, 0);
        end_world(&w);
    }
}

static void a_stop_at_any_step_leaves_no_object_and_releases_only_what_is_live(void **state)
{
    static struct world w;

    (void)state;
    for (unsigned at = 1; at < 30; at++) {
        w = (struct world){.stop_at = at};
        add(&w, (struct item){.number = 1, .bytes = 250});
        add(&w, (struct item){.number = 2, .gap_last = 2});
        (void)visit(&w);
        assert_true(count_released(&w) <= w.live_len + w.items[1].is_released);
        end_world(&w);
    }
}

static void larger_priorities_come_first_and_the_newest_of_chosen_classes(void **state)
{
    static char crash[] = "crash";
    static char *const classes[] = {crash};
    static const struct pfl_visit_conf conf = {
        .host = "web1", .newest_first = classes, .newest_first_len = 1};
    static const uint32_t expected[] = {5, 2, 4, 1, 3};
    static struct world w;
    enum pfl_visit_end end;

    (void)state;
    w = (struct world){0};
    add(&w, (struct item){.number = 1, .bytes = 1});
    add(&w, (struct item){.number = 2, .bytes = 1, .retention = crash});
    add(&w, (struct item){.number = 3, .bytes = 1});
    add(&w, (struct item){.number = 4, .bytes = 1, .priority = 7});
    add(&w, (struct item){.number = 5, .bytes = 1, .retention = crash});
    assert_int_equal(run(&w, &conf, &end), 0);
    assert_int_equal(end, PFL_VISIT_DRAINED);
    assert_memory_equal(w.order, expected, sizeof(expected));
    end_world(&w);
}

static void a_part_is_bounded_and_pages_are_followed(void **state)
{
    static struct world w;

    (void)state;
    w = (struct world){.page = 7};
    for (uint32_t i = 1; i <= 100; i++)
        add(&w, (struct item){.number = i, .bytes = i == 50 ? 300 : 1});
    assert_int_equal(visit(&w), PFL_VISIT_MORE);
    assert_int_equal(count_released(&w), PFL_VISIT_SEGMENTS_MAX);
    pfl_visit_free(w.visit);
    assert_int_equal(visit(&w), PFL_VISIT_DRAINED);
    assert_int_equal(count_released(&w), 100);
    end_world(&w);
}

static void malformed_segments_are_never_reserved(void **state)
{
    struct pfl_visit_left_segment left;
    static struct world w;

    (void)state;
    w = (struct world){0};
    add(&w, (struct item){.number = 1, .bytes = 10, .incarnation = "../../etc/passwd"});
    add(&w, (struct item){.number = 2, .gap_last = 1});
    add(&w, (struct item){.number = 3, .bytes = PFL_VISIT_BYTES_MAX << 10});
    add(&w, (struct item){.number = 4, .bytes = 10, .retention = "a/b"});
    assert_int_equal(visit(&w), PFL_VISIT_STUCK);
    assert_string_equal(w.trail, "cl");
    assert_int_equal(pfl_visit_get_figures(w.visit)->left[PFL_VISIT_LEFT_MALFORMED], 4);
    pfl_visit_take_left(w.visit, &left);
    assert_string_equal(left.why, "malformed");
    assert_non_null(left.fault.what);
    assert_non_null(left.fault.field);
    end_world(&w);
}

static void gaps_that_the_index_refuses_end_the_visit(void **state)
{
    static struct world w;

    (void)state;
    w = (struct world){.fail = PFL_VISIT_RESERVE, .fail_rc = PFL_ELIMIT};
    for (unsigned i = 1; i <= 40; i++)
        add(&w, (struct item){.number = i, .gap_last = i});
    assert_int_equal(visit(&w), PFL_VISIT_FULL);
    assert_int_equal(pfl_visit_get_figures(w.visit)->left[PFL_VISIT_LEFT_LIMIT],
                     PFL_VISIT_GAPS_MAX);
    end_world(&w);
    w = (struct world){0};
    for (unsigned i = 1; i <= 40; i++)
        add(&w, (struct item){.number = i, .gap_last = i, .reserve = PFL_VISIT_CONFLICT});
    assert_int_equal(visit(&w), PFL_VISIT_FULL);
    assert_int_equal(pfl_visit_get_figures(w.visit)->left[PFL_VISIT_LEFT_CONFLICT],
                     PFL_VISIT_GAPS_MAX);
    end_world(&w);
    w = (struct world){.fail = PFL_VISIT_RESERVE, .fail_rc = PFL_ELIMIT};
    for (unsigned i = 1; i <= 40; i++)
        add(&w, (struct item){.number = i, .bytes = 10});
    assert_int_equal(visit(&w), PFL_VISIT_STUCK);
    assert_int_equal(pfl_visit_get_figures(w.visit)->left[PFL_VISIT_LEFT_LIMIT], 40);
    end_world(&w);
}

/* Of `len` segments, each without a hash, with larger and larger priorities. */
static Perfleet__SpoolReply *make_bad_list(unsigned len)
{
    static Perfleet__Segment segments[PFL_VISIT_LIST_MAX + 1];
    static Perfleet__Segment *list[PFL_VISIT_LIST_MAX + 1];
    static struct item item = {.number = 1, .incarnation = "01JD0000000000000000000000"};
    Perfleet__SpoolReply reply = PERFLEET__SPOOL_REPLY__INIT;
    ProtobufCMessage *message = NULL;
    struct pfl_buf packed;

    for (unsigned i = 0; i < len; i++) {
        item.priority = (int32_t)i;
        (void)fill(&segments[i], &item, NULL, NULL);
        segments[i].has_sha256 = false;
        list[i] = &segments[i];
    }
    reply.has_has_more = reply.has_more = true;
    reply.segment = list;
    reply.n_segment = len;
    pfl_buf_init(&packed, 1u << 20);
    assert_int_equal(pfl_proto_pack(&reply.base, &packed), 0);
    assert_int_equal(
        pfl_proto_unpack(&perfleet__spool_reply__descriptor, pfl_buf_get(&packed), &message), 0);
    pfl_buf_fini(&packed);
    return (Perfleet__SpoolReply *)message;
}

/* How many lists of that length a visit reads before it ends as stuck. */
static unsigned count_lists(unsigned len)
{
    static const struct pfl_visit_conf conf = {.host = "web1"};
    struct pfl_visit *visit;
    struct pfl_visit_left_segment left;
    unsigned lists = 0;

    assert_int_equal(pfl_visit_new(&conf, &visit), 0);
    assert_int_equal(pfl_visit_take(visit), PFL_VISIT_CONNECT);
    pfl_visit_on_done(visit, 0);
    while (pfl_visit_take(visit) == PFL_VISIT_LIST) {
        lists++;
        pfl_visit_on_list(visit, make_bad_list(len));
        pfl_visit_take_left(visit, &left);
    }
    assert_int_equal(pfl_visit_get_end(visit), PFL_VISIT_STUCK);
    pfl_visit_free(visit);
    pfl_sweep_assert_no_leak();
    return lists;
}

static void a_list_and_what_is_left_are_bounded(void **state)
{
    (void)state;
    assert_int_equal(count_lists(PFL_VISIT_LIST_MAX), 2);
    assert_int_equal(count_lists(PFL_VISIT_LIST_MAX + 1), 1);
    assert_int_equal(count_lists(PFL_VISIT_LEFT_MAX / 4), 5);
}

static int sweep_body(void *arg)
{
    static const struct pfl_visit_conf conf = {.host = "web1"};
    static struct world w;
    enum pfl_visit_end end;
    int rc;

    (void)arg;
    w = (struct world){0};
    add(&w, (struct item){.number = 1, .bytes = 250});
    rc = run(&w, &conf, &end);
    pfl_visit_free(w.visit);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(sweep_body, NULL, false);
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0x1094c188db9032c0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_is_live_after_its_bytes_and_released_after_that),
        cmocka_unit_test(a_gap_is_described_and_has_no_object),
        cmocka_unit_test(what_is_live_is_released_without_a_read),
        cmocka_unit_test(a_lost_stream_goes_on_where_the_read_ended),
        cmocka_unit_test(losses_with_progress_between_them_do_not_end_the_visit),
        cmocka_unit_test(a_host_that_cannot_be_reached_ends_the_visit),
        cmocka_unit_test(other_bytes_than_promised_are_left_at_the_host),
        cmocka_unit_test(a_corrupt_segment_is_not_read_at_each_visit),
        cmocka_unit_test(what_a_host_does_not_give_leaves_no_reservation),
        cmocka_unit_test(conflicts_and_those_of_other_collectors_are_left_and_others_taken),
        cmocka_unit_test(a_shared_host_is_leased_for_the_visit),
        cmocka_unit_test(a_failing_engine_ends_the_visit_without_an_object),
        cmocka_unit_test(a_stop_at_any_step_leaves_no_object_and_releases_only_what_is_live),
        cmocka_unit_test(larger_priorities_come_first_and_the_newest_of_chosen_classes),
        cmocka_unit_test(a_part_is_bounded_and_pages_are_followed),
        cmocka_unit_test(malformed_segments_are_never_reserved),
        cmocka_unit_test(a_list_and_what_is_left_are_bounded),
        cmocka_unit_test(all_of_this_is_as_recorded),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(gaps_that_the_index_refuses_end_the_visit),
    };

    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
