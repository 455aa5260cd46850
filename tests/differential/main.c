/* SPDX-License-Identifier: Apache-2.0 */
/*
 * difftest: runs schedules against tracing services and compares what they return (README.md).
 *
 *   show      the schedules themselves
 *   run       their outcomes with one service
 *   compare   with two; differences are made small and shown
 *   record    schedules and outcomes into files
 *   replay    files, compared with the outcome in them
 *
 * Exit code: 0 agreement, 1 a difference, 2 wrong usage, 3 the machine failed.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/differential/compare.h"
#include "tests/differential/process.h"
#include "tests/differential/shrink.h"

enum {
    SERVICES = 3,
    COMPARED = 2,
    STAND_IN = 2,
    EXIT_DIFFERENT = 1,
    EXIT_USAGE = 2,
};

struct job {
    const char *programs[SERVICES]; /* the service, its peer, and the stand-in or NULL */
    const char *dir;
    unsigned ops;
    uint64_t first_seed, last_seed; /* none when last < first */
    char **files;
    int files_len;
    struct diff_process processes[SERVICES];
    unsigned long schedules, operations, differences, flukes, excused;
};

/* One schedule: NAME is for people and for the file to write. */
typedef void (*job_step)(struct job *job, const char *name, struct diff_schedule *schedule,
                         const char *recorded);

static void run_service(struct job *job, int which, const struct diff_schedule *schedule,
                        struct diff_text *ret_outcome)
{
    struct diff_process *process = &job->processes[which];
    const char *end;

    if (process->pid <= 0)
        diff_process_start(process, job->programs[which]);
    diff_text_clear(ret_outcome);
    if (diff_run(schedule, &process->sockets, ret_outcome))
        return;
    end = diff_process_end(process);
    if (end != NULL)
        diff_text_add(ret_outcome, "! the service ended: %s\n", end);
    (void)diff_process_stop(process);
}

static void stop_services(struct job *job)
{
    for (int i = 0; i < SERVICES; i++) {
        if (job->programs[i] == NULL || diff_process_stop(&job->processes[i]))
            continue;
        printf("%s did not end well\n", job->programs[i]);
        job->differences++;
    }
}

static void write_recorded(const struct job *job, const char *name,
                           const struct diff_schedule *schedule, struct diff_text *outcome)
{
    struct diff_text text;
    const char *base = strrchr(name, '/') != NULL ? strrchr(name, '/') + 1 : name;
    char path[256];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%.*s.txt", job->dir, (int)strcspn(base, "."), base);
    diff_text_init(&text);
    diff_schedule_print(schedule, &text);
    file = fopen(path, "we");
    if (file == NULL ||
        fprintf(file, "%s---\n%s", diff_text_get(&text), diff_text_get(outcome)) < 0 ||
        fclose(file) != 0)
        diff_die("%s cannot be written", path);
    diff_text_fini(&text);
}

/* How a schedule's outcome compares with the peer's. What differs by the peer's handling of gaps is
 * the same to the letter with the stand-in, which has that fault too, and is excused. */
static enum diff_verdict judge(struct job *job, const struct diff_schedule *schedule,
                               struct diff_text *outcome, const char *peers)
{
    bool is_tidy = diff_schedule_is_tidy(schedule);
    enum diff_verdict verdict = diff_judge(diff_text_get(outcome), peers, is_tidy);
    struct diff_text with_fault;

    if (verdict != DIFF_DIFFERENT || is_tidy || job->programs[STAND_IN] == NULL)
        return verdict;
    diff_text_init(&with_fault);
    run_service(job, STAND_IN, schedule, &with_fault);
    if (diff_judge(diff_text_get(&with_fault), peers, is_tidy) != DIFF_DIFFERENT)
        verdict = DIFF_EXCUSED;
    diff_text_fini(&with_fault);
    return verdict;
}

/* Runs both; how they compare, and on request where they part. */
static enum diff_verdict compare(struct job *job, const struct diff_schedule *schedule,
                                 const char *name)
{
    struct diff_text outcomes[COMPARED];
    enum diff_verdict verdict;

    for (int i = 0; i < COMPARED; i++) {
        diff_text_init(&outcomes[i]);
        run_service(job, i, schedule, &outcomes[i]);
    }
    verdict = judge(job, schedule, &outcomes[0], diff_text_get(&outcomes[1]));
    if (verdict == DIFF_DIFFERENT && name != NULL)
        diff_print_parting(name, diff_text_get(&outcomes[0]), diff_text_get(&outcomes[1]),
                           diff_schedule_is_tidy(schedule));
    if (name != NULL && job->dir != NULL)
        write_recorded(job, name, schedule, &outcomes[1]);
    for (int i = 0; i < COMPARED; i++)
        diff_text_fini(&outcomes[i]);
    return verdict;
}

static bool is_different(void *user, const struct diff_schedule *schedule)
{
    return compare(user, schedule, NULL) == DIFF_DIFFERENT;
}

static void step_show(struct job *job, const char *name, struct diff_schedule *schedule,
                      const char *recorded)
{
    struct diff_text text;

    (void)job;
    (void)recorded;
    diff_text_init(&text);
    diff_schedule_print(schedule, &text);
    printf("# %s\n%s", name, diff_text_get(&text));
    diff_text_fini(&text);
}

static void step_run(struct job *job, const char *name, struct diff_schedule *schedule,
                     const char *recorded)
{
    struct diff_text outcome;

    (void)recorded;
    diff_text_init(&outcome);
    run_service(job, 0, schedule, &outcome);
    printf("# %s\n%s", name, diff_text_get(&outcome));
    diff_text_fini(&outcome);
}

static void step_record(struct job *job, const char *name, struct diff_schedule *schedule,
                        const char *recorded)
{
    struct diff_text outcome, again;

    (void)recorded;
    diff_text_init(&outcome);
    diff_text_init(&again);
    run_service(job, 0, schedule, &outcome);
    run_service(job, 0, schedule, &again);
    if (strcmp(diff_text_get(&outcome), diff_text_get(&again)) == 0)
        write_recorded(job, name, schedule, &outcome);
    else
        printf("%s: not recorded, it comes out differently each time\n", name);
    diff_text_fini(&outcome);
    diff_text_fini(&again);
}

static void step_replay(struct job *job, const char *name, struct diff_schedule *schedule,
                        const char *recorded)
{
    struct diff_text outcome;
    enum diff_verdict verdict;

    diff_text_init(&outcome);
    run_service(job, 0, schedule, &outcome);
    verdict = judge(job, schedule, &outcome, recorded);
    if (verdict == DIFF_DIFFERENT) { /* once more: the machine may have slept */
        run_service(job, 0, schedule, &outcome);
        verdict = judge(job, schedule, &outcome, recorded);
    }
    job->excused += verdict == DIFF_EXCUSED;
    if (verdict == DIFF_DIFFERENT) {
        job->differences++;
        diff_print_parting(name, diff_text_get(&outcome), recorded,
                           diff_schedule_is_tidy(schedule));
    }
    diff_text_fini(&outcome);
}

/* What differs once and not again was the machine's: both are started again for the second look. */
static void step_compare(struct job *job, const char *name, struct diff_schedule *schedule,
                         const char *recorded)
{
    enum diff_verdict verdict = compare(job, schedule, NULL);

    (void)recorded;
    job->excused += verdict == DIFF_EXCUSED;
    if (verdict != DIFF_DIFFERENT)
        return;
    stop_services(job);
    if (!is_different(job, schedule)) {
        job->flukes++;
        return;
    }
    job->differences++;
    diff_shrink(schedule, is_different, job);
    step_show(job, name, schedule, NULL);
    (void)compare(job, schedule, name);
    (void)fflush(stdout);
}

static const struct {
    const char *name;
    job_step step;
    int services;
    bool needs_dir;
} commands[] = {
    {"show", step_show, 0, false},       {"run", step_run, 1, false},
    {"compare", step_compare, 2, false}, {"record", step_record, 1, true},
    {"replay", step_replay, 1, false},
};

static int usage(void)
{
    fputs("usage: difftest show|run|compare|record|replay [--service PROGRAM] [--peer PROGRAM]\n"
          "                [--stand-in PROGRAM] [--dir DIR] [--ops N] [--seeds FIRST[-LAST]] "
          "[FILE...]\n",
          stderr);
    return EXIT_USAGE;
}

static bool parse_options(struct job *job, int argc, char **argv)
{
    static const struct option options[] = {
        {"service", required_argument, NULL, 's'},
        {"peer", required_argument, NULL, 'p'},
        {"stand-in", required_argument, NULL, 'i'},
        {"dir", required_argument, NULL, 'd'},
        {"ops", required_argument, NULL, 'o'},
        {"seeds", required_argument, NULL, 'n'},
        {NULL, 0, NULL, 0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        char *end;

        if (c == 's') {
            job->programs[0] = optarg;
        } else if (c == 'p') {
            job->programs[1] = optarg;
        } else if (c == 'i') {
            job->programs[STAND_IN] = optarg;
        } else if (c == 'd') {
            job->dir = optarg;
        } else if (c == 'o') {
            job->ops = (unsigned)strtoul(optarg, NULL, 10);
        } else if (c == 'n') {
            job->first_seed = job->last_seed = strtoull(optarg, &end, 10);
            if (*end == '-')
                job->last_seed = strtoull(end + 1, NULL, 10);
        } else {
            return false;
        }
    }
    job->files = argv + optind;
    job->files_len = argc - optind;
    return true;
}

static void take(struct job *job, job_step step, const char *name, struct diff_schedule *schedule,
                 const char *recorded)
{
    job->schedules++;
    job->operations += schedule->len;
    step(job, name, schedule, recorded);
    diff_schedule_fini(schedule);
}

static void do_job(struct job *job, job_step step)
{
    struct diff_schedule schedule;

    for (uint64_t seed = job->first_seed; seed <= job->last_seed; seed++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "seed-%llu", (unsigned long long)seed);
        diff_generate(&schedule, seed, job->ops);
        take(job, step, name, &schedule, "");
    }
    for (int i = 0; i < job->files_len; i++) {
        struct diff_text recorded;

        diff_text_init(&recorded);
        if (!diff_schedule_load(&schedule, job->files[i], &recorded))
            diff_die("%s cannot be read", job->files[i]);
        take(job, step, job->files[i], &schedule, diff_text_get(&recorded));
        diff_text_fini(&recorded);
    }
}

int main(int argc, char **argv)
{
    struct job job = {.ops = 80, .first_seed = 1};
    size_t c = 0;

    while (argc > 1 && c < sizeof(commands) / sizeof(*commands) &&
           strcmp(commands[c].name, argv[1]) != 0)
        c++;
    if (argc < 2 || c == sizeof(commands) / sizeof(*commands) ||
        !parse_options(&job, argc - 1, argv + 1) || (commands[c].needs_dir && job.dir == NULL))
        return usage();
    for (int i = 0; i < commands[c].services; i++) {
        if (job.programs[i] == NULL)
            return usage();
    }
    do_job(&job, commands[c].step);
    stop_services(&job);
    if (commands[c].services > 0)
        printf(
            "%lu schedules, %lu operations, %lu differences (not seen twice: %lu; excused: %lu)\n",
            job.schedules, job.operations, job.differences, job.flukes, job.excused);
    return job.differences == 0 ? 0 : EXIT_DIFFERENT;
}
