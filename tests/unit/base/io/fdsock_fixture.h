/* SPDX-License-Identifier: Apache-2.0 */
/* A loop and two plain streams, for the tests of fdsock.c. */
#ifndef PFL_TESTS_UNIT_IO_FDSOCK_FIXTURE_H
#define PFL_TESTS_UNIT_IO_FDSOCK_FIXTURE_H

#include "tests/unit/base/io/endpoint.h"

#define PATTERN_BYTES (3u * 1024 * 1024)

struct fixture {
    uv_loop_t loop;
    struct endpoint a;
    struct endpoint b;
    int raw; /* the peer of `a` when there is no `b`; -1 when closed */
};

extern struct fixture fx;
extern uint8_t pattern[PATTERN_BYTES];

int fdsock_setup(void **state);
int fdsock_teardown(void **state);
void open_both(size_t max, size_t low);
/* `a` on a stream, its peer a plain blocking descriptor. */
void open_one(size_t max, size_t low);
/* `e` has received the first `len` bytes of the pattern and nothing else. */
void assert_received(struct endpoint *e, size_t len);

#endif
