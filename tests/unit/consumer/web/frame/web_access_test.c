/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests come from the operator's own pages. */
#include "consumer/web/frame/web_access.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

#define HERE "127.0.0.1:8040"

static struct pfl_web_access access_to;
static char cookies[128];

static int open_access(void **state)
{
    uint8_t random[PFL_WEB_RANDOM_BYTES];

    (void)state;
    for (unsigned i = 0; i < sizeof(random); i++)
        random[i] = (uint8_t)(i * 5);
    pfl_web_access_init(&access_to, 8040, random);
    (void)snprintf(cookies, sizeof(cookies), "x=1; perfleet-8040=%s", access_to.cookie);
    return 0;
}

static struct pfl_http_request page(const char *method, const char *path)
{
    return (struct pfl_http_request){
        .method = method, .path = path, .query = "", .host = HERE, .cookie = cookies};
}

static unsigned judge(const struct pfl_http_request *r, const char *query, const char *body)
{
    struct pfl_form q = {.len = 0};
    struct pfl_form b = {.len = 0};
    const char *why = NULL;
    unsigned status;

    assert_int_equal(pfl_form_parse(pfl_span_of(query, strlen(query)), &q), 0);
    if (body != NULL)
        assert_int_equal(pfl_form_parse(pfl_span_of(body, strlen(body)), &b), 0);
    status = pfl_web_access_judge(&access_to, r, &q, body != NULL ? &b : NULL, &why);
    assert_true((why == NULL) == (status == 200 || status == 303));
    pfl_form_fini(&q);
    pfl_form_fini(&b);
    return status;
}

static const char *token(void)
{
    static char text[64];

    (void)snprintf(text, sizeof(text), "token=%s", access_to.link);
    return text;
}

static const char *change(void)
{
    static char text[64];

    (void)snprintf(text, sizeof(text), "a=b&change=%s", access_to.change);
    return text;
}

static void link_is_exchanged_for_a_cookie_once(void **state)
{
    struct pfl_http_request r = page("GET", "/enter");
    char text[160];

    (void)state;
    pfl_web_access_get_link(&access_to, text, sizeof(text));
    assert_string_equal(text, "http://127.0.0.1:8040/enter?token=00050a0f14191e23282d32373c41464b");
    pfl_web_access_get_cookie(&access_to, text, sizeof(text));
    assert_string_equal(text, "Set-Cookie: perfleet-8040=50555a5f64696e73787d82878c91969b; Path=/; "
                              "HttpOnly; SameSite=Strict\r\n");
    r.cookie = NULL;
    assert_int_equal(judge(&r, "token=0", NULL), 403);
    assert_int_equal(judge(&r, "", NULL), 403);
    r.method = "HEAD"; /* of a program that only looks: it uses nothing up */
    assert_int_equal(judge(&r, token(), NULL), 405);
    r.method = "GET";
    r.fetch_site = "cross-site"; /* a link in another page */
    assert_int_equal(judge(&r, token(), NULL), 303);
    assert_int_equal(judge(&r, token(), NULL), 403);
    r.cookie = cookies; /* the same browser, again */
    assert_int_equal(judge(&r, token(), NULL), 303);
}

static void pages_need_the_cookie(void **state)
{
    struct pfl_http_request r = page("GET", "/hosts");

    (void)state;
    assert_int_equal(judge(&r, "", NULL), 200);
    r.host = "localhost:8040";
    assert_int_equal(judge(&r, "", NULL), 200);
    r.cookie = NULL;
    assert_int_equal(judge(&r, "", NULL), 403);
    r.cookie = "perfleet-8040=00000000000000000000000000000000";
    assert_int_equal(judge(&r, "", NULL), 403);
    r.cookie = "perfleet-8040=";
    assert_int_equal(judge(&r, "", NULL), 403);
}

static void other_names_and_origins_are_refused(void **state)
{
    static const char *const hosts[] = {"evil.example:8040", "127.0.0.1",       "127.0.0.1:80",
                                        "127.0.0.1:8040.",   "127.0.0.2:8040",  "[::1]:8040",
                                        "localhost",         "127.0.0.1:80400", ""};
    static const char *const origins[] = {
        "https://127.0.0.1:8040", "http://localhost:8040", "null",
        "http://evil.example",    "http://127.0.0.1",      "http://127.0.0.1:8040/"};
    struct pfl_http_request r = page("GET", "/hosts");

    (void)state;
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        r.host = hosts[i];
        assert_int_equal(judge(&r, "", NULL), 403);
    }
    r.host = HERE;
    for (size_t i = 0; i < sizeof(origins) / sizeof(origins[0]); i++) {
        r.origin = origins[i];
        assert_int_equal(judge(&r, "", NULL), 403);
    }
    r.origin = "http://" HERE;
    assert_int_equal(judge(&r, "", NULL), 200);
    r.fetch_site = "same-site"; /* another port of this machine */
    assert_int_equal(judge(&r, "", NULL), 403);
    r.fetch_site = "none"; /* typed */
    assert_int_equal(judge(&r, "", NULL), 200);
}

static void change_needs_an_origin_a_form_and_its_token(void **state)
{
    struct pfl_http_request r = page("POST", "/stop");

    (void)state;
    r.content_type = "application/x-www-form-urlencoded";
    assert_int_equal(judge(&r, "", change()), 403);
    r.origin = "http://" HERE;
    assert_int_equal(judge(&r, "", change()), 200);
    assert_int_equal(judge(&r, "", "a=b"), 403);
    assert_int_equal(judge(&r, change(), "a=b"), 403);
    assert_int_equal(judge(&r, "", "change=00"), 403);
    assert_int_equal(judge(&r, "", NULL), 400);
    r.content_type = "text/plain";
    assert_int_equal(judge(&r, "", change()), 400);
    r.content_type = NULL;
    assert_int_equal(judge(&r, "", change()), 400);
    r.content_type = "application/x-www-form-urlencoded";
    r.cookie = NULL;
    assert_int_equal(judge(&r, "", change()), 403);
    r.method = "OPTIONS";
    assert_int_equal(judge(&r, "", NULL), 405);
}

/* What another program of the machine set in the browser, for its own port. */
static void another_cookie_of_that_name_keeps_nobody_out(void **state)
{
    struct pfl_http_request r = page("GET", "/hosts");
    char both[256];

    (void)state;
    (void)snprintf(both, sizeof(both), "perfleet-8040=00000000000000000000000000000000; %s",
                   cookies);
    r.cookie = both;
    assert_int_equal(judge(&r, "", NULL), 200);
}

/* ---- behind a proxy ---- */

static struct pfl_http_request proxied(const char *method, const char *path)
{
    return (struct pfl_http_request){
        .method = method, .path = path, .query = "", .host = "perfleet.example.com"};
}

static void open_proxied(const char *origin)
{
    static const uint8_t random[PFL_WEB_RANDOM_BYTES] = {1, 2, 3};

    pfl_web_access_init_proxy(&access_to, origin, random);
}

static void whom_the_proxy_lets_through_needs_no_cookie(void **state)
{
    struct pfl_http_request r = proxied("GET", "/hosts");

    (void)state;
    open_proxied("https://perfleet.example.com");
    assert_int_equal(judge(&r, "", NULL), 200);
    r.origin = "https://perfleet.example.com";
    assert_int_equal(judge(&r, "", NULL), 200);
    r.method = "OPTIONS";
    assert_int_equal(judge(&r, "", NULL), 405);
}

static void there_is_no_link_behind_a_proxy(void **state)
{
    struct pfl_http_request r = proxied("GET", "/enter");

    (void)state;
    open_proxied("https://perfleet.example.com");
    assert_int_equal(judge(&r, token(), NULL), 200); /* as any path: it leads to no page */
    assert_false(access_to.is_link_used);
}

static void other_names_and_origins_are_refused_behind_a_proxy(void **state)
{
    static const char *const hosts[] = {
        "127.0.0.1:0",  "localhost:0",          "perfleet.example.com:443",
        "evil.example", "PERFLEET.example.com", ""};
    static const char *const origins[] = {"http://perfleet.example.com", "null",
                                          "https://perfleet.example.com:8443",
                                          "https://evil.example", "https://perfleet.example.com/"};
    struct pfl_http_request r = proxied("GET", "/hosts");

    (void)state;
    open_proxied("https://perfleet.example.com");
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        r.host = hosts[i];
        assert_int_equal(judge(&r, "", NULL), 403);
    }
    r.host = "perfleet.example.com";
    for (size_t i = 0; i < sizeof(origins) / sizeof(origins[0]); i++) {
        r.origin = origins[i];
        assert_int_equal(judge(&r, "", NULL), 403);
    }
    r.origin = NULL;
    r.fetch_site = "cross-site";
    assert_int_equal(judge(&r, "", NULL), 403);
    r.fetch_site = "same-site";
    assert_int_equal(judge(&r, "", NULL), 403);
    r.fetch_site = "same-origin";
    assert_int_equal(judge(&r, "", NULL), 200);
}

static void change_behind_a_proxy_needs_all_that_it_needs_without(void **state)
{
    struct pfl_http_request r = proxied("POST", "/stop");

    (void)state;
    open_proxied("https://perfleet.example.com");
    r.content_type = "application/x-www-form-urlencoded";
    assert_int_equal(judge(&r, "", change()), 403); /* without origin */
    r.origin = "https://perfleet.example.com";
    assert_int_equal(judge(&r, "", change()), 200);
    assert_int_equal(judge(&r, "", "a=b"), 403);
    assert_int_equal(judge(&r, "", NULL), 400);
    r.origin = "https://evil.example";
    assert_int_equal(judge(&r, "", change()), 403);
}

static void origin_is_as_browsers_send_it(void **state)
{
    static const char *const good[] = {"https://a", "http://a.example:8080", "https://[::1]:8443"};
    static const char *const bad[] = {"",           "a",           "https://",    "ftp://a",
                                      "https://a/", "https://A",   "httpss://a",  "https://a b",
                                      "://a",       "https://a?b", "https://u@a", "https:/a"};
    char text[PFL_WEB_ORIGIN_MAX + 1];

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(pfl_web_access_is_origin(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(pfl_web_access_is_origin(bad[i]));
    memset(text, 'a', sizeof(text));
    memcpy(text, "https://", 8);
    text[PFL_WEB_ORIGIN_MAX] = '\0';
    assert_false(pfl_web_access_is_origin(text));
    text[PFL_WEB_ORIGIN_MAX - 1] = '\0';
    assert_true(pfl_web_access_is_origin(text));
}

/* ---- data ---- */

#define GUEST "http://127.0.0.1:1234"

static unsigned judge_data(const struct pfl_http_request *r, bool *ret_is_guest)
{
    const char *why = NULL;
    unsigned status = pfl_web_access_judge_data(&access_to, r, ret_is_guest, &why);

    assert_true(why != NULL || status == 200);
    return status;
}

static struct pfl_http_request json_post(void)
{
    struct pfl_http_request r = page("POST", "/bigtrace/trace_metadata");

    r.origin = "http://" HERE;
    r.content_type = "application/json";
    return r;
}

static void data_needs_the_cookie_this_name_and_this_origin(void **state)
{
    struct pfl_http_request r = json_post();
    bool is_guest;

    (void)state;
    assert_int_equal(judge_data(&r, &is_guest), 200);
    assert_false(is_guest);
    r.cookie = NULL;
    assert_int_equal(judge_data(&r, &is_guest), 403);
    r = json_post();
    r.host = "evil.example";
    assert_int_equal(judge_data(&r, &is_guest), 403);
    r = json_post();
    r.origin = GUEST; /* nobody named it */
    assert_int_equal(judge_data(&r, &is_guest), 403);
    r = json_post();
    r.fetch_site = "same-site";
    assert_int_equal(judge_data(&r, &is_guest), 403);
    r.fetch_site = "same-origin";
    assert_int_equal(judge_data(&r, &is_guest), 200);
    r.method = "OPTIONS";
    assert_int_equal(judge_data(&r, &is_guest), 405);
}

static void change_of_data_is_none_that_a_strange_page_can_send(void **state)
{
    static const char *const types[] = {"application/x-www-form-urlencoded",
                                        "text/plain",
                                        "multipart/form-data",
                                        "application/jsonp",
                                        "",
                                        NULL};
    struct pfl_http_request r = json_post();
    bool is_guest;

    (void)state;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        r.content_type = types[i];
        assert_int_equal(judge_data(&r, &is_guest), 400);
    }
    r.content_type = "application/json; charset=utf-8";
    assert_int_equal(judge_data(&r, &is_guest), 200);
    r.origin = NULL;
    assert_int_equal(judge_data(&r, &is_guest), 403);
    r.method = "DELETE";
    assert_int_equal(judge_data(&r, &is_guest), 403);
    r.origin = "http://" HERE;
    assert_int_equal(judge_data(&r, &is_guest), 200);
    r.method = "GET";
    r.origin = NULL;
    assert_int_equal(judge_data(&r, &is_guest), 200);
}

static void guest_has_data_and_no_page(void **state)
{
    struct pfl_http_request r = json_post();
    bool is_guest;

    (void)state;
    pfl_web_access_set_guest(&access_to, GUEST);
    r.origin = GUEST;
    r.fetch_site = "same-site";
    assert_int_equal(judge_data(&r, &is_guest), 200);
    assert_true(is_guest);
    r.cookie = NULL;
    assert_int_equal(judge_data(&r, &is_guest), 403);
    r.method = "OPTIONS";
    assert_int_equal(judge_data(&r, &is_guest), 204);
    r.origin = "http://127.0.0.1:12345";
    assert_int_equal(judge_data(&r, &is_guest), 403);
    r = page("GET", "/hosts");
    r.origin = GUEST;
    assert_int_equal(judge(&r, "", NULL), 403);
    r.origin = NULL;
    r.method = "DELETE";
    assert_int_equal(judge(&r, "", NULL), 405);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(link_is_exchanged_for_a_cookie_once, open_access),
        cmocka_unit_test_setup(pages_need_the_cookie, open_access),
        cmocka_unit_test_setup(another_cookie_of_that_name_keeps_nobody_out, open_access),
        cmocka_unit_test_setup(other_names_and_origins_are_refused, open_access),
        cmocka_unit_test_setup(change_needs_an_origin_a_form_and_its_token, open_access),
        cmocka_unit_test(whom_the_proxy_lets_through_needs_no_cookie),
        cmocka_unit_test(there_is_no_link_behind_a_proxy),
        cmocka_unit_test(other_names_and_origins_are_refused_behind_a_proxy),
        cmocka_unit_test(change_behind_a_proxy_needs_all_that_it_needs_without),
        cmocka_unit_test(origin_is_as_browsers_send_it),
        cmocka_unit_test_setup(data_needs_the_cookie_this_name_and_this_origin, open_access),
        cmocka_unit_test_setup(change_of_data_is_none_that_a_strange_page_can_send, open_access),
        cmocka_unit_test_setup(guest_has_data_and_no_page, open_access),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
