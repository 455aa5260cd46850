/* SPDX-License-Identifier: Apache-2.0 */
/* A refusal's status, sentence and body, with texts that a peer chose. */
#include "proto/h2/problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/proto/h2/h2_kit.h"

static struct pfl_problem problem;
static char sentence[1024];
static char type[64];
static char got[300];                  /* by pfl_problem_get */
static const struct pfl_h2_field *odd; /* a peer's own field, instead of a problem; NULL: none */

static void serve_problem(struct pfl_h2_stream *stream)
{
    if (odd == NULL)
        pfl_problem_respond(stream, &problem);
    else
        assert_int_equal(pfl_h2_stream_respond_whole(stream, 503, odd, 1, pfl_span_of(NULL, 0)), 0);
}

static void on_response(void *user, const struct pfl_h2_head *head)
{
    const char *text = pfl_h2_head_get(head, "perfleet-problem");
    const char *mime = pfl_h2_head_get(head, "content-type");

    ((struct side *)user)->status = pfl_h2_head_get_status(head);
    pfl_problem_get(head, got, sizeof(got));
    (void)snprintf(sentence, sizeof(sentence), "%s", text != NULL ? text : "(none)");
    (void)snprintf(type, sizeof(type), "%s", mime != NULL ? mime : "(none)");
}

/* Asks, is refused, and gives the body. */
static const char *ask(void)
{
    static char body[1024];
    static struct pfl_h2_stream_ops ops;
    struct pfl_h2_request request = {
        .method = "GET", .path = "/v1/hosts", .ops = &ops, .user = &kit.client};

    ops = h2_kit_ask_ops;
    ops.on_response = on_response;
    kit.serve = serve_problem;
    assert_int_equal(h2_kit_open(), 0);
    h2_kit_pump();
    assert_int_equal(pfl_h2_request(kit.client_h2, &request, &kit.client.stream), 0);
    h2_kit_pump();
    assert_int_equal(kit.client.ends, 1);
    assert_true(kit.client.got.len < sizeof(body));
    if (kit.client.got.len != 0)
        memcpy(body, pfl_buf_get(&kit.client.got).data, kit.client.got.len);
    body[kit.client.got.len] = '\0';
    return body;
}

static void a_refusal_is_a_sentence_for_people_and_a_body_for_machines(void **state)
{
    (void)state;
    problem = (struct pfl_problem){404, "relay", "unknown host", "there is no host ~a b!"};
    assert_string_equal(ask(),
                        "{\"status\": 404, \"where\": \"relay\", \"title\": \"unknown host\","
                        " \"detail\": \"there is no host ~a b!\"}\n");
    assert_int_equal(kit.client.status, 404);
    assert_string_equal(sentence, "unknown host: there is no host ~a b!");
    assert_string_equal(type, "application/problem+json");
}

static void characters_that_could_end_a_text_are_replaced(void **state)
{
    (void)state;
    problem = (struct pfl_problem){400, "agent", "t", "a\"b\\c\x1f\x7f\xc3\n."};
    assert_non_null(strstr(ask(), "\"detail\": \"a?b?c????.\"}"));
    assert_string_equal(sentence, "t: a?b?c????.");
}

static void a_long_text_is_cut(void **state)
{
    static char text[500];

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    problem = (struct pfl_problem){500, "agent", text, text};
    assert_int_equal(strlen(ask()),
                     strlen("{\"status\": 500, \"where\": \"agent\", \"title\": \"\","
                            " \"detail\": \"\"}\n") +
                         2 * 239);
    assert_int_equal(strlen(sentence), 2 * 239 + 2);
}

/* HTTP/2 lets all bytes from 0x80 on pass: C1 controls, in UTF-8 or not, and directions. */
static void what_a_peer_wrote_itself_does_nothing_to_a_terminal(void **state)
{
    static const struct pfl_h2_field fields[] = {
        {"perfleet-problem", "a\302\2332J \23331m\342\200\256\tb"}, {"other", "x"}};

    (void)state;
    for (odd = &fields[0]; odd != &fields[2]; odd++) {
        (void)ask();
        assert_string_equal(got, odd == &fields[0] ? "a??2J ?31m????b" : "");
        (void)h2_kit_teardown(state);
        (void)h2_kit_setup(state);
    }
    odd = NULL;
}

#define T(name) cmocka_unit_test_setup_teardown(name, h2_kit_setup, h2_kit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_refusal_is_a_sentence_for_people_and_a_body_for_machines),
        T(characters_that_could_end_a_text_are_replaced),
        T(a_long_text_is_cut),
        T(what_a_peer_wrote_itself_does_nothing_to_a_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
