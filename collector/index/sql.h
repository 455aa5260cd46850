/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection to a database, as the index needs it: statements by number, parameters, rows.
 * Calls block; a connection is used by one thread at a time, and allocates nothing of base/mem
 * after it was opened.
 */
#ifndef PFL_COLLECTOR_INDEX_SQL_H
#define PFL_COLLECTOR_INDEX_SQL_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"
#include "collector/index/statements.h"

#define PFL_SQL_WHY_BYTES 320u
#define PFL_SQL_PARAMS    24u

enum pfl_sql_kind { PFL_SQL_NULL, PFL_SQL_INT, PFL_SQL_TEXT, PFL_SQL_BLOB };

struct pfl_sql_value {
    enum pfl_sql_kind kind;
    int64_t number;
    struct pfl_span bytes; /* text: without its NUL */
};

static inline struct pfl_sql_value pfl_sql_int(uint64_t v)
{
    return (struct pfl_sql_value){PFL_SQL_INT, v > INT64_MAX ? INT64_MAX : (int64_t)v, {NULL, 0}};
}
static inline struct pfl_sql_value pfl_sql_text(const char *text)
{
    return (struct pfl_sql_value){PFL_SQL_TEXT, 0, pfl_span_of(text, strlen(text))};
}
static inline struct pfl_sql_value pfl_sql_blob(struct pfl_span bytes)
{
    return (struct pfl_sql_value){PFL_SQL_BLOB, 0, bytes};
}
static inline struct pfl_sql_value pfl_sql_null(void)
{
    return (struct pfl_sql_value){PFL_SQL_NULL, 0, {NULL, 0}};
}

struct pfl_sql;
struct pfl_sql_row;

/* False: no more rows are needed. */
typedef bool (*pfl_sql_on_row)(void *user, const struct pfl_sql_row *row);

struct pfl_sql_call {
    enum pfl_statement statement;
    const struct pfl_sql_value *params;
    size_t len;
    pfl_sql_on_row on_row; /* NULL: rows are ignored */
    void *user;
    uint64_t changed; /* returned: rows that were inserted, updated or deleted */
};

struct pfl_sql_engine {
    void (*close)(struct pfl_sql *self);
    void (*cancel)(struct pfl_sql *self); /* in any thread; NULL: it waits for nobody */
    /* PFL_EAGAIN: repeat the transaction. PFL_EEXIST: a row with this key is there. */
    int (*run)(struct pfl_sql *self, struct pfl_sql_call *call);
    /* Text of several statements without parameters: the schema, begin, commit, rollback. */
    int (*script)(struct pfl_sql *self, const char *text);
    int64_t (*get_int)(const struct pfl_sql_row *row, unsigned column);
    struct pfl_span (*get_bytes)(const struct pfl_sql_row *row, unsigned column);
    const char *begin;     /* of a transaction that writes */
    const char *lock;      /* of one that changes the schema; after begin; NULL: begin does */
    const char *hurry;     /* what was committed last may be lost with the machine; NULL: none */
    const char *id_type;   /* of a column that numbers its rows */
    const char *blob_type; /* of bytes */
    const char *now_ms;    /* the database's clock, as an expression */
};

struct pfl_sql {
    const struct pfl_sql_engine *engine;
    char why[PFL_SQL_WHY_BYTES]; /* the last failure */
};

struct pfl_sql_row {
    const struct pfl_sql *sql;
    const void *result; /* the engine's */
    int number;
};

static inline uint64_t pfl_sql_row_int(const struct pfl_sql_row *row, unsigned column)
{
    int64_t v = row->sql->engine->get_int(row, column);

    return v > 0 ? (uint64_t)v : 0;
}
static inline struct pfl_span pfl_sql_row_bytes(const struct pfl_sql_row *row, unsigned column)
{
    return row->sql->engine->get_bytes(row, column);
}

/* `where`: a path; or libpq's conninfo. `answer_ms`: how long the server may take to answer; 0: 35
 * seconds. PFL_ENOMEM; PFL_EAGAIN, PFL_EIO, PFL_EPERM with the
 * sentence. */
PFL_MUST_USE int pfl_sql_sqlite_open(const char *where, bool may_create, char *ret_why,
                                     struct pfl_sql **ret_sql);
/* As pfl_index_judge and pfl_index_list_files have it. */
bool pfl_sql_postgres_judge(const char *where, const char **ret_what);
void pfl_sql_postgres_list_files(const char *where, void (*on_file)(void *user, const char *path),
                                 void *user);
PFL_MUST_USE int pfl_sql_postgres_open(const char *where, unsigned answer_ms, char *ret_why,
                                       struct pfl_sql **ret_sql);

/* The text of a statement or script for this engine: @ID@, @BLOB@ and @NOW@ are replaced.
 * PFL_ELIMIT. */
PFL_MUST_USE int pfl_sql_translate(const struct pfl_sql_engine *engine, const char *text, char *dst,
                                   size_t room);

#endif
