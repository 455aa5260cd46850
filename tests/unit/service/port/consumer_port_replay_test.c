/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays recorded consumers against the service: each recorded request must get a reply of the
 * recorded shape.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/capture.h"
#include "tests/unit/service/port/role_kit.h"

#define MAX_REQUESTS 32u
#define STEP_MS      100u
#define MAX_STEPS    200
#define TRIGGER_STEP 5 /* when a producer activates the trigger of consumer-trigger.cap */

/* How one request was answered. */
struct answer {
    uint64_t id;
    bool is_last_seen;
    bool success; /* of the last frame */
    bool has_body;
    struct pfl_span body; /* of the last frame; ours is not kept */
    char said[512];       /* ours: the last body as bytes */
    size_t said_len;
};

struct answers {
    struct answer list[MAX_REQUESTS];
    size_t len;
};

static struct answer *answer_of(struct answers *answers, uint64_t id)
{
    for (size_t i = 0; i < answers->len; i++) {
        if (answers->list[i].id == id)
            return &answers->list[i];
    }
    assert_true(answers->len < MAX_REQUESTS);
    answers->list[answers->len] = (struct answer){.id = id};
    return &answers->list[answers->len++];
}

static struct pfl_field get_field(struct pfl_span bytes, uint32_t id)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == id)
            return f;
    }
    return (struct pfl_field){0};
}

static void note_recorded(struct answers *recorded, struct pfl_span payload)
{
    struct pfl_span reply = get_field(payload, 6).bytes;
    struct answer *answer;

    if (reply.len == 0)
        return;
    answer = answer_of(recorded, get_field(payload, 2).value);
    answer->success = get_field(reply, 1).value != 0;
    answer->is_last_seen = get_field(reply, 2).value == 0;
    answer->has_body = answer->has_body || get_field(reply, 3).bytes.len != 0;
}

static void note_ours(struct answers *ours, const struct pfl_kit_reply *reply)
{
    struct answer *answer = answer_of(ours, reply->request_id);
    size_t len = reply->body_len < sizeof(answer->said) ? reply->body_len : sizeof(answer->said);

    answer->success = reply->success;
    answer->is_last_seen = !reply->has_more;
    answer->has_body = answer->has_body || reply->body_len != 0;
    if (len != 0)
        memcpy(answer->said, reply->body, len);
    answer->said_len = len;
}

/* Takes what comes until the request that the recording answered next is answered here too. */
static void await(struct pfl_kit_client *producer, struct pfl_kit_client *client,
                  struct answers *ours, uint64_t id)
{
    struct pfl_kit_reply reply;

    for (int i = 0; i < MAX_STEPS && !answer_of(ours, id)->is_last_seen;) {
        if (!pfl_kit_client_take(client, &reply)) {
            pfl_port_kit_pass_ms(client->kit, STEP_MS);
            if (++i == TRIGGER_STEP)
                (void)pfl_kit_client_call(producer, KIT_TRIGGERS,
                                          (struct pfl_kit_args){.string1 = "boom"});
            continue;
        }
        note_ours(ours, &reply);
        pfl_kit_reply_free(&reply);
    }
}

/* The service, and a producer whose trigger comes when a consumer waits long. */
struct stage {
    struct pfl_port_kit kit;
    struct pfl_kit_client producer;
    int fds[2];
};

static void open_stage(struct stage *stage)
{
    assert_int_equal(pipe(stage->fds), 0);
    pfl_port_kit_open(&stage->kit);
    (void)pfl_kit_producer_open(&stage->producer, &stage->kit, "x.of_nobody", 0);
}

static void close_stage(struct stage *stage)
{
    pfl_kit_client_close(&stage->producer);
    pfl_port_kit_close(&stage->kit);
    (void)close(stage->fds[0]);
    (void)close(stage->fds[1]);
}

static void replay(struct stage *stage, const char *name, struct answers *recorded,
                   struct answers *ours)
{
    struct pfl_capture cap;
    struct pfl_capture_record record;
    struct pfl_kit_client client;

    *recorded = (struct answers){0};
    *ours = (struct answers){0};
    pfl_kit_consumer_open(&client, &stage->kit);
    pfl_capture_open(&cap, name);
    while (pfl_capture_next(&cap, &record)) {
        bool is_invoke = get_field(record.payload, 5).bytes.len != 0;

        if (record.kind != PFL_CAPTURE_FRAME)
            continue;
        if (!record.is_from_service && is_invoke)
            pfl_kit_client_send_frame(&client, record.payload,
                                      record.fds != 0 ? stage->fds[1] : -1);
        if (!record.is_from_service)
            continue;
        note_recorded(recorded, record.payload);
        if (get_field(record.payload, 6).bytes.len != 0)
            await(&stage->producer, &client, ours, get_field(record.payload, 2).value);
    }
    pfl_capture_close(&cap);
    pfl_kit_client_close(&client);
}

static void expect_same_shape(struct answers *recorded, struct answers *ours)
{
    assert_true(recorded->len > 0);
    assert_int_equal(recorded->len, ours->len);
    for (size_t j = 0; j < recorded->len; j++) {
        const struct answer *want = &recorded->list[j];
        const struct answer *got = answer_of(ours, want->id);

        assert_int_equal(want->is_last_seen, got->is_last_seen);
        assert_int_equal(want->success, got->success);
        assert_int_equal(want->has_body, got->has_body);
    }
}

static void recorded_consumers_get_replies_of_the_recorded_shape(void **state)
{
    static const char *const names[] = {
        "consumer-query.cap",           "consumer-read-small.cap",   "consumer-read-fragmented.cap",
        "consumer-read-trackevent.cap", "consumer-clone-source.cap", "consumer-trigger.cap",
        "consumer-write-into-file.cap"};
    static struct answers recorded;
    static struct answers ours;
    static struct stage stage;

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        open_stage(&stage);
        replay(&stage, names[i], &recorded, &ours);
        expect_same_shape(&recorded, &ours);
        close_stage(&stage);
    }
}

static void one_session_is_recorded_over_three_connections(void **state)
{
    static const char *const names[] = {"consumer-detach.cap", "consumer-attach-query.cap",
                                        "consumer-attach-stop.cap"};
    static struct answers recorded;
    static struct answers ours;
    static struct stage stage;

    (void)state;
    open_stage(&stage);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        replay(&stage, names[i], &recorded, &ours);
        expect_same_shape(&recorded, &ours);
    }
    close_stage(&stage);
}

static void a_recorded_clone_of_a_session_that_is_not_there_is_refused_in_words(void **state)
{
    static struct answers recorded;
    static struct answers ours;
    static struct stage stage;
    const struct answer *got;

    (void)state;
    open_stage(&stage);
    replay(&stage, "consumer-clone.cap", &recorded, &ours);
    got = answer_of(&ours, 2);
    assert_true(got->is_last_seen && got->success);
    assert_non_null(memmem(got->said, got->said_len, "no such session", 15));
    close_stage(&stage);
}

static void a_recorded_clone_of_a_running_session_has_the_recorded_shape(void **state)
{
    static struct answers recorded;
    static struct answers ours;
    static struct stage stage;
    struct pfl_kit_client source;
    struct pfl_capture cap;
    struct pfl_capture_record record;

    (void)state;
    open_stage(&stage);
    pfl_kit_consumer_open(&source, &stage.kit);
    pfl_capture_open(&cap, "consumer-clone-source.cap");
    while (pfl_capture_next(&cap, &record)) {
        if (record.kind != PFL_CAPTURE_FRAME || record.is_from_service ||
            get_field(record.payload, 5).bytes.len == 0)
            continue;
        pfl_kit_client_send_frame(&source, record.payload, -1);
        pfl_port_kit_run(&stage.kit);
        if (!pfl_list_is_empty(&stage.kit.service.sessions))
            break;
    }
    pfl_capture_close(&cap);
    assert_int_equal(stage.kit.service.sessions_len, 1);
    replay(&stage, "consumer-clone.cap", &recorded, &ours);
    expect_same_shape(&recorded, &ours);
    pfl_kit_client_close(&source);
    close_stage(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_consumers_get_replies_of_the_recorded_shape),
        cmocka_unit_test(one_session_is_recorded_over_three_connections),
        cmocka_unit_test(a_recorded_clone_of_a_session_that_is_not_there_is_refused_in_words),
        cmocka_unit_test(a_recorded_clone_of_a_running_session_has_the_recorded_shape),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
