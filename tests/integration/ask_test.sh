#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2153,SC2154
# `perfleet ask` with a played Trace Processor: answers in each form, of files and of a collector's traces; what is
# broken, too large, too slow or dies is named and passed over; Ctrl-C; the sandbox. The real one: ask_engine_test.sh.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"
. "$ROOT/tests/support/collected_hosts.sh"
P=$BIN/perfleet
export TRACE_PROCESSOR=$ROOT/tests/support/played_processor.py

# ---- files: trace NAME PACKETS [TEXT]
trace() {
    python3 -B - "$ROOT/tests/support" "$WORK/$1.pftrace" "$2" "${3:-}" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
from played_processor import field
packets = [field(8, n) for n in range(int(sys.argv[3]))] + ([field(900, sys.argv[4].encode())] if sys.argv[4] else [])
open(sys.argv[2], "wb").write(b"".join(field(1, packet) for packet in packets))
END
}
trace a 3
trace b 4
trace die 2 played:die
trace sleep 2 played:sleep
trace leaves 2 played:leave && truncate -s 8M "$WORK/leaves.pftrace"
trace eat 2 played:eat
trace threads 2 played:threads
trace 'host $(reboot)' 1
yes junk | head -c 4000 >"$WORK/broken.pftrace"
truncate -s 40M "$WORK/large.pftrace"
cd "$WORK" || exit 1
ask() { timeout 300 "$P" ask "$@"; }
rows() { ask "$@" --json -o - 2>/dev/null | grep -c '^{'; } # how many
is() { [ "$("${@:2}")" = "$1" ]; }

check "a question to two files has two rows" is 2 rows -q packets a.pftrace b.pftrace
trace named 3 played:host
check "what a file says about itself is in front" says '^web1\+db1,2026-11-23T14:03:01.500Z,named.pftrace,4,' ask -q packets --csv named.pftrace
check "as text" says '^- +- +a.pftrace +3 +0.5 +.x1b.31mred' ask -q packets a.pftrace
check "no escape reaches a terminal" eval '! ask -q packets a.pftrace 2>&1 | grep -q $'"'\\x1b'"
check "as JSON" says '^\{"host": null, "start": null, "trace": "a.pftrace", "packets": 3, .*"blob": "0102"\}$' \
    ask -q packets --json a.pftrace
check "as CSV" says '^,,a.pftrace,3,0.5,' ask -q packets --csv a.pftrace
check "of a file" says 'a.pftrace +3' ask -f - a.pftrace <<<packets
check "the columns in front are ours" says '^host,start,trace,n,host_2' ask -q 'rows 1' --csv a.pftrace
check "many rows come, too" is 200000 rows -q 'rows 100000' a.pftrace b.pftrace
check "several at once" is 12 rows -q packets --jobs 12 {a,b,a,b,a,b,a,b,a,b,a,b}.pftrace
many() {
    local files=()
    for _ in {1..60}; do files+=(a.pftrace); done
    rows -q packets "${files[@]}"
}
check "more files than words that other commands take" is 60 many
check "a file's name is no command" is 1 rows -q packets 'host $(reboot).pftrace'
printf 'metric_spec { id: "x" }\n' >spec.textproto
check "a summary is one" says '^# a.pftrace$' ask --summary spec.textproto a.pftrace
check "with its text" says '^packets: 3$' ask --summary spec.textproto a.pftrace
check "and is a column" says '"summary": "metric_spec' ask --summary spec.textproto --json a.pftrace
check "ready questions are listed" says '^losses +What' ask --ready list

# ---- files that keep the answer
sql() { python3 -B -c 'import sqlite3, sys
for row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]): print("|".join(str(value) for value in row))' "$@"; }
check "an answer is kept" ask -q 'rows 1000' -o x.sqlite a.pftrace b.pftrace
check "with all rows" is 2000 sql x.sqlite 'SELECT count(*) FROM answers'
check "of each trace" is $'a.pftrace|1000\nb.pftrace|1000' \
    sql x.sqlite 'SELECT trace, max(n) + 1 FROM answers GROUP BY trace'
check "with what became of each" is $'a.pftrace|1000|None\nb.pftrace|1000|None' \
    sql x.sqlite 'SELECT trace, rows, problem FROM traces ORDER BY trace'
check "and what was asked" is 'rows 1000' sql x.sqlite 'SELECT text FROM question'
check "its types are the question's" ask -q packets -o y.sqlite a.pftrace
check "each of them" is 'integer|real|text|null|blob' \
    sql y.sqlite 'SELECT typeof(packets), typeof(real), typeof(text), typeof(none), typeof(blob) FROM answers'
check "an answer that is there is not replaced with --no-clobber" \
    exits_with 5 ask -q packets --no-clobber -o x.sqlite a.pftrace
check "it is CSV by its name" ask -q packets -o x.csv a.pftrace
check "with lines as RFC 4180 has them" grep -q $'^,,a.pftrace,3.*\r$' x.csv
check "a disk that is full is said" says 'standard output cannot be written: No space left' \
    eval 'ask -q packets a.pftrace >/dev/full'
check "that is exit 5" exits_with 5 eval 'ask -q packets a.pftrace >/dev/full'

# ---- what is passed over
partial() { exits_with 4 ask -q packets "${@:2}" >out.txt 2>&1 && says "$1" cat out.txt && says 'the answer is partial' cat out.txt &&
    says 'a.pftrace +3' cat out.txt; }
check "a trace that is broken" partial 'broken.pftrace" is passed over: it cannot be read: "Unknown trace type' \
    broken.pftrace a.pftrace
check "one that is not there" partial 'none.pftrace" is passed over: No such file' none.pftrace a.pftrace
check "one that is no file" partial 'is no file' /dev/null a.pftrace
check "one that is too large" partial 'too large: it has 40 MiB' --max-mib 64 large.pftrace a.pftrace
check "one whose process dies" partial 'died of signal 6 .*CHECK failed: .x1b.31mplayed' die.pftrace a.pftrace
check "one whose process leaves before it has the trace" partial 'leaves.pftrace" is passed over: its Trace Processor ended with 3' \
    --jobs 1 leaves.pftrace a.pftrace
check "one that is too slow" partial 'no answer within 10 s' --max-time 10s sleep.pftrace a.pftrace
check "one that takes too much memory" partial 'its Trace Processor (died|ended)' --max-mib 256 eat.pftrace a.pftrace
check "one that makes threads" partial 'its Trace Processor (makes more than 64 threads|ended)' threads.pftrace a.pftrace
check "rows of one that died are counted" says 'died of signal .*; 10 rows of it came' ask -q half a.pftrace
check "none of them is exit 1" exits_with 1 ask -q half a.pftrace
check "a file of SQLite has who they were" exits_with 4 ask -q packets -o p.sqlite broken.pftrace a.pftrace
check "by name" is 'broken.pftrace' sql p.sqlite 'SELECT trace FROM traces WHERE problem IS NOT NULL'
check "other columns than those before" says 'its columns are not those' ask -q wide --jobs 1 a.pftrace b.pftrace
check "bytes that are no reply" says 'its reply is malformed' ask -q garbage a.pftrace
check "a row that is too large" says 'more than 16 MiB' ask -q huge a.pftrace
check "an answer without end" says 'its answer has more than 16 MiB' ask -q endless -o endless.csv a.pftrace
check "does not fill the disk" eval '[ "$(cat endless.csv* | wc -c)" -lt 20000000 ]'
check "nor do short rows in columns with long names" eval '[ "$(ask -q names --json a.pftrace 2>out.txt | wc -c)" -lt 100000000 ] &&
    says "its answer has more than 16 MiB" cat out.txt'
check "in columns" eval '[ "$(ask -q names a.pftrace 2>out.txt | wc -c)" -lt 100000000 ]'
check "an error of the question ends it" exits_with 2 ask -q wrong a.pftrace b.pftrace
check "once, with its words" is 1 eval 'ask -q wrong a.pftrace b.pftrace b.pftrace 2>&1 | grep -c "^  no such table: ?.31mwrong"'
trace wrong 2 played:wrong
trace exit 2 played:exit
mostly() { exits_with 4 ask -q mostly --jobs 1 --csv "$1" a.pftrace >out.txt 2>&1 && grep -q '^,,a.pftrace,1' out.txt && grep -q "$2" out.txt; }
check "an error that one host's trace makes does not" mostly wrong.pftrace 'wrong.pftrace" is passed over: the question has an error there'
check "nor does a process that ends as one that cannot run" mostly exit.pftrace 'exit.pftrace" is passed over: .* ended with 126'
check "of one trace alone the error is the question's" exits_with 2 ask -q mostly wrong.pftrace
check "a program that cannot run ends it" exits_with 1 ask -q mostly --jobs 1 exit.pftrace exit.pftrace a.pftrace
child_of() { # child_of PID: its Trace Processor, once it is one
    local child
    for child in $(pgrep -P "$1"); do
        grep -qz stdiod "/proc/$child/cmdline" 2>/dev/null && ! grep -qz confined "/proc/$child/cmdline" && echo "$child"
    done
}
begin() { # begin FILE ARGS...: in the background, with its output in FILE; PID and CHILD
    "$P" ask "${@:2}" >"$1" 2>&1 &
    PID=$!
    wait_for 60 eval 'CHILD=$(child_of $PID | tail -n 1); [ -n "$CHILD" ]'
}
kill_one() { # another process kills the Trace Processor of one
    begin killed.txt -q packets --jobs 1 sleep.pftrace a.pftrace && kill -9 "$CHILD"
    wait "$PID"
}
check "a process that is killed" exits_with 4 kill_one
check "is named" grep -q 'sleep.pftrace" is passed over: its Trace Processor died of signal 9' killed.txt

# ---- Ctrl-C (SIGTERM: a shell's background jobs ignore the other)
interrupt() { # interrupt FILE: the first trace is done, the second one sleeps
    local code=0
    begin cut.txt -q packets --jobs 1 -o "$1" a.pftrace sleep.pftrace b.pftrace
    wait_for 60 eval 'ls -l /proc/$PID/fd | grep -q /sleep.pftrace && CHILD=$(child_of $PID) && [ -n "$CHILD" ]'
    kill -TERM "$PID"
    wait "$PID" || code=$?
    [ "$code" -eq 4 ] && wait_for 20 is_gone "$CHILD"
}
check "Ctrl-C ends it, and its processes, with exit 4" interrupt c.sqlite
check "what came is kept, and named" grep -q 'what came is in .*c.sqlite.partial' cut.txt
check "it is said to be interrupted" grep -q '^perfleet: interrupted$' cut.txt
check "the rows are there" is 'a.pftrace|3' sql c.sqlite.partial 'SELECT trace, packets FROM answers'
check "a CSV likewise" interrupt c.csv
check "with its rows" grep -q '^,,a.pftrace,3' c.csv.partial
dies_with_it() {
    begin lone.txt -q wait a.pftrace && kill -9 "$PID" && wait_for 20 is_gone "$CHILD"
}
check "after kill -9 of perfleet no process stays" dies_with_it

# ---- the sandbox
echo secret >secret
tries() { ask -q "try $WORK/written $WORK/secret $$$WORDS" --csv "$@" a.pftrace 2>/dev/null; }
held() { WORDS=" execute" says "^,,a.pftrace,$1,(Operation not permitted|Permission denied)" tries; }
if ask -q packets --sandbox require a.pftrace >/dev/null 2>&1; then
    for what in socket write read fork kill execute; do
        check "its Trace Processor may not: $what" held $what
    done
    check "nothing was written" test ! -e written
else
    for what in socket write read fork kill execute "nothing was written"; do
        skip "its Trace Processor may not: $what" "this kernel has no Landlock or no seccomp"
    done
fi
check "it has none of the environment" says ',environment,LANG PATH' env SECRET=1 "$P" ask -q 'try a b 1' --csv a.pftrace
check "without a sandbox it may" says ',read,works' tries --sandbox off
check "but write no byte" eval '! test -s written'

# ---- traces of a collector
store_traces cpu 3
check "each is asked" is "$(count_traces)" eval 'as me ask -q packets --order cpu --json 2>/dev/null | grep -c "^{"'
check "with its host and start in front" says '^db1,20[0-9-]+T[0-9:.]+Z,[0-9A-Z]{26},[1-9]' \
    as me ask -q packets --csv --host db1
check "those that are selected" is web1 \
    eval 'as me ask -q packets --csv --select role=web 2>/dev/null | tail -n +2 | cut -d, -f1 | sort -u'
ID=$(as me traces --json --host web1 | grep -o '"id": *"[^"]*"' | head -n 1 | cut -d'"' -f4)
packets_of() { $CHECK "$(find "$WORK/store/v1" -name "$1.pftrace")" --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["packets"])'; }
check "by its ID" says "\"trace\": \"$ID\", \"packets\": [1-9]" as me ask -q packets --json "$ID"
OTHER=${ID%?}$([ "${ID: -1}" = A ] && echo B || echo A)
check "of two, of which one is not there, one is answered" exits_with 4 as me ask -q packets "$ID" "$OTHER"
check "files and IDs are not asked together" exits_with 2 as me ask -q packets "$ID" a.pftrace
check "who sees no traces asks none" says 'policy gives you no traces' as keeper ask -q packets --order cpu
FILE=$(find "$WORK/store/v1" -name "$ID.pftrace")
head -c "$(stat -c %s "$FILE")" /dev/zero >altered && mv -f altered "$FILE"
check "a trace that is broken in the store is passed over" says "trace $ID of \"web1\" is passed over: it cannot be read" \
    as me ask -q packets --host web1
rm -f "$FILE"
check "as is one that the store lost" says "trace $ID of \"web1\" is passed over: the collector: " \
    as me ask -q packets --host web1
check "that is exit 4" exits_with 4 as me ask -q packets --host web1
lose_collector() {
    local TLS
    tls_of me
    begin lost.txt --relay "$RELAY" "${TLS[@]}" -q wait --order cpu --jobs 1 && kill -9 "$COLLECTOR_PID"
    wait "$PID"
}
check "a collector that leaves ends it" exits_with 1 lose_collector
check "which is said" grep -q '^perfleet: collector keeper: ' lost.txt
finish
