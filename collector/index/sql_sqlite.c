/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to SQLite. Statements are prepared when they are first used, and kept. The log is a
 * write-ahead log: readers and the writer do not wait for each other. A transaction that ended is
 * durable (synchronous = FULL).
 *
 * Failures: another process writes for longer than BUSY_MS (PFL_EAGAIN); the disk is full
 * (PFL_EFULL); the file is damaged (PFL_EIO). Owns the connection and its statements. Limits: those
 * of the callers.
 */
#include <sqlite3.h>
#include <stdio.h>

#include "base/mem.h"
#include "collector/index/sql.h"

#define BUSY_MS 10000

struct sqlite_sql {
    struct pfl_sql base;
    sqlite3 *db;                            /* owned */
    sqlite3_stmt *prepared[PFL_STATEMENTS]; /* owned */
};

static struct sqlite_sql *of(struct pfl_sql *base)
{
    return (struct sqlite_sql *)base;
}

static int fail(struct sqlite_sql *self, int code)
{
    (void)snprintf(self->base.why, sizeof(self->base.why), "SQLite: %s", sqlite3_errmsg(self->db));
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return PFL_EAGAIN;
    case SQLITE_FULL:
        return PFL_EFULL;
    case SQLITE_NOMEM:
        return PFL_ENOMEM;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
        return PFL_EPERM;
    case SQLITE_CONSTRAINT:
        return PFL_EEXIST;
    case SQLITE_TOOBIG:
        return PFL_ELIMIT;
    default:
        return PFL_EIO;
    }
}

static void close_sql(struct pfl_sql *base)
{
    struct sqlite_sql *self = of(base);

    for (unsigned i = 0; i < PFL_STATEMENTS; i++)
        (void)sqlite3_finalize(self->prepared[i]);
    (void)sqlite3_close(self->db);
    pfl_mem_free(self);
}

static int prepare(struct sqlite_sql *self, enum pfl_statement statement, sqlite3_stmt **ret_stmt)
{
    char text[PFL_STATEMENT_MAX_BYTES];
    int code;

    if (self->prepared[statement] == NULL) {
        if (pfl_sql_translate(self->base.engine, pfl_statement_get_merged(statement), text,
                              sizeof(text)) != 0)
            return PFL_ELIMIT;
        code = sqlite3_prepare_v3(self->db, text, -1, SQLITE_PREPARE_PERSISTENT,
                                  &self->prepared[statement], NULL);
        if (code != SQLITE_OK)
            return fail(self, code);
    }
    *ret_stmt = self->prepared[statement];
    return 0;
}

static int bind(sqlite3_stmt *stmt, const struct pfl_sql_value *value, size_t number)
{
    char name[24];
    int at;

    (void)snprintf(name, sizeof(name), "$%zu", number);
    at = sqlite3_bind_parameter_index(stmt, name);
    switch (value->kind) {
    case PFL_SQL_INT:
        return sqlite3_bind_int64(stmt, at, value->number);
    case PFL_SQL_TEXT:
        return sqlite3_bind_text64(stmt, at, (const char *)value->bytes.data, value->bytes.len,
                                   SQLITE_STATIC, SQLITE_UTF8);
    case PFL_SQL_BLOB:
        if (value->bytes.len == 0)
            return sqlite3_bind_zeroblob(stmt, at, 0);
        return sqlite3_bind_blob64(stmt, at, value->bytes.data, value->bytes.len, SQLITE_STATIC);
    default:
        return sqlite3_bind_null(stmt, at);
    }
}

static int run(struct pfl_sql *base, struct pfl_sql_call *call)
{
    struct sqlite_sql *self = of(base);
    struct pfl_sql_row row = {.sql = base};
    sqlite3_stmt *stmt = NULL;
    int rc = prepare(self, call->statement, &stmt);
    int code = SQLITE_OK;
    bool is_more = true;

    if (rc != 0)
        return rc;
    for (size_t i = 0; code == SQLITE_OK && i < call->len; i++)
        code = bind(stmt, &call->params[i], i + 1);
    row.result = stmt;
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(stmt);
        if (code == SQLITE_ROW && is_more && call->on_row != NULL)
            is_more = call->on_row(call->user, &row);
        if (code == SQLITE_ROW && !is_more && sqlite3_stmt_readonly(stmt) != 0)
            break;
    }
    if (code != SQLITE_DONE && code != SQLITE_ROW)
        rc = fail(self, code);
    call->changed = (uint64_t)sqlite3_changes64(self->db);
    (void)sqlite3_reset(stmt);
    (void)sqlite3_clear_bindings(stmt);
    return rc;
}

static int script(struct pfl_sql *base, const char *text)
{
    int code = sqlite3_exec(of(base)->db, text, NULL, NULL, NULL);

    return code == SQLITE_OK ? 0 : fail(of(base), code);
}

static sqlite3_stmt *stmt_of(const struct pfl_sql_row *row)
{
    return (sqlite3_stmt *)(uintptr_t)row->result;
}

static int64_t get_int(const struct pfl_sql_row *row, unsigned column)
{
    return sqlite3_column_int64(stmt_of(row), (int)column);
}

static struct pfl_span get_bytes(const struct pfl_sql_row *row, unsigned column)
{
    const void *bytes = sqlite3_column_blob(stmt_of(row), (int)column);

    return pfl_span_of(bytes, (size_t)sqlite3_column_bytes(stmt_of(row), (int)column));
}

static const struct pfl_sql_engine engine = {
    .close = close_sql,
    .run = run,
    .script = script,
    .get_int = get_int,
    .get_bytes = get_bytes,
    .begin = "BEGIN IMMEDIATE",
    .hurry = "PRAGMA synchronous = NORMAL",
    .id_type = "INTEGER PRIMARY KEY",
    .blob_type = "BLOB",
    .now_ms = "CAST((julianday('now') - 2440587.5) * 86400000 AS BIGINT)",
};

static int set_up(struct sqlite_sql *self)
{
    int code = sqlite3_busy_timeout(self->db, BUSY_MS);

    if (code == SQLITE_OK)
        code = sqlite3_exec(self->db,
                            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                            "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;"
                            "PRAGMA cache_size = -16384; PRAGMA journal_size_limit = 67108864;"
                            /* The sandbox lets it open no other file. */
                            "PRAGMA temp_store = MEMORY",
                            NULL, NULL, NULL);
    (void)sqlite3_db_config(self->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    return code == SQLITE_OK ? 0 : fail(self, code);
}

int pfl_sql_sqlite_open(const char *where, bool may_create, char *ret_why, struct pfl_sql **ret_sql)
{
    struct sqlite_sql *self = pfl_mem_zalloc(sizeof(*self));
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW |
                SQLITE_OPEN_EXRESCODE | (may_create ? SQLITE_OPEN_CREATE : 0);
    int code;
    int rc;

    if (self == NULL)
        return PFL_ENOMEM;
    self->base.engine = &engine;
    code = sqlite3_open_v2(where, &self->db, flags, NULL);
    rc = code == SQLITE_OK ? set_up(self) : fail(self, code);
    if (rc != 0) {
        (void)snprintf(ret_why, PFL_SQL_WHY_BYTES, "%.110s: %.200s", self->base.why, where);
        close_sql(&self->base);
        return rc;
    }
    *ret_sql = &self->base;
    return 0;
}
