#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# perfleet and Perfetto's own programs, each with the other. PERFETTO_BIN_DIR names the folder of a
# v58.2 build with perfetto, traced, traced_probes and trace_processor_shell; without it all of
# this is skipped, for Debian has no package of them.
. "$(dirname "$0")/lib.sh"
P=${PERFETTO_BIN_DIR:-/nonexistent}
if [ ! -x "$P/perfetto" ]; then
    skip "the stock programs work with perfleetd, and ours with the stock service" "no PERFETTO_BIN_DIR"
    finish
fi

# Rows of a query, without the header and without blank lines.
rows() {
    "$P/trace_processor_shell" -q /dev/stdin "$1" 2>/dev/null <<<"$2" | sed 1d | grep .
}
no_errors_in() { # a reader that does not run says nothing: not even 0
    [ "$(rows "$1" "select count(*) from stats where value > 0 and severity in ('error', 'data_loss')")" = 0 ] ||
        { rows "$1" "select name, value from stats where value > 0 and severity in ('error', 'data_loss')"; return 1; }
}
rows_at_least() { # rows_at_least N TRACE QUERY: the query's one number
    local n
    n=$(rows "$2" "$3")
    [ "${n:-0}" -ge "$1" ] || { echo "${n:-nothing}, expected $1"; return 1; }
}

# --- the stock client and producers on perfleetd -------------------------------------------------
start_service one || { check "perfleetd opens its sockets" false; finish; }
start example "$BIN/perfleet-example" --rate 1000 --smb-kb 4096
start probes "$P/traced_probes"
check "traced_probes registers" wait_for_source linux.process_stats 1
check "the example registers" wait_for_source "$EXAMPLE_SOURCE" 1
config "$WORK/c.pbtx" 1000
check "perfetto -c --txt -o records from perfleetd" "$P/perfetto" --txt -c "$WORK/c.pbtx" -o "$WORK/p.pftrace"
check "all of the example's packets are in its file" \
    $CHECK "$WORK/p.pftrace" --contiguous --lossless --min-packets 50
check "trace_processor finds no error in it" no_errors_in "$WORK/p.pftrace"
check "perfetto -c - reads its config from stdin" sh -c \
    "'$P/perfetto' --txt -c - -o '$WORK/p2.pftrace' <'$WORK/c.pbtx' && $CHECK '$WORK/p2.pftrace' --contiguous"
check "perfetto --query lists the producers" says 'perfleet-example' "$P/perfetto" --query
cat >"$WORK/sys.pbtx" <<'END'
buffers { size_kb: 16384 }
duration_ms: 2000
data_sources { config { name: "linux.process_stats" process_stats_config { scan_all_processes_on_start: true } } }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 100 } } }
END
check "a recording of traced_probes succeeds" record one "$WORK/sys.pbtx" "$WORK/sys.pftrace"
check "processes and counters are in it" rows_at_least 10 "$WORK/sys.pftrace" "select count(*) from counter"
check "and no error" no_errors_in "$WORK/sys.pftrace"

# --- the merged file in the stock reader ---------------------------------------------------------
start_service two || { check "perfleetd opens its sockets" false; finish; }
start te-two "$BIN/perfleet-example" --track-events
check "the second example registers" wait_for_source "$EXAMPLE_SOURCE" 1
config "$WORK/both.pbtx" 1500
check "two hosts are recorded" "$BIN/perfleet" record -c "$WORK/both.pbtx" -o "$WORK/both.pftrace" \
    --host "one=unix:$WORK/one/consumer.sock" --host "two=unix:$WORK/two/consumer.sock"
check "trace_processor finds no error in the merged file" no_errors_in "$WORK/both.pftrace"
check "it lists both machines by name" rows_at_least 2 "$WORK/both.pftrace" \
    "select count(*) from machine where name in ('one', 'two')"
check "the slices of two are there" rows_at_least 1000 "$WORK/both.pftrace" "select count(*) from slice"

# --- our programs on the stock service -----------------------------------------------------------
mkdir "$WORK/stock"
use_service stock
start traced "$P/traced"
wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME"
start example-stock "$BIN/perfleet-example" --rate 1000 --smb-kb 4096
check "the example registers at the stock service" wait_for_source "$EXAMPLE_SOURCE" 1
check "perfleet record records from the stock service" record stock "$WORK/c.pbtx" "$WORK/stock.pftrace"
check "all of the example's packets are in its file" $CHECK "$WORK/stock.pftrace" --contiguous --min-packets 50
check "trace_processor finds no error in it" no_errors_in "$WORK/stock.pftrace"
finish
