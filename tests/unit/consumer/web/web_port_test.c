/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages behind the port, with a played relay and a host that does not answer: routes, what is
 * said while the relay is away, the search, and each allocation failing once in a whole visit.
 */
#include "consumer/web/web_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/closer.h"
#include "base/io/loop.h"
#include "base/mem.h"
#include "consumer/web/frame/web_impl.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/fake_host.h"

#define TEXT_MAX (1u << 20)

struct world {
    uv_loop_t loop;
    struct pfl_web *web; /* NULL: closing */
    unsigned closed;
    unsigned port;
    char link[128]; /* its path and query */
    char cookie[96];
    const char *away; /* of the relay */
    unsigned asked;
    bool has_answer;
    bool has_fake; /* set before open: the only host is played */
    struct fake_host fake;
};

static char text[TEXT_MAX];

/* ---- a relay ---- */

static struct pfl_inventory *make_inventory(const char *name)
{
    char body[256];
    int len = snprintf(body, sizeof(body),
                       "{\"hosts\": [{\"name\": \"%s\", \"is_connected\": false, \"last_seen_s\": "
                       "7, \"labels\": {\"role\": \"web\"}}]}",
                       name);
    struct pfl_inventory *inventory = NULL;

    if (pfl_inventory_parse(pfl_span_of(body, (size_t)len), &inventory) != 0)
        return NULL;
    return inventory;
}

static void ask(void *user)
{
    struct world *w = user;

    w->asked++;
    w->has_answer = true;
}

static bool take(void *user, struct pfl_inventory **ret_inventory)
{
    struct world *w = user;

    if (!w->has_answer)
        return false;
    w->has_answer = false;
    *ret_inventory = make_inventory("web-2");
    return true;
}

static const char *get_away(void *user)
{
    return ((struct world *)user)->away;
}

/* ---- the world ---- */

static void on_closed(void *user)
{
    ((struct world *)user)->closed++;
}

static struct pfl_tls_conf *no_tls;

static int open_world(struct world *w, bool has_relay, uint64_t fresh_ms)
{
    static const struct pfl_host_spec nobody = {
        .kind = PFL_HOST_UNIX, .name = "one", .address = "/nonexistent/s", .text = "unix:/none"};
    static struct pfl_host_spec spec;
    struct pfl_web_conf conf = {
        .conn = {.loop = &w->loop, .tls = &no_tls, .handshake_timeout_ms = 2000},
        .timeout_ms = 2000,
        .specs = &spec,
        .specs_len = 1,
        .fleet = "test",
        .options = has_relay ? " --relay r" : "",
        .targets = "",
        .version = "0.1.0",
        .ui = {.url = "https://ui.perfetto.dev", .port = 9001},
        .fresh_ms = fresh_ms,
        .on_closed = on_closed,
        .user = w,
    };
    int rc;

    *w = (struct world){.has_fake = w->has_fake, .fake = w->fake};
    assert_int_equal(pfl_loop_init(&w->loop), 0);
    spec = nobody;
    if (w->has_fake) {
        rc = fake_host_open(&w->fake, &w->loop);
        if (rc != 0)
            return rc;
        (void)snprintf(spec.address, sizeof(spec.address), "%s", w->fake.address);
    }
    if (has_relay) {
        conf.relay = (struct pfl_web_relay){"r:9910", ask, take, get_away, w};
        conf.inventory = make_inventory("web-1");
        if (conf.inventory == NULL)
            return PFL_ENOMEM;
    }
    rc = pfl_web_open(&conf, &w->web);
    if (rc != 0)
        return rc;
    pfl_web_get_link(w->web, text, sizeof(text));
    assert_int_equal(sscanf(text, "http://127.0.0.1:%u%127s", &w->port, w->link), 2);
    return 0;
}

static void close_world(struct world *w)
{
    if (w->web != NULL)
        pfl_web_close(w->web);
    w->web = NULL;
    if (w->has_fake)
        fake_host_close(&w->fake);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    pfl_closer_wait();
    pfl_sweep_assert_no_leak();
}

/* The whole answer to a request of `size` bytes, with the loop's turns between. */
static const char *exchange(struct world *w, const char *request, int size)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)w->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t len = 0;
    ssize_t n = -1;

    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(send(fd, request, (size_t)size, MSG_NOSIGNAL), size);
    while (n != 0) {
        uv_run(&w->loop, UV_RUN_NOWAIT);
        pfl_web_step(w->web);
        n = recv(fd, text + len, sizeof(text) - len - 1, MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            break;
        len += n > 0 ? (size_t)n : 0;
    }
    text[len] = '\0';
    (void)close(fd);
    return text;
}

static const char *visit(struct world *w, const char *path)
{
    char request[512];
    int size = snprintf(request, sizeof(request),
                        "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nCookie: %s\r\n\r\n", path,
                        w->port, w->cookie);

    return exchange(w, request, size);
}

/* `fields` with the form's token behind them. */
static const char *change(struct world *w, const char *path, const char *fields)
{
    char request[1024];
    char body[512];
    int len = snprintf(body, sizeof(body), "%s&change=%s", fields, w->web->access.change);
    int size = snprintf(request, sizeof(request),
                        "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nCookie: %s\r\n"
                        "Origin: http://127.0.0.1:%u\r\nContent-Length: %d\r\n"
                        "Content-Type: application/x-www-form-urlencoded\r\n\r\n%s",
                        path, w->port, w->cookie, w->port, len, body);

    return exchange(w, request, size);
}

/* As Perfetto's BigTrace page asks. */
static const char *ask_data(struct world *w, const char *method, const char *path, const char *body)
{
    char request[1024];
    int size = snprintf(request, sizeof(request),
                        "%s /bigtrace%s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nCookie: %s\r\n"
                        "Origin: http://127.0.0.1:%u\r\nContent-Length: %zu\r\n"
                        "Content-Type: application/json\r\n\r\n%s",
                        method, path, w->port, w->cookie, w->port, strlen(body), body);

    return exchange(w, request, size);
}

/* A browser that reads the beginning of an answer, and stays. */
static int watch(struct world *w, const char *path)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)w->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char request[512];
    int size = snprintf(request, sizeof(request),
                        "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nCookie: %s\r\n\r\n", path,
                        w->port, w->cookie);

    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(send(fd, request, (size_t)size, MSG_NOSIGNAL), size);
    while (recv(fd, text, 15, MSG_DONTWAIT) <= 0)
        uv_run(&w->loop, UV_RUN_NOWAIT);
    assert_memory_equal(text, "HTTP/1.1 200 OK", 15);
    return fd;
}

/* The link becomes a cookie, unless memory is short. */
static void enter(struct world *w)
{
    const char *field = strstr(visit(w, w->link), "Set-Cookie: ");

    if (field != NULL)
        (void)snprintf(w->cookie, sizeof(w->cookie), "%.*s", (int)strcspn(field + 12, ";"),
                       field + 12);
}

static bool has(const char *page, const char *what)
{
    return strstr(page, what) != NULL;
}

/* ---- */

static void pages_are_behind_the_link(void **state)
{
    struct world w = {.has_fake = false};

    (void)state;
    assert_int_equal(open_world(&w, true, 0), 0);
    assert_true(has(visit(&w, "/hosts"), "HTTP/1.1 403 "));
    assert_false(has(text, "web-1"));
    enter(&w);
    assert_true(has(text, "HTTP/1.1 200 "));
    assert_true(has(text, "url=/hosts"));
    assert_true(has(visit(&w, "/"), "Location: /hosts\r\n"));
    assert_true(has(visit(&w, "/hosts"), "href=\"/host?name=web-1\""));
    assert_true(has(text, "Content-Security-Policy: default-src 'none'"));
    assert_true(has(text, "perfleet hosts --relay r<"));
    assert_true(has(visit(&w, "/style.css"), "Content-Type: text/css"));
    assert_true(has(visit(&w, "/none"), "HTTP/1.1 404 "));
    assert_true(has(visit(&w, "/hosts?q=%zz"), "HTTP/1.1 400 "));
    assert_true(has(visit(&w, "/host?name=web-9"), "HTTP/1.1 404 "));
    assert_true(has(visit(&w, "/host?name=web-1"), "perfleet query --relay r --host web-1<"));
    close_world(&w);
}

static void search_and_part_are_of_the_query(void **state)
{
    struct world w = {.has_fake = false};

    (void)state;
    assert_int_equal(open_world(&w, true, 0), 0);
    enter(&w);
    assert_true(has(visit(&w, "/hosts?q=role%3Dweb"), "1 to 1 of 1"));
    assert_true(has(text, "value=\"role=web\""));
    assert_true(has(visit(&w, "/hosts?q=db"), "None of 1 hosts matches"));
    assert_true(has(visit(&w, "/hosts?state=up&page=99999999999999999999"), "None of 1 hosts"));
    assert_true(has(visit(&w, "/hosts?state=problem"), "1 to 1 of 1"));
    assert_true(has(text, "perfleet hosts --problems --relay r<"));
    assert_true(has(visit(&w, "/hosts?part=1"), "id=\"list\""));
    assert_false(has(text, "<!doctype"));
    close_world(&w);
}

static void old_list_is_asked_for_and_a_lost_relay_is_said(void **state)
{
    struct world w = {.has_fake = false};

    (void)state;
    assert_int_equal(open_world(&w, true, 1), 0);
    w.away = "it was <killed>";
    enter(&w);
    assert_true(has(visit(&w, "/hosts"), "The relay is away"));
    assert_true(has(text, "it was &lt;killed&gt;"));
    assert_true(has(text, "web-1"));
    assert_int_equal(w.asked, 0);
    w.away = NULL;
    for (uint64_t since = uv_now(&w.loop); uv_now(&w.loop) - since < 2;)
        uv_run(&w.loop, UV_RUN_NOWAIT);
    assert_true(has(visit(&w, "/hosts"), "web-2"));
    assert_false(has(text, "The relay is away"));
    assert_int_equal(w.asked, 1);
    close_world(&w);
}

static void host_that_does_not_answer_says_why(void **state)
{
    struct world w = {.has_fake = false};

    (void)state;
    assert_int_equal(open_world(&w, false, 0), 0);
    enter(&w);
    /* A list waits for its hosts for a little, which may be over on a busy machine. */
    for (unsigned i = 0; i < 10 && !has(visit(&w, "/hosts"), "failed"); i++)
        ;
    assert_true(has(text, "failed"));
    assert_true(has(text, "0 of all 1 answer"));
    assert_true(has(visit(&w, "/host?name=one"), "is perfleetd running"));
    close_world(&w);
}

#define ID "01JD0000000000000000000000"

static void without_a_relay_there_are_no_traces(void **state)
{
    struct world w = {.has_fake = false};

    (void)state;
    assert_int_equal(open_world(&w, false, 0), 0);
    enter(&w);
    assert_true(has(visit(&w, "/traces?host=%3Cb%3E"), "HTTP/1.1 200 "));
    assert_true(has(text, "Traces come from a collector, which needs a relay"));
    assert_true(has(text, "value=\"&lt;b&gt;\""));
    assert_true(has(text, "perfleet traces list --since 24h --host &#39;&lt;b&gt;&#39;<"));
    assert_true(has(text, "</html>\n\r\n0\r\n\r\n"));
    assert_true(has(visit(&w, "/traces?since=never"), "Times: give one such as 14:03"));
    close_world(&w);
}

static void change_leads_back_with_its_result(void **state)
{
    struct world w = {.has_fake = false};

    (void)state;
    assert_int_equal(open_world(&w, false, 0), 0);
    enter(&w);
    assert_true(has(change(&w, "/traces/choose", "act=pin&host=a%0D%0Ab"), "HTTP/1.1 303 "));
    assert_true(has(text, "Location: /traces?since=24h&host=a%0D%0Ab&done=1\r\n"));
    assert_true(has(visit(&w, "/traces?done=1"), "<p class=\"notice\">Choose traces first.</p>"));
    assert_false(has(visit(&w, "/traces?done=2"), "class=\"notice\""));
    assert_true(has(change(&w, "/traces/choose", "act=rm&id=" ID), "<h1>Delete 1 trace?</h1>"));
    assert_true(has(text, "perfleet traces rm " ID "<"));
    assert_true(has(change(&w, "/traces/choose", "act=forget&id=" ID), "HTTP/1.1 400 "));
    assert_true(has(change(&w, "/traces/change", "act=pin&keep=1d&id=" ID), "done=2"));
    assert_true(has(visit(&w, "/traces?done=2"), "Not pinned: give a reason"));
    assert_true(has(change(&w, "/traces/change", "act=pin&keep=x&reason=r&id=" ID), "done=3"));
    assert_true(has(visit(&w, "/traces?done=3"), "Not pinned: keep for a time"));
    assert_true(has(change(&w, "/traces/change", "act=rm"), "done=4"));
    assert_true(has(change(&w, "/traces/change", "act=get&id=" ID), "done=5"));
    assert_true(has(visit(&w, "/traces?done=5"), "There is no such change."));
    assert_true(has(change(&w, "/traces/change", "act=unpin&id=" ID), "done=6"));
    assert_true(has(visit(&w, "/traces?done=6"), "Traces come from a collector"));
    assert_true(has(change(&w, "/none", "a=b"), "HTTP/1.1 404 "));
    close_world(&w);
}

#define RECORD                                                                                     \
    "preset=&duration=1s&config=buffers+%7B+size_kb%3A+64+%7D+data_sources+%7B+config+%7B+na"      \
    "me%3A+%22a%22+%7D+%7D&"

static void form_is_checked_and_starts_a_recording(void **state)
{
    struct world w = {.has_fake = false};

    (void)state;
    assert_int_equal(open_world(&w, false, 0), 0);
    enter(&w);
    assert_true(has(visit(&w, "/record"), "choose hosts: * means all 1"));
    assert_true(has(change(&w, "/record", RECORD "select=*&part=1"), "<strong>1 of 1</strong>"));
    assert_true(has(text, "perfleet record -c CONFIG.pbtx --duration 1s --host unix:/none"));
    assert_false(has(text, "<!doctype"));
    assert_true(
        has(change(&w, "/record", RECORD "select=*&do=check"), "What perfleet doctor finds"));
    assert_true(has(text, "is perfleetd running"));
    assert_true(has(change(&w, "/record", RECORD "select=name%3Dno&do=start"),
                    "The recording did not start"));
    assert_true(has(text, "id=\"select-why\""));
    assert_true(has(change(&w, "/record", RECORD "select=*&do=start"), "HTTP/1.1 303 "));
    assert_true(has(text, "Location: /recording?id=1\r\n"));
    while (!has(visit(&w, "/recording?id=1"), "data-over=\"1\""))
        ;
    assert_true(has(text, "only 0 of 1 hosts are ready, 1 are needed"));
    assert_true(
        has(visit(&w, "/recording/events?id=1"), "data: <div id=\"progress\" data-over=\"1\">"));
    assert_true(has(text, "Content-Type: text/event-stream"));
    assert_true(has(visit(&w, "/recording/trace?id=1"), "HTTP/1.1 404 "));
    assert_true(has(visit(&w, "/record"), "href=\"/recording?id=1\""));
    assert_true(has(change(&w, "/recording/open", "id=1"), "This recording has no trace."));
    assert_true(has(change(&w, "/recording/stop", "id=1"), "HTTP/1.1 303 "));
    assert_true(has(change(&w, "/recording/stop", "id=7"), "HTTP/1.1 404 "));
    assert_true(has(change(&w, "/recording/remove", "id=1"), "HTTP/1.1 303 "));
    assert_true(has(visit(&w, "/recording?id=1"), "There is no such recording any more"));
    assert_true(has(visit(&w, "/recording/events?id=1"), "HTTP/1.1 404 "));
    close_world(&w);
}

static void sessions_of_hosts_that_do_not_answer_are_said(void **state)
{
    struct world w = {.has_fake = false};

    (void)state;
    assert_int_equal(open_world(&w, false, 0), 0);
    enter(&w);
    assert_true(
        has(visit(&w, "/running"), "0 sessions of 0 hosts that answered; did not answer: 1"));
    assert_true(has(change(&w, "/running/session", "do=snapshot&session="), "HTTP/1.1 400 "));
    assert_true(has(change(&w, "/running/session", "do=snapshot&session=a"),
                    "Location: /running?done=1\r\n"));
    assert_true(
        has(visit(&w, "/running?done=1"), "No host that answered has this session any more"));
    w.web->questions = PFL_WEB_MAX_QUESTIONS;
    assert_true(has(change(&w, "/running/session", "do=snapshot&session=a"),
                    "Location: /running?done=2\r\n"));
    assert_true(has(visit(&w, "/running?done=2"), "Too many questions to hosts are under way"));
    assert_true(has(visit(&w, "/running"), "<p class=\"bad\">Too many questions"));
    w.web->questions = 0;
    assert_true(has(change(&w, "/running/session", "do=forget&session=a"), "HTTP/1.1 400 "));
    close_world(&w);
}

static void session_that_was_left_is_stopped_read_and_discarded(void **state)
{
    struct world w = {.has_fake = true, .fake = {.has_flight = true, .packets = 3}};

    (void)state;
    assert_int_equal(open_world(&w, false, 0), 0);
    enter(&w);
    assert_true(has(visit(&w, "/running"), "aria-label=\"Stop…: flight\""));
    assert_true(has(change(&w, "/running/session", "do=stop&session=flight"),
                    "<h1>Stop flight on 1 host?</h1>"));
    assert_true(has(text, "perfleet stop flight --host unix:/none<"));
    assert_false(w.fake.is_flight_over);
    assert_true(has(change(&w, "/running/session", "do=stop&sure=1&session=flight"), "done=1"));
    assert_true(has(visit(&w, "/running?done=1"), "flight was stopped on 1 host."));
    assert_true(w.fake.is_flight_over);
    assert_false(has(text, "aria-label=\"Stop…: flight\""));
    assert_true(has(change(&w, "/running/session", "do=read&session=flight"), "/recording?id=1"));
    while (!has(visit(&w, "/recording?id=1"), "data-over=\"1\""))
        ;
    assert_true(has(text, "perfleet read flight --keep --host unix:/none -o perfleet-"));
    assert_false(w.fake.was_flight_freed);
    assert_true(has(change(&w, "/running/session", "do=kill&session=flight"),
                    "<h1>Discard flight on 1 host?</h1>"));
    assert_true(has(text, "perfleet kill flight --host unix:/none<"));
    assert_true(has(change(&w, "/running/session", "do=kill&sure=1&session=flight"), "done=2"));
    assert_true(has(visit(&w, "/running?done=2"), "flight was discarded on 1 host."));
    assert_true(w.fake.was_flight_freed);
    w.fake.is_flight_held = true;
    assert_true(has(change(&w, "/running/session", "do=kill&sure=1&session=flight"), "done=3"));
    assert_true(
        has(visit(&w, "/running?done=3"), "flight was discarded on 0 of 1 hosts. one: no "));
    close_world(&w);
}

static void without_a_relay_there_are_no_orders_and_no_alarms(void **state)
{
    struct world w = {.has_fake = false};

    (void)state;
    assert_int_equal(open_world(&w, false, 0), 0);
    enter(&w);
    assert_false(has(visit(&w, "/running"), "<h2>Orders</h2>"));
    assert_true(has(visit(&w, "/running/order?orderer=me&name=cpu"), "<h1>Order cpu</h1>"));
    assert_true(has(text, "a collector needs a relay: start perfleet ui with --relay"));
    assert_true(has(text, "perfleet order show me/cpu<"));
    assert_true(has(visit(&w, "/running/order?orderer=me&name=%3Cb%3E"), "HTTP/1.1 400 "));
    assert_true(has(visit(&w, "/running/order?orderer=..&name=cpu"), "HTTP/1.1 400 "));
    assert_true(has(change(&w, "/running/order", "do=rm&order=cpu"), "<h1>Remove order cpu?</h1>"));
    assert_true(has(text, "perfleet order rm cpu<"));
    assert_true(has(change(&w, "/running/order", "do=rm&order=a/b&sure=1"), "HTTP/1.1 400 "));
    assert_true(has(change(&w, "/running/order", "do=sow&order=cpu"), "HTTP/1.1 400 "));
    assert_true(has(change(&w, "/running/order", "do=pause&order=cpu&sure=1"), "done=1"));
    assert_true(has(visit(&w, "/running?done=1"), "Order cpu was not paused: a collector needs"));
    assert_false(has(visit(&w, "/running"), "<h2>Alarms</h2>"));
    assert_true(has(change(&w, "/running/disarm", "session=flight"), "done=2"));
    assert_true(has(visit(&w, "/running?done=2"), "Alarms are kept by the hosts&#39; agents"));
    assert_true(has(change(&w, "/running/disarm", "session=a/b"), "HTTP/1.1 400 "));
    close_world(&w);
}

/* The part of recordings waits for its last watch, and the pages for both. */
static void pages_end_while_a_browser_watches_a_recording(void **state)
{
    struct world w = {.has_fake = false};
    int fd;

    (void)state;
    assert_int_equal(open_world(&w, false, 0), 0);
    enter(&w);
    assert_true(has(change(&w, "/record", RECORD "select=*&do=start"), "HTTP/1.1 303 "));
    while (!has(visit(&w, "/recording?id=1"), "data-over=\"1\""))
        ;
    fd = watch(&w, "/recording/events?id=1");
    close_world(&w);
    assert_int_equal(w.closed, 1);
    (void)close(fd);
}

static void the_fleets_page_asks_hosts_in_turn(void **state)
{
    struct world w = {.has_fake = false};

    (void)state;
    assert_int_equal(open_world(&w, false, 0), 0);
    enter(&w);
    assert_true(has(visit(&w, "/fleet"), "Of 0 of 1 hosts, since"));
    assert_true(has(text, "perfleet doctor"));
    assert_true(has(text, "aria-current=\"page\">Fleet<"));
    assert_false(has(text, "<h2>Relay"));
    for (unsigned i = 0; i < 10 && !has(visit(&w, "/hosts"), "failed"); i++)
        ;
    assert_true(has(text, "failed")); /* it was asked */
    assert_true(has(visit(&w, "/fleet?part=1"), "id=\"list\""));
    assert_false(has(text, "<!doctype"));
    close_world(&w);
    assert_int_equal(open_world(&w, true, 0), 0);
    enter(&w);
    assert_true(has(visit(&w, "/fleet"), "The relay was not asked yet."));
    close_world(&w);
}

#define QUESTION "{\"limit\":9,\"perfetto_sql\":\"SELECT 1\",\"settings\":[]}"

static void bigtraces_page_is_answered_as_json(void **state)
{
    struct world w;

    (void)state;
    assert_int_equal(open_world(&w, false, 0), 0);
    assert_true(has(ask_data(&w, "GET", "/query_executions", ""), "HTTP/1.1 403 "));
    assert_true(has(text, "{\"detail\": \"Open the link"));
    enter(&w);
    assert_true(has(ask_data(&w, "POST", "/bigtrace_execution_config", "{}"), "\"id\": \"since\""));
    assert_true(has(text, "Content-Type: application/json\r\n"));
    assert_false(has(text, "Access-Control"));
    assert_true(has(ask_data(&w, "POST", "//trace_metadata_schema", "{}"), "defaultVisible"));
    assert_true(has(ask_data(&w, "GET", "/trace_presets", ""), "perfettoSql"));
    assert_true(has(ask_data(&w, "GET", "/query_executions", ""), "{\"queryExecutions\": []}"));
    assert_true(has(ask_data(&w, "GET", "/query_executions/x:status", ""), "HTTP/1.1 404 "));
    assert_true(has(ask_data(&w, "DELETE", "/query_executions/x", ""), "HTTP/1.1 404 "));
    assert_true(has(ask_data(&w, "POST", "/query_executions/x:cancel", "{}"), "HTTP/1.1 404 "));
    assert_true(has(ask_data(&w, "POST", "/query_executions", "{}"), "HTTP/1.1 404 "));
    assert_true(has(ask_data(&w, "GET", "/", ""), "HTTP/1.1 404 "));
    assert_true(has(ask_data(&w, "POST", "/trace_metadata", "[]"), "HTTP/1.1 400 "));
    assert_true(has(ask_data(&w, "POST", "/trace_metadata", "{}"), "needs a relay"));
    assert_true(has(ask_data(&w, "POST", "/execute_bigtrace_query", QUESTION), "needs a relay"));
    assert_true(has(ask_data(&w, "HEAD", "/query_executions", ""), "HTTP/1.1 404 "));
    close_world(&w);
}

static void every_allocation_may_fail(void **state)
{
    struct pfl_mem_stats stats;
    bool has_failed = true;

    (void)state;
    for (uint64_t n = 1; has_failed; n++) {
        struct world w = {.has_fake = n % 3 == 0, .fake = {.has_flight = true}};
        int rc;

        pfl_mem_fail_at(n);
        rc = open_world(&w, n % 2 == 0, 0);
        if (rc == 0) {
            enter(&w);
            (void)visit(&w, "/hosts");
            (void)visit(&w, "/fleet");
            (void)visit(&w, n % 2 == 0 ? "/host?name=web-1" : "/host?name=one");
            (void)visit(&w, "/traces");
            (void)change(&w, "/traces/choose", "act=rm&id=" ID);
            (void)change(&w, "/traces/change", "act=rm&id=" ID);
            (void)visit(&w, "/record");
            (void)change(&w, "/record", RECORD "select=*&do=start");
            (void)visit(&w, "/recording?id=1");
            (void)visit(&w, "/running");
            (void)change(&w, "/running/session", "do=snapshot&session=a");
            (void)change(&w, "/running/session", "do=stop&sure=1&session=flight");
            (void)change(&w, "/running/session", "do=kill&session=flight");
            (void)visit(&w, "/running/order?name=cpu");
            (void)change(&w, "/running/order", "do=pause&order=cpu&sure=1");
            (void)change(&w, "/running/order", "do=rm&order=cpu");
            (void)change(&w, "/running/disarm", "session=flight");
            (void)ask_data(&w, "POST", "/execute_bigtrace_query_async", QUESTION);
            (void)ask_data(&w, "GET", "/query_executions", "");
        }
        pfl_mem_stats_get(&stats);
        has_failed = stats.allocations >= n;
        pfl_mem_fail_at(0);
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_behind_the_link),
        cmocka_unit_test(search_and_part_are_of_the_query),
        cmocka_unit_test(old_list_is_asked_for_and_a_lost_relay_is_said),
        cmocka_unit_test(host_that_does_not_answer_says_why),
        cmocka_unit_test(without_a_relay_there_are_no_traces),
        cmocka_unit_test(change_leads_back_with_its_result),
        cmocka_unit_test(form_is_checked_and_starts_a_recording),
        cmocka_unit_test(sessions_of_hosts_that_do_not_answer_are_said),
        cmocka_unit_test(session_that_was_left_is_stopped_read_and_discarded),
        cmocka_unit_test(without_a_relay_there_are_no_orders_and_no_alarms),
        cmocka_unit_test(pages_end_while_a_browser_watches_a_recording),
        cmocka_unit_test(the_fleets_page_asks_hosts_in_turn),
        cmocka_unit_test(bigtraces_page_is_answered_as_json),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
