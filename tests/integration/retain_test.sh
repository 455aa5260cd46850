#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2153,SC2154
# A collector with a small bound: segments come, the oldest go, a pinned one stays, and the audit says so. Then the index is lost and
# made again from the store alone.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
mkdir -p "$WORK/store" "$WORK/one" "$WORK/spool-one"
use_service one
start one "$BIN/perfleetd" --output-dir "$WORK/spool-one"
wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME" || { check "the service listens" false; finish; }
start example-one "$BIN/perfleet-example" --rate 1000
wait_for_source "$EXAMPLE_SOURCE" 1 || { check "the example is there" false; finish; }
start_agent one --segments-dir "$WORK/spool-one"

index() { "$PFL_BUILD/tests/order_index" "sqlite:$WORK/store/index.sqlite" "$@"; }
start_collector() { # start_collector OPTION...
    start collector "$BIN/perfleet-collector" --relay "$RELAY" --store "$WORK/store" "${TLS_ME[@]}" "$@"
    COLLECTOR_PID=$STARTED
}
stop_collector() {
    kill -TERM "$COLLECTOR_PID"
    wait "$COLLECTOR_PID"
}
cat >"$WORK/ask.py" <<'END'
import pathlib, sqlite3, sys, time
store, what = sys.argv[1:3]
index = sqlite3.connect(store + "/index.sqlite", timeout=20)
def one(sql, *args):
    return index.execute(sql, args).fetchone()[0]
if what == "oldest":
    print(one("select id from segment where state = 1 and is_gap = 0 order by stored_ns, id limit 1 offset ?", int(sys.argv[3])))
elif what == "sum":
    print(one("select coalesce(sum(bytes), 0) from segment where state = 1"))
elif what == "pin":
    index.execute("update segment set pin_who = 'ann', pin_reason = 'a test' where id = ?", (sys.argv[3],))
    index.commit()
elif what == "live":
    sys.exit(one("select count(*) from segment where state = 1 and is_gap = 0") < int(sys.argv[3]))
elif what == "state":
    sys.exit(one("select state from segment where id = ?", sys.argv[3]) != int(sys.argv[4]))
elif what == "audit":
    rows = index.execute("select segment_id, who, reason from deletion").fetchall()
    assert rows and len({row[0] for row in rows}) == len(rows), rows
    assert all(who == "retention" and "bytes" in reason for _, who, reason in rows), rows
    gone = {row[0] for row in index.execute("select id from segment where state in (2, 3)")}
    assert gone == {row[0] for row in rows}, gone
elif what == "within":
    sys.exit(one("select sum(bytes) from segment where state = 1") > int(sys.argv[3])
             or one("select count(*) from segment where state = 2") != 0)
elif what == "agrees":
    keys = {key for (key,) in index.execute("select object_key from segment where state = 1") if key}
    files = {str(p.relative_to(store)) for p in pathlib.Path(store).glob("v1/**/*.pftrace")}
    assert keys == files and keys, keys ^ files
    for path in files:
        assert pathlib.Path(store, path).with_suffix(".json").exists(), path
END
ask() { python3 -B "$WORK/ask.py" "$WORK/store" "$@"; }

cat >"$WORK/order.pbtx" <<END
name: "web"
select { }
config {
  buffers { size_kb: 4096 fill_policy: RING_BUFFER }
  data_sources { config { name: "$EXAMPLE_SOURCE" } }
}
continuous { segment_ms: 1000 }
END
check "a wrong rule is refused" exits_with 2 "$BIN/perfleet-collector" --relay "$RELAY" --store "$WORK/store" "${TLS_ME[@]}" --check-config --keep crash:age=soon
# shellcheck disable=SC2119
start_collector
check "the collector runs" wait_for 60 grep -q "collecting: " "$WORK/collector.log"
check "the index takes an order" index put me <"$WORK/order.pbtx"
check "segments come" wait_for 120 ask live 4
stop_collector
PINNED=$(ask oldest 0)
FIRST=$(ask oldest 1)
SECOND=$(ask oldest 2)
BOUND=$(ask sum)
ask pin "$PINNED"

# ---- more come than may stay
start_collector --keep '*:age=none' --keep "crash:age=1d" --keep-bytes "$BOUND" --metrics-socket "$WORK/metrics.sock"
check "the oldest goes" wait_for 240 ask state "$FIRST" 3
check "then the next" wait_for 240 ask state "$SECOND" 3
check "the pinned one stays" ask state "$PINNED" 1
check "the log says what went, and why" grep -q "trace-deleted: what=\"$FIRST\" host=\"one\" .* cause=all-bytes reason=\"all traces have more than $BOUND bytes\"" "$WORK/collector.log"
deleted_is_counted() { curl -s --unix-socket "$WORK/metrics.sock" http://x/metrics | grep -q '^perfleet_collector_deleted_traces_total{cause="all-bytes"} [1-9]'; }
check "the metrics say how many" deleted_is_counted
check "the order is removed" index rm me web
is_drained() { [ -z "$(find "$WORK/spool-one" -name '*.segment')" ]; }
check "the rest comes" wait_for 120 is_drained
check "at the end all are within the bound" wait_for 240 ask within "$BOUND"
check "the audit has each deletion once" ask audit
check "store and index agree" ask agrees

# ---- the index is lost
check "an index that a collector uses is not rebuilt" exits_with 1 "$BIN/perfleet-collector" rebuild --store "$WORK/store" --index "sqlite:$WORK/store/index.sqlite"
stop_collector
LIVE=$(ask sum)
rm -f "$WORK/store"/index.sqlite*
"$BIN/perfleet-collector" rebuild --store "$WORK/store" --index "sqlite:$WORK/store/index.sqlite" 2>"$WORK/rebuild.log"
check "perfleet-collector rebuild makes it again" grep -q "rebuilt: .* conflicts=0 broken=0" "$WORK/rebuild.log"
check "with the same traces" ask agrees
check "and the same bytes" test "$(ask sum)" = "$LIVE"
finish
