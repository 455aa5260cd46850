/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests are refused before anything is done, and in which words. */
#include "collector/serve/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "perfleet/policy.fields.h"
#include "proto/gate/policy.h"
#include "tests/support/sweep.h"

static const char all[] = "rule { name: \"all\" operator: \"ann\" host: \"*\" }";
static const char reader[] = "rule { name: \"r\" operator: \"ann\" host: \"*\" role: \"reader\" }\n"
                             "role { name: \"reader\" traces: true }";

static char why[PFL_REQUEST_WHY_BYTES];
static struct pfl_checked_request asked;

static unsigned judge_by(const char *policy, const Perfleet__CollectorRequest *request)
{
    char reason[PFL_POLICY_WHY_BYTES];
    struct pfl_scope *scope;
    unsigned status;

    assert_int_equal(pfl_scope_new(pfl_span_of(policy, strlen(policy)), "ann", reason, &scope), 0);
    why[0] = '\0';
    status = pfl_request_check(request, scope, "ann", &asked, why);
    assert_true((status == 0) == (why[0] == '\0'));
    pfl_scope_free(scope);
    return status;
}

static unsigned judge(const Perfleet__CollectorRequest *request)
{
    return judge_by(all, request);
}

static char *text(const char *string)
{
    return (char *)(uintptr_t)string;
}

static void exactly_one_part_is_asked(void **state)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__Empty empty = PERFLEET__COLLECTOR_REQUEST__EMPTY__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;

    (void)state;
    assert_int_equal(judge(&q), 400);
    assert_int_equal(asked.kind, PFL_REQUEST_NONE);
    q.missing = &empty;
    assert_int_equal(judge(&q), 0);
    assert_int_equal(asked.kind, PFL_REQUEST_MISSING);
    q.list = &query;
    assert_int_equal(judge(&q), 400);
    assert_int_equal(asked.kind, PFL_REQUEST_NONE);
}

/* A request without a choice would be about everything that there is. */
static void changes_want_a_selection(void **state)
{
    Perfleet__CollectorRequest list = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest rm = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    char *hosts[] = {text("web*")};

    (void)state;
    list.list = &query;
    rm.remove = &query;
    query.limit = 10;
    query.oldest_first = 1;
    assert_int_equal(judge(&list), 0);
    assert_int_equal(judge(&rm), 400);
    query.host = hosts;
    query.n_host = 1;
    assert_int_equal(judge(&rm), 0);
    query.look_at = 5;
    assert_int_equal(judge(&list), 0);
    assert_int_equal(judge(&rm), 400); /* what it did not look at would stay, without a word */
    query.look_at = 0;
    assert_int_equal(asked.right, ROLE__MANAGE_TRACES);
    assert_ptr_equal(asked.query, &query);
}

static void what_is_too_long_is_refused(void **state)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    char longer[PFL_INDEX_NAME_BYTES + 1];
    uint8_t cursor[PFL_INDEX_CURSOR_BYTES + 1] = {0};

    (void)state;
    q.list = &query;
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    query.orderer = longer;
    assert_int_equal(judge(&q), 400);
    longer[PFL_INDEX_NAME_BYTES - 1] = '\0';
    assert_int_equal(judge(&q), 0);
    query.has_after = 1;
    query.after = (ProtobufCBinaryData){sizeof(cursor), cursor};
    assert_int_equal(judge(&q), 400);
    query.after.len--;
    assert_int_equal(judge(&q), 0);
    query.n_id = PFL_INDEX_LIMIT_MAX + 1;
    assert_int_equal(judge(&q), 400);
}

static void a_pin_has_a_reason(void **state)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__PinRequest part = PERFLEET__COLLECTOR_REQUEST__PIN_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    Perfleet__StoredTrace__Pin pin = PERFLEET__STORED_TRACE__PIN__INIT;
    char longer[300] = "";

    (void)state;
    query.pinned = 1;
    q.pin = &part;
    assert_int_equal(judge(&q), 400);
    part.what = &query;
    part.pin = &pin;
    assert_int_equal(judge(&q), 400);
    pin.reason = text("");
    assert_int_equal(judge(&q), 400);
    memset(longer, 'x', sizeof(longer) - 1);
    pin.reason = longer;
    assert_int_equal(judge(&q), 400);
    pin.reason = text("the outage of May");
    assert_int_equal(judge(&q), 0);
}

static void a_sum_has_a_time_and_cells(void **state)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__SumRequest part = PERFLEET__COLLECTOR_REQUEST__SUM_REQUEST__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;
    char *ids[] = {text("01JD0000000000000000000000")};
    char longer[300] = "";

    (void)state;
    q.sum = &part;
    part.cells = 96;
    assert_int_equal(judge(&q), 400);
    part.what = &query;
    assert_int_equal(judge(&q), 400);
    query.begin_unix_ns = 100;
    query.end_unix_ns = 196;
    assert_int_equal(judge(&q), 0);
    assert_int_equal(asked.kind, PFL_REQUEST_SUM);
    assert_int_equal(asked.right, ROLE__TRACES);
    assert_ptr_equal(asked.query, &query);
    assert_int_equal(judge_by("", &q), 403);
    part.cells = 97;
    query.end_unix_ns = 1000;
    assert_int_equal(judge(&q), 400);
    part.cells = 0;
    assert_int_equal(judge(&q), 400);
    assert_string_equal(why, "a sum has 1 to 96 cells");
    part.cells = 1;
    query.end_unix_ns = 100;
    assert_int_equal(judge(&q), 400);
    assert_string_equal(why, "a sum has a time with a begin and an end");
    query.end_unix_ns = UINT64_MAX;
    assert_int_equal(judge(&q), 400);
    query.end_unix_ns = INT64_MAX;
    assert_int_equal(judge(&q), 0);
    query.limit = 1;
    assert_int_equal(judge(&q), 400);
    query.limit = 0;
    query.id = ids;
    query.n_id = 1;
    assert_int_equal(judge(&q), 400);
    query.n_id = 0;
    memset(longer, 'x', PFL_INDEX_NAME_BYTES);
    part.label = longer;
    assert_int_equal(judge(&q), 400);
    longer[PFL_INDEX_NAME_BYTES - 1] = '\0';
    assert_int_equal(judge(&q), 0);
}

static void rights_are_those_of_the_policy(void **state)
{
    Perfleet__CollectorRequest list = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest unpin = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest show = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest pause = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__OrderRef ref = PERFLEET__COLLECTOR_REQUEST__ORDER_REF__INIT;
    Perfleet__TraceQuery query = PERFLEET__TRACE_QUERY__INIT;

    (void)state;
    query.pinned = 1;
    ref.name = text("web");
    list.list = &query;
    unpin.unpin = &query;
    show.show_order = &ref;
    pause.pause_order = &ref;
    assert_int_equal(judge_by(reader, &list), 0);
    assert_int_equal(judge_by(reader, &show), 0);
    assert_int_equal(judge_by(reader, &unpin), 403);
    assert_non_null(strstr(why, "manage_traces"));
    assert_int_equal(judge_by(reader, &pause), 403);
    assert_non_null(strstr(why, "no order at"));
    assert_int_equal(judge_by("", &list), 403);
    assert_int_equal(judge_by("", &show), 403);
}

static void orders_of_others_are_only_shown(void **state)
{
    Perfleet__CollectorRequest show = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest rm = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__OrderRef ref = PERFLEET__COLLECTOR_REQUEST__ORDER_REF__INIT;

    (void)state;
    show.show_order = &ref;
    rm.remove_order = &ref;
    assert_int_equal(judge(&show), 0);
    assert_int_equal(judge(&rm), 400);
    ref.name = text("web");
    assert_int_equal(judge(&rm), 0);
    ref.orderer = text("ann");
    assert_int_equal(judge(&rm), 0);
    ref.orderer = text("bob");
    assert_int_equal(judge(&rm), 403);
    assert_int_equal(judge(&show), 0);
}

static void an_order_is_checked(void **state)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__Order order = PERFLEET__ORDER__INIT;

    (void)state;
    q.put_order = &order;
    assert_int_equal(judge(&q), 400);
    assert_true(strlen(why) > 10);
}

static void each_kind_has_a_name(void **state)
{
    (void)state;
    for (int kind = PFL_REQUEST_NONE; kind <= PFL_REQUEST_SUM; kind++)
        assert_non_null(pfl_request_name((enum pfl_request_kind)kind));
    assert_true(pfl_request_is_change(PFL_REQUEST_REMOVE));
    assert_false(pfl_request_is_change(PFL_REQUEST_VERIFY));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_one_part_is_asked),
        cmocka_unit_test(changes_want_a_selection),
        cmocka_unit_test(what_is_too_long_is_refused),
        cmocka_unit_test(a_pin_has_a_reason),
        cmocka_unit_test(a_sum_has_a_time_and_cells),
        cmocka_unit_test(rights_are_those_of_the_policy),
        cmocka_unit_test(orders_of_others_are_only_shown),
        cmocka_unit_test(an_order_is_checked),
        cmocka_unit_test(each_kind_has_a_name),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    pfl_sweep_assert_no_leak();
    return failed;
}
