/* SPDX-License-Identifier: Apache-2.0 */
/* Orders for people and for programs: states, and strings of peers shown harmless. */
#include "consumer/report/order_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "consumer/text.h"
#include "tests/support/recorded.h"
#include "tests/support/sweep.h"

struct made {
    Perfleet__Order order;
    Perfleet__Order__Once once;
    Perfleet__HostOrderState state;
    Perfleet__OrderStatus__Host host;
    Perfleet__OrderStatus__Host *hosts[1];
    Perfleet__OrderStatus status;
    Perfleet__OrderStatus *list[1];
};

static void make(struct made *m)
{
    perfleet__order__init(&m->order);
    perfleet__order__once__init(&m->once);
    perfleet__host_order_state__init(&m->state);
    perfleet__order_status__host__init(&m->host);
    perfleet__order_status__init(&m->status);
    m->order.name = (char *)"web";
    m->order.once = &m->once;
    m->state.state = PERFLEET__HOST_ORDER_STATE__STATE__REFUSED;
    m->state.why = (char *)"no\x1b[31m right";
    m->state.behind_segments = 3;
    m->state.behind_bytes = 2500000;
    m->state.behind_ms = 9000;
    m->host.name = (char *)"one";
    m->host.state = &m->state;
    m->host.is_connected = 1;
    m->hosts[0] = &m->host;
    m->status.order = &m->order;
    m->status.orderer = (char *)"ann";
    m->status.generation = 7;
    m->status.host = m->hosts;
    m->status.n_host = 1;
    m->list[0] = &m->status;
}

static void expect(struct pfl_buf *out, const char *text)
{
    pfl_record_bytes("orders", pfl_buf_get(out));
    assert_int_equal(pfl_buf_append(out, "", 1), 0);
    if (strstr((const char *)pfl_buf_get(out).data, text) == NULL)
        fail_msg("%s is not in: %s", text, (const char *)pfl_buf_get(out).data);
    assert_null(strchr((const char *)pfl_buf_get(out).data, '\x1b'));
    pfl_buf_fini(out);
}

/* The orders, one after the other, as one table. */
static int write(enum pfl_order_table_form form, Perfleet__OrderStatus *const *orders, size_t len,
                 struct pfl_buf *out)
{
    struct pfl_order_table table;
    int rc = 0;

    pfl_order_table_init(&table, form, out);
    for (size_t i = 0; rc == 0 && i < len; i++)
        rc = pfl_order_table_add(&table, orders[i]);
    if (rc == 0)
        rc = pfl_order_table_end(&table);
    pfl_order_table_fini(&table);
    return rc;
}

static int show(Perfleet__OrderStatus *order, struct pfl_buf *out)
{
    return write(PFL_ORDER_TABLE_SHOW, &order, 1, out);
}

static void a_host_says_what_it_does_and_how_far_behind_it_is(void **state)
{
    struct pfl_buf out;
    struct made m;

    (void)state;
    make(&m);
    pfl_buf_init(&out, 1 << 16);
    assert_int_equal(show(&m.status, &out), 0);
    expect(&out, "behind by 3 segments, 2.5 MB, 9 s");
    assert_int_equal(show(&m.status, &out), 0);
    expect(&out, "web of ann: once, generation 7\n");
    m.host.state = NULL;
    m.host.is_connected = 0;
    assert_int_equal(show(&m.status, &out), 0);
    expect(&out, "unknown   not connected");
}

static void an_order_on_a_trigger_says_what_it_copied_and_what_not(void **state)
{
    struct pfl_buf out;
    struct made m;

    (void)state;
    pfl_text_init_json();
    make(&m);
    pfl_buf_init(&out, 1 << 16);
    assert_int_equal(show(&m.status, &out), 0);
    assert_null(memmem(pfl_buf_get(&out).data, pfl_buf_get(&out).len, "copies", 6));
    pfl_buf_fini(&out);
    m.state.has_copies = m.state.has_skipped = 1;
    m.state.copies = 4;
    m.state.skipped = 9;
    assert_int_equal(show(&m.status, &out), 0);
    expect(&out, "  4 copies, 9 skipped  ");
    assert_int_equal(write(PFL_ORDER_TABLE_JSON, m.list, 1, &out), 0);
    expect(&out, "\"copies\": 4");
    assert_int_equal(write(PFL_ORDER_TABLE_JSON, m.list, 1, &out), 0);
    expect(&out, "\"skipped\": 9");
}

static void a_list_counts_hosts_and_json_has_them(void **state)
{
    struct pfl_buf out;
    struct made m;

    (void)state;
    pfl_text_init_json();
    make(&m);
    m.order.paused = 1;
    pfl_buf_init(&out, 1 << 16);
    assert_int_equal(write(PFL_ORDER_TABLE_LIST, m.list, 1, &out), 0);
    expect(&out, "once             1        0        1  paused\n");
    assert_int_equal(write(PFL_ORDER_TABLE_JSON, m.list, 1, &out), 0);
    expect(&out, "\"state\": \"refused\"");
    assert_int_equal(write(PFL_ORDER_TABLE_LIST, m.list, 0, &out), 0);
    expect(&out, "no orders");
    /* A collector that sends nothing of it. */
    m.status.order = NULL;
    m.status.orderer = NULL;
    assert_int_equal(write(PFL_ORDER_TABLE_JSON, m.list, 1, &out), 0);
    expect(&out, "\"when\": \"?\"");
    pfl_sweep_assert_no_leak();
}

static unsigned count_of(const char *text, const char *what)
{
    unsigned n = 0;

    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        n++;
    return n;
}

static void parts_of_an_order_are_one(void **state)
{
    static const enum pfl_order_table_form forms[] = {PFL_ORDER_TABLE_LIST, PFL_ORDER_TABLE_SHOW,
                                                      PFL_ORDER_TABLE_JSON};
    static const char *const counts[] = {"     2        0        2\n", "  one ",
                                         "\"name\": \"one\""};
    static const char *const names[] = {"web ", "web of ann", "\"name\": \"web\""};
    Perfleet__OrderStatus *parts[3];
    Perfleet__OrderStatus other;
    struct pfl_buf out;
    struct made m;

    (void)state;
    pfl_text_init_json();
    make(&m);
    other = m.status;
    other.orderer = (char *)"bob";
    other.n_host = 0;
    parts[0] = parts[1] = &m.status;
    parts[2] = &other;
    for (unsigned i = 0; i < 3; i++) {
        const char *text;

        pfl_buf_init(&out, 1 << 16);
        assert_int_equal(write(forms[i], parts, 3, &out), 0);
        assert_int_equal(pfl_buf_append(&out, "", 1), 0);
        text = (const char *)pfl_buf_get(&out).data;
        assert_int_equal(count_of(text, counts[i]), forms[i] == PFL_ORDER_TABLE_LIST ? 1 : 2);
        assert_int_equal(count_of(text, names[i]), forms[i] == PFL_ORDER_TABLE_SHOW ? 1 : 2);
        assert_int_equal(count_of(text, "NAME "), forms[i] == PFL_ORDER_TABLE_LIST);
        assert_int_equal(count_of(text, "no host has it"), forms[i] == PFL_ORDER_TABLE_SHOW);
        pfl_buf_fini(&out);
    }
    pfl_sweep_assert_no_leak();
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0xd41846f0ca7573a0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_says_what_it_does_and_how_far_behind_it_is),
        cmocka_unit_test(an_order_on_a_trigger_says_what_it_copied_and_what_not),
        cmocka_unit_test(a_list_counts_hosts_and_json_has_them),
        cmocka_unit_test(parts_of_an_order_are_one),
        cmocka_unit_test(all_of_this_is_as_recorded),
    };

    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
