# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# A PostgreSQL of the test's own (sourced after lib.sh), on a socket, with a password.
#
#   postgres_find           0: PostgreSQL is installed
#   postgres_init FOLDER    POSTGRES is the index that perfleet-collector is given
#   postgres_start FOLDER   POSTGRES_PID; after a crash, too
#   postgres_ask SQL        prints rows, columns between |

POSTGRES_BIN=
postgres_find() {
    local initdb
    for initdb in /usr/lib/postgresql/*/bin/initdb; do
        [ ! -x "$initdb" ] || POSTGRES_BIN=${initdb%/initdb}
    done
    [ -n "$POSTGRES_BIN" ]
}
# PostgreSQL does not run as root.
postgres_as() {
    if [ "$(id -u)" -eq 0 ]; then set -- setpriv --reuid=postgres --regid=postgres --clear-groups -- "$@"; fi
    "$@"
}
postgres_init() {
    local folder=$1 tries
    mkdir -p "$folder"
    echo secret-of-the-index >"$folder/word"
    [ "$(id -u)" -ne 0 ] || chown -R postgres: "$folder"
    for tries in 1 2 3; do # a disk may be full for a moment
        postgres_as "$POSTGRES_BIN/initdb" -D "$folder/data" -U perfleet -A scram-sha-256 --pwfile "$folder/word" \
            -E UTF8 --locale=C -N >"$folder/initdb.log" 2>&1 && break
        [ "$tries" -lt 3 ] || return
        sleep 2
    done
    mkdir -p "$WORK/postgres-client"
    echo "*:*:*:perfleet:secret-of-the-index" >"$WORK/postgres-client/pass"
    chmod 600 "$WORK/postgres-client/pass"
    POSTGRES_CONNINFO="host=$folder dbname=postgres user=perfleet passfile=$WORK/postgres-client/pass"
    POSTGRES=postgres:$POSTGRES_CONNINFO
}
postgres_answers() { [ "$(postgres_ask 'select 1')" = 1 ]; }
# Needs little memory, and none of /dev/shm, which is small in containers.
postgres_start() {
    local folder=$1 run=()
    [ "$(id -u)" -ne 0 ] || run=(setpriv --reuid=postgres --regid=postgres --clear-groups --)
    start postgres "${run[@]}" "$POSTGRES_BIN/postgres" -D "$folder/data" -k "$folder" -h '' -F \
        -c dynamic_shared_memory_type=mmap -c shared_buffers=16MB
    POSTGRES_PID=$STARTED
    wait_for 120 postgres_answers
}
postgres_ask() {
    "$POSTGRES_BIN/psql" -X -A -t -c "$1" "$POSTGRES_CONNINFO"
}
