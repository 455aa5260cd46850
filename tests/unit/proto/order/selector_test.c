/* SPDX-License-Identifier: Apache-2.0 */
/* On which hosts an order is. */
#include "proto/order/selector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static char *labels[] = {(char *)"role=web", (char *)"zone=b/1", (char *)"flag"};
static struct pfl_selector_labels list = {labels, 3};

static bool fits(const char *host, const char *label)
{
    Perfleet__HostSelector s = PERFLEET__HOST_SELECTOR__INIT;
    struct pfl_selector_host h = {"web-3", pfl_selector_labels_get, &list};

    s.host = (char **)&host;
    s.n_host = host != NULL;
    s.label = (char **)&label;
    s.n_label = label != NULL;
    assert_null(pfl_selector_check(&s));
    return pfl_selector_fits(&s, &h);
}

static void names_and_labels_fit_by_patterns(void **state)
{
    (void)state;
    assert_true(fits(NULL, NULL));
    assert_true(fits("web-*", NULL));
    assert_true(fits("web-3", "role=w*"));
    assert_true(fits("*", "zone=b/*"));
    assert_false(fits("db-*", NULL));
    assert_false(fits("web-3", "role=db"));
    assert_false(fits("web-3", "tier=*"));
    assert_false(fits("web-3", "rol=web"));
    assert_false(fits("web-3", "flag=*"));
    assert_false(fits("web", NULL));
}

static void one_host_and_all_labels_must_fit(void **state)
{
    static char *hosts[] = {(char *)"db-*", (char *)"web-*"};
    static char *wanted[] = {(char *)"role=web", (char *)"zone=c/*"};
    Perfleet__HostSelector s = PERFLEET__HOST_SELECTOR__INIT;
    struct pfl_selector_host h = {"web-3", pfl_selector_labels_get, &list};

    (void)state;
    s.host = hosts;
    s.n_host = 2;
    assert_true(pfl_selector_fits(&s, &h));
    s.label = wanted;
    s.n_label = 1;
    assert_true(pfl_selector_fits(&s, &h));
    s.n_label = 2;
    assert_false(pfl_selector_fits(&s, &h));
    h.get_label = NULL; /* nothing is known of it yet */
    s.n_label = 1;
    assert_false(pfl_selector_fits(&s, &h));
}

static void what_is_no_selector_is_refused(void **state)
{
    static const char *const bad_hosts[] = {"", "a b", "a/b", "\xc3\xa4", "a\nb"};
    static const char *const bad_labels[] = {"", "a", "=a", "a=", "a=b c", "a=\"b", "a=\x1b"};
    Perfleet__HostSelector s = PERFLEET__HOST_SELECTOR__INIT;
    char *many[PFL_SELECTOR_MAX_PATTERNS + 1];
    char *one;

    (void)state;
    s.host = &one;
    s.n_host = 1;
    for (size_t i = 0; i < sizeof(bad_hosts) / sizeof(bad_hosts[0]); i++) {
        one = (char *)bad_hosts[i];
        assert_non_null(pfl_selector_check(&s));
    }
    s.n_host = 0;
    s.label = &one;
    s.n_label = 1;
    for (size_t i = 0; i < sizeof(bad_labels) / sizeof(bad_labels[0]); i++) {
        one = (char *)bad_labels[i];
        assert_non_null(pfl_selector_check(&s));
    }
    for (size_t i = 0; i <= PFL_SELECTOR_MAX_PATTERNS; i++)
        many[i] = (char *)"a=b";
    s.label = many;
    s.n_label = PFL_SELECTOR_MAX_PATTERNS;
    assert_null(pfl_selector_check(&s));
    s.n_label++;
    assert_non_null(pfl_selector_check(&s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_labels_fit_by_patterns),
        cmocka_unit_test(one_host_and_all_labels_must_fit),
        cmocka_unit_test(what_is_no_selector_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
