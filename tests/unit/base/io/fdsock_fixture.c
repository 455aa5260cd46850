/* SPDX-License-Identifier: Apache-2.0 */
/* See fdsock_fixture.h. Ends each test with no live handle and no live byte. */
#include "tests/unit/base/io/fdsock_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/loop.h"
#include "tests/support/sweep.h"

struct fixture fx;
uint8_t pattern[PATTERN_BYTES];

int fdsock_setup(void **state)
{
    *state = &fx;
    memset(&fx, 0, sizeof(fx));
    fx.raw = -1;
    assert_int_equal(pfl_loop_init(&fx.loop), 0);
    endpoint_init(&fx.a, &fx.loop);
    endpoint_init(&fx.b, &fx.loop);
    for (size_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = (uint8_t)(i * 2654435761u >> 13);
    return 0;
}

int fdsock_teardown(void **state)
{
    (void)state;
    endpoint_close(&fx.a);
    endpoint_close(&fx.b);
    if (fx.raw >= 0)
        close(fx.raw);
    endpoint_fini(&fx.a);
    endpoint_fini(&fx.b);
    endpoint_end_loop(&fx.loop);
    pfl_sweep_assert_no_leak();
    return 0;
}

void open_both(size_t max, size_t low)
{
    int sv[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    endpoint_open(&fx.a, sv[0], max, low);
    endpoint_open(&fx.b, sv[1], max, low);
}

/* `a` on a stream, its peer a plain blocking descriptor. */
void open_one(size_t max, size_t low)
{
    int sv[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    endpoint_open(&fx.a, sv[0], max, low);
    fx.raw = sv[1];
}

void assert_received(struct endpoint *e, size_t len)
{
    struct pfl_span got = pfl_buf_get(&e->received);

    assert_int_equal(got.len, len);
    assert_memory_equal(got.data, pattern, len);
}
