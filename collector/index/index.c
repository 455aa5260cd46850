/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index's connection, schema and transactions.
 *
 * Happy path: open connects, brings the schema up to date in one transaction, and refuses one that
 * is newer. A transaction begins, runs its steps, commits; while the database says that it is to be
 * repeated (another writer, a lost connection), it is, up to TRIES times. A commit whose answer was
 * lost may have held: so all steps may run again. Failures: the sentence is in `why`. Owns the
 * connection. Limits: those of index.h.
 */
#include "collector/index/index.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "collector/index/index_impl.h"

#define TRIES            3u
#define SCHEMA_MAX_BYTES 8192u

int pfl_index_fail(struct pfl_index *self, int rc, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(self->why, sizeof(self->why), format, args);
    va_end(args);
    return rc;
}

const char *pfl_index_get_error(const struct pfl_index *self)
{
    return self->why;
}

int pfl_index_run(struct pfl_index *self, struct pfl_sql_call *call)
{
    int rc = self->sql->engine->run(self->sql, call);

    return rc != 0 ? pfl_index_fail(self, rc, "%s", self->sql->why) : 0;
}

static int run_script(struct pfl_index *self, const char *text)
{
    int rc = self->sql->engine->script(self->sql, text);

    return rc != 0 ? pfl_index_fail(self, rc, "%s", self->sql->why) : 0;
}

static int transact_once(struct pfl_index *self, pfl_index_steps steps, void *arg)
{
    int rc = run_script(self, self->sql->engine->begin);

    if (rc != 0)
        return rc;
    rc = steps(self, arg);
    if (rc == 0)
        rc = run_script(self, "COMMIT");
    if (rc != 0)
        (void)self->sql->engine->script(self->sql, "ROLLBACK");
    return rc;
}

int pfl_index_transact(struct pfl_index *self, pfl_index_steps steps, void *arg)
{
    int rc = PFL_EAGAIN;

    for (unsigned i = 0; rc == PFL_EAGAIN && i < TRIES; i++)
        rc = transact_once(self, steps, arg);
    return rc;
}

int pfl_index_pack(struct pfl_index *self, const ProtobufCMessage *message, size_t max,
                   struct pfl_span *ret_packed)
{
    size_t len = protobuf_c_message_get_packed_size(message);

    if (len > max || len > sizeof(self->packed))
        return pfl_index_fail(self, PFL_ELIMIT, "a message of %zu bytes; at most %zu", len, max);
    (void)protobuf_c_message_pack(message, self->packed);
    *ret_packed = pfl_span_of(self->packed, len);
    return 0;
}

/* Bytes of the character that begins here; 0: it is none, or a control character. */
static size_t measure_character(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    size_t len = c[0] < 0x80 ? 1 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;

    if (c[0] < 0x20 || c[0] == 0x7f || (c[0] >= 0x80 && c[0] < 0xc2) || c[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    /* Longer than needed, surrogates, and what is above the last character. */
    if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
        (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f))
        return 0;
    return len;
}

int pfl_index_check_name(struct pfl_index *self, const char *what, const char *name)
{
    if (name == NULL)
        return 0;
    if (strnlen(name, PFL_INDEX_NAME_BYTES) == PFL_INDEX_NAME_BYTES)
        return pfl_index_fail(self, PFL_ELIMIT, "%s: longer than 255 bytes", what);
    for (const char *c = name; *c != '\0'; c += measure_character(c))
        if (measure_character(c) == 0)
            return pfl_index_fail(self, PFL_EINVAL, "%s: has a control character, or is not UTF-8",
                                  what);
    return 0;
}

/* -- the schema -- */

static bool on_version(void *user, const struct pfl_sql_row *row)
{
    *(unsigned *)user = (unsigned)pfl_sql_row_int(row, 0);
    return true;
}

static int get_version(struct pfl_index *self, unsigned *ret_version)
{
    struct pfl_sql_call call = {
        .statement = PFL_SQL_GET_VERSION, .on_row = on_version, .user = ret_version};

    return pfl_index_run(self, &call);
}

static int set_version(struct pfl_index *self, unsigned version)
{
    struct pfl_sql_call call = {PFL_SQL_SET_VERSION, PFL_INDEX_PARAMS(pfl_sql_int(version)), NULL,
                                NULL, 0};

    return pfl_index_run(self, &call);
}

static int apply_step(struct pfl_index *self, unsigned from)
{
    char text[SCHEMA_MAX_BYTES];
    int rc = pfl_sql_translate(self->sql->engine, pfl_schema_get_step(from), text, sizeof(text));

    if (rc == 0)
        rc = run_script(self, text);
    return rc != 0 ? rc : set_version(self, from + 1);
}

static int bring_up_to_date(struct pfl_index *self, void *arg)
{
    const struct pfl_index_conf *conf = arg;
    unsigned version = 0;
    int rc = 0;

    if (conf->may_create && self->sql->engine->lock != NULL)
        rc = run_script(self, self->sql->engine->lock);
    if (rc == 0 && conf->may_create)
        rc = run_script(self, "CREATE TABLE IF NOT EXISTS perfleet_schema(version BIGINT NOT NULL);"
                              "INSERT INTO perfleet_schema SELECT 0"
                              " WHERE NOT EXISTS (SELECT 1 FROM perfleet_schema)");
    if (rc == 0)
        rc = get_version(self, &version);
    if (rc != 0)
        return rc;
    if (version > PFL_SCHEMA_VERSION)
        return pfl_index_fail(self, PFL_ENEWER,
                              "the index has version %u, and this program knows versions up to %u: "
                              "use the newer program",
                              version, PFL_SCHEMA_VERSION);
    if (version < PFL_SCHEMA_VERSION && !conf->may_create)
        return pfl_index_fail(self, PFL_ESTATE, "the index has version %u instead of %u", version,
                              PFL_SCHEMA_VERSION);
    while (rc == 0 && version < PFL_SCHEMA_VERSION)
        rc = apply_step(self, version++);
    return rc;
}

#define SQLITE   "sqlite:"
#define POSTGRES "postgres:"

static bool has_begin(const char *text, const char *begin)
{
    return strncmp(text, begin, strlen(begin)) == 0;
}

bool pfl_index_judge(const char *where, const char **ret_what)
{
    if (pfl_index_is_shared(where))
        return pfl_sql_postgres_judge(where + strlen(POSTGRES), ret_what);
    *ret_what = "wants sqlite:PATH or postgres:CONNINFO";
    return has_begin(where, SQLITE) && where[strlen(SQLITE)] != '\0';
}

bool pfl_index_is_shared(const char *where)
{
    return has_begin(where, POSTGRES);
}

void pfl_index_list_files(const char *where, void (*on_file)(void *user, const char *path),
                          void *user)
{
    if (pfl_index_is_shared(where))
        pfl_sql_postgres_list_files(where + strlen(POSTGRES), on_file, user);
}

static int open_engine(const struct pfl_index_conf *conf, char *ret_why, struct pfl_sql **ret_sql)
{
    if (has_begin(conf->where, SQLITE))
        return pfl_sql_sqlite_open(conf->where + strlen(SQLITE), conf->may_create, ret_why,
                                   ret_sql);
    if (pfl_index_is_shared(conf->where))
        return pfl_sql_postgres_open(conf->where + strlen(POSTGRES), conf->answer_ms, ret_why,
                                     ret_sql);
    (void)snprintf(ret_why, PFL_INDEX_WHY_BYTES,
                   "%.200s: begins neither with sqlite: nor with "
                   "postgres:",
                   conf->where);
    return PFL_EINVAL;
}

int pfl_index_open(const struct pfl_index_conf *conf, char *ret_why, struct pfl_index **ret_index)
{
    struct pfl_index *self = pfl_mem_zalloc(sizeof(*self));
    struct pfl_index_conf copy = *conf;
    int rc;

    (void)snprintf(ret_why, PFL_INDEX_WHY_BYTES, "out of memory");
    if (self == NULL)
        return PFL_ENOMEM;
    self->void_ms = conf->void_ms != 0 ? conf->void_ms : PFL_INDEX_VOID_MS;
    rc = open_engine(conf, ret_why, &self->sql);
    if (rc == 0) {
        rc = pfl_index_transact(self, bring_up_to_date, &copy);
        if (rc == 0 && conf->may_lose_last && self->sql->engine->hurry != NULL)
            rc = run_script(self, self->sql->engine->hurry);
        if (rc != 0)
            (void)snprintf(ret_why, PFL_INDEX_WHY_BYTES, "%s", self->why);
    }
    if (rc != 0) {
        pfl_index_close(self);
        return rc;
    }
    *ret_index = self;
    return 0;
}

void pfl_index_cancel(struct pfl_index *self)
{
    if (self->sql->engine->cancel != NULL)
        self->sql->engine->cancel(self->sql);
}

void pfl_index_close(struct pfl_index *self)
{
    if (self == NULL)
        return;
    if (self->sql != NULL)
        self->sql->engine->close(self->sql);
    pfl_mem_free(self);
}
