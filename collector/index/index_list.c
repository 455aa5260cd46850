/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of runs and of deletions. Fails as the database does. Owns nothing. */
#include "collector/index/index_impl.h"
#include "collector/index/index_row.h"

struct list {
    pfl_index_on_run on_run;
    pfl_index_on_deleted on_deleted;
    void *user;
};

static bool on_run_row(void *user, const struct pfl_sql_row *row)
{
    const struct list *list = user;
    struct pfl_index_row_texts texts;
    uint64_t last = pfl_sql_row_int(row, 4);
    uint64_t known = pfl_sql_row_int(row, 5) + pfl_sql_row_int(row, 6) + pfl_sql_row_int(row, 7);
    const struct pfl_index_run run = {
        .host = pfl_index_row_text(row, 0, texts.host, sizeof(texts.host)),
        .incarnation = pfl_index_row_text(row, 1, texts.incarnation, sizeof(texts.incarnation)),
        .orderer = pfl_index_row_text(row, 2, texts.orderer, sizeof(texts.orderer)),
        .order = pfl_index_row_text(row, 3, texts.order, sizeof(texts.order)),
        .last = last,
        .stored = pfl_sql_row_int(row, 5),
        .in_gaps = pfl_sql_row_int(row, 6),
        .removed = pfl_sql_row_int(row, 7),
        .holes = last > known ? last - known : 0,
        .bytes = pfl_sql_row_int(row, 8),
    };

    return list->on_run(list->user, &run);
}

int pfl_index_list_runs(struct pfl_index *self, const struct pfl_index_run_query *query,
                        pfl_index_on_run on_run, void *user)
{
    struct list list = {.on_run = on_run, .user = user};
    struct pfl_sql_call call = {
        PFL_SQL_LIST_RUNS,
        PFL_INDEX_PARAMS(pfl_sql_text(query->after_host), pfl_sql_text(query->after_incarnation),
                         pfl_sql_text(query->after_orderer), pfl_sql_text(query->after_order),
                         pfl_sql_int(query->limit)),
        on_run_row, &list, 0};

    return pfl_index_run(self, &call);
}

static bool on_deleted_row(void *user, const struct pfl_sql_row *row)
{
    const struct list *list = user;
    struct pfl_index_row_texts texts;
    const struct pfl_index_deleted deleted = {
        .at_unix_ns = pfl_sql_row_int(row, 0),
        .id = pfl_index_row_text(row, 1, texts.id, sizeof(texts.id)),
        .host = pfl_index_row_text(row, 2, texts.host, sizeof(texts.host)),
        .orderer = pfl_index_row_text(row, 3, texts.orderer, sizeof(texts.orderer)),
        .order = pfl_index_row_text(row, 4, texts.order, sizeof(texts.order)),
        .number = pfl_sql_row_int(row, 5),
        .bytes = pfl_sql_row_int(row, 6),
        .who = pfl_index_row_text(row, 7, texts.pin_who, sizeof(texts.pin_who)),
        .reason = pfl_index_row_text(row, 8, texts.pin_reason, sizeof(texts.pin_reason)),
    };

    return list->on_deleted(list->user, &deleted);
}

int pfl_index_list_deleted(struct pfl_index *self, uint64_t from_unix_ns,
                           pfl_index_on_deleted on_deleted, void *user)
{
    struct list list = {.on_deleted = on_deleted, .user = user};
    struct pfl_sql_call call = {
        PFL_SQL_LIST_DELETIONS,
        PFL_INDEX_PARAMS(pfl_sql_int(from_unix_ns), pfl_sql_int(PFL_INDEX_LIMIT_MAX)),
        on_deleted_row, &list, 0};

    return pfl_index_run(self, &call);
}
