/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of SQLite: see answer_store.h.
 *
 * Happy path: PATH.partial is made, rows are inserted in transactions of ROWS_A_COMMIT, the file is
 * synced and renamed. Failures: the disk, and what is in the way; the file of before stays. Names
 * of columns are quoted: they are the question's. Owns the connection. Limits: ROWS_A_COMMIT.
 */
#include "consumer/ask/answer_store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

#define ROWS_A_COMMIT 10000u
#define SQL_MAX_BYTES (256u << 10)
#define SUFFIX        ".partial"

struct pfl_answer_store {
    sqlite3 *db;
    sqlite3_stmt *insert; /* of a row; NULL: no columns yet */
    sqlite3_stmt *insert_trace;
    char *path;    /* owned */
    char *partial; /* owned */
    bool no_clobber;
    unsigned uncommitted;
    char why[256];
};

const char *pfl_answer_store_get_why(const struct pfl_answer_store *self)
{
    return self->why;
}

const char *pfl_answer_store_get_partial(const struct pfl_answer_store *self)
{
    return self->partial;
}

static int fail(struct pfl_answer_store *s)
{
    (void)snprintf(s->why, sizeof(s->why), "%s", sqlite3_errmsg(s->db));
    return PFL_EIO;
}

static int run(struct pfl_answer_store *s, const char *sql)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(s);
}

static int prepare(struct pfl_answer_store *s, const char *sql, sqlite3_stmt **ret_statement)
{
    return sqlite3_prepare_v2(s->db, sql, -1, ret_statement, NULL) == SQLITE_OK ? 0 : fail(s);
}

/* ---- the beginning ---- */

static int name_paths(struct pfl_answer_store *s, const char *path)
{
    size_t size = strlen(path) + sizeof(SUFFIX);

    s->path = pfl_mem_strdup(path);
    s->partial = s->path != NULL ? pfl_mem_alloc(size) : NULL;
    if (s->partial == NULL)
        return PFL_ENOMEM;
    (void)snprintf(s->partial, size, "%s" SUFFIX, path);
    return 0;
}

/* An empty file that only we write; what an earlier run left is removed, another user's is not. */
static int make_file(const struct pfl_answer_store *s)
{
    struct stat st;
    int fd;

    if (s->no_clobber && lstat(s->path, &st) == 0)
        return PFL_EEXIST;
    if (lstat(s->partial, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid())
        (void)unlink(s->partial);
    fd = open(s->partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return PFL_EIO;
    (void)close(fd);
    return 0;
}

static int add_question(struct pfl_answer_store *s, struct pfl_span question)
{
    static const char sql[] = "INSERT INTO question VALUES (?, ?, '" PFL_VERSION "')";
    sqlite3_stmt *insert = NULL;
    int rc = prepare(s, sql, &insert);

    if (rc == 0 && (sqlite3_bind_text(insert, 1, (const char *)question.data, (int)question.len,
                                      NULL) != SQLITE_OK ||
                    sqlite3_bind_int64(insert, 2, (sqlite3_int64)time(NULL)) != SQLITE_OK ||
                    sqlite3_step(insert) != SQLITE_DONE))
        rc = fail(s);
    (void)sqlite3_finalize(insert);
    return rc;
}

/* SQLite follows no link on the way, either: the folder's is followed here. */
static int open_db(struct pfl_answer_store *s)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW;
    const char *slash = strrchr(s->partial, '/');
    char folder[PATH_MAX];
    char real[PATH_MAX];
    char path[PATH_MAX];

    if (slash == NULL)
        return sqlite3_open_v2(s->partial, &s->db, flags, NULL) == SQLITE_OK ? 0 : PFL_EIO;
    if (snprintf(folder, sizeof(folder), "%.*s", (int)(slash + 1 - s->partial), s->partial) >=
            (int)sizeof(folder) ||
        realpath(folder, real) == NULL ||
        snprintf(path, sizeof(path), "%s%s", real, slash) >= (int)sizeof(path))
        return PFL_EIO;
    return sqlite3_open_v2(path, &s->db, flags, NULL) == SQLITE_OK ? 0 : PFL_EIO;
}

static int begin(struct pfl_answer_store *s, struct pfl_span question)
{
    int rc = open_db(s);

    if (rc != 0)
        return rc;
    /* Exclusive: else a journal that another user puts beside it, in /tmp, is read as ours. */
    rc = run(s, "PRAGMA locking_mode = EXCLUSIVE;"
                "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;"
                "CREATE TABLE question (text TEXT, asked_unix INTEGER, perfleet TEXT);"
                "CREATE TABLE traces (trace TEXT, host TEXT, start TEXT, rows INTEGER,"
                " problem TEXT)");
    if (rc == 0)
        rc = add_question(s, question);
    if (rc == 0)
        rc = prepare(s, "INSERT INTO traces VALUES (?, ?, ?, ?, ?)", &s->insert_trace);
    return rc == 0 ? run(s, "BEGIN") : rc;
}

static void free_all(struct pfl_answer_store *s)
{
    (void)sqlite3_finalize(s->insert);
    (void)sqlite3_finalize(s->insert_trace);
    (void)sqlite3_close(s->db);
    pfl_mem_free(s->path);
    pfl_mem_free(s->partial);
    pfl_mem_free(s);
}

int pfl_answer_store_open(const char *path, bool no_clobber, struct pfl_span question,
                          struct pfl_answer_store **ret_store)
{
    struct pfl_answer_store *s = pfl_mem_zalloc(sizeof(*s));
    int rc = s != NULL ? name_paths(s, path) : PFL_ENOMEM;
    int err;

    if (s == NULL)
        return rc;
    s->no_clobber = no_clobber;
    errno = 0;
    if (rc == 0)
        rc = make_file(s);
    if (rc == 0)
        rc = begin(s, question);
    if (rc == 0) {
        *ret_store = s;
        return 0;
    }
    err = errno;
    free_all(s);
    errno = err != 0 ? err : EIO;
    return rc;
}

/* ---- rows ---- */

static int add_name(const char *name, struct pfl_buf *sql)
{
    int rc = pfl_buf_append(sql, ", \"", 3);

    for (; rc == 0 && *name != '\0'; name++)
        rc = pfl_buf_append(sql, *name == '"' ? "\"\"" : name, *name == '"' ? 2 : 1);
    return rc == 0 ? pfl_buf_append(sql, "\"", 1) : rc;
}

static int make_sql(const struct pfl_answer_columns *columns, struct pfl_buf *create,
                    struct pfl_buf *insert)
{
    static const char head[] = "CREATE TABLE answers (host, start, trace";
    static const char row[] = "INSERT INTO answers VALUES (?, ?, ?";
    int rc = pfl_buf_append(create, head, sizeof(head) - 1);

    if (rc == 0)
        rc = pfl_buf_append(insert, row, sizeof(row) - 1);
    for (size_t i = PFL_ANSWER_COLUMNS_OURS; rc == 0 && i < pfl_answer_columns_get_len(columns);
         i++) {
        rc = add_name(pfl_answer_columns_get_name(columns, i), create);
        if (rc == 0)
            rc = pfl_buf_append(insert, ", ?", 3);
    }
    if (rc == 0)
        rc = pfl_buf_append(create, ")", 2); /* and the NUL */
    return rc == 0 ? pfl_buf_append(insert, ")", 2) : rc;
}

int pfl_answer_store_set_columns(struct pfl_answer_store *self,
                                 const struct pfl_answer_columns *columns)
{
    struct pfl_buf create;
    struct pfl_buf insert;
    int rc;

    pfl_buf_init(&create, SQL_MAX_BYTES);
    pfl_buf_init(&insert, SQL_MAX_BYTES);
    rc = make_sql(columns, &create, &insert);
    if (rc == 0)
        rc = run(self, (const char *)pfl_buf_get(&create).data);
    if (rc == 0)
        rc = prepare(self, (const char *)pfl_buf_get(&insert).data, &self->insert);
    pfl_buf_fini(&create);
    pfl_buf_fini(&insert);
    return rc;
}

static bool bind_text(sqlite3_stmt *insert, int at, const char *text)
{
    return (text == NULL || text[0] == '\0'
                ? sqlite3_bind_null(insert, at)
                : sqlite3_bind_text(insert, at, text, -1, NULL)) == SQLITE_OK;
}

static bool bind_cell(sqlite3_stmt *insert, int at, const struct pfl_cell *cell)
{
    switch (cell->type) {
    case PFL_CELL_INTEGER:
        return sqlite3_bind_int64(insert, at, cell->integer) == SQLITE_OK;
    case PFL_CELL_REAL:
        return sqlite3_bind_double(insert, at, cell->real) == SQLITE_OK;
    case PFL_CELL_TEXT:
        return sqlite3_bind_text(insert, at,
                                 cell->bytes.len != 0 ? (const char *)cell->bytes.data : "",
                                 (int)cell->bytes.len, NULL) == SQLITE_OK;
    case PFL_CELL_BLOB:
        return sqlite3_bind_blob(insert, at, cell->bytes.len != 0 ? cell->bytes.data : NULL,
                                 (int)cell->bytes.len, NULL) == SQLITE_OK;
    default:
        return sqlite3_bind_null(insert, at) == SQLITE_OK;
    }
}

static int step(struct pfl_answer_store *s, sqlite3_stmt *insert)
{
    if (sqlite3_step(insert) != SQLITE_DONE) {
        (void)fail(s);
        (void)sqlite3_reset(insert);
        return PFL_EIO;
    }
    (void)sqlite3_reset(insert);
    if (++s->uncommitted < ROWS_A_COMMIT)
        return 0;
    s->uncommitted = 0;
    return run(s, "COMMIT; BEGIN");
}

int pfl_answer_store_add_row(struct pfl_answer_store *self, const struct pfl_answer_row *row,
                             size_t cells_len)
{
    sqlite3_stmt *insert = self->insert;
    bool is_bound = bind_text(insert, 1, row->host) && bind_text(insert, 2, row->start) &&
                    bind_text(insert, 3, row->trace);

    for (size_t i = 0; is_bound && i < cells_len; i++)
        is_bound = bind_cell(insert, (int)(i + PFL_ANSWER_COLUMNS_OURS) + 1, &row->cells[i]);
    return is_bound ? step(self, insert) : fail(self);
}

int pfl_answer_store_add_trace(struct pfl_answer_store *self,
                               const struct pfl_answer_store_trace *trace)
{
    sqlite3_stmt *insert = self->insert_trace;

    if (!bind_text(insert, 1, trace->trace) || !bind_text(insert, 2, trace->host) ||
        !bind_text(insert, 3, trace->start) ||
        sqlite3_bind_int64(insert, 4, (sqlite3_int64)trace->rows) != SQLITE_OK ||
        !bind_text(insert, 5, trace->problem))
        return fail(self);
    return step(self, insert);
}

/* ---- the end ---- */

static int take_path(struct pfl_answer_store *s)
{
    int fd = open(s->partial, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool is_there = fd >= 0 && fsync(fd) == 0;

    if (fd >= 0)
        (void)close(fd);
    if (is_there && s->no_clobber)
        is_there = link(s->partial, s->path) == 0 && unlink(s->partial) == 0;
    else if (is_there)
        is_there = rename(s->partial, s->path) == 0;
    return is_there ? 0 : PFL_EIO;
}

int pfl_answer_store_close(struct pfl_answer_store *self, bool is_kept, bool is_whole)
{
    int rc;

    if (self == NULL)
        return 0;
    rc = run(self, "COMMIT");
    (void)sqlite3_finalize(self->insert);
    (void)sqlite3_finalize(self->insert_trace);
    self->insert = self->insert_trace = NULL;
    if (sqlite3_close(self->db) != SQLITE_OK && rc == 0)
        rc = PFL_EIO;
    self->db = NULL;
    if (!is_kept)
        (void)unlink(self->partial);
    else if (rc == 0 && is_whole)
        rc = take_path(self);
    free_all(self);
    return rc;
}
