/* SPDX-License-Identifier: Apache-2.0 */
/* The files of /proc and /sys, read on another thread. */
#include "agent/probes/procfs/proc_reader.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/probes/procfs/slow_work.h"
#include "base/clock.h"
#include "base/mem.h"

#define ALL ((1u << PFL_PROC_FILES) - 1)

static bool has_number(const int32_t *list, size_t len, int32_t number)
{
    for (size_t i = 0; i < len; i++) {
        if (list[i] == number)
            return true;
    }
    return false;
}

static void files_of_many_processes_are_read_in_one_call(void **state)
{
    struct pfl_proc_request requests[PFL_PROC_READER_PROCESSES];
    struct pfl_proc_answer answers[PFL_PROC_READER_PROCESSES];

    (void)state;
    for (size_t i = 0; i < PFL_PROC_READER_PROCESSES; i++)
        requests[i] =
            (struct pfl_proc_request){.pid = i % 2 == 0 ? getpid() : INT32_MAX, .files = ALL};
    requests[2].files = 1u << PFL_PROC_STAT;
    pfl_proc_reader_read(requests, PFL_PROC_READER_PROCESSES, answers);
    for (size_t i = 0; i < PFL_PROC_READER_PROCESSES; i++) {
        const struct pfl_span *texts = answers[i].texts;

        assert_int_equal(texts[PFL_PROC_STATUS].len != 0, i % 2 == 0 && i != 2);
        assert_int_equal(texts[PFL_PROC_STAT].len != 0, i % 2 == 0);
        assert_int_equal(texts[PFL_PROC_CMDLINE].len != 0, i % 2 == 0 && i != 2);
    }
    assert_memory_equal(answers[0].texts[PFL_PROC_STATUS].data, "Name:", 5);
    assert_memory_equal(answers[14].texts[PFL_PROC_STATUS].data, "Name:", 5);
}

static void *tell_own_id(void *argument)
{
    int32_t *ids = argument;
    char byte;

    __atomic_store_n(&ids[2], gettid(), __ATOMIC_RELEASE);
    return read(ids[0], &byte, 1) == 1 ? argument : NULL;
}

static void a_process_has_a_command_line_and_a_thread_of_it_has_none(void **state)
{
    struct pfl_proc_request request = {.files = ALL};
    struct pfl_proc_answer answer;
    pthread_t thread;
    int32_t ids[3] = {0};
    size_t len;
    int32_t *tids;

    (void)state;
    assert_int_equal(pipe(ids), 0);
    assert_int_equal(pthread_create(&thread, NULL, tell_own_id, ids), 0);
    while (__atomic_load_n(&ids[2], __ATOMIC_ACQUIRE) == 0)
        usleep(100);
    request.pid = ids[2];
    pfl_proc_reader_read(&request, 1, &answer);
    assert_true(answer.texts[PFL_PROC_STATUS].len != 0);
    assert_int_equal(answer.texts[PFL_PROC_CMDLINE].len, 0);
    tids = pfl_proc_reader_list(getpid(), "task", SIZE_MAX, &len);
    assert_true(has_number(tids, len, ids[2]));
    assert_true(has_number(tids, len, getpid()));
    pfl_mem_free(tids);
    assert_int_equal(write(ids[1], "x", 1), 1);
    pthread_join(thread, NULL);
    close(ids[0]);
    close(ids[1]);
}

static void processes_are_listed(void **state)
{
    size_t len;
    int32_t *pids = pfl_proc_reader_list(0, "", SIZE_MAX, &len);

    (void)state;
    assert_true(has_number(pids, len, getpid()));
    pfl_mem_free(pids);
    assert_null(pfl_proc_reader_list(INT32_MAX, "fd", SIZE_MAX, &len));
    assert_int_equal(len, 0);
    pids = pfl_proc_reader_list(getpid(), "fd", 2, &len);
    assert_int_equal(len, 2);
    pfl_mem_free(pids);
}

static bool is_a_pipe(const char *path)
{
    return strncmp(path, "pipe:", 5) == 0;
}

static void descriptors_are_followed(void **state)
{
    struct pfl_proc_link links[3];
    int32_t fds[3] = {0};

    (void)state;
    assert_int_equal(pipe(fds), 0);
    fds[2] = 1000000;
    pfl_proc_reader_follow(getpid(), fds, 3, is_a_pipe, links);
    assert_memory_equal(links[0].path.data, "pipe:[", 6);
    assert_true(links[0].is_looked_at);
    assert_int_equal(links[0].error, 0);
    assert_int_equal(links[0].dev_minor, links[1].dev_minor);
    assert_int_equal(links[2].path.len, 0);
    assert_false(links[2].is_looked_at);
    pfl_proc_reader_follow(getpid(), fds, 1, NULL, links);
    assert_int_equal(links[0].path.data[0], 'p');
    assert_false(links[0].is_looked_at);
    close(fds[0]);
    close(fds[1]);
}

static char dir[] = "/tmp/perfleet-test-XXXXXX";
static char fifo[64];
static char name[64];

static void a_text_is_read_whole(void **state)
{
    struct pfl_buf text;

    (void)state;
    pfl_buf_init(&text, PFL_PROC_TEXT_BYTES);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(pfl_proc_reader_text("/proc/stat", &text), 0);
        assert_memory_equal(pfl_buf_get(&text).data, "cpu ", 4);
    }
    assert_int_equal(pfl_proc_reader_text("/does/not/exist", &text), PFL_EIO);
    assert_int_equal(pfl_proc_reader_names("/does/not/exist", &text), PFL_EIO);
    assert_int_equal(pfl_proc_reader_names(dir, &text), 0);
    assert_int_equal(text.len, 5);
    assert_memory_equal(pfl_buf_get(&text).data, "link", sizeof("link"));
    pfl_buf_fini(&text);
}

/* A FIFO that nobody writes to is one. */
static void a_file_that_does_not_open_is_given_up_and_not_tried_again(void **state)
{
    uint64_t begin_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    struct pfl_buf text;
    int fd;

    (void)state;
    pfl_buf_init(&text, PFL_PROC_TEXT_BYTES);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(pfl_proc_reader_text(fifo, &text), PFL_EIO);
        assert_int_equal(pfl_proc_reader_text("/proc/stat", &text), 0);
    }
    assert_int_equal(pfl_slow_work_count_stuck(), 1);
    fd = open(fifo, O_RDWR);
    assert_true(fd >= 0);
    close(fd);
    while (pfl_slow_work_count_stuck() != 0) {
        assert_true(pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) - begin_ns < UINT64_C(60000000000));
        usleep(1000);
        pfl_slow_work_reap();
    }
    pfl_buf_fini(&text);
}

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
    snprintf(name, sizeof(name), "%s/link", dir);
    return mkfifo(fifo, 0600) == 0 && symlink("nowhere", name) == 0 ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return unlink(fifo) == 0 && unlink(name) == 0 && rmdir(dir) == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_many_processes_are_read_in_one_call),
        cmocka_unit_test(a_process_has_a_command_line_and_a_thread_of_it_has_none),
        cmocka_unit_test(processes_are_listed),
        cmocka_unit_test(descriptors_are_followed),
        cmocka_unit_test(a_text_is_read_whole),
        cmocka_unit_test(a_file_that_does_not_open_is_given_up_and_not_tried_again),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
