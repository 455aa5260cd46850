/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the index counts of a run and of a host: see index_impl.h.
 *
 * Failures: the database's. Owns nothing.
 */
#include "collector/index/index_impl.h"

static bool on_gaps(void *user, const struct pfl_sql_row *row)
{
    *(uint64_t *)user = pfl_sql_row_int(row, 0);
    return true;
}

static struct pfl_sql_value signed_int(int64_t v)
{
    return (struct pfl_sql_value){PFL_SQL_INT, v, {NULL, 0}};
}

int pfl_index_count_gaps(struct pfl_index *self, uint64_t host_id, int64_t more, uint64_t *ret_gaps)
{
    struct pfl_sql_call call = {PFL_SQL_COUNT_GAPS,
                                PFL_INDEX_PARAMS(pfl_sql_int(host_id), signed_int(more)), on_gaps,
                                ret_gaps, 0};

    return pfl_index_run(self, &call);
}

int pfl_index_count(struct pfl_index *self, uint64_t run_id, uint64_t host_id,
                    const struct pfl_index_counts *counts)
{
    struct pfl_sql_call run = {
        PFL_SQL_COUNT_RUN,
        PFL_INDEX_PARAMS(pfl_sql_int(run_id), signed_int(counts->stored),
                         signed_int(counts->in_gaps), signed_int(counts->removed),
                         signed_int(counts->bytes), pfl_sql_int(counts->last)),
        NULL, NULL, 0};
    struct pfl_sql_call host = {PFL_SQL_COUNT_HOST,
                                PFL_INDEX_PARAMS(pfl_sql_int(host_id), signed_int(counts->bytes)),
                                NULL, NULL, 0};
    int rc = pfl_index_run(self, &run);

    return rc != 0 || counts->bytes == 0 ? rc : pfl_index_run(self, &host);
}
