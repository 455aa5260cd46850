/* SPDX-License-Identifier: Apache-2.0 */
/* A row of a segment, out of the database; private to this folder. */
#ifndef PFL_COLLECTOR_INDEX_INDEX_ROW_H
#define PFL_COLLECTOR_INDEX_INDEX_ROW_H

#include "collector/index/index.h"
#include "collector/index/sql.h"

/* The texts of a row, which need their NULs. */
struct pfl_index_row_texts {
    char id[PFL_INDEX_ID_BYTES];
    char key[PFL_INDEX_KEY_BYTES];
    char host[PFL_INDEX_NAME_BYTES];
    char orderer[PFL_INDEX_NAME_BYTES];
    char order[PFL_INDEX_NAME_BYTES];
    char incarnation[PFL_INDEX_NAME_BYTES];
    char pin_who[PFL_INDEX_NAME_BYTES];
    char pin_reason[PFL_INDEX_NAME_BYTES];
};

/* `texts` holds what ret_row borrows. */
void pfl_index_row_read(const struct pfl_sql_row *row, struct pfl_index_row_texts *texts,
                        struct pfl_index_row *ret_row);
/* A text of a row, cut to `room`. Returns `dst`. */
const char *pfl_index_row_text(const struct pfl_sql_row *row, unsigned column, char *dst,
                               size_t room);

#endif
