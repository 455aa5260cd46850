/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema and the statements: see statements.h. Tables only; cannot fail.
 *
 *   host 1--n run 1--n segment         collector 1--n lease
 *   kind 1--n run: the class of retention and the order of a run
 *   orders 1--n host_state, 1--1 rounds            deletion (the audit)
 *   clock: one row, the time that retention went by last
 *
 * A run counts its segments by state, so that "nothing is missing" needs no look at segments.
 * `is_long` parts segments of more than 15 min from the others: a search for a window looks only 15
 * min before it among the short ones, and at all long ones. Numbers of states: enum
 * pfl_index_state.
 */
#include "collector/index/statements.h"

#include <stddef.h>

static const char version_1[] =
    "CREATE TABLE host(id @ID@, name TEXT NOT NULL UNIQUE, bytes BIGINT NOT NULL DEFAULT 0);"
    "CREATE TABLE run(id @ID@, host_id BIGINT NOT NULL REFERENCES host(id),"
    " orderer TEXT NOT NULL, order_name TEXT NOT NULL, incarnation TEXT NOT NULL,"
    " last BIGINT NOT NULL DEFAULT 0, stored BIGINT NOT NULL DEFAULT 0,"
    " in_gaps BIGINT NOT NULL DEFAULT 0, removed BIGINT NOT NULL DEFAULT 0,"
    " bytes BIGINT NOT NULL DEFAULT 0, UNIQUE(host_id, incarnation, orderer, order_name));"
    "CREATE TABLE segment(id TEXT PRIMARY KEY, run_id BIGINT NOT NULL REFERENCES run(id),"
    " host_id BIGINT NOT NULL, number BIGINT NOT NULL, last BIGINT NOT NULL,"
    " is_gap BIGINT NOT NULL, is_long BIGINT NOT NULL, state BIGINT NOT NULL,"
    " begin_ns BIGINT NOT NULL, end_ns BIGINT NOT NULL, bytes BIGINT NOT NULL,"
    " sha256 @BLOB@, object_key TEXT NOT NULL, definition @BLOB@, collector TEXT NOT NULL,"
    " generation BIGINT NOT NULL, changed_ns BIGINT NOT NULL, stored_ns BIGINT NOT NULL,"
    " keep_ns BIGINT NOT NULL DEFAULT 0, pin_who TEXT NOT NULL DEFAULT '',"
    " pin_reason TEXT NOT NULL DEFAULT '', pin_end_ns BIGINT NOT NULL DEFAULT 0);"
    "CREATE UNIQUE INDEX segment_number ON segment(run_id, number);"
    "CREATE INDEX segment_gap ON segment(run_id, last) WHERE is_gap = 1;"
    "CREATE INDEX segment_host ON segment(host_id, is_long, begin_ns, id, end_ns) WHERE state = 1;"
    "CREATE INDEX segment_fleet ON segment(is_long, begin_ns, id, end_ns, host_id) WHERE state = 1;"
    "CREATE INDEX segment_state ON segment(state, changed_ns) WHERE state <> 1;"
    "CREATE TABLE deletion(id @ID@, at_ns BIGINT NOT NULL, segment_id TEXT NOT NULL,"
    " host TEXT NOT NULL, orderer TEXT NOT NULL, order_name TEXT NOT NULL, number BIGINT NOT NULL,"
    " bytes BIGINT NOT NULL, who TEXT NOT NULL, reason TEXT NOT NULL);"
    "CREATE INDEX deletion_at ON deletion(at_ns);"
    "CREATE TABLE orders(orderer TEXT NOT NULL, name TEXT NOT NULL, generation BIGINT NOT NULL,"
    " is_paused BIGINT NOT NULL, is_removed BIGINT NOT NULL, definition @BLOB@ NOT NULL,"
    " PRIMARY KEY(orderer, name));"
    "CREATE TABLE host_state(host TEXT NOT NULL, orderer TEXT NOT NULL, name TEXT NOT NULL,"
    " state @BLOB@ NOT NULL, PRIMARY KEY(orderer, name, host));"
    "CREATE TABLE rounds(orderer TEXT NOT NULL, name TEXT NOT NULL, version BIGINT NOT NULL,"
    " state @BLOB@ NOT NULL, PRIMARY KEY(orderer, name));"
    "CREATE TABLE collector(name TEXT PRIMARY KEY, generation BIGINT NOT NULL,"
    " beat_ms BIGINT NOT NULL);"
    "CREATE TABLE lease(name TEXT PRIMARY KEY, collector TEXT NOT NULL,"
    " generation BIGINT NOT NULL);"
    "CREATE INDEX lease_collector ON lease(collector);";

/* Classes of version 1 are not known: its traces are kept for a year. */
static const char version_2[] =
    "CREATE TABLE kind(id @ID@, class TEXT NOT NULL, orderer TEXT NOT NULL,"
    " order_name TEXT NOT NULL, UNIQUE(class, orderer, order_name));"
    "INSERT INTO kind(class, orderer, order_name) VALUES('default', '', '');"
    "INSERT INTO kind(class, orderer, order_name) SELECT DISTINCT 'default', orderer, order_name"
    " FROM run WHERE orderer <> '' OR order_name <> '';"
    "ALTER TABLE host ADD COLUMN kinds BIGINT NOT NULL DEFAULT 0;"
    "ALTER TABLE host ADD COLUMN gaps BIGINT NOT NULL DEFAULT 0;"
    "UPDATE host SET gaps ="
    " (SELECT COUNT(*) FROM segment WHERE host_id = host.id AND state = 1 AND is_gap = 1);"
    "ALTER TABLE run ADD COLUMN kind_id BIGINT REFERENCES kind(id);"
    "ALTER TABLE run ADD COLUMN changed_ns BIGINT NOT NULL DEFAULT 0;"
    "UPDATE run SET changed_ns = 9000000000000000000, kind_id = (SELECT id FROM kind WHERE"
    " class = 'default' AND orderer = run.orderer AND order_name = run.order_name);"
    "ALTER TABLE segment ADD COLUMN kind_id BIGINT NOT NULL DEFAULT 1;"
    "ALTER TABLE segment ADD COLUMN trigger_name TEXT NOT NULL DEFAULT '';"
    "UPDATE segment SET kind_id = (SELECT kind_id FROM run WHERE run.id = run_id),"
    " keep_ns = stored_ns + 31536000000000000;"
    "CREATE INDEX run_kind ON run(kind_id);"
    "CREATE INDEX segment_plain ON segment(kind_id, stored_ns, id)"
    " WHERE state = 1 AND trigger_name = '';"
    "CREATE INDEX segment_triggered ON segment(kind_id, stored_ns, id)"
    " WHERE state = 1 AND trigger_name <> '';";

static const char version_3[] =
    "CREATE TABLE clock(id BIGINT PRIMARY KEY, unix_ns BIGINT NOT NULL);";

/* What a segment counts in the sums of its run and its host: pfl_index_row_count_bytes. */
#define COUNTED "(8192 + bytes + 8 * COALESCE(LENGTH(definition), 0))"

#define COUNT_ALL                                                                                  \
    "UPDATE run SET bytes ="                                                                       \
    " COALESCE((SELECT SUM" COUNTED " FROM segment WHERE run_id = run.id AND state = 1), 0);"      \
    "UPDATE host SET bytes ="                                                                      \
    " COALESCE((SELECT SUM(run.bytes) FROM run WHERE run.host_id = host.id), 0);"

static const char version_4[] = COUNT_ALL; /* descriptions count */
static const char version_5[] = COUNT_ALL; /* files count */

/* Each is a step, as the time of a statement is bounded. They may have been made by hand. */
static const char version_6[] =
    "CREATE INDEX IF NOT EXISTS segment_of_host"
    " ON segment(host_id, kind_id, (trigger_name <> ''), begin_ns, id) WHERE state = 1;";
static const char version_7[] = "CREATE INDEX IF NOT EXISTS segment_of_trigger ON segment(kind_id, "
                                "host_id, trigger_name, stored_ns, id)"
                                " WHERE state = 1 AND trigger_name <> '';";

static const char *const steps[] = {version_1, version_2, version_3, version_4,
                                    version_5, version_6, version_7};

#define ROW                                                                                        \
    "SELECT s.id, s.object_key, h.name, r.orderer, r.order_name, r.incarnation, s.state,"          \
    " s.number, s.begin_ns, s.end_ns, s.bytes, s.sha256, s.definition, s.stored_ns, s.keep_ns,"    \
    " s.pin_who, s.pin_reason, s.pin_end_ns, s.kind_id "
/* Of a kind, the first that were stored: behind $1 (when) and $2 (id), at most $3, of the kind $4,
 * and before $5. */
#define STORED_BEHIND "(s.stored_ns, s.id) > ($1, $2)"
#define OLDEST(trigger)                                                                            \
    ROW FROM "WHERE s.state = 1 AND s.trigger_name " trigger " '' AND s.kind_id = $4"              \
             " AND " STORED_BEHIND " AND (s.stored_ns, s.id) < ($5, '')"                           \
             " ORDER BY s.stored_ns, s.id LIMIT $3"
/* Of a host, the first that were recorded: likewise, of the host $4 and the class $5. Of each kind
 * of the class so many, so that a host's traces of other classes are not passed. */
#define OLDEST_OF_HOST(parts)                                                                      \
    ROW FROM "WHERE s.id IN (SELECT t.id FROM kind k " parts                                       \
             " ORDER BY t.begin_ns, t.id LIMIT $3) ORDER BY s.begin_ns, s.id"
#define OF_HOST_AND_KIND(columns)                                                                  \
    "(SELECT " columns " FROM segment s WHERE s.state = 1 AND s.host_id = $4"                      \
    " AND s.kind_id = k.id AND (s.trigger_name <> '') = ($6 <> 0)"                                 \
    " AND (s.begin_ns, s.id) > ($1, $2) ORDER BY s.begin_ns, s.id LIMIT $3)"
/* When the newest of each kind was stored. */
#define NEWEST(trigger)                                                                            \
    "SELECT (SELECT MAX(s.stored_ns) FROM segment s WHERE s.state = 1 AND s.trigger_name " trigger \
    " '' AND s.kind_id = k.id) AS stored_ns FROM kind k"
#define FROM " FROM segment s JOIN run r ON r.id = s.run_id JOIN host h ON h.id = s.host_id "
/* Where a search continues: rows from $1 (begin) and $2 (id) among short segments, $3 and $4 among
 * long ones, to $5 and $6. The row that was looked at last is not among them. One comparison of
 * rows is the bound of each end: an engine goes by one alone, and passes what another one excludes.
 */
#define FROM_SHORT "($1, $2)"
#define FROM_LONG  "($3, $4)"
#define UP(from)   "(s.begin_ns, s.id) > " from " AND (s.begin_ns, s.id) <= ($5, $6)"
#define DOWN(from) "(s.begin_ns, s.id) >= " from " AND (s.begin_ns, s.id) < ($5, $6)"
#define OF_HOST(n) "AND s.host_id = (SELECT id FROM host WHERE name = " n ")"
#define PART(of_host, is_long, range)                                                              \
    "FROM segment s WHERE s.state = 1 " of_host " AND s.is_long = " is_long " AND " range
#define IN_ORDER(order) " ORDER BY s.begin_ns " order ", s.id " order
/* The place of the row behind $7 others, of short or of long segments: the nearer one. */
#define STRIP_PART(of_host, is_long, range, order)                                                 \
    "SELECT * FROM (SELECT s.begin_ns, s.id " PART(of_host, is_long, range)                        \
        IN_ORDER(order) " LIMIT 1 OFFSET $7) AS part_" is_long
#define STRIP(of_host, RANGE, order)                                                               \
    STRIP_PART(of_host, "0", RANGE(FROM_SHORT), order)                                             \
    " UNION ALL " STRIP_PART(of_host, "1", RANGE(FROM_LONG), order) " ORDER BY begin_ns " order    \
                                                                    ", id " order " LIMIT 1"
/* Rows that end behind $8, of short and of long segments, each read in the order of its index. */
#define FIND_PART(of_host, is_long, range, order)                                                  \
    "SELECT * FROM (SELECT s.id, s.begin_ns " PART(                                                \
        of_host, is_long,                                                                          \
        range) " AND s.end_ns > $8" IN_ORDER(order) " LIMIT $7) AS part_" is_long
#define FIND(of_host, RANGE, order)                                                                \
    ROW "FROM (" FIND_PART(of_host, "0", RANGE(FROM_SHORT), order) " UNION ALL " FIND_PART(        \
        of_host, "1", RANGE(FROM_LONG),                                                            \
        order) ") AS found JOIN segment s ON s.id = found.id"                                      \
               " JOIN run r ON r.id = s.run_id JOIN host h ON h.id = s.host_id "                   \
               "ORDER BY found.begin_ns " order ", found.id " order " LIMIT $7"
/* The same for an engine that merges parts of a union which are in order: SQLite then sorts no
 * rows, and reads no more of them than are taken. CROSS JOIN keeps it to the order of the tables.
 */
#define MERGE_PART(of_host, is_long, range)                                                        \
    ROW "FROM segment s CROSS JOIN run r ON r.id = s.run_id CROSS JOIN host h ON h.id = s.host_id" \
        " WHERE s.state = 1 " of_host " AND s.is_long = " is_long " AND " range                    \
        " AND s.end_ns > $8"
#define MERGE(of_host, RANGE, order)                                                               \
    MERGE_PART(of_host, "0", RANGE(FROM_SHORT))                                                    \
    " UNION ALL " MERGE_PART(of_host, "1", RANGE(FROM_LONG)) IN_ORDER(order) " LIMIT $7"
/* Runs behind $1 to $4, of that host and of the others, each read in the order of an index. */
#define RUN                                                                                        \
    "SELECT h.name, r.incarnation, r.orderer, r.order_name, r.last, r.stored, r.in_gaps,"          \
    " r.removed, r.bytes FROM host h JOIN run r ON r.host_id = h.id WHERE "
/* The oldest notes of deletions that are more than $1, at most $2. */
#define ABOVE_MAX                                                                                  \
    "SELECT id FROM deletion WHERE id <= (SELECT MAX(id) FROM deletion) - $1 ORDER BY id LIMIT $2"
#define IS_UNUSED_HOST                                                                             \
    "bytes = 0 AND gaps = 0 AND NOT EXISTS (SELECT 1 FROM run WHERE host_id = host.id)"
#define VOID_OR_OWN                                                                                \
    "(lease.collector = $2 OR NOT EXISTS (SELECT 1 FROM collector c WHERE"                         \
    " c.name = lease.collector AND c.generation = lease.generation AND c.beat_ms > @NOW@ - $4))"

static const char *const statements[PFL_STATEMENTS] = {
    [PFL_SQL_GET_VERSION] = "SELECT version FROM perfleet_schema",
    [PFL_SQL_SET_VERSION] = "UPDATE perfleet_schema SET version = $1",
    [PFL_SQL_ADD_HOST] = "INSERT INTO host(name) VALUES($1) ON CONFLICT DO NOTHING",
    [PFL_SQL_GET_HOST] = "SELECT id FROM host WHERE name = $1",
    [PFL_SQL_COUNT_GAPS] = "UPDATE host SET gaps = gaps + $2 WHERE id = $1 RETURNING gaps",
    /* Of a host, and of these the orderer's. Its runs are bounded. */
    [PFL_SQL_COUNT_KINDS] = "SELECT COUNT(DISTINCT kind_id),"
                            " COUNT(DISTINCT CASE WHEN orderer = $2 THEN kind_id END)"
                            " FROM run WHERE host_id = $1",
    [PFL_SQL_ADD_KIND] = "INSERT INTO kind(class, orderer, order_name) SELECT $1, $2, $3"
                         " WHERE (SELECT COUNT(*) FROM kind) < $4 ON CONFLICT DO NOTHING",
    [PFL_SQL_GET_KIND] =
        "SELECT id FROM kind WHERE class = $1 AND orderer = $2 AND order_name = $3",
    [PFL_SQL_COUNT_RUNS] = "SELECT COUNT(*) FROM run WHERE host_id = $1",
    [PFL_SQL_COUNT_LONG] = "SELECT COUNT(*) FROM (SELECT 1 AS one FROM segment WHERE state = 1"
                           " AND host_id = $1 AND is_long = 1 LIMIT $2) AS long_ones",
    [PFL_SQL_ADD_RUN] = "INSERT INTO run(host_id, orderer, order_name, incarnation, kind_id)"
                        " VALUES($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
    /* The run's transactions come one after the other. */
    [PFL_SQL_LOCK_RUN] =
        "UPDATE run SET changed_ns = CASE WHEN changed_ns < $5 THEN $5 ELSE changed_ns END"
        " WHERE host_id = $1 AND orderer = $2 AND order_name = $3 AND incarnation = $4"
        " RETURNING id, kind_id",
    [PFL_SQL_COUNT_RUN] = "UPDATE run SET stored = stored + $2, in_gaps = in_gaps + $3,"
                          " removed = removed + $4, bytes = bytes + $5,"
                          " last = CASE WHEN last < $6 THEN $6 ELSE last END WHERE id = $1",
    [PFL_SQL_COUNT_HOST] = "UPDATE host SET bytes = bytes + $2 WHERE id = $1",
    [PFL_SQL_LIST_RUNS] =
        "SELECT * FROM (" RUN "h.name = $1 AND (r.incarnation, r.orderer, r.order_name) >"
        " ($2, $3, $4) ORDER BY r.incarnation, r.orderer, r.order_name LIMIT $5) AS of_host"
        " UNION ALL SELECT * FROM (" RUN "h.name > $1"
        " ORDER BY h.name, r.incarnation, r.orderer, r.order_name LIMIT $5) AS of_others"
        " ORDER BY 1, 2, 3, 4 LIMIT $5",
    [PFL_SQL_ADD_SEGMENT] =
        "INSERT INTO segment(id, run_id, host_id, number, last, is_gap, is_long, state, begin_ns,"
        " end_ns, bytes, sha256, object_key, definition, collector, generation, changed_ns,"
        " stored_ns, kind_id, trigger_name) VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,"
        " $12, $13, $14, $15, $16, $17, $18, $19, $20)",
    [PFL_SQL_GET_NUMBER] =
        "SELECT s.id, s.object_key, s.state, s.is_gap, s.last, s.sha256, s.collector, s.generation,"
        " LENGTH(s.definition), s.begin_ns FROM segment s WHERE run_id = $1 AND number = $2",
    [PFL_SQL_TAKE_OVER] = "UPDATE segment SET state = 0, collector = $2, generation = $3,"
                          " changed_ns = $4"
                          " WHERE id = $1",
    /* It ends behind its begin, whatever is said now. */
    [PFL_SQL_EXTEND_GAP] = "UPDATE segment SET last = $2, definition = $3, bytes = 0,"
                           " end_ns = CASE WHEN end_ns < $4 THEN $4 ELSE end_ns END WHERE id = $1",
    /* Numbers of a run from $2 to $3 that are stored, were stored, or are in a gap; at most $4 of
     * each. Gaps of a host that does not lie do not overlap: the first ones are those. */
    [PFL_SQL_LIST_RANGE] =
        "SELECT number, last FROM (SELECT number, last FROM segment WHERE run_id = $1"
        " AND number BETWEEN $2 AND $3 AND state NOT IN (0, 4) ORDER BY number LIMIT $4) AS stored"
        " UNION SELECT number, last FROM (SELECT number, last FROM segment WHERE run_id = $1"
        " AND is_gap = 1 AND last >= $2 ORDER BY last LIMIT $4) AS gaps WHERE number <= $3"
        " ORDER BY number, last",
    /* Of a run's numbers from $5 to $6, those that bytes have or had: at most $7. */
    [PFL_SQL_LIST_STORED] =
        "SELECT s.number FROM host h JOIN run r ON r.host_id = h.id"
        " JOIN segment s ON s.run_id = r.id WHERE h.name = $1 AND r.orderer = $2"
        " AND r.order_name = $3 AND r.incarnation = $4 AND s.number BETWEEN $5 AND $6"
        " AND s.is_gap = 0 AND s.state <> 0 ORDER BY s.number LIMIT $7",
    [PFL_SQL_SET_LIVE] = "UPDATE segment SET state = 1, stored_ns = $2, changed_ns = $2"
                         " WHERE id = $1 AND state = 0 RETURNING run_id, host_id, number, " COUNTED,
    [PFL_SQL_DROP] = "DELETE FROM segment WHERE id = $1 AND state = 0",
    [PFL_SQL_GET_SEGMENT] = ROW FROM "WHERE s.id = $1",
    [PFL_SQL_FIND_STATE] = ROW FROM "WHERE s.state = $1 AND s.state <> 1 AND s.changed_ns < $2"
                                    " ORDER BY s.changed_ns LIMIT $3",
    [PFL_SQL_HOST_NEWEST] = FIND(OF_HOST("$9"), DOWN, "DESC"),
    [PFL_SQL_HOST_OLDEST] = FIND(OF_HOST("$9"), UP, "ASC"),
    [PFL_SQL_FLEET_NEWEST] = FIND("", DOWN, "DESC"),
    [PFL_SQL_FLEET_OLDEST] = FIND("", UP, "ASC"),
    [PFL_SQL_HOST_STRIP_DOWN] = STRIP(OF_HOST("$8"), DOWN, "DESC"),
    [PFL_SQL_HOST_STRIP_UP] = STRIP(OF_HOST("$8"), UP, "ASC"),
    [PFL_SQL_FLEET_STRIP_DOWN] = STRIP("", DOWN, "DESC"),
    [PFL_SQL_FLEET_STRIP_UP] = STRIP("", UP, "ASC"),
    [PFL_SQL_TOMBSTONE] =
        "UPDATE segment SET state = 2, changed_ns = $2 WHERE id = $1 AND state = 1"
        " AND (pin_who = '' OR (pin_end_ns <> 0 AND pin_end_ns <= $2))"
        " AND ($3 = 0 OR keep_ns <= $2)"
        " RETURNING run_id, host_id, number, last, is_gap, " COUNTED,
    [PFL_SQL_SET_GONE] = "UPDATE segment SET state = 3, changed_ns = $2, definition = NULL"
                         " WHERE id = $1 AND state = 2",
    /* The state again: another collector may find a lost one meanwhile. */
    [PFL_SQL_FORGET] =
        "DELETE FROM segment WHERE id IN (SELECT id FROM segment WHERE state IN (0, 3, 4)"
        " AND state <> 1 AND changed_ns < $1 LIMIT $2) AND state IN (0, 3, 4)",
    [PFL_SQL_ADD_DELETION] =
        "INSERT INTO deletion(at_ns, segment_id, host, orderer, order_name, number, bytes, who,"
        " reason) SELECT $2, $1, h.name, r.orderer, r.order_name, s.number, s.bytes, $3, $4" FROM
        "WHERE s.id = $1",
    [PFL_SQL_COUNT_DELETIONS] = "SELECT COALESCE((SELECT MAX(id) FROM deletion) + 1 -"
                                " (SELECT MIN(id) FROM deletion), 0)",
    [PFL_SQL_FORGET_GONE_ABOVE] = "DELETE FROM segment WHERE state = 3 AND state <> 1 AND id IN"
                                  " (SELECT segment_id FROM deletion WHERE id IN (" ABOVE_MAX "))",
    [PFL_SQL_FORGET_DELETIONS_ABOVE] = "DELETE FROM deletion WHERE id IN (" ABOVE_MAX ")",
    [PFL_SQL_FORGET_DELETIONS] = "DELETE FROM deletion WHERE id IN"
                                 " (SELECT id FROM deletion WHERE at_ns < $1 LIMIT $2)",
    [PFL_SQL_LIST_DELETIONS] = "SELECT at_ns, segment_id, host, orderer, order_name, number, bytes,"
                               " who, reason FROM deletion WHERE at_ns >= $1 ORDER BY at_ns, id"
                               " LIMIT $2",
    [PFL_SQL_PIN] = "UPDATE segment SET pin_who = $2, pin_reason = $3, pin_end_ns = $4"
                    " WHERE id = $1 AND state = 1",
    [PFL_SQL_KEEP] = "UPDATE segment SET keep_ns = CASE WHEN keep_ns < $2 THEN $2 ELSE keep_ns END"
                     " WHERE id = $1 AND state = 1",
    [PFL_SQL_PUT_ORDER] =
        "INSERT INTO orders(orderer, name, generation, is_paused, is_removed, definition)"
        " VALUES($1, $2, 1 + COALESCE((SELECT generation FROM orders AS removed WHERE orderer = $1"
        " AND name = ''), 0), $3, 0, $4) ON CONFLICT(orderer, name) DO UPDATE SET"
        " generation = orders.generation + 1, is_paused = excluded.is_paused, is_removed = 0,"
        " definition = excluded.definition RETURNING generation",
    [PFL_SQL_PAUSE_ORDER] = "UPDATE orders SET is_paused = $3 WHERE orderer = $1 AND name = $2"
                            " AND is_removed = 0",
    [PFL_SQL_REMOVE_ORDER] = "UPDATE orders SET is_removed = 1 WHERE orderer = $1 AND name = $2"
                             " AND is_removed = 0",
    /* One row of an orderer, without a name, has the largest generation of those removed. */
    [PFL_SQL_KEEP_GENERATION] =
        "INSERT INTO orders(orderer, name, generation, is_paused, is_removed, definition)"
        " SELECT $1, '', MAX(generation), 0, 1, '' FROM orders WHERE orderer = $1"
        " AND is_removed = 1 ON CONFLICT(orderer, name) DO UPDATE SET"
        " generation = excluded.generation WHERE orders.generation < excluded.generation",
    [PFL_SQL_FORGET_ORDERS] = "DELETE FROM orders WHERE orderer = $1 AND is_removed = 1"
                              " AND name <> ''",
    [PFL_SQL_LIST_ORDERS] = "SELECT orderer, name, generation, is_paused, definition FROM orders"
                            " WHERE is_removed = 0 AND (orderer, name) >= ($1, $2)"
                            " ORDER BY orderer, name LIMIT $3",
    [PFL_SQL_SET_HOST_STATE] =
        "INSERT INTO host_state(host, orderer, name, state) VALUES($1, $2, $3, $4)"
        " ON CONFLICT(orderer, name, host) DO UPDATE SET state = excluded.state",
    [PFL_SQL_REMOVE_HOST_STATE] = "DELETE FROM host_state WHERE host = $1 AND orderer = $2"
                                  " AND name = $3",
    [PFL_SQL_REMOVE_HOST_STATES] = "DELETE FROM host_state WHERE orderer = $1 AND name = $2",
    [PFL_SQL_LIST_HOST_STATES] = "SELECT host, orderer, name, state FROM host_state"
                                 " WHERE orderer = $1 AND name = $2 AND host > $3"
                                 " ORDER BY host LIMIT $4",
    [PFL_SQL_ADD_ROUNDS] = "INSERT INTO rounds(orderer, name, version, state) VALUES($1, $2, 1, $3)"
                           " ON CONFLICT DO NOTHING",
    [PFL_SQL_SET_ROUNDS] = "UPDATE rounds SET version = version + 1, state = $4"
                           " WHERE orderer = $1 AND name = $2 AND version = $3",
    [PFL_SQL_REMOVE_ROUNDS] = "DELETE FROM rounds WHERE orderer = $1 AND name = $2",
    [PFL_SQL_GET_ROUNDS] = "SELECT version, state FROM rounds WHERE orderer = $1 AND name = $2",
    [PFL_SQL_JOIN] = "INSERT INTO collector(name, generation, beat_ms) VALUES($1, 1, @NOW@)"
                     " ON CONFLICT(name) DO UPDATE SET generation = collector.generation + 1,"
                     " beat_ms = excluded.beat_ms RETURNING generation",
    [PFL_SQL_BEAT] = "UPDATE collector SET beat_ms = @NOW@ WHERE name = $1 AND generation = $2",
    /* Negative: it ended then. */
    [PFL_SQL_LEAVE] = "UPDATE collector SET beat_ms = -@NOW@ WHERE name = $1 AND generation = $2",
    [PFL_SQL_IS_ALIVE] = "SELECT 1 FROM collector WHERE name = $1 AND generation = $2"
                         " AND beat_ms > @NOW@ - $3",
    [PFL_SQL_LEASE] = "INSERT INTO lease(name, collector, generation) VALUES($1, $2, $3)"
                      " ON CONFLICT(name) DO UPDATE SET collector = excluded.collector,"
                      " generation = excluded.generation WHERE " VOID_OR_OWN " RETURNING 1",
    [PFL_SQL_GIVE_LEASE] = "DELETE FROM lease WHERE name = $1 AND collector = $2"
                           " AND generation = $3",
    /* Nobody has taken it over. */
    [PFL_SQL_HAS_LEASE] = "SELECT 1 FROM lease WHERE name = $1 AND collector = $2"
                          " AND generation = $3",
    [PFL_SQL_COUNT_LEASES] =
        "SELECT COUNT(DISTINCT c.name), COUNT(CASE WHEN l.collector = $1 THEN 1 END),"
        " COUNT(l.name) FROM collector c LEFT JOIN lease l ON l.collector = c.name AND"
        " l.generation = c.generation WHERE c.beat_ms > @NOW@ - $2",
    [PFL_SQL_LIST_KINDS] =
        "SELECT k.id, k.class, k.orderer, k.order_name, CAST(COALESCE(SUM(r.bytes), 0) AS BIGINT),"
        " CAST(COALESCE(SUM(r.stored), 0) AS BIGINT) FROM kind k LEFT JOIN run r"
        " ON r.kind_id = k.id GROUP BY k.id, k.class, k.orderer, k.order_name"
        " ORDER BY k.class, k.id LIMIT $1",
    [PFL_SQL_LIST_HOST_USE] =
        "SELECT r.host_id, h.name, CAST(SUM(r.bytes) AS BIGINT) FROM run r"
        " JOIN host h ON h.id = r.host_id WHERE r.kind_id IN"
        " (SELECT id FROM kind WHERE class = $1) AND h.bytes > $2 GROUP BY r.host_id, h.name"
        " HAVING SUM(r.bytes) > $2 AND r.host_id > $3 ORDER BY r.host_id LIMIT $4",
    [PFL_SQL_LIST_TRIGGER_USE] =
        "SELECT s.host_id, s.trigger_name, COUNT(*) FROM segment s WHERE s.kind_id = $1"
        " AND s.state = 1 AND s.trigger_name <> '' AND (s.host_id, s.trigger_name) > ($2, $3)"
        " GROUP BY s.host_id, s.trigger_name ORDER BY s.host_id, s.trigger_name LIMIT $4",
    [PFL_SQL_OLDEST_PLAIN] = OLDEST("="),
    [PFL_SQL_OLDEST_TRIGGERED] = OLDEST("<>"),
    [PFL_SQL_OLDEST_OF_HOST] = OLDEST_OF_HOST(
        "CROSS JOIN LATERAL " OF_HOST_AND_KIND("s.begin_ns, s.id") " AS t WHERE k.class = $5"),
    [PFL_SQL_OLDEST_OF_TRIGGER] = ROW FROM
    "WHERE s.state = 1 AND s.trigger_name <> '' AND s.kind_id = $4 AND s.host_id = $5"
    " AND s.trigger_name = $6 AND " STORED_BEHIND " ORDER BY s.stored_ns, s.id LIMIT $3",
    [PFL_SQL_PUT_OFF] =
        "UPDATE segment SET changed_ns = 1 + (SELECT MAX(t.changed_ns) FROM segment t WHERE"
        " t.state = 2 AND t.state <> 1) WHERE id = $1 AND state = 2",
    [PFL_SQL_COUNT_TOMBSTONES] = "SELECT COUNT(*) FROM segment WHERE state = 2 AND state <> 1",
    /* In the order of an index of live ones: others may be any number. */
    [PFL_SQL_LIST_LIVE] = ROW FROM "WHERE s.state = 1 AND s.is_long = $4"
                                   " AND (s.begin_ns, s.id) > ($1, $2)"
                                   " ORDER BY s.begin_ns, s.id LIMIT $3",
    [PFL_SQL_SET_LOST] = "UPDATE segment SET state = 4, changed_ns = $2 WHERE id = $1 AND state = 1"
                         " RETURNING run_id, host_id, number, last, is_gap, " COUNTED,
    [PFL_SQL_SET_FOUND] = "UPDATE segment SET state = 0, changed_ns = $2 WHERE id = $1"
                          " AND state = 4",
    [PFL_SQL_FORGET_RUNS] =
        "DELETE FROM run WHERE id IN (SELECT id FROM run WHERE changed_ns < $1 AND stored = 0"
        " AND NOT EXISTS (SELECT 1 FROM segment WHERE run_id = run.id) LIMIT $2)"
        " AND changed_ns < $1",
    /* Those of a collector that has ended are void; a host that is forgotten needs none. */
    [PFL_SQL_FORGET_LEASES] =
        "DELETE FROM lease WHERE NOT EXISTS (SELECT 1 FROM collector c WHERE"
        " c.name = lease.collector AND c.generation = lease.generation AND c.beat_ms > @NOW@ - $1)"
        " OR name IN (SELECT name FROM host WHERE " IS_UNUSED_HOST ")",
    /* Not its own: the clock may have jumped since the last beat. */
    [PFL_SQL_FORGET_COLLECTORS] = "DELETE FROM collector WHERE ABS(beat_ms) < @NOW@ - $1"
                                  " AND name <> $2",
    [PFL_SQL_FORGET_HOSTS] = "DELETE FROM host WHERE " IS_UNUSED_HOST,
    [PFL_SQL_HAS_NUMBER] =
        "SELECT 1 FROM segment s JOIN run r ON r.id = s.run_id JOIN host h ON h.id = r.host_id"
        " WHERE h.name = $1 AND r.orderer = $2 AND r.order_name = $3 AND r.incarnation = $4"
        " AND s.number = $5 AND s.id <> $6 UNION ALL "
        "SELECT 1 FROM segment s JOIN run r ON r.id = s.run_id JOIN host h ON h.id = r.host_id"
        " WHERE h.name = $1 AND r.orderer = $2 AND r.order_name = $3 AND r.incarnation = $4"
        " AND s.is_gap = 1 AND s.number < $5 AND s.last >= $5",
    [PFL_SQL_GET_CLOCK] =
        "SELECT COALESCE((SELECT unix_ns FROM clock WHERE id = 1), (SELECT MAX(stored_ns) FROM "
        "(" NEWEST("=") " UNION ALL " NEWEST("<>") ") AS newest), 0)",
    [PFL_SQL_NOTE_CLOCK] = "INSERT INTO clock(id, unix_ns) VALUES(1, $1)"
                           " ON CONFLICT(id) DO UPDATE SET unix_ns = excluded.unix_ns",
    [PFL_SQL_FORGET_KINDS] = "DELETE FROM kind WHERE id > 1"
                             " AND NOT EXISTS (SELECT 1 FROM run WHERE kind_id = kind.id)",
};

const char *pfl_statement_get(enum pfl_statement statement)
{
    return statements[statement];
}

const char *pfl_statement_get_merged(enum pfl_statement statement)
{
    switch (statement) {
    case PFL_SQL_HOST_NEWEST:
        return MERGE(OF_HOST("$9"), DOWN, "DESC");
    case PFL_SQL_HOST_OLDEST:
        return MERGE(OF_HOST("$9"), UP, "ASC");
    case PFL_SQL_FLEET_NEWEST:
        return MERGE("", DOWN, "DESC");
    case PFL_SQL_FLEET_OLDEST:
        return MERGE("", UP, "ASC");
    case PFL_SQL_OLDEST_OF_HOST: /* SQLite knows no LATERAL */
        return OLDEST_OF_HOST(
            "CROSS JOIN segment t WHERE k.class = $5 AND t.id IN " OF_HOST_AND_KIND("s.id"));
    default:
        return statements[statement];
    }
}

const char *pfl_schema_get_step(unsigned from)
{
    return from < sizeof(steps) / sizeof(steps[0]) ? steps[from] : NULL;
}
