/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to PostgreSQL. Statements are prepared when they are first used on a connection.
 * Numbers and bytes cross it in binary.
 *
 * Failures: a connection that is lost is PFL_EAGAIN, and so is a transaction that the server ended
 * (a deadlock, a shutdown, a timeout); the next transaction, or statement outside of one, connects
 * again. A server that does not answer is given up by the connection's timeouts: 5 s to connect,
 * 15 s without an acknowledgement of sent bytes, 30 s for a statement. Conninfo overrides them. One
 * whose machine acknowledges, but which does not answer, is given up after ANSWER_MS: nothing here
 * blocks in libpq, but in poll. PQcancel is not used: it waits for that server, too. Of several
 * hosts one that is silent at the connect is tried last from then on. A server that sends without
 * end is given up: after SQL_ANSWER_BYTES; after SQL_NOTICES_MAX notices, whose text nobody sees.
 * So is one that answers by COPY, notifies, or sends SQL_UNASKED_BYTES that are no rows, also
 * before it lets in: libpq keeps notifications and parameters until the connection ends. After half
 * of that a connection is made again before the next transaction, since other messages count, too.
 *
 * Owns the connection. Rows of a result are in memory while it is read: statements have limits.
 */
#include <errno.h>
#include <libpq-fe.h>
#include <limits.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "collector/index/postgres_hosts.h"
#include "collector/index/sql.h"

#define OID_BYTEA    17u
#define OID_INT8     20u
#define OID_TEXT     25u
#define SQLSTATE_MAX 6u
#define PEER_BYTES   512u

#define ANSWER_MS         35000u /* longer than a statement may take */
#define CONNECT_MIN_MS    2000u  /* as in libpq */
#define CANCELLED_MS      5000u  /* the same, once it was cancelled */
#define ROW_BYTES         7u     /* of a DataRow without its cells */
#define CELL_BYTES        4u     /* of a cell's length */
#define POLL_MS           200
#define SQL_ANSWER_BYTES  (256u << 20)
#define SQL_UNASKED_BYTES (8u << 20) /* of a connection */
#define READ_BYTES        8192u      /* libpq has room for as many when it reads */
#define SQL_NOTICES_MAX   256u       /* of a statement, or of a connection that begins */
#define NS_PER_MS         UINT64_C(1000000)

/* Why a connection was given up. */
enum fault {
    FAULT_NONE,
    FAULT_SILENT,
    FAULT_ENDLESS,
    FAULT_UNASKED,
};

struct postgres_sql {
    struct pfl_sql base;
    PGconn *conn; /* owned */
    char *where;  /* owned */
    struct pfl_postgres_hosts hosts;
    bool is_prepared[PFL_STATEMENTS];
    unsigned answer_ms;
    unsigned connect_ms; /* of one host */
    unsigned notices;
    uint64_t seen_bytes;  /* at least, that the connection received */
    uint64_t asked_bytes; /* rows that the connection received */
    bool is_in_transaction;
    enum fault fault; /* until it is connected again */
    atomic_bool is_cancelled;
};

/* The first two or more characters of an SQLSTATE, and what it means here. */
static const struct {
    char begin[SQLSTATE_MAX];
    int rc;
} meanings[] = {
    {"53100", PFL_EFULL}, {"23505", PFL_EEXIST}, {"23503", PFL_EAGAIN}, {"42501", PFL_EPERM},
    {"28", PFL_EPERM},    {"08", PFL_EAGAIN},    {"40", PFL_EAGAIN},    {"53", PFL_EAGAIN},
    {"57", PFL_EAGAIN},   {"55P03", PFL_EAGAIN}, {"25006", PFL_EAGAIN}, {"54", PFL_ELIMIT},
};

static struct postgres_sql *of(struct pfl_sql *base)
{
    return (struct postgres_sql *)base;
}

/* libpq would write them to stderr, which is the log. */
static void count_notice(void *user, const char *text)
{
    struct postgres_sql *self = user;

    (void)text;
    if (++self->notices == SQL_NOTICES_MAX)
        (void)shutdown(PQsocket(self->conn), SHUT_RDWR);
}

/* libpq's text without its line ends. */
static void note(struct postgres_sql *self, const char *text)
{
    size_t len = (size_t)snprintf(self->base.why, sizeof(self->base.why), "PostgreSQL: %s", text);

    if (len >= sizeof(self->base.why))
        len = sizeof(self->base.why) - 1;
    while (len > 0 && self->base.why[len - 1] == '\n')
        self->base.why[--len] = '\0';
    for (size_t i = 0; i < len; i++)
        if (self->base.why[i] == '\n')
            self->base.why[i] = ' ';
}

static int judge(const char *sqlstate)
{
    for (size_t i = 0; sqlstate != NULL && i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (strncmp(sqlstate, meanings[i].begin, strlen(meanings[i].begin)) == 0)
            return meanings[i].rc;
    return PFL_EIO;
}

/* libpq notices a connection that was given up only when it has read what lay there. */
static bool is_connected(const struct postgres_sql *self)
{
    return self->fault == FAULT_NONE && PQstatus(self->conn) == CONNECTION_OK;
}

static int fail(struct postgres_sql *self, const PGresult *result)
{
    static const char *const faults[] = {
        [FAULT_SILENT] = "the server does not answer",
        [FAULT_ENDLESS] = "the server's answer has no end",
        [FAULT_UNASKED] = "the server answers with what was not asked for",
    };
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    note(self, self->fault != FAULT_NONE ? faults[self->fault]
               : sqlstate != NULL        ? PQresultErrorMessage(result)
                                         : PQerrorMessage(self->conn));
    return is_connected(self) ? judge(sqlstate) : PFL_EAGAIN;
}

/* ---- a server that does not answer ---- */

static uint64_t now_ms(void)
{
    return pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) / NS_PER_MS;
}

static bool is_late(const struct postgres_sql *self, uint64_t begun_ms)
{
    unsigned most_ms = atomic_load(&self->is_cancelled) && self->answer_ms > CANCELLED_MS
                           ? CANCELLED_MS
                           : self->answer_ms;

    return now_ms() - begun_ms >= most_ms;
}

static void wait_for_server(const struct postgres_sql *self, uint64_t begun_ms, bool is_sending)
{
    struct pollfd fd = {.fd = PQsocket(self->conn),
                        .events = (short)(is_sending ? POLLIN | POLLOUT : POLLIN)};
    int events = 0;

    while ((events == 0 || (events < 0 && errno == EINTR)) && !is_late(self, begun_ms))
        events = poll(&fd, 1, POLL_MS);
}

static uint64_t count_readable(int fd)
{
    int bytes = 0;

    return fd >= 0 && ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0 ? (uint64_t)bytes : 0;
}

/*
 * libpq has read, and before that so many bytes were readable: it took as many as these are fewer,
 * and as it has room for at least, however fast others follow.
 */
static void note_read(struct postgres_sql *self, int fd, uint64_t readable)
{
    uint64_t least = readable < READ_BYTES ? readable : READ_BYTES;
    uint64_t left;

    if (fd != PQsocket(self->conn)) {
        self->seen_bytes = 0;
        return;
    }
    left = count_readable(fd);
    self->seen_bytes += readable > left + least ? readable - left : least;
}

/* Of this connection. Only TCP knows all. */
static uint64_t count_received(const struct postgres_sql *self)
{
    struct tcp_info info = {.tcpi_state = 0};
    socklen_t len = sizeof(info);
    int rc = getsockopt(PQsocket(self->conn), IPPROTO_TCP, TCP_INFO, &info, &len);

    return rc == 0 && info.tcpi_bytes_received > self->seen_bytes ? info.tcpi_bytes_received
                                                                  : self->seen_bytes;
}

static bool consume(struct postgres_sql *self)
{
    int fd = PQsocket(self->conn);
    uint64_t readable = count_readable(fd);
    bool is_lost = PQconsumeInput(self->conn) == 0;

    note_read(self, fd, readable);
    return !is_lost;
}

/* As it crossed the connection. */
static uint64_t count_bytes(const PGresult *result)
{
    int columns = PQnfields(result);
    int rows = PQntuples(result);
    uint64_t bytes = 0;

    for (int row = 0; row < rows; row++) {
        bytes += ROW_BYTES;
        for (int column = 0; column < columns; column++)
            bytes += CELL_BYTES + (uint64_t)PQgetlength(result, row, column);
    }
    return bytes;
}

/* What the connection received that is no rows. */
static uint64_t count_unasked(const struct postgres_sql *self)
{
    uint64_t received = count_received(self);

    return received > self->asked_bytes ? received - self->asked_bytes : 0;
}

/* Nothing here listens. */
static bool has_notification(struct postgres_sql *self)
{
    PGnotify *notification = PQnotifies(self->conn);

    PQfreemem(notification);
    return notification != NULL;
}

/* For libpq the connection is lost then; otherwise it would wait for the server. */
static void give_up(struct postgres_sql *self)
{
    (void)shutdown(PQsocket(self->conn), SHUT_RDWR);
    (void)PQconsumeInput(self->conn);
}

static enum fault find_fault(struct postgres_sql *self, uint64_t begun_ms, uint64_t begun_bytes)
{
    if (self->notices >= SQL_NOTICES_MAX || count_received(self) > begun_bytes + SQL_ANSWER_BYTES)
        return FAULT_ENDLESS;
    if (has_notification(self))
        return FAULT_UNASKED;
    return is_late(self, begun_ms) ? FAULT_SILENT : FAULT_NONE;
}

/*
 * Sends the rest, until there is a result, or the connection is lost or given up. Looks for a fault
 * also if there is a result already: results may follow each other without end.
 */
static void receive(struct postgres_sql *self, uint64_t begun_ms, uint64_t begun_bytes)
{
    int unsent = PQflush(self->conn);

    self->fault = find_fault(self, begun_ms, begun_bytes);
    while (self->fault == FAULT_NONE && (unsent > 0 || (unsent == 0 && PQisBusy(self->conn)))) {
        wait_for_server(self, begun_ms, unsent > 0);
        if (!consume(self))
            return;
        unsent = PQflush(self->conn);
        self->fault = find_fault(self, begun_ms, begun_bytes);
    }
    if (self->fault != FAULT_NONE || unsent < 0)
        give_up(self);
}

/* Nothing here begins a COPY. In that state libpq gives the same result without end. */
static bool is_copy(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    return status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
}

/* The last result of what was sent; NULL: nothing was, or the connection was given up. */
static PGresult *answer(struct postgres_sql *self, int is_sent)
{
    uint64_t begun_ms = now_ms();
    uint64_t begun_bytes = count_received(self);
    PGresult *last = NULL;
    PGresult *next;

    self->notices = 0;
    while (is_sent != 0 && (last == NULL || is_connected(self))) {
        receive(self, begun_ms, begun_bytes);
        next = self->fault == FAULT_NONE ? PQgetResult(self->conn) : NULL;
        if (next == NULL)
            break;
        PQclear(last);
        last = next;
        self->asked_bytes += count_bytes(last);
        if (is_copy(last))
            self->fault = FAULT_UNASKED;
    }
    if (self->fault == FAULT_NONE &&
        (count_unasked(self) > SQL_UNASKED_BYTES || has_notification(self)))
        self->fault = FAULT_UNASKED;
    if (self->fault == FAULT_UNASKED)
        give_up(self);
    if (self->fault == FAULT_NONE)
        return last;
    PQclear(last);
    return NULL;
}

/* ---- connecting ---- */

static PGconn *start(struct postgres_sql *self)
{
    static const char *const names[] = {"connect_timeout",
                                        "tcp_user_timeout",
                                        "application_name",
                                        "client_encoding",
                                        "options",
                                        "dbname",
                                        "host",
                                        "hostaddr",
                                        "port",
                                        NULL};
    const char *const values[] = {"5",
                                  "15000",
                                  "perfleet-collector",
                                  "UTF8",
                                  "-c statement_timeout=30000",
                                  self->where,
                                  self->hosts.lists[0],
                                  self->hosts.lists[1],
                                  self->hosts.lists[2],
                                  NULL};
    PGconn *conn = PQconnectStartParams(names, values, 1);

    /* It is begun again at once: only so notices have a processor before the first one comes. */
    (void)PQsetNoticeProcessor(conn, count_notice, self);
    return conn;
}

/* The host, or one of its addresses, that is tried now. */
static void describe_peer(const struct postgres_sql *self, char peer[PEER_BYTES])
{
    const char *host = PQhost(self->conn);
    const char *address = PQhostaddr(self->conn);
    const char *port = PQport(self->conn);

    (void)snprintf(peer, PEER_BYTES, "%s %s %s", host != NULL ? host : "",
                   address != NULL ? address : "", port != NULL ? port : "");
}

static void wait_for_peer(const struct postgres_sql *self, PostgresPollingStatusType state,
                          uint64_t begun_ms)
{
    struct pollfd fd = {.fd = PQsocket(self->conn),
                        .events = state == PGRES_POLLING_WRITING ? POLLOUT : POLLIN};
    int events = 0;

    while ((events == 0 || (events < 0 && errno == EINTR)) &&
           now_ms() - begun_ms < self->connect_ms)
        events = poll(&fd, 1, POLL_MS);
}

static PostgresPollingStatusType step(struct postgres_sql *self)
{
    int fd = PQsocket(self->conn);
    uint64_t readable = count_readable(fd);
    PostgresPollingStatusType state = PQresetPoll(self->conn);

    note_read(self, fd, readable);
    if (count_received(self) > SQL_UNASKED_BYTES || self->notices >= SQL_NOTICES_MAX)
        self->fault = FAULT_UNASKED;
    return state;
}

/* Sets the fault of a server that floods, or is silent. libpq tries a host's next address, and the
 * next host, when a connection fails before it is made. */
static void log_in(struct postgres_sql *self)
{
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;
    uint64_t begun_ms = now_ms();
    char peer[PEER_BYTES];
    char next[PEER_BYTES];

    self->notices = 0;
    self->seen_bytes = self->asked_bytes = 0;
    self->fault = FAULT_NONE;
    if (PQresetStart(self->conn) == 0)
        return;
    describe_peer(self, peer);
    while (state != PGRES_POLLING_OK && state != PGRES_POLLING_FAILED &&
           self->fault != FAULT_UNASKED) {
        wait_for_peer(self, state, begun_ms);
        if (now_ms() - begun_ms >= self->connect_ms) {
            if (self->fault == FAULT_SILENT)
                break;
            self->fault = FAULT_SILENT;
            (void)shutdown(PQsocket(self->conn), SHUT_RDWR);
        }
        state = step(self);
        describe_peer(self, next);
        if (strcmp(peer, next) != 0 && self->fault != FAULT_UNASKED) {
            memcpy(peer, next, sizeof(peer));
            begun_ms = now_ms();
            self->fault = FAULT_NONE;
        }
    }
    if (self->fault == FAULT_UNASKED)
        give_up(self);
}

static bool connect_first(struct postgres_sql *self)
{
    log_in(self);
    for (size_t i = 1; i < self->hosts.len && self->fault == FAULT_SILENT; i++) {
        PQfinish(self->conn);
        pfl_postgres_hosts_rotate(&self->hosts);
        self->conn = start(self);
        log_in(self);
    }
    return is_connected(self) && PQsetnonblocking(self->conn, 1) == 0;
}

/* Before a transaction, or a statement outside of one: a connection that was lost is made again. */
static int connect_again(struct postgres_sql *self)
{
    bool is_cancelled = atomic_load(&self->is_cancelled);

    if (is_connected(self) && (is_cancelled || count_unasked(self) <= SQL_UNASKED_BYTES / 2))
        return 0;
    if (is_cancelled) {
        note(self, "the connection was lost, and is no longer needed");
        return PFL_EAGAIN;
    }
    memset(self->is_prepared, 0, sizeof(self->is_prepared));
    if (connect_first(self))
        return 0;
    (void)fail(self, NULL);
    return PFL_EAGAIN;
}

static int check(struct postgres_sql *self, PGresult *result, struct pfl_sql_call *call)
{
    struct pfl_sql_row row = {.sql = &self->base, .result = result};
    ExecStatusType status = PQresultStatus(result);
    uint64_t changed = 0;
    bool is_more = call->on_row != NULL;

    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        return fail(self, result);
    for (const char *c = PQcmdTuples(result); *c >= '0' && *c <= '9'; c++)
        changed = changed * 10 + (uint64_t)(*c - '0');
    call->changed = changed;
    for (row.number = 0; is_more && row.number < PQntuples(result); row.number++)
        is_more = call->on_row(call->user, &row);
    return 0;
}

static int prepare(struct postgres_sql *self, const struct pfl_sql_call *call, const char *name)
{
    static const Oid oids[] = {[PFL_SQL_NULL] = 0,
                               [PFL_SQL_INT] = OID_INT8,
                               [PFL_SQL_TEXT] = OID_TEXT,
                               [PFL_SQL_BLOB] = OID_BYTEA};
    char text[PFL_STATEMENT_MAX_BYTES];
    Oid types[PFL_SQL_PARAMS];
    PGresult *result;
    int rc = 0;

    for (size_t i = 0; i < call->len; i++)
        types[i] = oids[call->params[i].kind];
    if (pfl_sql_translate(self->base.engine, pfl_statement_get(call->statement), text,
                          sizeof(text)) != 0)
        return PFL_ELIMIT;
    result = answer(self, PQsendPrepare(self->conn, name, text, (int)call->len, types));
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        rc = fail(self, result);
    PQclear(result);
    self->is_prepared[call->statement] = rc == 0;
    return rc;
}

static PGresult *execute(struct postgres_sql *self, const struct pfl_sql_call *call,
                         const char *name)
{
    uint64_t numbers[PFL_SQL_PARAMS];
    const char *values[PFL_SQL_PARAMS];
    int lens[PFL_SQL_PARAMS];
    int formats[PFL_SQL_PARAMS];

    for (size_t i = 0; i < call->len; i++) {
        const struct pfl_sql_value *value = &call->params[i];

        numbers[i] = __builtin_bswap64((uint64_t)value->number);
        values[i] = (const char *)value->bytes.data;
        lens[i] = (int)value->bytes.len;
        formats[i] = 1;
        if (value->kind == PFL_SQL_INT) {
            values[i] = (const char *)&numbers[i];
            lens[i] = sizeof(numbers[i]);
        } else if (value->kind != PFL_SQL_NULL && value->bytes.len == 0) {
            values[i] = ""; /* not NULL */
        }
    }
    return answer(self,
                  PQsendQueryPrepared(self->conn, name, (int)call->len, values, lens, formats, 1));
}

static int run(struct pfl_sql *base, struct pfl_sql_call *call)
{
    struct postgres_sql *self = of(base);
    char name[16];
    PGresult *result;
    int rc = self->is_in_transaction ? 0 : connect_again(self);

    call->changed = 0;
    if (rc != 0 || call->len > PFL_SQL_PARAMS)
        return rc != 0 ? rc : PFL_ELIMIT;
    (void)snprintf(name, sizeof(name), "s%d", (int)call->statement);
    if (!self->is_prepared[call->statement])
        rc = prepare(self, call, name);
    if (rc != 0)
        return rc;
    result = execute(self, call, name);
    rc = check(self, result, call);
    PQclear(result);
    return rc;
}

static int script(struct pfl_sql *base, const char *text)
{
    struct postgres_sql *self = of(base);
    struct pfl_sql_call call = {.on_row = NULL};
    bool is_end = strcmp(text, "COMMIT") == 0 || strcmp(text, "ROLLBACK") == 0;
    PGresult *result;
    int rc = self->is_in_transaction ? 0 : connect_again(self);

    if (rc != 0)
        return rc;
    result = answer(self, PQsendQuery(self->conn, text));
    rc = check(self, result, &call);
    /* A commit of a transaction that failed is a rollback. */
    if (rc == 0 && strcmp(text, "COMMIT") == 0 && strcmp(PQcmdStatus(result), "COMMIT") != 0)
        rc = PFL_EAGAIN;
    PQclear(result);
    self->is_in_transaction = !is_end && (self->is_in_transaction || rc == 0);
    return rc;
}

/* Integers of any width. */
static int64_t get_int(const struct pfl_sql_row *row, unsigned column)
{
    const PGresult *result = row->result;
    const unsigned char *bytes =
        (const unsigned char *)PQgetvalue(result, row->number, (int)column);
    int len = PQgetlength(result, row->number, (int)column);
    uint64_t v = len > 0 && (bytes[0] & 0x80) != 0 ? UINT64_MAX : 0;

    for (int i = 0; i < len && i < 8; i++)
        v = v << 8 | bytes[i];
    return (int64_t)v;
}

static struct pfl_span get_bytes(const struct pfl_sql_row *row, unsigned column)
{
    const PGresult *result = row->result;

    return pfl_span_of(PQgetvalue(result, row->number, (int)column),
                       (size_t)PQgetlength(result, row->number, (int)column));
}

static void cancel(struct pfl_sql *base)
{
    atomic_store(&of(base)->is_cancelled, true);
}

static void close_sql(struct pfl_sql *base)
{
    struct postgres_sql *self = of(base);

    PQfinish(self->conn);
    pfl_postgres_hosts_fini(&self->hosts);
    pfl_mem_free(self->where);
    pfl_mem_free(self);
}

static const struct pfl_sql_engine engine = {
    .close = close_sql,
    .cancel = cancel,
    .run = run,
    .script = script,
    .get_int = get_int,
    .get_bytes = get_bytes,
    .begin = "BEGIN",
    .lock = "SELECT pg_advisory_xact_lock(5782216490214)",
    .id_type = "BIGSERIAL PRIMARY KEY",
    .blob_type = "BYTEA",
    .now_ms = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
};

/* ---- the connection string, without a connection ---- */

static const char *find_option(const PQconninfoOption *options, const char *keyword)
{
    for (; options != NULL && options->keyword != NULL; options++)
        if (strcmp(options->keyword, keyword) == 0)
            return options->val != NULL && options->val[0] != '\0' ? options->val : NULL;
    return NULL;
}

bool pfl_sql_postgres_judge(const char *where, const char **ret_what)
{
    char *error = NULL; /* it repeats the string, and so the password */
    PQconninfoOption *options = PQconninfoParse(where, &error);

    *ret_what = NULL;
    if (options == NULL)
        *ret_what = "wants postgres: and a connection string of libpq, such as "
                    "\"postgres:host=db dbname=perfleet user=perfleet\"";
    else if (find_option(options, "password") != NULL ||
             find_option(options, "sslpassword") != NULL)
        *ret_what = "has a password, which lists of processes and logs show: put it into a file, "
                    "and passfile=FILE here";
    PQconninfoFree(options);
    PQfreemem(error);
    return *ret_what == NULL;
}

void pfl_sql_postgres_list_files(const char *where, void (*on_file)(void *user, const char *path),
                                 void *user)
{
    static const char *const files[] = {"passfile",    "sslcert", "sslkey",
                                        "sslrootcert", "sslcrl",  "servicefile"};
    PQconninfoOption *options = PQconninfoParse(where, NULL);
    PQconninfoOption *defaults = PQconndefaults();

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        const char *path = find_option(options, files[i]);

        if (path == NULL)
            path = find_option(defaults, files[i]);
        if (path != NULL && path[0] == '/')
            on_file(user, path);
    }
    PQconninfoFree(defaults);
    PQconninfoFree(options);
}

/* 0 and less are for ever in libpq; here as long as an answer may take. */
static unsigned get_connect_ms(const struct postgres_sql *self)
{
    PQconninfoOption *options = PQconninfo(self->conn);
    const char *text = find_option(options, "connect_timeout");
    long seconds = text != NULL ? strtol(text, NULL, 10) : 0;
    unsigned ms = self->answer_ms;

    if (seconds > 0 && seconds < (long)(UINT_MAX / 1000))
        ms = (unsigned)seconds * 1000;
    PQconninfoFree(options);
    return ms < CONNECT_MIN_MS ? CONNECT_MIN_MS : ms;
}

static int open_first(struct postgres_sql *self)
{
    int rc;

    self->conn = start(self);
    rc = self->conn != NULL ? pfl_postgres_hosts_read(&self->hosts, self->conn) : PFL_ENOMEM;
    if (rc != 0) {
        note(self, "out of memory");
        return rc;
    }
    self->connect_ms = get_connect_ms(self);
    if (connect_first(self))
        return 0;
    (void)fail(self, NULL);
    return PFL_EAGAIN;
}

int pfl_sql_postgres_open(const char *where, unsigned answer_ms, char *ret_why,
                          struct pfl_sql **ret_sql)
{
    struct postgres_sql *self = pfl_mem_zalloc(sizeof(*self));
    int rc;

    if (self == NULL)
        return PFL_ENOMEM;
    self->base.engine = &engine;
    self->answer_ms = answer_ms != 0 ? answer_ms : ANSWER_MS;
    self->where = pfl_mem_strdup(where);
    rc = self->where != NULL ? open_first(self) : PFL_ENOMEM;
    if (rc != 0) {
        (void)snprintf(ret_why, PFL_SQL_WHY_BYTES, "%s", self->base.why);
        close_sql(&self->base);
        return rc;
    }
    *ret_sql = &self->base;
    return 0;
}
