/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory is sealed on a thread: what that forbids, what it takes, and what is left of it. */
#include "service/buffer/smb_seal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/closer.h"
#include "service/buffer/smb_map.h"
#include "tests/support/sweep.h"

#define PAGE 4096u
#define SMB  65536u

static struct pfl_smb_map map;

static int setup(void **state)
{
    (void)state;
    pfl_smb_map_init(&map);
    assert_int_equal(pfl_smb_map_create(&map, (struct pfl_smb_size){SMB, PAGE}), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_smb_map_fini(&map);
    pfl_smb_seal_wait();
    pfl_sweep_assert_no_leak();
    return 0;
}

static int make_hole(uint32_t page)
{
    return fallocate(map.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, page * PAGE, PAGE);
}

static void seal_until(enum pfl_smb_state state)
{
    while (pfl_smb_map_seal(&map) == PFL_SMB_SEALING)
        (void)usleep(100);
    assert_int_equal(map.state, state);
}

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define HUGE ((size_t)2 << 20)

/* Has the kernel make a huge page of all the memory, as any process can that has the descriptor. */
static int make_huge(void)
{
    uint8_t *room = mmap(NULL, 2 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *at = room + (HUGE - (uintptr_t)room % HUGE) % HUGE;
    int rc;

    if (madvise(room, PAGE, 9999) == 0) { /* an emulator takes any advice, and does nothing */
        assert_int_equal(munmap(room, 2 * HUGE), 0);
        skip();
    }
    assert_true(mmap(at, HUGE, PROT_READ, MAP_SHARED | MAP_FIXED, map.fd, 0) != MAP_FAILED);
    rc = madvise(at, HUGE, MADV_COLLAPSE) == 0 ? 0 : -errno;
    assert_int_equal(munmap(room, 2 * HUGE), 0);
    return rc;
}

/* The kernel locks all its pages meanwhile, as long as others have them mapped often. */
static void sealed_memory_is_not_made_huge(void **state)
{
    (void)state;
    pfl_smb_map_share(&map);
    seal_until(PFL_SMB_OURS);
    assert_int_not_equal(make_huge(), 0);
    assert_int_equal(pfl_smb_map_seal(&map), PFL_SMB_OURS);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void wait_at_gate(void *work)
{
    (void)work;
    (void)pthread_mutex_lock(&gate);
    (void)pthread_mutex_unlock(&gate);
}

/* As a hole does that is being made in other memory of the user. */
static void keep_seals_waiting(void)
{
    (void)pthread_mutex_lock(&gate);
    pfl_closer_run(wait_at_gate, NULL, map.who);
}

static unsigned count_descriptors(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Its user counts for those that it has then. */
static void memory_that_waits_for_its_seal_takes_no_descriptor_for_it(void **state)
{
    unsigned count = count_descriptors();

    (void)state;
    keep_seals_waiting();
    pfl_smb_map_share(&map);
    assert_int_equal(pfl_smb_map_seal(&map), PFL_SMB_SEALING);
    assert_int_equal(count_descriptors(), count);
    (void)pthread_mutex_unlock(&gate);
    seal_until(PFL_SMB_OURS);
    pfl_closer_wait();
    assert_int_equal(count_descriptors(), count + 1);
}

static void memory_that_is_left_before_its_seal_is_closed_after_it(void **state)
{
    const uint8_t *base = map.smb.base;
    unsigned count = count_descriptors();

    (void)state;
    keep_seals_waiting();
    pfl_smb_map_share(&map);
    assert_int_equal(pfl_smb_map_seal(&map), PFL_SMB_SEALING);
    pfl_smb_map_fini(&map);
    assert_int_equal(count_descriptors(), count);
    (void)pthread_mutex_unlock(&gate);
    pfl_closer_wait();
    assert_int_equal(count_descriptors(), count - 1);
    assert_int_equal(munmap((void *)(uintptr_t)base, SMB), 0);
}

static void a_seal_without_a_pipe_is_tried_again(void **state)
{
    struct rlimit limit;
    struct rlimit none;

    (void)state;
    pfl_smb_map_share(&map);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_cur = 3, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    seal_until(PFL_SMB_SHARED);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(fcntl(map.fd, F_ADD_SEALS, F_SEAL_SEAL), 0); /* too late */
    seal_until(PFL_SMB_OURS);
}

/* In a hole a page could be written, and then made huge. */
static void memory_without_a_page_to_hold_is_left_alone(void **state)
{
    const uint8_t *base = map.smb.base;

    (void)state;
    pfl_smb_map_share(&map);
    assert_int_equal(make_hole(0), 0);
    seal_until(PFL_SMB_FOREIGN);
    pfl_smb_map_fini(&map);
    assert_int_equal(munmap((void *)(uintptr_t)base, SMB), 0);
}

static bool is_mapped(const void *at)
{
    unsigned char resident;

    return mincore((void *)(uintptr_t)at, PAGE, &resident) == 0;
}

/* To unmap it could take as long as to read it. */
static void memory_that_cannot_be_sealed_any_more_is_left_alone(void **state)
{
    const uint8_t *base = map.smb.base;
    struct pfl_smb_chunk chunk;

    (void)state;
    pfl_smb_map_share(&map);
    assert_int_equal(fcntl(map.fd, F_ADD_SEALS, F_SEAL_SEAL), 0);
    seal_until(PFL_SMB_FOREIGN);
    assert_int_equal(pfl_smb_map_take(&map, 2, 0, &chunk), PFL_ENOENT);
    pfl_smb_map_fini(&map);
    assert_true(is_mapped(base));
    assert_int_equal(munmap((void *)(uintptr_t)base, SMB), 0);
}

static void memory_that_nobody_else_has_is_unmapped(void **state)
{
    const uint8_t *base = map.smb.base;

    (void)state;
    pfl_smb_map_fini(&map);
    assert_false(is_mapped(base));
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(sealed_memory_is_not_made_huge),
        ROW(memory_that_waits_for_its_seal_takes_no_descriptor_for_it),
        ROW(memory_that_is_left_before_its_seal_is_closed_after_it),
        ROW(a_seal_without_a_pipe_is_tried_again),
        ROW(memory_without_a_page_to_hold_is_left_alone),
        ROW(memory_that_cannot_be_sealed_any_more_is_left_alone),
        ROW(memory_that_nobody_else_has_is_unmapped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
