/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectors that share an index. A collector is a row with a generation and the time of its last
 * beat; a lease names collector and generation. So a collector that stopped, or that began again,
 * loses all leases at once, without a write for each. Times are the database's clock.
 *
 * Failures: another process joined under the same name: the older one's beat returns PFL_ESTATE.
 */
#include <stdio.h>

#include "collector/index/index_impl.h"

static bool on_number(void *user, const struct pfl_sql_row *row)
{
    *(uint64_t *)user = pfl_sql_row_int(row, 0);
    return true;
}

int pfl_index_adopt(struct pfl_index *self, const char *name, uint64_t generation)
{
    int rc = pfl_index_check_name(self, "the collector", name);

    if (rc != 0)
        return rc;
    (void)snprintf(self->collector, sizeof(self->collector), "%s", name);
    self->generation = generation;
    return 0;
}

int pfl_index_join(struct pfl_index *self, const char *name, uint64_t *ret_generation)
{
    struct pfl_sql_call call = {PFL_SQL_JOIN, PFL_INDEX_PARAMS(pfl_sql_text(name)), on_number,
                                ret_generation, 0};
    int rc = pfl_index_check_name(self, "the collector", name);

    if (rc == 0)
        rc = pfl_index_run(self, &call);
    return rc != 0 ? rc : pfl_index_adopt(self, name, *ret_generation);
}

/* A statement about this collector's own row. */
static int run_own(struct pfl_index *self, enum pfl_statement statement)
{
    struct pfl_sql_call call = {
        statement, PFL_INDEX_PARAMS(pfl_sql_text(self->collector), pfl_sql_int(self->generation)),
        NULL, NULL, 0};
    int rc = pfl_index_run(self, &call);

    if (rc == 0 && call.changed == 0)
        rc = pfl_index_fail(self, PFL_ESTATE, "another process is collector %s now",
                            self->collector);
    return rc;
}

int pfl_index_beat(struct pfl_index *self)
{
    return run_own(self, PFL_SQL_BEAT);
}

int pfl_index_leave(struct pfl_index *self)
{
    return run_own(self, PFL_SQL_LEAVE);
}

static bool on_any(void *user, const struct pfl_sql_row *row)
{
    (void)row;
    *(bool *)user = true;
    return true;
}

int pfl_index_lease(struct pfl_index *self, const char *what, bool *ret_is_held)
{
    struct pfl_sql_call call = {PFL_SQL_LEASE,
                                PFL_INDEX_PARAMS(pfl_sql_text(what), pfl_sql_text(self->collector),
                                                 pfl_sql_int(self->generation),
                                                 pfl_sql_int(self->void_ms)),
                                on_any, ret_is_held, 0};
    int rc = pfl_index_check_name(self, "the lease", what);

    *ret_is_held = false;
    return rc != 0 ? rc : pfl_index_run(self, &call);
}

int pfl_index_give_lease(struct pfl_index *self, const char *what)
{
    struct pfl_sql_call call = {PFL_SQL_GIVE_LEASE,
                                PFL_INDEX_PARAMS(pfl_sql_text(what), pfl_sql_text(self->collector),
                                                 pfl_sql_int(self->generation)),
                                NULL, NULL, 0};
    int rc = pfl_index_check_name(self, "the lease", what);

    return rc != 0 ? rc : pfl_index_run(self, &call);
}

static bool on_leases(void *user, const struct pfl_sql_row *row)
{
    struct pfl_index_leases *leases = user;

    leases->collectors = pfl_sql_row_int(row, 0);
    leases->own = pfl_sql_row_int(row, 1);
    leases->all = pfl_sql_row_int(row, 2);
    return true;
}

int pfl_index_count_leases(struct pfl_index *self, struct pfl_index_leases *ret_leases)
{
    struct pfl_sql_call call = {
        PFL_SQL_COUNT_LEASES,
        PFL_INDEX_PARAMS(pfl_sql_text(self->collector), pfl_sql_int(self->void_ms)), on_leases,
        ret_leases, 0};

    return pfl_index_run(self, &call);
}
