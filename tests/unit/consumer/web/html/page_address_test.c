/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of pages: values cannot end them, nor the line that they stand in. */
#include "consumer/web/html/page_address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct pfl_page_address address;

static void values_are_encoded(void **state)
{
    (void)state;
    pfl_page_address_begin(&address, "/traces");
    assert_string_equal(address.text, "/traces");
    pfl_page_address_add(&address, "none", "");
    assert_string_equal(address.text, "/traces");
    pfl_page_address_add(&address, "host", "aZ09-._~");
    assert_string_equal(address.text, "/traces?host=aZ09-._~");
    pfl_page_address_add(&address, "a b", "\r\nX: \xff&=?#/%");
    assert_string_equal(address.text,
                        "/traces?host=aZ09-._~&a%20b=%0D%0AX%3A%20%FF%26%3D%3F%23%2F%25");
    assert_int_equal(address.len, strlen(address.text));
}

static void parameter_is_added_whole_or_not(void **state)
{
    char value[PFL_PAGE_ADDRESS_MAX_BYTES];

    (void)state;
    memset(value, 'x', sizeof(value));
    for (size_t len = PFL_PAGE_ADDRESS_MAX_BYTES - 8; len < PFL_PAGE_ADDRESS_MAX_BYTES; len++) {
        pfl_page_address_begin(&address, "/p");
        value[len] = '\0';
        pfl_page_address_add(&address, "a", value); /* "/p?a=" and a NUL are six more */
        value[len] = 'x';
        assert_int_equal(strlen(address.text), len + 6 <= sizeof(value) ? len + 5 : 2);
        pfl_page_address_add(&address, "b", "%");
        assert_int_equal(address.len, strlen(address.text));
    }
    assert_string_equal(address.text, "/p?b=%25");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_encoded),
        cmocka_unit_test(parameter_is_added_whole_or_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
