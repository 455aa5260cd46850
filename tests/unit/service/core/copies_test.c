/* SPDX-License-Identifier: Apache-2.0 */
/* Copiers and their jobs: who has the area, whom the end of a copier reaches, and how many there
 * are. */
#include "service/core/copies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "abi/limits.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/core/copies_kit.h"

#define USER 1000u
#define JOBS 4u
#define MAP  1u

/* Notes what becomes of it. */
struct noting_job {
    struct pfl_copy_job job;
    unsigned changes;
    enum pfl_copy_job_state seen;
};

static uint64_t now_ms;
static uint64_t lost[8];
static unsigned lost_len;
static struct pfl_copies_kit kit;
static struct pfl_copies copies;
static struct noting_job jobs[JOBS];

static uint64_t read_ms(void *user)
{
    (void)user;
    return now_ms;
}

static void on_lost(void *user, const struct pfl_copier *copier)
{
    (void)user;
    assert_in_range(lost_len, 0, 7);
    lost[lost_len++] = copier->who;
}

static void on_change(struct pfl_copy_job *job)
{
    struct noting_job *noting = PFL_CONTAINER_OF(job, struct noting_job, job);

    noting->changes++;
    noting->seen = job->state;
}

static int open_all(void **state)
{
    const struct pfl_copies_conf conf = {
        .ops = &pfl_copies_kit_ops, .ops_user = &kit, .now_ms = read_ms, .on_lost = on_lost};

    (void)state;
    now_ms = 5000;
    lost_len = 0;
    pfl_copies_kit_open(&kit);
    pfl_copies_init(&copies, &conf);
    memset(jobs, 0, sizeof(jobs));
    for (unsigned i = 0; i < JOBS; i++)
        jobs[i].job.on_change = on_change;
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    pfl_copies_fini(&copies);
    pfl_copies_kit_close(&kit);
    pfl_sweep_assert_no_leak();
    return 0;
}

static struct pfl_copier *open_copier(uint64_t who)
{
    struct pfl_copier *copier = pfl_copies_open(&copies, who);

    assert_non_null(copier);
    return copier;
}

static void begin(unsigned index, struct pfl_copier *copier)
{
    pfl_copy_job_begin(&jobs[index].job, copier);
}

static void ask(unsigned index)
{
    pfl_copy_job_ask(&jobs[index].job, PFL_COPY_SCRAPE, MAP, 0);
}

static void expect(unsigned index, enum pfl_copy_job_state state, unsigned changes)
{
    assert_int_equal(jobs[index].job.state, state);
    assert_int_equal(jobs[index].changes, changes);
    if (changes != 0 && state != PFL_COPY_JOB_IDLE && state != PFL_COPY_JOB_ASKED)
        assert_int_equal(jobs[index].seen, state);
}

/* It has a memory of the smallest size. */
static struct pfl_copier *open_with_memory(uint64_t who)
{
    struct pfl_copier *copier = open_copier(who);
    struct pfl_smb_map map;

    pfl_smb_map_init(&map);
    assert_int_equal(
        pfl_smb_map_create(
            &map, (struct pfl_smb_size){PFL_SMB_DEFAULT_BYTES, PFL_SMB_PAGE_DEFAULT_BYTES}, true),
        0);
    assert_int_equal(pfl_copier_attach(copier, MAP, PFL_SMB_PAGE_DEFAULT_BYTES, map.fd, false), 0);
    pfl_smb_map_fini(&map);
    return copier;
}

static void jobs_have_the_area_one_after_the_other(void **state)
{
    struct pfl_copier *copier = open_with_memory(USER);

    (void)state;
    for (unsigned i = 0; i < JOBS; i++)
        begin(i, copier);
    expect(0, PFL_COPY_JOB_OWNS, 0); /* not from inside begin */
    for (unsigned i = 0; i < JOBS; i++) {
        expect(i, PFL_COPY_JOB_OWNS, i != 0);
        if (i + 1 < JOBS)
            expect(i + 1, PFL_COPY_JOB_WAITS, 0);
        ask(i);
        expect(i, PFL_COPY_JOB_ASKED, i != 0);
        assert_true(pfl_copies_kit_answer(&kit, USER));
        expect(i, PFL_COPY_JOB_DONE, 1 + (i != 0));
        assert_null(pfl_copy_job_next(&jobs[i].job));
        pfl_copy_job_end(&jobs[i].job);
        expect(i, PFL_COPY_JOB_IDLE, 1 + (i != 0));
    }
    assert_null(copier->owner);
}

static void a_job_may_ask_again_before_it_ends(void **state)
{
    begin(0, open_with_memory(USER));
    (void)state;
    for (unsigned i = 1; i <= 3; i++) {
        ask(0);
        assert_true(pfl_copies_kit_answer(&kit, USER));
        expect(0, PFL_COPY_JOB_DONE, i);
    }
}

static void a_job_that_waits_may_end(void **state)
{
    struct pfl_copier *copier = open_with_memory(USER);

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        begin(i, copier);
    pfl_copy_job_end(&jobs[1].job);
    pfl_copy_job_end(&jobs[0].job);
    expect(1, PFL_COPY_JOB_IDLE, 0);
    expect(2, PFL_COPY_JOB_OWNS, 1);
    pfl_copy_job_end(&jobs[2].job);
    pfl_copy_job_end(&jobs[2].job); /* again: nothing */
}

/* The copier is at work in the area until it answers. */
static void the_area_of_a_job_that_ended_is_passed_on_with_the_answer(void **state)
{
    struct pfl_copier *copier = open_with_memory(USER);

    (void)state;
    begin(0, copier);
    ask(0);
    begin(1, copier);
    pfl_copy_job_end(&jobs[0].job);
    expect(1, PFL_COPY_JOB_WAITS, 0);
    begin(0, copier);
    expect(0, PFL_COPY_JOB_WAITS, 0); /* behind it */
    assert_true(pfl_copies_kit_answer(&kit, USER));
    expect(1, PFL_COPY_JOB_OWNS, 1);
    pfl_copy_job_end(&jobs[1].job);
    expect(0, PFL_COPY_JOB_OWNS, 1);
}

static void the_end_of_a_copier_reaches_jobs_in_every_state(void **state)
{
    struct pfl_copier *copier;

    (void)state;
    for (enum pfl_copy_job_state owner = PFL_COPY_JOB_OWNS; owner <= PFL_COPY_JOB_DONE; owner++) {
        memset(lost, 0, sizeof(lost));
        lost_len = 0;
        copier = open_with_memory(USER);
        for (unsigned i = 0; i < 3; i++)
            jobs[i] = (struct noting_job){.job.on_change = on_change};
        begin(0, copier);
        begin(1, copier);
        begin(2, copier);
        if (owner >= PFL_COPY_JOB_ASKED)
            ask(0);
        if (owner == PFL_COPY_JOB_DONE)
            assert_true(pfl_copies_kit_answer(&kit, USER));
        assert_int_equal(jobs[0].job.state, owner);
        pfl_copies_kit_end(&kit, USER);
        assert_int_equal(lost_len, 1);
        assert_int_equal(lost[0], USER);
        assert_false(pfl_copies_kit_has(&kit, USER));
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(jobs[i].job.state, PFL_COPY_JOB_LOST);
            assert_int_equal(jobs[i].seen, PFL_COPY_JOB_LOST);
            assert_null(pfl_copy_job_next(&jobs[i].job));
            pfl_copy_job_wait(&jobs[i].job, 1); /* for nothing */
            pfl_copy_job_end(&jobs[i].job);
        }
    }
    assert_int_equal(kit.waits, 0);
    assert_int_equal(copies.len, 0);
}

static void a_copier_may_end_that_nobody_asked(void **state)
{
    (void)state;
    (void)open_copier(USER);
    pfl_copies_kit_end(&kit, USER);
    assert_int_equal(lost_len, 1);
    /* The next one is another. */
    assert_int_equal(open_copier(USER)->memories, 1);
}

static void a_copier_without_that_memory_loses_the_job_alone(void **state)
{
    struct pfl_copier *copier = open_with_memory(USER);

    (void)state;
    begin(0, copier);
    ask(0);
    begin(1, copier);
    pfl_copies_kit_refuse(&kit, USER, PFL_ENOENT);
    expect(0, PFL_COPY_JOB_LOST, 1);
    expect(1, PFL_COPY_JOB_OWNS, 1);
    assert_int_equal(lost_len, 0);
    pfl_copy_job_end(&jobs[0].job);
    expect(1, PFL_COPY_JOB_OWNS, 1);
    ask(1);
    assert_true(pfl_copies_kit_answer(&kit, USER));
    expect(1, PFL_COPY_JOB_DONE, 2);
}

static void an_answer_to_attach_is_no_answer_to_a_job(void **state)
{
    const struct pfl_copy_message attached = {
        .kind = PFL_COPY_ATTACH, .map = MAP, .error = PFL_EIO};
    struct pfl_copier *copier = open_with_memory(USER);

    (void)state;
    begin(0, copier);
    ask(0);
    pfl_copier_on_answer(copier, &attached);
    expect(0, PFL_COPY_JOB_ASKED, 0);
    assert_true(pfl_copies_kit_answer(&kit, USER));
    expect(0, PFL_COPY_JOB_DONE, 1);
}

static void a_copier_that_takes_no_message_is_lost(void **state)
{
    struct pfl_copier *copier = open_with_memory(USER);

    (void)state;
    begin(0, copier);
    begin(1, copier);
    pfl_copies_kit_block(&kit, USER);
    ask(0);
    expect(0, PFL_COPY_JOB_LOST, 1);
    expect(1, PFL_COPY_JOB_LOST, 1);
    assert_int_equal(lost_len, 1);
    copier = open_with_memory(USER);
    pfl_copies_kit_block(&kit, USER);
    assert_int_equal(pfl_copier_attach(copier, MAP, PFL_SMB_PAGE_DEFAULT_BYTES, -1, false),
                     PFL_EAGAIN);
    assert_int_equal(lost_len, 1);
    pfl_copier_detach(copier, MAP);
    assert_int_equal(lost_len, 2);
}

static void answer_memory(struct pfl_copier *copier, uint32_t kind)
{
    pfl_copier_on_answer(copier, &(struct pfl_copy_message){.kind = kind});
}

/* A producer's memory is attached when it is needed, if its copier has many others to attach. */
static void a_copier_gets_so_many_memories_at_once(void **state)
{
    struct pfl_copier *copier = open_with_memory(USER);
    struct pfl_smb_map map;

    (void)state;
    pfl_smb_map_init(&map);
    assert_int_equal(
        pfl_smb_map_create(&map, (struct pfl_smb_size){PFL_SMB_DEFAULT_BYTES, 4096}, false), 0);
    copier->in_flight = PFL_COPIES_IN_FLIGHT;
    assert_int_equal(pfl_copier_attach(copier, MAP + 1, 4096, map.fd, false), PFL_EAGAIN);
    assert_int_equal(pfl_copier_attach(copier, MAP + 1, 4096, map.fd, true), 0);
    assert_int_equal(copier->in_flight, PFL_COPIES_IN_FLIGHT + 1);
    answer_memory(copier, PFL_COPY_ATTACH);
    answer_memory(copier, PFL_COPY_ATTACH);
    assert_int_equal(pfl_copier_attach(copier, MAP + 2, 4096, map.fd, false), 0);
    pfl_smb_map_fini(&map);
}

/* What is left then is detached after the answers, and before the number has another memory. */
static void memories_that_are_left_at_once_are_detached_later(void **state)
{
    struct pfl_copier *copier = open_with_memory(USER);
    struct pfl_smb_map map;

    (void)state;
    copier->memories += 3;
    copier->in_flight = PFL_COPIES_IN_FLIGHT;
    for (uint32_t i = 0; i < 3; i++)
        pfl_copier_detach(copier, MAP + i);
    assert_int_equal(copier->left_len, 3);
    assert_int_equal(kit.detached, 0);
    pfl_smb_map_init(&map);
    assert_int_equal(
        pfl_smb_map_create(&map, (struct pfl_smb_size){PFL_SMB_DEFAULT_BYTES, 4096}, false), 0);
    assert_int_equal(pfl_copier_attach(copier, MAP, 4096, map.fd, true), 0);
    assert_int_equal(kit.detached, 1); /* the first memory with that number */
    for (unsigned i = 0; i < 3; i++)
        answer_memory(copier, PFL_COPY_DETACH);
    assert_int_equal(kit.detached, 2);
    answer_memory(copier, PFL_COPY_ATTACH);
    assert_int_equal(kit.detached, 3);
    assert_int_equal(copier->left_len, 0);
    pfl_smb_map_fini(&map);
}

static void pass_limit(void)
{
    now_ms += PFL_COPIES_LIMIT_MS;
    pfl_copies_check(&copies);
    now_ms += PFL_COPIES_LAST_MS;
    pfl_copies_check(&copies);
}

static void a_copier_that_does_not_answer_for_the_limit_is_ended(void **state)
{
    struct pfl_copier *slow = open_with_memory(USER);
    struct pfl_copier *prompt = open_with_memory(USER + 1);

    (void)state;
    assert_true(pfl_copies_get_due_ms(&copies) == UINT64_MAX);
    begin(0, slow);
    assert_true(pfl_copies_get_due_ms(&copies) == UINT64_MAX); /* it is not asked */
    ask(0);
    assert_int_equal(pfl_copies_get_due_ms(&copies), now_ms + PFL_COPIES_LIMIT_MS);
    begin(1, slow);
    now_ms += PFL_COPIES_LIMIT_MS;
    begin(2, prompt);
    ask(2);
    pfl_copies_check(&copies);
    assert_int_equal(pfl_copies_get_due_ms(&copies), now_ms + PFL_COPIES_LAST_MS);
    now_ms += PFL_COPIES_LAST_MS - 1;
    pfl_copies_check(&copies);
    assert_int_equal(lost_len, 0);
    now_ms++;
    assert_int_equal(pfl_copies_get_due_ms(&copies), now_ms);
    pfl_copies_check(&copies);
    assert_int_equal(lost_len, 1);
    assert_int_equal(lost[0], USER);
    expect(0, PFL_COPY_JOB_LOST, 1);
    expect(1, PFL_COPY_JOB_LOST, 1);
    expect(2, PFL_COPY_JOB_ASKED, 0);
    pfl_copy_job_end(&jobs[2].job); /* it is at work nevertheless */
    pass_limit();
    assert_int_equal(lost_len, 2);
}

/* The answer was there, or the copier was stopped with it. */
static void a_copier_may_answer_after_the_service_was_stopped(void **state)
{
    struct pfl_copier *copier = open_with_memory(USER);

    (void)state;
    begin(0, copier);
    for (unsigned i = 1; i <= 2; i++) {
        ask(0);
        now_ms += 100 * PFL_COPIES_LIMIT_MS;
        pfl_copies_check(&copies);
        assert_true(pfl_copies_kit_answer(&kit, USER));
        expect(0, PFL_COPY_JOB_DONE, i);
        assert_true(pfl_copies_get_due_ms(&copies) == UINT64_MAX);
    }
    now_ms += PFL_COPIES_LAST_MS;
    pfl_copies_check(&copies);
    assert_int_equal(lost_len, 0);
}

static void a_job_waits_for_the_answer_when_the_loop_has_no_turns(void **state)
{
    struct pfl_copier *copier = open_with_memory(USER);

    (void)state;
    begin(0, copier);
    pfl_copy_job_wait(&jobs[0].job, 1);
    assert_int_equal(kit.waits, 0); /* it has the area */
    ask(0);
    begin(1, copier);
    pfl_copy_job_wait(&jobs[0].job, 1);
    expect(0, PFL_COPY_JOB_DONE, 1);
    pfl_copy_job_wait(&jobs[0].job, 1);
    assert_int_equal(kit.waits, 1);
    kit.is_prompt = false;
    pfl_copy_job_wait(&jobs[1].job, 1);
    assert_int_equal(kit.waits, 2);
    expect(1, PFL_COPY_JOB_WAITS, 0);
}

/* The area is the copier's to write: what it says is judged. */
static void entries_outside_the_area_are_none(void **state)
{
    static const struct {
        uint32_t at;
        uint32_t bytes;
        uint32_t result;
    } rows[] = {
        {0, PFL_COPY_DATA_BYTES, PFL_COPY_WHOLE},
        {PFL_COPY_DATA_BYTES, 0, PFL_COPY_WHOLE},
        {1, PFL_COPY_DATA_BYTES, PFL_COPY_NONE},
        {PFL_COPY_DATA_BYTES, 1, PFL_COPY_NONE},
        {PFL_COPY_DATA_BYTES + 1, 0, PFL_COPY_NONE},
        {UINT32_MAX, 2, PFL_COPY_NONE},
        {2, UINT32_MAX, PFL_COPY_NONE},
    };
    struct pfl_copier *copier = open_with_memory(USER);

    (void)state;
    begin(0, copier);
    ask(0);
    assert_true(pfl_copies_kit_answer(&kit, USER));
    copier->area->entries_len = sizeof(rows) / sizeof(rows[0]);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        copier->area->entries[i] = (struct pfl_copy_entry){
            .at = rows[i].at, .bytes = rows[i].bytes, .result = PFL_COPY_WHOLE};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(pfl_copy_job_next(&jobs[0].job)->result, rows[i].result);
    assert_null(pfl_copy_job_next(&jobs[0].job));
}

static void an_entry_that_was_checked_does_not_change(void **state)
{
    struct pfl_copier *copier = open_with_memory(USER);
    const struct pfl_copy_entry *entry;

    (void)state;
    begin(0, copier);
    ask(0);
    assert_true(pfl_copies_kit_answer(&kit, USER));
    copier->area->entries_len = 1;
    copier->area->entries[0] = (struct pfl_copy_entry){.at = 1, .bytes = 2};
    entry = pfl_copy_job_next(&jobs[0].job);
    copier->area->entries[0] = (struct pfl_copy_entry){.at = UINT32_MAX, .bytes = UINT32_MAX};
    assert_int_equal(entry->at, 1);
    assert_int_equal(entry->bytes, 2);
}

static void there_are_no_more_entries_than_the_area_has(void **state)
{
    struct pfl_copier *copier = open_with_memory(USER);
    unsigned count = 0;

    (void)state;
    begin(0, copier);
    ask(0);
    assert_true(pfl_copies_kit_answer(&kit, USER));
    copier->area->entries_len = UINT32_MAX;
    while (pfl_copy_job_next(&jobs[0].job) != NULL)
        count++;
    assert_int_equal(count, PFL_COPY_ENTRIES);
    assert_false(pfl_copy_job_has_more(&jobs[0].job));
}

static void a_user_has_one_copier(void **state)
{
    struct pfl_copier *copier = open_copier(USER);

    (void)state;
    assert_ptr_equal(open_copier(USER), copier);
    assert_ptr_not_equal(open_copier(USER + 1), copier);
    assert_int_equal(copier->memories, 2);
    assert_int_equal(copies.len, 2);
    pfl_copies_close(copier);
    pfl_copies_close(copier);
    assert_int_equal(copies.len, 2); /* a few are kept */
    assert_ptr_equal(open_copier(USER), copier);
}

static void there_are_so_many_copiers(void **state)
{
    struct pfl_copier *first = open_copier(USER);

    (void)state;
    for (unsigned i = 1; i < PFL_COPIES_MAX; i++)
        (void)open_copier(USER + i);
    assert_null(pfl_copies_open(&copies, USER + PFL_COPIES_MAX));
    assert_ptr_equal(open_copier(USER), first); /* who has one has it */
    pfl_copies_close(first);
    pfl_copies_close(first); /* too many of them: it ends at once */
    assert_false(pfl_copies_kit_has(&kit, USER));
    (void)open_copier(USER + PFL_COPIES_MAX);
    assert_null(pfl_copies_open(&copies, USER));
}

static void many_ids_have_the_half(void **state)
{
    (void)state;
    for (unsigned i = 0; i < PFL_COPIES_MAX / 2; i++)
        (void)open_copier(PFL_COPIES_MANY_IDS + i);
    assert_null(pfl_copies_open(&copies, PFL_COPIES_MANY_IDS + PFL_COPIES_MAX));
    for (unsigned i = 0; i < PFL_COPIES_MAX / 2; i++)
        (void)open_copier(USER + i);
    pfl_copies_kit_end(&kit, PFL_COPIES_MANY_IDS);
    (void)open_copier(PFL_COPIES_MANY_IDS + PFL_COPIES_MAX);
}

/* A copier that nobody needs makes room, but for one that is at work. */
static void idle_copiers_make_room(void **state)
{
    struct pfl_copier *idle[PFL_COPIES_IDLE];

    (void)state;
    for (unsigned i = 0; i < PFL_COPIES_IDLE; i++) {
        idle[i] = open_copier((i == 1 ? PFL_COPIES_MANY_IDS : USER) + i);
        pfl_copies_close(idle[i]);
    }
    begin(0, idle[0]);
    ask(0);
    pfl_copy_job_end(&jobs[0].job);
    for (unsigned i = PFL_COPIES_IDLE; i < PFL_COPIES_MAX; i++)
        (void)open_copier((i < PFL_COPIES_MAX / 2 + 7 ? PFL_COPIES_MANY_IDS : USER) + i);
    assert_int_equal(copies.of_many_ids, PFL_COPIES_MAX / 2);
    assert_int_equal(copies.len, PFL_COPIES_MAX);
    /* Of those with as many ids. */
    (void)open_copier(PFL_COPIES_MANY_IDS + PFL_COPIES_MAX);
    assert_false(pfl_copies_kit_has(&kit, PFL_COPIES_MANY_IDS + 1));
    assert_null(pfl_copies_open(&copies, PFL_COPIES_MANY_IDS + 1));
    for (unsigned i = 2; i < PFL_COPIES_IDLE; i++)
        (void)open_copier(USER + PFL_COPIES_MAX + i);
    assert_true(pfl_copies_kit_has(&kit, USER));
    assert_null(pfl_copies_open(&copies, USER + PFL_COPIES_MAX + PFL_COPIES_IDLE));
    /* Once it has answered, it is idle. */
    assert_true(pfl_copies_kit_answer(&kit, USER));
    (void)open_copier(USER + PFL_COPIES_MAX + PFL_COPIES_IDLE);
    assert_false(pfl_copies_kit_has(&kit, USER));
    assert_int_equal(lost_len, 0);
}

static void without_a_process_there_is_no_copier(void **state)
{
    (void)state;
    kit.can_open = false;
    assert_null(pfl_copies_open(&copies, USER));
    kit.can_open = true;
    (void)open_copier(USER);
    assert_int_equal(copies.len, 1);
}

static void without_ops_there_are_no_copiers(void **state)
{
    struct pfl_copies none;

    (void)state;
    pfl_copies_init(&none, &(struct pfl_copies_conf){.now_ms = read_ms, .on_lost = on_lost});
    assert_null(pfl_copies_open(&none, USER));
    pfl_copies_check(&none);
    assert_true(pfl_copies_get_due_ms(&none) == UINT64_MAX);
    pfl_copies_fini(&none);
}

static int open_one(void *arg)
{
    struct pfl_copier *copier = pfl_copies_open(&copies, USER);

    (void)arg;
    if (copier == NULL)
        return PFL_ENOMEM;
    pfl_copies_kit_end(&kit, USER);
    lost_len = 0;
    return 0;
}

static void a_copier_that_gets_no_memory_leaves_none(void **state)
{
    (void)state;
    pfl_sweep(open_one, NULL, false);
    assert_int_equal(copies.len, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)
    const struct CMUnitTest tests[] = {
        TEST(jobs_have_the_area_one_after_the_other),
        TEST(a_job_may_ask_again_before_it_ends),
        TEST(a_job_that_waits_may_end),
        TEST(the_area_of_a_job_that_ended_is_passed_on_with_the_answer),
        TEST(the_end_of_a_copier_reaches_jobs_in_every_state),
        TEST(a_copier_may_end_that_nobody_asked),
        TEST(a_copier_without_that_memory_loses_the_job_alone),
        TEST(an_answer_to_attach_is_no_answer_to_a_job),
        TEST(a_copier_that_takes_no_message_is_lost),
        TEST(a_copier_gets_so_many_memories_at_once),
        TEST(memories_that_are_left_at_once_are_detached_later),
        TEST(a_copier_that_does_not_answer_for_the_limit_is_ended),
        TEST(a_copier_may_answer_after_the_service_was_stopped),
        TEST(a_job_waits_for_the_answer_when_the_loop_has_no_turns),
        TEST(entries_outside_the_area_are_none),
        TEST(an_entry_that_was_checked_does_not_change),
        TEST(there_are_no_more_entries_than_the_area_has),
        TEST(a_user_has_one_copier),
        TEST(there_are_so_many_copiers),
        TEST(many_ids_have_the_half),
        TEST(idle_copiers_make_room),
        TEST(without_a_process_there_is_no_copier),
        TEST(without_ops_there_are_no_copiers),
        TEST(a_copier_that_gets_no_memory_leaves_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
