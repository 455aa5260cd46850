/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent is killed at any moment, again and again, while segments come, are given out, released,
 * and removed by a quota, and their index is shortened. The child reports on a pipe; judged here:
 * of each run every number up to the highest was given out, as a segment or in a gap; nothing is
 * given out after its release was answered; and in the end the folder is empty.
 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/agent/daemon/segment/segments_kit.h"

#define ROUNDS          60
#define RUNS_MAX        3000u /* of each round, and its copies */
#define NUMBERS_MAX     4000u
#define KILL_MAX_US     60000u
#define FIRST_REPORT_MS 120000

struct word {
    char what; /* G: given out; R: its release was answered */
    char id[PFL_SEGMENT_ID_BYTES];
    uint32_t number;
    uint32_t last;
    bool is_copy;
};

struct model {
    char id[PFL_SEGMENT_ID_BYTES];
    uint32_t highest;
    bool is_copy;
    uint8_t is_given[NUMBERS_MAX];
    uint8_t is_released[NUMBERS_MAX];
};

static struct model models[RUNS_MAX];
static size_t models_len;
static struct kit kit;

/* ---- the child ---- */

static void tell(int fd, char what, const struct kit_note *note)
{
    struct word word = {.what = what,
                        .number = note->number,
                        .last = note->last,
                        .is_copy = strcmp(note->trigger, "boom") == 0};

    memcpy(word.id, note->id, sizeof(word.id));
    assert_int_equal(write(fd, &word, sizeof(word)), sizeof(word));
}

/* Gives out what there is, and releases some of it. */
static size_t collect(int fd, bool takes_all)
{
    static struct kit_note notes[512];
    size_t len = kit_list(&kit, KIT_COLLECTOR, rand() % 2 == 0, notes, 512);

    for (size_t i = 0; i < len; i++) {
        tell(fd, 'G', &notes[i]);
        if ((takes_all || rand() % 3 == 0) && kit_release(&kit, KIT_COLLECTOR, &notes[i]) == 0)
            tell(fd, 'R', &notes[i]);
    }
    return len;
}

static void live(int fd)
{
    char id[PFL_SEGMENT_ID_BYTES];
    char copy[PFL_SEGMENT_ID_BYTES];

    kit_open(&kit, &(struct pfl_segment_quota){.max_bytes = 300});
    kit_begin_run(&kit, "web", id);
    for (uint32_t n = 1; n < NUMBERS_MAX; n++) {
        char text[32];

        (void)snprintf(text, sizeof(text), "segment %u", n);
        kit_write_segment(&kit, id, n, text, NULL);
        kit_turn(&kit);
        /* The file is there, its line is not. */
        kit_write_segment(&kit, id, n, "", "time");
        if (n % 5 == 0)
            kit_shorten_index(&kit, id, n, 1, n);
        if (n % 4 == 0)
            kit_copy(&kit, "ring", "boom", text, copy);
        if (rand() % 4 == 0)
            (void)collect(fd, false);
    }
}

static bool is_empty(struct kit *k)
{
    return kit_count_files(k, "") == 0;
}

static void finish(int fd)
{
    kit_open(&kit, &(struct pfl_segment_quota){.max_bytes = 0});
    while (!is_empty(&kit)) {
        (void)collect(fd, true);
        kit_turn(&kit);
    }
    kit_close(&kit);
}

/* ---- the judge ---- */

static struct model *find(const char *id)
{
    for (size_t i = 0; i < models_len; i++) {
        if (strcmp(models[i].id, id) == 0)
            return &models[i];
    }
    assert_true(models_len < RUNS_MAX);
    memcpy(models[models_len].id, id, PFL_SEGMENT_ID_BYTES);
    return &models[models_len++];
}

static void judge(const struct word *word)
{
    struct model *m = find(word->id);

    assert_true(word->number >= 1 && word->last < NUMBERS_MAX);
    for (uint32_t n = word->number; n <= word->last; n++) {
        if (word->what == 'G')
            assert_false(m->is_released[n]);
        m->is_given[n] = 1;
        m->is_released[n] = word->what == 'R';
    }
    if (word->last > m->highest)
        m->highest = word->last;
    /* A copy has one segment or one gap, which tells the trigger. */
    m->is_copy |= word->is_copy;
    assert_true(!m->is_copy || (word->is_copy && m->highest == 1));
}

/* At any moment; in every second life not before it gave something out, however slow it is. */
static void kill_child(pid_t pid, unsigned seed, int fd)
{
    struct pollfd report = {.fd = fd, .events = POLLIN};

    if (seed % 2 != 0)
        assert_int_equal(poll(&report, 1, FIRST_REPORT_MS), 1);
    (void)usleep((useconds_t)rand() % KILL_MAX_US);
    (void)kill(pid, SIGKILL);
}

static void run_child(unsigned seed, bool is_last)
{
    struct word word;
    int fds[2];
    int status;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    assert_true(fcntl(fds[1], F_SETPIPE_SZ, 1 << 20) > 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        srand(seed);
        if (is_last)
            finish(fds[1]);
        else
            live(fds[1]);
        _exit(0);
    }
    (void)close(fds[1]);
    if (!is_last)
        kill_child(pid, seed, fds[0]);
    while (read(fds[0], &word, sizeof(word)) == sizeof(word))
        judge(&word);
    (void)close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(is_last ? WIFEXITED(status) && WEXITSTATUS(status) == 0 : WIFSIGNALED(status));
}

static void killed_at_any_moment_nothing_is_lost_or_repeated(void **state)
{
    unsigned given = 0;
    unsigned copies = 0;

    (void)state;
    kit_make_dir(&kit);
    srand(1);
    for (unsigned i = 0; i < ROUNDS; i++)
        run_child(i, false);
    run_child(0, true);
    for (size_t i = 0; i < models_len; i++) {
        for (uint32_t n = 1; n <= models[i].highest; n++)
            assert_true(models[i].is_given[n]);
        given += models[i].highest;
        copies += models[i].is_copy;
    }
    assert_true(copies > 0);
    assert_true(given >= ROUNDS / 2);
    kit_remove_dir(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_any_moment_nothing_is_lost_or_repeated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
