/* SPDX-License-Identifier: Apache-2.0 */
/* A gate that was saved anywhere continues in another process unchanged; bytes that
 * no gate saved are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "perfetto/consumer_port.pb-c.h"
#include "tests/support/capture.h"
#include "tests/support/sweep.h"
#include "tests/unit/proto/gate/gate_kit.h"

static const char guests[] =
    "name: \"guests\" data_source: \"linux.ftrace\" session: \"flight-*\" max_duration_ms: 10000";
static const char all[] = "name: \"all\" data_source: \"*\" session: \"*\" max_buffer_kb: 4000000";
static const char fine[] = "duration_ms: 5000 data_sources { config { name: \"linux.ftrace\" } } ";

static uint8_t room[PFL_GATE_SAVED_MAX_BYTES];

/* What `gate` saves, at its exact length, so that a sanitizer sees who reads past it. */
static struct pfl_span save(const struct pfl_gate *gate)
{
    struct pfl_writer out = pfl_writer_of(room, sizeof(room));
    size_t len;
    uint8_t *saved;

    assert_int_equal(pfl_gate_save(gate, &out), 0);
    len = sizeof(room) - out.left;
    saved = pfl_mem_memdup(room, len);
    assert_non_null(saved);
    out = pfl_writer_of(room, sizeof(room));
    assert_int_equal(pfl_gate_save_again(gate, &out), 0);
    assert_int_equal(sizeof(room) - out.left, len);
    assert_memory_equal(room, saved, len);
    return pfl_span_of(saved, len);
}

static void drop(struct pfl_span saved)
{
    pfl_mem_free((void *)(uintptr_t)saved.data);
}

/* Another gate takes its place. */
static void replace(struct world *w)
{
    struct pfl_gate_conf conf = conf_of(w);
    struct pfl_span saved = save(w->gate);

    pfl_gate_free(w->gate);
    assert_int_equal(pfl_gate_restore(&conf, saved, &w->gate), 0);
    drop(saved);
}

/* ---- conversations ---- */

struct talk {
    struct pfl_buf records; /* who (0: the operator), u32 length, bytes */
};

static void add(struct talk *t, bool is_service, struct pfl_span bytes)
{
    uint8_t head[5];
    struct pfl_writer w = pfl_writer_of(head, sizeof(head));

    pfl_writer_u8(&w, is_service);
    pfl_writer_u32(&w, (uint32_t)bytes.len);
    assert_int_equal(pfl_buf_append(&t->records, head, sizeof(head)), 0);
    assert_int_equal(pfl_buf_append(&t->records, bytes.data, bytes.len), 0);
}

/* The operator's whole; the service's cut anywhere. */
static void play(const struct talk *t, struct world *w, bool is_mortal)
{
    struct pfl_reader r = pfl_reader_of(pfl_buf_get(&t->records));

    while (r.left != 0) {
        bool is_service = pfl_reader_u8(&r) != 0;
        struct pfl_span rest = pfl_reader_bytes(&r, pfl_reader_u32(&r));

        while (rest.len != 0) {
            struct pfl_span piece = pfl_span_of(rest.data, is_service && is_mortal ? 1 : rest.len);

            assert_int_equal(is_service ? pfl_gate_from_service(w->gate, piece)
                                        : pfl_gate_from_operator(w->gate, piece),
                             0);
            rest = pfl_span_of(rest.data + piece.len, rest.len - piece.len);
            if (is_mortal)
                replace(w);
        }
    }
}

static void assert_same_bytes(const struct pfl_buf *a, const struct pfl_buf *b)
{
    assert_int_equal(a->len, b->len);
    if (a->len != 0)
        assert_memory_equal(pfl_buf_get(a).data, pfl_buf_get(b).data, a->len);
}

/* However many gates there are, one after the other, they say what one says. */
static void assert_lives_on(struct talk *t, const char *role)
{
    struct world one;
    struct world many;
    struct pfl_span saved;
    struct pfl_span saved_of_many;

    begin(&one, role);
    play(t, &one, false);
    saved = save(one.gate);
    /* A fixture ends with nothing alive, so that this one begins before that. */
    begin(&many, role);
    play(t, &many, true);
    saved_of_many = save(many.gate);
    assert_same_bytes(&one.to_service, &many.to_service);
    assert_same_bytes(&one.to_operator, &many.to_operator);
    assert_int_equal(one.passed, many.passed);
    assert_int_equal(one.refused, many.refused);
    assert_int_equal(saved.len, saved_of_many.len);
    assert_memory_equal(saved.data, saved_of_many.data, saved.len);
    drop(saved);
    drop(saved_of_many);
    pfl_gate_free(one.gate);
    pfl_buf_fini(&one.to_service);
    pfl_buf_fini(&one.to_operator);
    pfl_buf_fini(&t->records);
    end(&many);
}

/* `refused` falls into the frame at every place. */
static void add_cut(struct talk *t, const struct frame *service, const struct frame *refused)
{
    for (size_t at = 0; at < service->len; at += 7) {
        size_t len = service->len - at < 7 ? service->len - at : 7;

        add(t, true, pfl_span_of(service->bytes + at, len));
        add(t, false, span_of(refused));
    }
}

static void a_saved_gate_goes_on_where_it_was(void **state)
{
    struct talk t = {0};
    struct frame f;
    struct frame bad;
    struct frame answer;

    (void)state;
    pfl_buf_init(&t.records, ROOM);
    make_invoke(&bad, READ, pfl_span_of(NULL, 0));
    add(&t, false, span_of(&bad)); /* before the bind */
    make_bind(&f, "ConsumerPort");
    add(&t, false, span_of(&f));
    add(&t, false, span_of(&f));
    make_bind(&bad, "ProducerPort");
    add(&t, false, span_of(&bad));
    make_bind_answer(&answer);
    add_cut(&t, &answer, &bad);
    make_enable(&f, fine);
    add(&t, false, span_of(&f));
    make_enable(&bad, "duration_ms: 4294967295");
    add_cut(&t, &answer, &bad); /* that of the second bind */
    add_cut(&t, &answer, &bad); /* any frame */
    add(&t, true, pfl_span_of("\0\0\0\0", 4));
    make_request(&f, CLONE, &perfetto__protos__clone_session_request__descriptor,
                 "unique_session_name: \"flight-1\"");
    add(&t, false, span_of(&f));
    make_invoke(&f, FREE, pfl_span_of(NULL, 0));
    add(&t, false, span_of(&f));
    make_request(&f, ATTACH, &perfetto__protos__attach_request__descriptor, "key: \"flight-2\"");
    for (unsigned i = 0; i < 9; i++) /* one too many */
        add(&t, false, span_of(&f));
    add(&t, true, pfl_span_of(answer.bytes, 3));
    assert_lives_on(&t, guests);
}

/* As recorded of real clients and services. */
static void real_conversations_go_on_where_they_were(void **state)
{
    static const char *const captures[] = {
        "consumer-query.cap",       "consumer-read-trackevent.cap", "consumer-attach-query.cap",
        "consumer-attach-stop.cap", "consumer-clone.cap",           "consumer-trigger.cap",
        "consumer-clone-source.cap"};

    (void)state;
    for (size_t i = 0; i < sizeof(captures) / sizeof(captures[0]); i++) {
        struct pfl_capture_record record;
        struct pfl_capture c;
        struct talk t = {0};
        static uint8_t frame[PFL_FRAME_MAX_BYTES];

        pfl_buf_init(&t.records, ROOM);
        pfl_capture_open(&c, captures[i]);
        while (pfl_capture_next(&c, &record)) {
            struct pfl_writer w = pfl_writer_of(frame, sizeof(frame));

            if (record.kind != PFL_CAPTURE_FRAME)
                continue;
            pfl_writer_u32(&w, (uint32_t)record.payload.len);
            pfl_writer_bytes(&w, record.payload.data, record.payload.len);
            add(&t, record.is_from_service, pfl_span_of(frame, sizeof(frame) - w.left));
        }
        assert_int_not_equal(t.records.len, 0);
        pfl_capture_close(&c);
        assert_lives_on(&t, all);
    }
}

static void what_runs_is_judged_again_under_a_role_that_comes_after(void **state)
{
    char why[PFL_JUDGE_WHY_BYTES];
    struct pfl_buf role;
    struct world w;
    struct frame f;

    (void)state;
    begin(&w, guests);
    bind(&w);
    make_enable(&f, fine);
    assert_passes(&w, &f);
    replace(&w);
    make_role("name: \"short\" max_duration_ms: 4999", &role);
    assert_int_equal(pfl_gate_set_role(w.gate, pfl_buf_get(&role), why), PFL_EPERM);
    assert_non_null(strstr(why, "role short"));
    pfl_buf_fini(&role);
    make_role("name: \"look\" max_duration_ms: 5000", &role);
    assert_int_equal(pfl_gate_set_role(w.gate, pfl_buf_get(&role), why), 0);
    replace(&w);
    assert_int_equal(pfl_gate_get_role(w.gate).len, role.len);
    assert_memory_equal(pfl_gate_get_role(w.gate).data, role.data, role.len);
    pfl_buf_fini(&role);
    make_enable(&f, "duration_ms: 5001");
    assert_refused(&w, &f, "ask for 1 to 5000");
    make_invoke(&f, FREE, pfl_span_of(NULL, 0));
    assert_passes(&w, &f);
    replace(&w);
    make_role("name: \"none\" method: \"Query*\"", &role);
    assert_int_equal(pfl_gate_set_role(w.gate, pfl_buf_get(&role), why), 0);
    pfl_buf_fini(&role);
    make_invoke(&f, READ, pfl_span_of(NULL, 0));
    assert_refused(&w, &f, "ReadBuffers");
    end(&w);
}

/* ---- bounds and damage ---- */

/* Sessions taken over by the longest names that fit; answers and a bind's answer under way. */
static void the_largest_gate_fits(void **state)
{
    static uint8_t key[PFL_FRAME_MAX_BYTES - 64];
    static uint8_t frame[PFL_FRAME_MAX_BYTES];
    struct world w;
    struct frame bad;
    size_t len;
    struct pfl_span saved;

    (void)state;
    begin(&w, all);
    bind(&w);
    memset(key, 'k', sizeof(key));
    for (unsigned i = 0; i < 8; i++) {
        struct pfl_writer f = pfl_writer_of(frame, sizeof(frame));

        pfl_writer_u32(&f, (uint32_t)(2 + 4 + 2 + 2 + 4 + 4 + sizeof(key)));
        pfl_writer_field_varint(&f, 2, 9);
        pfl_writer_field_header(&f, 5, 2 + 2 + 4 + 4 + sizeof(key));
        pfl_writer_field_varint(&f, 1, SERVICE);
        pfl_writer_field_varint(&f, 2, ATTACH);
        pfl_writer_field_header(&f, 3, 4 + sizeof(key));
        pfl_writer_field_bytes(&f, 1, key, sizeof(key));
        assert_false(f.failed);
        pfl_buf_clear(&w.to_service);
        assert_int_equal(pfl_gate_from_operator(w.gate, pfl_span_of(frame, sizeof(frame) - f.left)),
                         0);
    }
    assert_int_equal(w.refused, 0);
    make_bind(&bad, "ConsumerPort");
    feed(&w, &bad);
    memset(frame, 0, sizeof(frame));
    frame[1] = 0x40; /* 16 KiB */
    assert_int_equal(pfl_gate_from_service(w.gate, pfl_span_of(frame, 4 + 16 * 1024 - 1)), 0);
    make_invoke(&bad, NEW, pfl_span_of(NULL, 0));
    for (len = 0; len < 64 * 1024 - PFL_GATE_ANSWER_BYTES; len += 200)
        feed(&w, &bad);
    saved = save(w.gate);
    assert_in_range(saved.len, 1090 * 1024, PFL_GATE_SAVED_MAX_BYTES);
    drop(saved);
    replace(&w);
    make_enable(&bad, fine);
    assert_int_equal(pfl_gate_from_operator(w.gate, span_of(&bad)), 0);
    assert_non_null(strstr(w.why, "8 sessions"));
    end(&w);
}

/* Something of everything. */
static void make_rich(struct world *w)
{
    struct frame answer;
    struct frame f;

    begin(w, guests);
    bind(w);
    make_enable(&f, fine);
    feed(w, &f);
    make_bind(&f, "ConsumerPort");
    feed(w, &f);
    make_bind_answer(&answer);
    assert_int_equal(pfl_gate_from_service(w->gate, pfl_span_of(answer.bytes, 20)), 0);
    make_invoke(&f, NEW, pfl_span_of(NULL, 0));
    feed(w, &f);
}

static void a_gate_that_does_not_fit_is_not_saved(void **state)
{
    struct pfl_span saved;
    struct world w;

    (void)state;
    make_rich(&w);
    saved = save(w.gate);
    for (size_t len = 0; len < saved.len; len++) {
        struct pfl_writer out = pfl_writer_of(room, len);

        assert_int_equal(pfl_gate_save(w.gate, &out), PFL_ELIMIT);
        assert_ptr_equal(out.pos, room);
        assert_int_equal(out.left, len);
    }
    drop(saved);
    end(&w);
}

/* What is saved again at the same version is as though all of it had been written; the version
 * changes with the role, with what is held, and with nothing else. */
static void a_gate_is_saved_again_as_it_is_now(void **state)
{
    static uint8_t slot[PFL_GATE_SAVED_MAX_BYTES];
    struct pfl_writer out = pfl_writer_of(slot, sizeof(slot));
    char why[PFL_JUDGE_WHY_BYTES];
    struct pfl_span now;
    struct pfl_buf role;
    struct frame f;
    struct world w;
    uint64_t version;

    (void)state;
    begin(&w, guests);
    bind(&w);
    make_enable(&f, fine);
    version = pfl_gate_get_version(w.gate);
    assert_true(version != 0);
    feed(&w, &f);
    assert_true(pfl_gate_get_version(w.gate) > version);
    version = pfl_gate_get_version(w.gate);
    assert_int_equal(pfl_gate_save(w.gate, &out), 0);
    make_bind(&f, "ConsumerPort");
    feed(&w, &f);
    make_bind_answer(&f);
    assert_int_equal(pfl_gate_from_service(w.gate, pfl_span_of(f.bytes, 20)), 0);
    make_invoke(&f, NEW, pfl_span_of(NULL, 0));
    feed(&w, &f);
    assert_true(pfl_gate_get_version(w.gate) == version);
    out = pfl_writer_of(slot, sizeof(slot));
    assert_int_equal(pfl_gate_save_again(w.gate, &out), 0);
    now = save(w.gate);
    assert_int_equal(sizeof(slot) - out.left, now.len);
    assert_memory_equal(slot, now.data, now.len);
    drop(now);
    make_role(all, &role);
    assert_int_equal(pfl_gate_set_role(w.gate, pfl_buf_get(&role), why), 0);
    assert_true(pfl_gate_get_version(w.gate) > version);
    pfl_buf_fini(&role);
    end(&w);
}

static void a_freed_session_is_another_version(void **state)
{
    struct frame f;
    struct world w;
    uint64_t version;

    (void)state;
    begin(&w, guests);
    bind(&w);
    make_enable(&f, fine);
    feed(&w, &f);
    version = pfl_gate_get_version(w.gate);
    make_invoke(&f, FREE, pfl_span_of(NULL, 0));
    feed(&w, &f);
    assert_true(pfl_gate_get_version(w.gate) > version);
    end(&w);
}

/* Whatever was restored is a gate: it says what it is by the same bytes, and works. */
static void assert_is_a_gate(struct world *w, struct pfl_span damaged)
{
    struct pfl_gate_conf conf = conf_of(w);
    struct pfl_gate *gate = NULL;
    struct pfl_span again;
    struct frame f;
    int rc = pfl_gate_restore(&conf, damaged, &gate);

    if (rc != 0) {
        assert_int_equal(rc, PFL_EPARSE);
        assert_null(gate);
        return;
    }
    again = save(gate);
    assert_int_equal(again.len, damaged.len);
    assert_memory_equal(again.data, damaged.data, damaged.len);
    drop(again);
    pfl_buf_clear(&w->to_operator);
    pfl_buf_clear(&w->to_service);
    make_bind_answer(&f);
    rc = pfl_gate_from_service(gate, pfl_span_of(f.bytes + 20, f.len - 20));
    if (rc == 0)
        rc = pfl_gate_from_service(gate, span_of(&f));
    assert_int_equal(rc, 0);
    make_enable(&f, fine);
    assert_int_equal(pfl_gate_from_operator(gate, span_of(&f)), 0);
    pfl_gate_free(gate);
}

static void a_save_that_is_cut_or_longer_is_refused(void **state)
{
    struct pfl_gate_conf conf;
    struct pfl_gate *gate;
    struct pfl_span saved;
    struct world w;

    (void)state;
    make_rich(&w);
    conf = conf_of(&w);
    saved = save(w.gate);
    for (size_t len = 0; len < saved.len; len++) {
        uint8_t *cut = pfl_mem_memdup(saved.data, len);

        assert_non_null(cut);
        assert_int_equal(pfl_gate_restore(&conf, pfl_span_of(cut, len), &gate), PFL_EPARSE);
        pfl_mem_free(cut);
    }
    memcpy(room, saved.data, saved.len);
    room[saved.len] = 0;
    assert_int_equal(pfl_gate_restore(&conf, pfl_span_of(room, saved.len + 1), &gate), PFL_EPARSE);
    drop(saved);
    end(&w);
}

static void a_save_with_a_changed_byte_is_refused_or_another_gate(void **state)
{
    struct pfl_span saved;
    struct world w;

    (void)state;
    make_rich(&w);
    saved = save(w.gate);
    for (size_t at = 0; at < saved.len; at++) {
        uint8_t *byte = (uint8_t *)(uintptr_t)saved.data + at;
        uint8_t was = *byte;

        for (unsigned bit = 0; bit < 8; bit++) {
            *byte = (uint8_t)(was ^ 1u << bit);
            assert_is_a_gate(&w, saved);
        }
        *byte = 0xff;
        assert_is_a_gate(&w, saved);
        *byte = 0;
        assert_is_a_gate(&w, saved);
        *byte = was;
    }
    assert_is_a_gate(&w, saved);
    drop(saved);
    end(&w);
}

/* Of each state that no gate can be in, by bytes of its own. */
static void a_state_that_cannot_be_is_refused(void **state)
{
    static const struct {
        const char *rest; /* after the role */
        size_t len;
        bool is_fine;
    } cases[] = {
#define C(text, is_fine) {text, sizeof(text) - 1, is_fine}
        C("\0\0\0\0\0\0\0\0\0\0\0\0", true),                       /* as it begins */
        C("\1\6Attach\2\0\0\0\x0a\0\0\0\0\0\0\0\0\0\0\0\0", true), /* one runs */
        C("\1\6Detach\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", false),      /* that never runs */
        C("\1\6Attach\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0", false),      /* no such bytes */
        C("\0\3abc\0\0\0\0\0\0\0\0\0\0", true),                    /* most of a prefix */
        C("\0\5abcd\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0", false),        /* more than one */
        C("\0\4\2\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0", true),     /* a frame comes */
        C("\0\4\2\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0", false),    /* more than all of it */
        C("\0\4\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", false),    /* it came */
        C("\0\4\2\0\0\0\1\0\0\0\1x\0\0\0\0\1\0\0\0\0\0", true),    /* a bind's answer comes */
        C("\0\4\2\0\0\0\1\0\0\0\2x\0\0\0\0\1\0\0\0\0\0", false),   /* no yes and no no */
        C("\0\4\2\0\0\0\1\0\0\0\1x\0\0\0\0\0\0\0\0\0\0", false),   /* without a bind */
        C("\0\4\2\0\1\0\2\0\1\0\1\0\0\0\0\1\0\0\0\0\0", false),    /* too large for one */
        C("\0\1a\5\0\0\0\1\0\0\0z\0\0\0\0\0\0", true),             /* an answer waits */
        C("\0\1a\5\0\0\0\2\0\0\0z\0\0\0\0\0\0", false),            /* that is no frame */
        C("\0\0\5\0\0\0\1\0\0\0z\0\0\0\0\0\0", false),             /* for nothing */
        C("\0\0\0\0\0\0\x8\0\0\0\0\0", true),                      /* binds */
        C("\0\0\0\0\0\0\x9\0\0\0\0\0", false),                     /* too many */
        C("\0\0\0\0\0\0\0\7\0\0\0\1\7\0\0\0\5Flush", true),        /* a method */
        C("\0\0\0\0\0\0\0\7\0\0\0\1\7\0\0\0\5Fresh", false),       /* of nobody's */
        C("\0\0\0\0\0\0\0\7\0\0\0\x41", false),                    /* too many */
#undef C
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pfl_gate_conf conf = {0};
        struct pfl_gate *gate = NULL;
        struct pfl_writer w = pfl_writer_of(room, sizeof(room));
        int rc;

        pfl_writer_bytes(&w, "gat1\3\0\x0a\1r", 9);
        pfl_writer_bytes(&w, cases[i].rest, cases[i].len);
        rc = pfl_gate_restore(&conf, pfl_span_of(room, sizeof(room) - w.left), &gate);
        if (rc != (cases[i].is_fine ? 0 : PFL_EPARSE))
            fail_msg("case %zu: %d", i, rc);
        pfl_gate_free(gate);
    }
}

static int restore_once(void *arg)
{
    struct pfl_gate_conf conf = {0};
    struct pfl_gate *gate = NULL;
    int rc = pfl_gate_restore(&conf, *(struct pfl_span *)arg, &gate);

    pfl_gate_free(gate);
    return rc;
}

static void running_out_of_memory_is_reported(void **state)
{
    static uint8_t bytes[4096];
    struct pfl_span kept;
    struct pfl_span saved;
    struct world w;

    (void)state;
    make_rich(&w);
    saved = save(w.gate);
    assert_true(saved.len <= sizeof(bytes));
    memcpy(bytes, saved.data, saved.len);
    kept = pfl_span_of(bytes, saved.len);
    drop(saved);
    end(&w);
    pfl_sweep(restore_once, &kept, false);
}

static void each_name_of_a_method_fits(void **state)
{
    (void)state;
    for (int i = 0; i < PFL_METHODS; i++)
        assert_in_range(strlen(pfl_method_name((enum pfl_method)i)), 1, PFL_METHOD_NAME_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_saved_gate_goes_on_where_it_was),
        cmocka_unit_test(real_conversations_go_on_where_they_were),
        cmocka_unit_test(what_runs_is_judged_again_under_a_role_that_comes_after),
        cmocka_unit_test(the_largest_gate_fits),
        cmocka_unit_test(a_gate_that_does_not_fit_is_not_saved),
        cmocka_unit_test(a_gate_is_saved_again_as_it_is_now),
        cmocka_unit_test(a_freed_session_is_another_version),
        cmocka_unit_test(a_save_that_is_cut_or_longer_is_refused),
        cmocka_unit_test(a_save_with_a_changed_byte_is_refused_or_another_gate),
        cmocka_unit_test(a_state_that_cannot_be_is_refused),
        cmocka_unit_test(running_out_of_memory_is_reported),
        cmocka_unit_test(each_name_of_a_method_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
