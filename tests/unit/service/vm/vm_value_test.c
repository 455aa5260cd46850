/* SPDX-License-Identifier: Apache-2.0 */
/* What values cost, and that what fails costs nothing. */
#include "service/vm/vm_value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static struct pfl_vm_account account_of(size_t limit_bytes)
{
    return (struct pfl_vm_account){.limit_bytes = limit_bytes, .work_left = 1000000};
}

static void bytes_are_charged_to_the_limit_and_given_back(void **state)
{
    struct pfl_vm_account account = account_of(10);
    struct pfl_vm_value value = {0};

    (void)state;
    assert_int_equal(pfl_vm_value_set_bytes(&account, &value, pfl_span_of("0123456789", 10)),
                     PFL_VM_OK);
    assert_int_equal(account.used_bytes, 10);
    assert_int_equal(pfl_vm_value_set_bytes(&account, &value, pfl_span_of("x", 1)),
                     PFL_VM_ABORTED); /* there must be room for both */
    assert_int_equal(account.used_bytes, 10);
    assert_memory_equal(value.as.bytes.data, "0123456789", 10);
    pfl_vm_value_clear(&account, &value);
    assert_int_equal(account.used_bytes, 0);
    assert_int_equal(pfl_vm_value_set_bytes(&account, &value, pfl_span_of("0123456789a", 11)),
                     PFL_VM_ABORTED);
    assert_int_equal(pfl_vm_value_set_bytes(&account, &value, pfl_span_of("01234", 5)), PFL_VM_OK);
    assert_int_equal(pfl_vm_value_set_bytes(&account, &value, pfl_span_of("98765", 5)), PFL_VM_OK);
    assert_int_equal(account.used_bytes, 5);
    assert_memory_equal(value.as.bytes.data, "98765", 5);
    assert_int_equal(pfl_vm_value_set_bytes(&account, &value, pfl_span_of(NULL, 0)), PFL_VM_OK);
    assert_int_equal(account.used_bytes, 0);
    pfl_vm_value_clear(&account, &value);
    pfl_sweep_assert_no_leak();
}

/* A message taken apart, indexed and mapped by field 1. */
static int convert(void *arg)
{
    static const uint8_t elements[] = {0x0a, 0x04, 0x08, 0x07, 0x10, 0x01,
                                       0x0a, 0x04, 0x08, 0x09, 0x10, 0x02};
    struct pfl_vm_account account = account_of(65536);
    struct pfl_vm_value value = {0};
    enum pfl_vm_status status;

    (void)arg;
    status = pfl_vm_value_set_bytes(&account, &value, pfl_span_of(elements, sizeof(elements)));
    if (status == PFL_VM_OK)
        status = pfl_vm_value_to_message(&account, &value);
    if (status == PFL_VM_OK) {
        struct pfl_vm_entry *repeated = pfl_vm_map_find(&value.as.map, 1);

        assert_non_null(repeated);
        assert_int_equal(repeated->value.kind, PFL_VM_INDEXED);
        assert_int_equal(repeated->value.as.map.len, 2);
        status = pfl_vm_value_to_mapped(&account, &repeated->value, 1);
        if (status == PFL_VM_OK) {
            assert_non_null(pfl_vm_map_find(&repeated->value.as.map, 7));
            assert_non_null(pfl_vm_map_find(&repeated->value.as.map, 9));
        }
    }
    pfl_vm_value_clear(&account, &value);
    assert_int_equal(account.used_bytes, 0); /* whatever failed */
    assert_int_equal(value.kind, PFL_VM_EMPTY);
    return status == PFL_VM_OK ? 0 : PFL_ENOMEM;
}

static void what_fails_for_lack_of_memory_costs_nothing(void **state)
{
    (void)state;
    pfl_sweep(convert, NULL, false);
}

static void elements_that_are_messages_get_their_keys_or_the_reason(void **state)
{
    static const struct {
        uint8_t bytes[8];
        size_t len;
        const char *why; /* NULL: it has the key 7 */
    } cases[] = {
        {{0x0a, 0x02, 0x08, 0x07}, 4, NULL},
        {{0x0a, 0x02, 0x10, 0x07}, 4, "an element has no key"},
        {{0x0a, 0x02, 0x0a, 0x00}, 4, "an element's key is no number"},
        {{0x08, 0x07}, 2, "a field is no message"},
    };

    (void)state;
    for (unsigned is_apart = 0; is_apart < 2; is_apart++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            struct pfl_vm_account account = account_of(65536);
            struct pfl_vm_value value = {0};
            struct pfl_vm_entry *field;
            enum pfl_vm_status status;

            assert_int_equal(
                pfl_vm_value_set_bytes(&account, &value, pfl_span_of(cases[i].bytes, cases[i].len)),
                PFL_VM_OK);
            assert_int_equal(pfl_vm_value_to_message(&account, &value), PFL_VM_OK);
            field = pfl_vm_map_find(&value.as.map, 1);
            assert_non_null(field);
            if (is_apart != 0 && field->value.kind == PFL_VM_BYTES)
                assert_int_equal(pfl_vm_value_to_message(&account, &field->value), PFL_VM_OK);
            status = pfl_vm_value_to_mapped(&account, &field->value, 1);
            if (cases[i].why == NULL) {
                assert_int_equal(status, PFL_VM_OK);
                assert_non_null(pfl_vm_map_find(&field->value.as.map, 7));
            } else {
                assert_int_equal(status, PFL_VM_ABORTED);
                assert_string_equal(account.why, cases[i].why);
            }
            pfl_vm_value_clear(&account, &value);
            assert_int_equal(account.used_bytes, 0);
        }
    }
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_charged_to_the_limit_and_given_back),
        cmocka_unit_test(what_fails_for_lack_of_memory_costs_nothing),
        cmocka_unit_test(elements_that_are_messages_get_their_keys_or_the_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
