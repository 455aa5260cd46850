/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that write files, their segments and their clones under the allocation sweep, with a
 * disk that only counts: the n-th allocation fails, for every n, and nothing is left and nothing
 * waits for ever.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "service/control/registry.h"
#include "service/session/clone.h"
#include "service/session/session_due.h"
#include "service/session/session_file.h"
#include "service/session/session_run.h"
#include "service/session/session_timers.h"
#include "tests/support/sweep.h"

#define FILES_MAX 8u

struct pfl_disk_file {
    pfl_disk_done_cb done;
    void *user;
    struct pfl_disk_job job;
    bool has_job;
};

static uint64_t now_ns;
static struct pfl_disk_file *files[FILES_MAX];
static unsigned fds_open;
static unsigned answers;
static bool copies_fail;

static int make(void *disk, int folder, const char *path, int *ret_fd)
{
    (void)disk;
    (void)folder;
    (void)path;
    *ret_fd = 1;
    fds_open++;
    return 0;
}

static int open_folder(void *disk, const char *path, int *ret_folder)
{
    return make(disk, -1, path, ret_folder);
}

static void discard(void *disk, int folder, const char *path, int fd)
{
    (void)disk;
    (void)folder;
    (void)path;
    assert_int_equal(fd, 1);
    fds_open--;
}

static int share(struct pfl_disk_file *file, unsigned slot, int *ret_fd, uint64_t *ret_bytes)
{
    assert_false(file->has_job);
    (void)slot;
    *ret_fd = 1;
    *ret_bytes = 10;
    fds_open++;
    return 0;
}

/* The descriptors are the file's from here on; they are counted when it is closed. */
static int open_file(void *disk, const int fds[PFL_DISK_SLOTS], pfl_disk_done_cb done, void *user,
                     struct pfl_disk_file **ret_file)
{
    struct pfl_disk_file *file = pfl_mem_zalloc(sizeof(*file));

    (void)disk;
    if (file == NULL)
        return PFL_ENOMEM;
    file->done = done;
    file->user = user;
    for (size_t i = 0; i < PFL_DISK_SLOTS; i++)
        fds_open -= fds[i] >= 0;
    for (size_t i = 0; i < FILES_MAX; i++) {
        if (files[i] != NULL)
            continue;
        files[i] = file;
        *ret_file = file;
        return 0;
    }
    fail_msg("too many files");
    return PFL_ENOMEM;
}

static void submit(struct pfl_disk_file *file, const struct pfl_disk_job *job)
{
    assert_false(file->has_job);
    file->job = *job;
    file->has_job = true;
}

static void close_file(struct pfl_disk_file *file)
{
    assert_false(file->has_job);
    for (size_t i = 0; i < FILES_MAX; i++)
        files[i] = files[i] == file ? NULL : files[i];
    pfl_mem_free(file);
}

static const struct pfl_disk_ops disk_ops = {.open_folder = open_folder,
                                             .create = make,
                                             .discard = discard,
                                             .share = share,
                                             .open = open_file,
                                             .submit = submit,
                                             .close = close_file};

static void do_job(struct pfl_disk_file *file)
{
    struct pfl_disk_result result = {0};

    file->has_job = false;
    for (size_t i = 0; i < file->job.steps_len; i++) {
        const struct pfl_disk_step *step = &file->job.steps[i];

        if (step->kind == PFL_DISK_COPY && copies_fail)
            result.error = 5;
        else if (step->kind == PFL_DISK_WRITE && result.error == 0)
            result.written[step->slot] += step->bytes.len;
    }
    file->done(file->user, &result);
}

static void run_disk(void)
{
    bool did_something = true;

    while (did_something) {
        did_something = false;
        for (size_t i = 0; i < FILES_MAX; i++) {
            if (files[i] == NULL || !files[i]->has_job)
                continue;
            do_job(files[i]);
            did_something = true;
        }
    }
}

static uint64_t read_clock(void *user, enum pfl_clock_id id)
{
    (void)user;
    (void)id;
    return now_ns;
}

static void read_random(void *user, void *dst, size_t len)
{
    (void)user;
    memset(dst, 1, len);
}

static void on_disabled(void *port, const char *why)
{
    (void)port;
    (void)why;
}

static void on_cloned(void *port, const struct pfl_clone_result *result)
{
    (void)port;
    assert_true(result->is_ok == (result->why == NULL));
    answers++;
}

static void ignore(void *port)
{
    (void)port;
}

static const struct pfl_consumer_ops consumer_ops = {.on_disabled = on_disabled,
                                                     .on_session_gone = ignore,
                                                     .on_cloned = on_cloned,
                                                     .on_observed = ignore};

/* buffers { size_kb: 16 } write_into_file: true file_write_period_ms: 1000 */
#define PLAIN 0x0a, 0x02, 0x08, 0x10, 0x40, 0x01, 0x48, 0xe8, 0x07
static const uint8_t plain_config[] = {PLAIN};
/* output_path: "/t" perfleet_rotation { segment_period_ms: 1000 } compression { deflate {} } */
static const uint8_t rotated_config[] = {PLAIN, 0xea, 0x01, 0x02, '/',  't',  0x8a, 0xb5, 0x18,
                                         0x03,  0x10, 0xe8, 0x07, 0xfa, 0x02, 0x02, 0x0a, 0x00};

static void pass_a_second(struct pfl_service *service)
{
    now_ns += 1000000000ull;
    pfl_session_due_run(service);
    run_disk();
}

static void clone(struct pfl_service *service, struct pfl_consumer *cloner)
{
    int fd = 1;
    const struct pfl_clone_request request = {.session_id = 1, .fd = &fd};

    answers = 0;
    fds_open++;
    pfl_clone_start(service, cloner, &request);
    run_disk();
    if (fd >= 0) /* nobody took it */
        fds_open--;
    assert_int_equal(answers, 1);
}

static int live(void *arg)
{
    static const struct pfl_service_facts facts = {.version = "test"};
    const struct pfl_service_conf conf = {
        .now_ns = read_clock, .random = read_random, .facts = &facts, .disk = &disk_ops};
    const struct pfl_span *config = arg;
    struct pfl_consumer consumer = {.ops = &consumer_ops};
    struct pfl_consumer cloner = {.ops = &consumer_ops};
    char why[PFL_PLAN_WHY_BYTES];
    struct pfl_service service;
    int fd = config->len == sizeof(plain_config) ? 1 : -1;
    int rc = pfl_service_init(&service, &conf);

    if (rc != 0)
        return rc;
    fds_open = fd >= 0;
    pfl_registry_add_consumer(&service, &consumer);
    pfl_registry_add_consumer(&service, &cloner);
    rc = pfl_session_enable(&service, &consumer,
                            &(struct pfl_session_enable_conf){.config = *config, .fd = &fd}, why);
    if (rc == 0) {
        pass_a_second(&service);
        clone(&service, &cloner);
        pass_a_second(&service);
        pass_a_second(&service);
    } else if (fd >= 0) {
        fds_open--;
    }
    pfl_registry_remove_consumer(&service, &consumer);
    pfl_registry_remove_consumer(&service, &cloner);
    run_disk();
    assert_int_equal(service.closing_len, 0);
    assert_int_equal(fds_open, 0);
    pfl_service_fini(&service);
    return rc;
}

static void a_file_and_its_clone_survive_every_failed_allocation(void **state)
{
    struct pfl_span config = pfl_span_of(plain_config, sizeof(plain_config));

    (void)state;
    now_ns = 1000000000000ull;
    pfl_sweep(live, &config, true);
}

static void segments_and_a_clone_of_them_survive_every_failed_allocation(void **state)
{
    struct pfl_span config = pfl_span_of(rotated_config, sizeof(rotated_config));

    (void)state;
    now_ns = 1000000000000ull;
    pfl_sweep(live, &config, true);
}

static void a_clone_whose_copy_fails_is_answered_and_leaves_nothing(void **state)
{
    struct pfl_span config = pfl_span_of(plain_config, sizeof(plain_config));

    (void)state;
    now_ns = 1000000000000ull;
    copies_fail = true;
    assert_int_equal(live(&config), 0);
    copies_fail = false;
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_and_its_clone_survive_every_failed_allocation),
        cmocka_unit_test(segments_and_a_clone_of_them_survive_every_failed_allocation),
        cmocka_unit_test(a_clone_whose_copy_fails_is_answered_and_leaves_nothing),
    };

    pfl_log_set_level(PFL_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
