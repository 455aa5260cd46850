/* SPDX-License-Identifier: Apache-2.0 */
/* The statements of the index, by number, and its schema. Both engines understand the same text. */
#ifndef PFL_COLLECTOR_INDEX_STATEMENTS_H
#define PFL_COLLECTOR_INDEX_STATEMENTS_H

#define PFL_SCHEMA_VERSION      1
#define PFL_STATEMENT_MAX_BYTES 4096u

enum pfl_statement {
    PFL_SQL_GET_VERSION,
    PFL_SQL_SET_VERSION,
    PFL_SQL_ADD_HOST,
    PFL_SQL_GET_HOST,
    PFL_SQL_ADD_RUN,
    PFL_SQL_LOCK_RUN,
    PFL_SQL_COUNT_RUN,
    PFL_SQL_COUNT_HOST,
    PFL_SQL_LIST_RUNS,
    PFL_SQL_ADD_SEGMENT,
    PFL_SQL_GET_NUMBER,
    PFL_SQL_TAKE_OVER,
    PFL_SQL_EXTEND_GAP,
    PFL_SQL_LIST_RANGE,
    PFL_SQL_SET_LIVE,
    PFL_SQL_DROP,
    PFL_SQL_GET_SEGMENT,
    PFL_SQL_FIND_STATE,
    PFL_SQL_HOST_NEWEST,
    PFL_SQL_HOST_OLDEST,
    PFL_SQL_FLEET_NEWEST,
    PFL_SQL_FLEET_OLDEST,
    PFL_SQL_TOMBSTONE,
    PFL_SQL_SET_GONE,
    PFL_SQL_FORGET,
    PFL_SQL_ADD_DELETION,
    PFL_SQL_FORGET_DELETIONS,
    PFL_SQL_LIST_DELETIONS,
    PFL_SQL_PIN,
    PFL_SQL_KEEP,
    PFL_SQL_PUT_ORDER,
    PFL_SQL_PAUSE_ORDER,
    PFL_SQL_REMOVE_ORDER,
    PFL_SQL_LIST_ORDERS,
    PFL_SQL_SET_HOST_STATE,
    PFL_SQL_REMOVE_HOST_STATE,
    PFL_SQL_REMOVE_HOST_STATES,
    PFL_SQL_LIST_HOST_STATES,
    PFL_SQL_ADD_ROUNDS,
    PFL_SQL_SET_ROUNDS,
    PFL_SQL_REMOVE_ROUNDS,
    PFL_SQL_GET_ROUNDS,
    PFL_SQL_JOIN,
    PFL_SQL_BEAT,
    PFL_SQL_LEAVE,
    PFL_SQL_IS_ALIVE,
    PFL_SQL_LEASE,
    PFL_SQL_GIVE_LEASE,
    PFL_SQL_COUNT_LEASES,
    PFL_STATEMENTS,
};

/* Static; with words between "@", as @NOW@, for pfl_sql_translate. */
const char *pfl_statement_get(enum pfl_statement statement);
/* What brings a schema of version `from` (0: none) to the next; NULL: there is none. */
const char *pfl_schema_get_step(unsigned from);

#endif
