/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sweeps of perfleet-collector, one after the other without its waits, over all of a store:
 *
 *     store_sweep --store WHERE --index WHERE --fleet NAME [--s3-endpoint URL] [--s3-path-style]
 *                 [--s3-staging-dir DIR]
 *
 * No collector may run. Prints what they did as JSON. Exit status 1: a step failed, or the store
 * was not seen to its end.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "collector/retain/clean_work_port.h"

#define CYCLES_MAX 100000u
#define CYCLES_MIN 122u /* temporary files are looked for every 120 */

enum what { STORE = 1, INDEX, FLEET, ENDPOINT, PATH_STYLE, STAGING };

struct args {
    struct pfl_store_conf store;
    struct pfl_index_conf index;
    const char *fleet;
};

static bool parse(int argc, char **argv, struct args *args)
{
    static const struct option names[] = {
        {"store", required_argument, NULL, STORE},
        {"index", required_argument, NULL, INDEX},
        {"fleet", required_argument, NULL, FLEET},
        {"s3-endpoint", required_argument, NULL, ENDPOINT},
        {"s3-path-style", no_argument, NULL, PATH_STYLE},
        {"s3-staging-dir", required_argument, NULL, STAGING},
        {NULL, 0, NULL, 0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) > 0) {
        switch (c) {
        case STORE:
            args->store.where = optarg;
            break;
        case INDEX:
            args->index.where = optarg;
            break;
        case FLEET:
            args->fleet = optarg;
            break;
        case ENDPOINT:
            args->store.endpoint = optarg;
            break;
        case PATH_STYLE:
            args->store.has_path_style = true;
            break;
        case STAGING:
            args->store.staging_dir = optarg;
            break;
        default:
            return false;
        }
    }
    return args->store.where != NULL && args->index.where != NULL && args->fleet != NULL;
}

/* True: no step of it failed. */
static bool run_cycle(struct pfl_clean *clean)
{
    bool is_good = true;

    pfl_clean_begin(clean, pfl_clock_now_ns(PFL_CLOCK_REALTIME),
                    pfl_clock_now_ns(PFL_CLOCK_BOOTTIME));
    while (pfl_clean_get_thread(clean) != PFL_CLEAN_IDLE) {
        const struct pfl_clean_report *report;

        pfl_clean_run(clean);
        report = pfl_clean_get_report(clean);
        if (report == NULL)
            continue;
        (void)fprintf(stderr, "%s %s %s %s\n", report->event, report->what, report->host,
                      report->reason);
        is_good = is_good && !report->is_warning;
    }
    return is_good;
}

/* A second round of the store sees what the first has left. */
static bool sweep(struct pfl_clean *clean)
{
    const struct pfl_clean_figures *figures = pfl_clean_get_figures(clean);
    bool is_good = true;
    unsigned cycles = 0;

    while (is_good && cycles < CYCLES_MAX && (figures->rounds < 2 || cycles < CYCLES_MIN)) {
        is_good = run_cycle(clean);
        cycles++;
    }
    (void)printf("{\"cycles\": %u, \"rounds\": %" PRIu64 ", \"orphans\": %" PRIu64
                 ", \"leftovers\": %" PRIu64 ", \"lost\": %" PRIu64 ", \"unknown\": %" PRIu64
                 ", \"tombstones\": %" PRIu64 ", \"deleted\": %" PRIu64 "}\n",
                 cycles, figures->rounds, figures->orphans, figures->leftovers, figures->lost,
                 figures->unknown, figures->tombstones, figures->deleted_objects);
    return is_good && figures->rounds >= 2;
}

static int open_and_sweep(struct args *args)
{
    char why[PFL_STORE_WHY_BYTES + PFL_INDEX_WHY_BYTES] = "";
    struct pfl_keep_rules rules;
    struct pfl_store *store = NULL;
    struct pfl_index *index = NULL;
    struct pfl_clean *clean = NULL;
    uint64_t generation;
    int rc = pfl_store_open(&args->store, why, &store);

    pfl_keep_rules_init(&rules);
    if (rc == 0)
        rc = pfl_index_open(&args->index, why, &index);
    if (rc == 0)
        rc = pfl_index_join(index, "store_sweep", &generation);
    if (rc == 0)
        rc = pfl_clean_new(
            &(struct pfl_clean_conf){
                .store = store, .index = index, .rules = &rules, .fleet = args->fleet},
            &clean);
    if (rc != 0)
        (void)fprintf(stderr, "store_sweep: %s %s\n", pfl_err_str(rc), why);
    else if (!sweep(clean) || pfl_index_leave(index) != 0)
        rc = PFL_EIO;
    pfl_clean_free(clean);
    pfl_index_close(index);
    pfl_store_close(store);
    return rc;
}

int main(int argc, char **argv)
{
    struct args args = {.store = {0}};

    if (!parse(argc, argv, &args)) {
        (void)fprintf(stderr, "store_sweep --store WHERE --index WHERE --fleet NAME [...]\n");
        return 2;
    }
    return open_and_sweep(&args) == 0 ? 0 : 1;
}
