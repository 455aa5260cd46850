#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2153,SC2154,SC2016
# `perfleet ask` with Perfetto's own Trace Processor (TRACE_PROCESSOR): the ready questions on traces with known
# content, types, a summary, a trace that is broken, and the answer of segments against that of the merged trace.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"
. "$ROOT/tests/support/collected_hosts.sh"
P=$BIN/perfleet
ENGINE=${TRACE_PROCESSOR:-${PERFETTO_BIN_DIR:-}/trace_processor_shell}
if [ ! -x "$ENGINE" ]; then
    skip "ask with the real Trace Processor" "needs TRACE_PROCESSOR or PERFETTO_BIN_DIR"
    finish
fi
export TRACE_PROCESSOR=$ENGINE
cd "$WORK" || exit 1
ask() { timeout 600 "$P" ask "$@"; }
csv() { ask --csv "$@" 2>>"$WORK/ask.txt" | tail -n +2 | tr -d '\r'; }
is() { [ "$("${@:2}")" = "$1" ]; }

# ---- real traces: kernel events that were recorded (ftrace/replay), and programs of this test
"$PFL_BUILD/tests/ftrace_replay" "$ROOT/tests/fixtures/ftrace/replay" plain >sched.pftrace
use_service one
start_service one
start example "$BIN/perfleet-example" --track-events
wait_for_source track_event 1
cat >events.pbtx <<'END'
buffers { size_kb: 8192 }
data_sources { config { name: "track_event" } }
duration_ms: 1500
END
check "a trace with track events is recorded" \
    "$P" record -c events.pbtx -o events.pftrace --host "one=unix:$PERFETTO_CONSUMER_SOCK_NAME" -q
sed 's/size_kb: 8192/size_kb: 4 fill_policy: DISCARD/' events.pbtx >small.pbtx
"$P" record -c small.pbtx -o lossy.pftrace --host "one=unix:$PERFETTO_CONSUMER_SOCK_NAME" -q >/dev/null 2>&1

check "a question is answered" says '^one,20[0-9-]+T[0-9:.]+Z,events.pftrace,1,0.5,x,$' \
    csv -q "SELECT 1 AS i, 0.5 AS r, 'x' AS t, NULL AS n" events.pftrace
check "with the sandbox that this kernel has" ask -q 'SELECT 1' --sandbox auto events.pftrace
check "longest slices by name: the example's" says '^one,[^,]+,events.pftrace,[A-Za-z_ ]+,[1-9][0-9]*,[0-9.]+' \
    csv --ready longest-slices events.pftrace
same_as_alone() { # the same statement, by the program alone
    csv --ready longest-slices events.pftrace | cut -d, -f4,5 >ours.txt
    sed -n '/^SELECT/,$p' "$ROOT/consumer/ask/ready/longest-slices.sql" >alone.sql
    "$ENGINE" -q alone.sql events.pftrace 2>/dev/null | tail -n +2 | grep . | tr -d '"' | cut -d, -f1,2 >alone.txt
    test -s ours.txt && diff ours.txt alone.txt
}
check "they are what the program says alone" same_as_alone
check "longest waits for a CPU" says '^,,sched.pftrace,[0-9]+,[0-9.]+(e-[0-9]+)?,R' csv --ready run-queue-waits sched.pftrace
falls() { csv --ready run-queue-waits sched.pftrace | cut -d, -f5 | sort -gr -c; }
check "the longest first" falls
check "most CPU by process" says '^,,sched.pftrace,[0-9.]+,[0-9.]+,[1-9]' csv --ready cpu-by-process sched.pftrace
is_all_of_it() { csv --ready cpu-by-process sched.pftrace | awk -F, '{ sum += $5 } END { exit !(sum > 0 && sum <= 100.01) }'; }
check "which is no more than there is" is_all_of_it
check "losses of a buffer that was too small" says '^one,[^,]+,lossy.pftrace,traced_buf_' csv --ready losses lossy.pftrace
check "none of a trace without" is '' csv --ready losses events.pftrace
check "many rows, each once" is 500000 eval \
    'csv -q "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500000) SELECT i FROM n" events.pftrace | cut -d, -f4 | sort -u | wc -l'
cat >spec.textproto <<'END'
metric_spec { id: "slices" dimensions: "name" value: "n" query { sql { sql: "SELECT name, count(*) AS n FROM slice GROUP BY name"
  column_names: "name" column_names: "n" } } }
END
check "a summary has its metric" says 'metric_id: "slices"|metric_bundles|slices' ask --summary spec.textproto events.pftrace
check "an error of the question is said" says '^  .*nothing' ask -q 'SELECT * FROM nothing' events.pftrace
check "that is exit 2" exits_with 2 ask -q 'SELECT * FROM nothing' events.pftrace
yes junk | head -c 100000 >broken.pftrace
check "a trace that is broken is passed over" says 'broken.pftrace" is passed over: it cannot be read' \
    ask -q 'SELECT 1' broken.pftrace events.pftrace
check "with exit 4" exits_with 4 ask -q 'SELECT 1' broken.pftrace events.pftrace
check "a question without end, too" says 'no answer within 3 s' \
    ask --max-time 3s -q 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n' events.pftrace
check "and one that takes all memory" says 'is passed over: its Trace Processor|out of memory' \
    ask --max-mib 400 -q "SELECT length(group_concat(hex(zeroblob(50000000)))) FROM (SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6)" events.pftrace

# ---- segments of a collector against the trace that is made of them: a slice has one beginning, in one segment.
# At a border a packet may need names that are in the segment before: one slice each is tolerated there.
EXAMPLE=(--track-events) SOURCE=track_event
store_traces slices 4
check "they become one trace" as me traces get --order slices --whole -o merged.pftrace
COUNT='SELECT name, count(*) AS n FROM slice GROUP BY name'
sums() { tail -n +2 | tr -d '\r' | awk -F, '{ sum[$4] += $5 } END { for (name in sum) print name, sum[name] }' | sort; }
ask --csv -q "$COUNT" merged.pftrace 2>>ask.txt | sums >of_merged.txt
as me ask --csv -q "$COUNT" --order slices 2>>ask.txt | sums >of_segments.txt
check "segments, which are compressed, have slices" grep -q '^plan [1-9]' of_segments.txt
is_nearly() { # at most one a border is missing, and none is more
    join of_segments.txt of_merged.txt | awk -v borders="$(as me traces --json | grep -c '"id"')" \
        '{ off = $3 - $2; if (off < 0 || off > borders) bad = 1; n++ } END { exit bad || n < 5 }'
}
check "as many of each name as the merged trace, but for borders" is_nearly
as_one() { # as_one ID: the segment as it is stored against the file that is made of it
    as me traces get "$1" --whole -o one.pftrace >/dev/null || return
    as me ask --csv -q "$COUNT" "$1" 2>>ask.txt | sums >of_segment.txt
    ask --csv -q "$COUNT" one.pftrace 2>>ask.txt | sums | diff of_segment.txt - && test -s of_segment.txt
}
same_each() {
    local id
    for id in $(as me traces --json | grep -o '"id": *"[^"]*"' | cut -d'"' -f4 | head -n 4); do as_one "$id" || return; done
}
check "one segment has exactly what the trace made of it has" same_each
check "with their hosts" is $'db1\nweb1' \
    eval 'as me ask --csv -q "$COUNT" --order slices 2>/dev/null | tail -n +2 | cut -d, -f1 | sort -u'
finish
