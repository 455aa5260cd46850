/* SPDX-License-Identifier: Apache-2.0 */
/* Unfinished handshakes: who gives way to whom. */
#include "relay/handshakes.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MAX  150u
#define MANY 200u

static struct pfl_handshakes all;
static struct pfl_handshake entries[MANY];

static int setup(void **state)
{
    (void)state;
    memset(entries, 0, sizeof(entries));
    pfl_handshakes_init(&all, MAX, 0);
    return 0;
}

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage ss = {0};
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
        memcpy(&ss, &in, sizeof(in));
    } else {
        assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
        memcpy(&ss, &in6, sizeof(in6));
    }
    return ss;
}

static struct pfl_handshake *add(unsigned i, const char *text)
{
    struct sockaddr_storage peer = address(text);

    return pfl_handshakes_add(&all, &entries[i], &peer);
}

static void the_oldest_of_the_same_peer_gives_way(void **state)
{
    (void)state;
    assert_null(add(MANY - 1, "10.0.0.2"));
    for (unsigned i = 0; i < PFL_HANDSHAKES_PER_PEER; i++)
        assert_null(add(i, "10.0.0.1"));
    assert_ptr_equal(add(MAX, "10.0.0.1"), &entries[0]);
    assert_ptr_equal(add(MAX + 1, "::ffff:10.0.0.1"), &entries[1]); /* the same peer */
    assert_null(add(MAX + 2, "10.0.0.2"));
    assert_int_equal(all.count, PFL_HANDSHAKES_PER_PEER + 2);
}

static void a_network_of_ipv6_is_one_peer(void **state)
{
    (void)state;
    for (unsigned i = 0; i < PFL_HANDSHAKES_PER_PEER; i++)
        assert_null(add(i, i % 2 == 0 ? "2001:db8::1" : "2001:db8::ffff:2"));
    assert_ptr_equal(add(MAX, "2001:db8::3"), &entries[0]);
    assert_null(add(MAX + 1, "2001:db8:0:1::3"));
}

static void over_all_peers_the_oldest_gives_way(void **state)
{
    char text[32] = "10.0.0.0";

    (void)state;
    for (unsigned i = 0; i < MAX; i++) {
        text[7] = (char)('0' + i % 8);
        assert_null(add(i, text));
    }
    assert_ptr_equal(add(MAX, "10.9.9.9"), &entries[0]);
    assert_int_equal(all.count, MAX);
}

static void who_is_done_is_not_counted(void **state)
{
    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        assert_null(add(i, "10.0.0.1"));
        pfl_handshakes_remove(&all, &entries[i]);
        pfl_handshakes_remove(&all, &entries[i]);
    }
    assert_int_equal(all.count, 0);
}

static void a_peer_may_begin_so_many_a_minute(void **state)
{
    struct sockaddr_storage one = address("10.0.0.1");
    struct sockaddr_storage other = address("10.0.0.2");

    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_true(pfl_handshakes_try_begin(&all, &one, 0));
    pfl_handshakes_init(&all, MAX, 6);
    for (int i = 0; i < 6; i++)
        assert_true(pfl_handshakes_try_begin(&all, &one, 100));
    assert_false(pfl_handshakes_try_begin(&all, &one, 100));
    assert_true(pfl_handshakes_try_begin(&all, &other, 100));
    assert_false(pfl_handshakes_try_begin(&all, &one, 10099));
    assert_true(pfl_handshakes_try_begin(&all, &one, 10100));
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_peer_may_begin_so_many_a_minute), T(the_oldest_of_the_same_peer_gives_way),
        T(a_network_of_ipv6_is_one_peer),     T(over_all_peers_the_oldest_gives_way),
        T(who_is_done_is_not_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
