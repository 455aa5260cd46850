/* SPDX-License-Identifier: Apache-2.0 */
/* Links to traces, and which request gets one. */
#include "consumer/open/hand_over.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

#define UI     "https://ui.perfetto.dev"
#define HOST   "127.0.0.1:9001"
#define KEY    "000102030405060708090a0b0c0d0e0f"
#define TRACE1 "/10101010101010101010101010101010/"
#define PAGE   "/" KEY "/"

static const uint8_t page_key[PFL_HAND_OVER_KEY_BYTES] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                          8, 9, 10, 11, 12, 13, 14, 15};

static void make(struct pfl_hand_over *h, enum pfl_hand_over_way way, const char *url)
{
    uint8_t key[PFL_HAND_OVER_KEY_BYTES];

    pfl_hand_over_init(h, way, url, page_key);
    memset(key, 0x10, sizeof(key));
    assert_int_equal(pfl_hand_over_add(h, "crash of web-1 (a&b).pftrace", 1000, key), 0);
    memset(key, 0x20, sizeof(key));
    assert_int_equal(pfl_hand_over_add(h, "second", 2000, key), 0);
}

static void expect_link(const struct pfl_hand_over *h, size_t link, const char *expected)
{
    struct pfl_buf out;

    pfl_buf_init(&out, 1024);
    assert_int_equal(pfl_hand_over_add_link(h, link, &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    assert_string_equal((const char *)pfl_buf_get(&out).data, expected);
    pfl_buf_fini(&out);
}

static struct pfl_hand_over_answer ask(const struct pfl_hand_over *h, const char *method,
                                       const char *path, const char *origin, const char *site)
{
    struct pfl_hand_over_request request = {method, path, HOST, origin, site};
    struct pfl_hand_over_answer answer;

    pfl_hand_over_judge(h, &request, &answer);
    return answer;
}

static unsigned status(const struct pfl_hand_over *h, const char *method, const char *path,
                       const char *origin, const char *site)
{
    return ask(h, method, path, origin, site).status;
}

static void a_link_to_the_public_page_has_no_files_name(void **state)
{
    struct pfl_hand_over h;

    (void)state;
    make(&h, PFL_HAND_OVER_DIRECT, UI);
    assert_int_equal(pfl_hand_over_get_links(&h), 2);
    expect_link(&h, 0, UI "/#!/?url=http://" HOST TRACE1 "trace-1.pftrace");
    expect_link(&h, 1,
                UI "/#!/?url=http://" HOST "/20202020202020202020202020202020/trace-2.pftrace");
}

static void a_link_to_an_own_ui_has_the_files_name_without_what_links_do_not_hold(void **state)
{
    struct pfl_hand_over h;

    (void)state;
    make(&h, PFL_HAND_OVER_OWN, NULL);
    pfl_hand_over_set_port(&h, 8080);
    expect_link(&h, 0,
                "http://127.0.0.1:8080/#!/?url=http://127.0.0.1:8080" TRACE1
                "crash_of_web-1__a_b_.pftrace");
}

static void a_page_has_one_link_for_all(void **state)
{
    struct pfl_hand_over h;

    (void)state;
    make(&h, PFL_HAND_OVER_PAGE, "https://ui.example.com/perfetto");
    assert_int_equal(pfl_hand_over_get_links(&h), 1);
    expect_link(&h, 0, "http://" HOST PAGE);
    assert_string_equal(h.ui_origin, "https://ui.example.com");
}

static void names_of_files_are_cut_and_hide_nothing(void **state)
{
    struct pfl_hand_over h;
    char longest[301];

    (void)state;
    memset(longest, 'x', 300);
    longest[300] = '\0';
    pfl_hand_over_init(&h, PFL_HAND_OVER_OWN, NULL, page_key);
    assert_int_equal(pfl_hand_over_add(&h, longest, 1, page_key), 0);
    assert_int_equal(strlen(h.traces[0].name), PFL_HAND_OVER_NAME_MAX);
    assert_int_equal(pfl_hand_over_add(&h, ".hidden", 1, page_key), 0);
    assert_string_equal(h.traces[1].name, "_hidden");
    assert_int_equal(pfl_hand_over_add(&h, "", 1, page_key), 0);
    assert_string_equal(h.traces[2].name, "_");
    assert_int_equal(pfl_hand_over_add(&h, "a/../b\xc3\xa4", 1, page_key), 0);
    assert_string_equal(h.traces[3].name, "a_.._b__");
}

static void there_are_sixteen_traces_at_most(void **state)
{
    struct pfl_hand_over h;

    (void)state;
    pfl_hand_over_init(&h, PFL_HAND_OVER_DIRECT, UI, page_key);
    for (size_t i = 0; i < PFL_HAND_OVER_MAX_TRACES; i++)
        assert_int_equal(pfl_hand_over_add(&h, "t", 1, page_key), 0);
    assert_int_equal(pfl_hand_over_add(&h, "t", 1, page_key), PFL_ELIMIT);
}

static void the_ui_alone_gets_a_trace(void **state)
{
    static const char path[] = TRACE1 "trace-1.pftrace";
    struct pfl_hand_over h;
    struct pfl_hand_over_answer a;

    (void)state;
    make(&h, PFL_HAND_OVER_DIRECT, UI);
    a = ask(&h, "GET", path, UI, "cross-site");
    assert_int_equal(a.status, 200);
    assert_int_equal(a.what, PFL_HAND_OVER_TRACE);
    assert_int_equal(a.trace, 0);
    assert_string_equal(a.allow_origin, UI);
    assert_int_equal(status(&h, "HEAD", path, UI, NULL), 200);
    assert_int_equal(status(&h, "GET", path, "https://ui.perfetto.dev.evil", NULL), 403);
    assert_int_equal(status(&h, "GET", path, "http://ui.perfetto.dev", NULL), 403);
    assert_int_equal(status(&h, "GET", path, "null", NULL), 403);
    assert_int_equal(status(&h, "GET", path, "", NULL), 403);
    a = ask(&h, "GET", path, NULL, "none"); /* typed into the address bar */
    assert_int_equal(a.status, 403);
    assert_int_equal(a.what, PFL_HAND_OVER_NOTHING);
    assert_null(a.allow_origin);
    assert_non_null(a.why);
}

static void an_own_ui_fetches_from_its_own_origin(void **state)
{
    static const char path[] = TRACE1 "crash_of_web-1__a_b_.pftrace";
    struct pfl_hand_over h;

    (void)state;
    make(&h, PFL_HAND_OVER_OWN, NULL);
    assert_int_equal(status(&h, "GET", path, NULL, "same-origin"), 200);
    assert_int_equal(status(&h, "GET", path, "http://" HOST, NULL), 200);
    assert_int_equal(status(&h, "GET", path, NULL, "cross-site"), 403);
    assert_int_equal(status(&h, "GET", path, NULL, "same-site"), 403);
    assert_int_equal(status(&h, "GET", path, NULL, "none"), 403);
    assert_int_equal(status(&h, "GET", path, NULL, NULL), 403);
    assert_int_equal(status(&h, "GET", path, "http://127.0.0.1:9002", "same-site"), 403);
    assert_int_equal(status(&h, "GET", path, UI, NULL), 403);
    assert_int_equal(ask(&h, "GET", "/", NULL, "none").what, PFL_HAND_OVER_UI_FILE);
    assert_int_equal(ask(&h, "GET", "/v58/a.js", NULL, NULL).what, PFL_HAND_OVER_UI_FILE);
    assert_int_equal(status(&h, "GET", "/../secret", NULL, "same-origin"), 404);
}

static void a_page_is_for_who_has_its_key(void **state)
{
    struct pfl_hand_over h;

    (void)state;
    make(&h, PFL_HAND_OVER_PAGE, "https://ui.example.com");
    assert_int_equal(ask(&h, "GET", PAGE, NULL, "none").what, PFL_HAND_OVER_HTML);
    assert_int_equal(ask(&h, "GET", PAGE "hand-over.js", NULL, NULL).what, PFL_HAND_OVER_SCRIPT);
    assert_int_equal(ask(&h, "GET", PAGE "hand-over.css", NULL, NULL).what, PFL_HAND_OVER_STYLE);
    assert_int_equal(ask(&h, "GET", PAGE "traces.json", NULL, "same-origin").what,
                     PFL_HAND_OVER_LIST);
    assert_int_equal(status(&h, "GET", PAGE "traces.json", NULL, "cross-site"), 403);
    assert_int_equal(status(&h, "GET", PAGE "other", NULL, "same-origin"), 404);
    assert_int_equal(status(&h, "GET", "/", NULL, "none"), 404);
    assert_int_equal(status(&h, "GET", "/000102030405060708090a0b0c0d0e0e/", NULL, "none"), 404);
    assert_int_equal(status(&h, "GET", "/" KEY, NULL, "none"), 404);
    assert_int_equal(status(&h, "GET", TRACE1 "crash_of_web-1__a_b_.pftrace", NULL, "same-origin"),
                     200);
    assert_int_equal(
        status(&h, "GET", TRACE1 "crash_of_web-1__a_b_.pftrace", "https://ui.example.com", NULL),
        403);
}

static void hosts_that_resolve_here_get_nothing(void **state)
{
    static const char *const hosts[] = {"evil.example:9001",   "localhost:9001", "127.0.0.1.evil",
                                        "127.0.0.1:9001@evil", "127.0.0.1:",     "",
                                        "[::1]:9001"};
    struct pfl_hand_over_request r = {"GET", TRACE1 "trace-1.pftrace", HOST, UI, NULL};
    struct pfl_hand_over_answer a;
    struct pfl_hand_over h;

    (void)state;
    make(&h, PFL_HAND_OVER_DIRECT, UI);
    pfl_hand_over_judge(&h, &r, &a);
    assert_int_equal(a.status, 200);
    r.host = "127.0.0.1:19001"; /* a port that ssh forwards */
    pfl_hand_over_judge(&h, &r, &a);
    assert_int_equal(a.status, 200);
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        r.host = hosts[i];
        pfl_hand_over_judge(&h, &r, &a);
        assert_true(a.status == 403 || strcmp(hosts[i], "127.0.0.1:") == 0);
    }
    r.host = NULL;
    pfl_hand_over_judge(&h, &r, &a);
    assert_int_equal(a.status, 400);
}

static void a_name_must_be_whole(void **state)
{
    static const char whole[] = TRACE1 "trace-1.pftrace";
    char path[sizeof(whole) + 1];
    struct pfl_hand_over h;

    (void)state;
    make(&h, PFL_HAND_OVER_DIRECT, UI);
    for (size_t len = 0; len < sizeof(whole) - 1; len++) {
        (void)snprintf(path, sizeof(path), "%.*s", (int)len, whole);
        assert_int_equal(status(&h, "GET", path, UI, NULL), 404);
    }
    (void)snprintf(path, sizeof(path), "%sx", whole);
    assert_int_equal(status(&h, "GET", path, UI, NULL), 404);
    assert_int_equal(
        status(&h, "GET", "/20202020202020202020202020202020/trace-1.pftrace", UI, NULL), 404);
}

static void each_trace_is_fetched_once(void **state)
{
    static const char path[] = TRACE1 "trace-1.pftrace";
    struct pfl_hand_over h;

    (void)state;
    make(&h, PFL_HAND_OVER_DIRECT, UI);
    pfl_hand_over_begin(&h, 0);
    assert_int_equal(status(&h, "GET", path, UI, NULL), 409);
    pfl_hand_over_end(&h, 0, false); /* the tab was closed: again */
    assert_int_equal(status(&h, "GET", path, UI, NULL), 200);
    assert_int_equal(pfl_hand_over_count_fetched(&h), 0);
    pfl_hand_over_begin(&h, 0);
    pfl_hand_over_end(&h, 0, true);
    assert_int_equal(status(&h, "GET", path, UI, NULL), 410);
    assert_int_equal(status(&h, "HEAD", path, UI, NULL), 410);
    assert_int_equal(pfl_hand_over_count_fetched(&h), 1);
}

static void browsers_ask_before_and_look_for_a_trace_processor(void **state)
{
    struct pfl_hand_over_answer a;
    struct pfl_hand_over h;

    (void)state;
    make(&h, PFL_HAND_OVER_DIRECT, UI);
    a = ask(&h, "OPTIONS", TRACE1 "trace-1.pftrace", UI, NULL);
    assert_int_equal(a.status, 204);
    assert_true(a.is_preflight);
    assert_int_equal(status(&h, "OPTIONS", TRACE1 "trace-1.pftrace", "https://evil.example", NULL),
                     403);
    assert_int_equal(status(&h, "OPTIONS", "/", UI, NULL), 403);
    a = ask(&h, "POST", "/status", UI, NULL);
    assert_int_equal(a.status, 404);
    assert_string_equal(a.allow_origin, UI);
    assert_null(a.why); /* nothing that a person must know */
    assert_int_equal(status(&h, "POST", TRACE1 "trace-1.pftrace", UI, NULL), 405);
    assert_int_equal(status(&h, "DELETE", "/", UI, NULL), 405);
}

static void addresses_of_uis_are_plain(void **state)
{
    (void)state;
    assert_true(pfl_hand_over_is_ui_url("https://ui.example.com"));
    assert_true(pfl_hand_over_is_ui_url("https://ui.example.com/"));
    assert_true(pfl_hand_over_is_ui_url("http://localhost:10000/v58/index.html"));
    assert_false(pfl_hand_over_is_ui_url("https://"));
    assert_false(pfl_hand_over_is_ui_url("ui.example.com"));
    assert_false(pfl_hand_over_is_ui_url("javascript://x/%0aalert(1)"));
    assert_false(pfl_hand_over_is_ui_url("https://ui.example.com/?a=b"));
    assert_false(pfl_hand_over_is_ui_url("https://ui.example.com/#x"));
    assert_false(pfl_hand_over_is_ui_url("https://me@ui.example.com/"));
    assert_false(pfl_hand_over_is_ui_url("https://UI.example.com/"));
    assert_false(pfl_hand_over_is_ui_url("https://ui.example.com/\"><script>"));
    assert_false(pfl_hand_over_is_ui_url(""));
}

static void files_of_a_ui_are_below_its_folder(void **state)
{
    const char *name = NULL;
    const char *type = NULL;

    (void)state;
    assert_true(pfl_hand_over_name_ui_file("/", &name, &type));
    assert_string_equal(name, "index.html");
    assert_true(pfl_hand_over_name_ui_file("/v58.2-abc/trace_processor.wasm", &name, &type));
    assert_string_equal(name, "v58.2-abc/trace_processor.wasm");
    assert_string_equal(type, "application/wasm");
    assert_true(pfl_hand_over_name_ui_file("/LICENSE", &name, &type));
    assert_string_equal(type, "application/octet-stream");
    assert_false(pfl_hand_over_name_ui_file("", &name, &type));
    assert_false(pfl_hand_over_name_ui_file("/..", &name, &type));
    assert_false(pfl_hand_over_name_ui_file("/a/../b", &name, &type));
    assert_false(pfl_hand_over_name_ui_file("/.git/config", &name, &type));
    assert_false(pfl_hand_over_name_ui_file("/a/.x", &name, &type));
    assert_false(pfl_hand_over_name_ui_file("//etc/passwd", &name, &type));
    assert_false(pfl_hand_over_name_ui_file("/a//b", &name, &type));
    assert_false(pfl_hand_over_name_ui_file("/a/", &name, &type));
    assert_false(pfl_hand_over_name_ui_file("/a%2e%2e", &name, &type));
}

static void a_live_view_has_a_page_of_its_own(void **state)
{
    static const char trace[] = "/10101010101010101010101010101010/live.pftrace";
    const enum pfl_hand_over_way ways[] = {PFL_HAND_OVER_PAGE, PFL_HAND_OVER_OWN};
    uint8_t key[PFL_HAND_OVER_KEY_BYTES];
    struct pfl_hand_over h;

    (void)state;
    memset(key, 0x10, sizeof(key));
    for (size_t i = 0; i < 2; i++) {
        pfl_hand_over_init(&h, ways[i], "https://ui.example.com", page_key);
        pfl_hand_over_set_live(&h);
        assert_int_equal(pfl_hand_over_get_links(&h), 1);
        expect_link(&h, 0, "http://" HOST PAGE);
        assert_int_equal(pfl_hand_over_add(&h, "live.pftrace", 1, key), 0);
        assert_int_equal(ask(&h, "GET", PAGE, NULL, NULL).what, PFL_HAND_OVER_HTML);
        assert_int_equal(ask(&h, "GET", PAGE "live.js", NULL, NULL).what, PFL_HAND_OVER_SCRIPT);
        assert_int_equal(ask(&h, "GET", PAGE "hand-over.css", NULL, NULL).what,
                         PFL_HAND_OVER_STYLE);
        assert_int_equal(ask(&h, "GET", PAGE "next", NULL, "same-origin").what, PFL_HAND_OVER_NEXT);
        assert_int_equal(status(&h, "GET", PAGE "next", NULL, NULL), 403);
        assert_int_equal(status(&h, "GET", PAGE "next", NULL, "cross-site"), 403);
        assert_int_equal(status(&h, "GET", PAGE "next", "https://evil.example", NULL), 403);
        assert_int_equal(status(&h, "POST", PAGE "next", NULL, "same-origin"), 405);
        assert_int_equal(status(&h, "GET", PAGE "traces.json", NULL, "same-origin"), 404);
        assert_int_equal(status(&h, "GET", PAGE "hand-over.js", NULL, NULL), 404);
        assert_int_equal(status(&h, "GET", trace, NULL, "same-origin"), 200);
        assert_int_equal(status(&h, "GET", trace, NULL, "cross-site"), 403);
        pfl_hand_over_clear(&h);
        assert_int_not_equal(ask(&h, "GET", trace, NULL, "same-origin").what, PFL_HAND_OVER_TRACE);
    }
    make(&h, PFL_HAND_OVER_PAGE, "https://ui.example.com");
    assert_int_equal(status(&h, "GET", PAGE "next", NULL, "same-origin"), 404);
    assert_int_equal(status(&h, "GET", PAGE "live.js", NULL, NULL), 404);
}

static int list(void *arg)
{
    struct pfl_buf out;
    int rc;

    pfl_buf_init(&out, 4096);
    rc = pfl_hand_over_add_list(arg, &out);
    if (rc == 0)
        assert_non_null(memmem(pfl_buf_get(&out).data, out.len, "\"crash of web-1 (a&b).pftrace\"",
                               strlen("\"crash of web-1 (a&b).pftrace\"")));
    pfl_buf_fini(&out);
    return rc;
}

static void the_list_survives_failed_allocations(void **state)
{
    struct pfl_hand_over h;

    (void)state;
    make(&h, PFL_HAND_OVER_PAGE, "https://ui.example.com");
    pfl_sweep(list, &h, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_to_the_public_page_has_no_files_name),
        cmocka_unit_test(a_link_to_an_own_ui_has_the_files_name_without_what_links_do_not_hold),
        cmocka_unit_test(a_page_has_one_link_for_all),
        cmocka_unit_test(names_of_files_are_cut_and_hide_nothing),
        cmocka_unit_test(there_are_sixteen_traces_at_most),
        cmocka_unit_test(the_ui_alone_gets_a_trace),
        cmocka_unit_test(an_own_ui_fetches_from_its_own_origin),
        cmocka_unit_test(a_page_is_for_who_has_its_key),
        cmocka_unit_test(hosts_that_resolve_here_get_nothing),
        cmocka_unit_test(a_name_must_be_whole),
        cmocka_unit_test(each_trace_is_fetched_once),
        cmocka_unit_test(browsers_ask_before_and_look_for_a_trace_processor),
        cmocka_unit_test(addresses_of_uis_are_plain),
        cmocka_unit_test(files_of_a_ui_are_below_its_folder),
        cmocka_unit_test(a_live_view_has_a_page_of_its_own),
        cmocka_unit_test(the_list_survives_failed_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
