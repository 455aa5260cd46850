#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Traces that perfleetd writes itself, and triggers, with Perfetto's own command line and producers
# (PERFETTO_BIN_DIR, see stock_test.sh); the full disk needs root for its file system.
. "$(dirname "$0")/lib.sh"
P=${PERFETTO_BIN_DIR:-/nonexistent}
if [ ! -x "$P/perfetto" ]; then
    skip "the stock programs let perfleetd write files and use triggers" "no PERFETTO_BIN_DIR"
    finish
fi

rows() {
    "$P/trace_processor_shell" -q /dev/stdin "$1" 2>/dev/null <<<"$2" | sed 1d | grep .
}
has_rows() { # has_rows N TRACE QUERY: at least
    local n
    n=$(rows "$2" "$3")
    [ "${n:-0}" -ge "$1" ] || { echo "${n:-nothing}, expected $1"; return 1; }
}
no_errors_in() { # a reader that does not run says nothing: not even 0
    [ "$(rows "$1" "select count(*) from stats where value > 0 and severity in ('error', 'data_loss')")" = 0 ] ||
        { rows "$1" "select name, value from stats where value > 0 and severity in ('error', 'data_loss')"; return 1; }
}
write_config() { # write_config FILE DURATION_MS EXTRA
    cat >"$1" <<END
buffers { size_kb: 16384 }
data_sources { config { name: "$EXAMPLE_SOURCE" } }
data_sources { config { name: "track_event" } }
write_into_file: true
file_write_period_ms: 250
duration_ms: $2
$3
END
}
perfetto() { "$P/perfetto" --txt "$@"; }
has_names() { # has_names TRACE: interned state is in it
    ! rows "$1" "select id, category from slice where name is null"
}

start_service one || { check "perfleetd opens its sockets" false; finish; }
start example "$BIN/perfleet-example" --rate 1000 --smb-kb 4096
check "the example registers" wait_for_source "$EXAMPLE_SOURCE" 1

# --- files ---------------------------------------------------------------------------------------
write_config "$WORK/c.pbtx" 1500
check "perfetto passes a descriptor and the service writes" perfetto -c "$WORK/c.pbtx" -o "$WORK/a.pftrace"
check "all packets are in the file" $CHECK "$WORK/a.pftrace" --contiguous --lossless --min-packets 100
check "trace_processor finds no error in it" no_errors_in "$WORK/a.pftrace"
write_config "$WORK/path.pbtx" 1000 "output_path: \"$WORK/own.pftrace\""
check "the service creates output_path" perfetto -c "$WORK/path.pbtx"
check "all packets are in it too" $CHECK "$WORK/own.pftrace" --contiguous --lossless --min-packets 100
write_config "$WORK/max.pbtx" 60000 "max_file_size_bytes: 50000"
check "a full file ends the session early" timeout 20 "$P/perfetto" --txt -c "$WORK/max.pbtx" -o "$WORK/max.pftrace"
check "it is smaller than its limit" test "$(stat -c %s "$WORK/max.pftrace")" -lt 50000
check "and ends with a whole packet" $CHECK "$WORK/max.pftrace" --contiguous

# --- segments ------------------------------------------------------------------------------------
rotating() { # rotating NAME EXTRA: NAME.bin, which the stock client takes
    write_config "$WORK/$1.pbtx" 3500 "output_path: \"$WORK/$1\" perfleet_rotation { segment_period_ms: 1000 } $2"
    protoc -I"$ROOT/proto" --encode=perfetto.protos.TraceConfig "$ROOT/proto/perfetto/trace_config.proto" \
        <"$WORK/$1.pbtx" >"$WORK/$1.bin"
}
if command -v protoc >/dev/null; then
    start te "$BIN/perfleet-example" --track-events --name te.source
    rotating long ""
    rotating packed "compression_type: COMPRESSION_TYPE_DEFLATE"
    start packed "$P/perfetto" -c "$WORK/packed.bin"
    packed=$STARTED
    check "a long session is written in segments" "$P/perfetto" -c "$WORK/long.bin"
    segments=$(ls "$WORK"/long.0* | wc -l)
    check "there are several" test "$segments" -ge 2
    check "each is in the index" test "$(grep -c '"segment":' "$WORK/long.index")" -eq "$segments"
    check "no sequence depends on an earlier segment" sh -c "! grep -v '\"unresolved\":0' '$WORK/long.index'"
    wait "$packed"
    check "beside one that compresses" test $? -eq 0
    for segment in "$WORK"/long.0* "$WORK"/packed.0*; do
        check "$(basename "$segment") opens alone" no_errors_in "$segment"
        check "it has its config and its uuid" has_rows 2 "$segment" \
            "select count(*) from metadata where name in ('trace_uuid', 'trace_config_pbtxt')"
    done
    for segment in "$WORK"/long.0* "$WORK"/packed.0*; do
        check "the events of $(basename "$segment") have their names" has_names "$segment"
    done
    check "there are events" has_rows 1 "$WORK/packed.000001" "select count(*) from slice"
    cat "$WORK"/long.0* >"$WORK/whole.pftrace"
    check "joined they have every packet once" $CHECK "$WORK/whole.pftrace" --contiguous --lossless --min-packets 100
else
    skip "a long session is written in segments" "no protoc"
fi

# --- a full disk ---------------------------------------------------------------------------------
if mkdir -p "$WORK/disk.mnt" && mount -t tmpfs -o size=64k tmpfs "$WORK/disk.mnt" 2>/dev/null; then
    write_config "$WORK/full.pbtx" 60000 "output_path: \"$WORK/disk.mnt/t\""
    start other "$P/perfetto" --txt -c "$WORK/c.pbtx" -o "$WORK/beside.pftrace"
    other=$STARTED
    check "a full disk ends its session" timeout 20 "$P/perfetto" --txt -c "$WORK/full.pbtx"
    check "the log says so" grep -q 'trace-file-failed: .*No space left' "$WORK/one.log"
    wait "$other"
    check "the session beside it lost nothing" $CHECK "$WORK/beside.pftrace" --contiguous --lossless --min-packets 100
    check "the service still runs" is_alive "$SERVICE_PID"
else
    skip "a full disk ends its session and no other" "no right to mount"
fi

# --- triggers ------------------------------------------------------------------------------------
trigger_config() { # trigger_config MODE TRIGGER
    cat <<END
buffers { size_kb: 16384 }
data_sources { config { name: "$EXAMPLE_SOURCE" } }
trigger_config { trigger_mode: $1 trigger_timeout_ms: 20000 triggers { name: "go" $2 } }
END
}
more_enabled_than() {
    [ "$(grep -c session-enabled "$WORK/one.log")" -gt "$1" ]
}
for mode in START_TRACING STOP_TRACING; do
    trigger_config $mode "stop_delay_ms: 1000" >"$WORK/$mode.pbtx"
    enabled=$(grep -c session-enabled "$WORK/one.log")
    start $mode "$P/perfetto" --txt -c "$WORK/$mode.pbtx" -o "$WORK/$mode.pftrace"
    client=$STARTED
    check "a session waits for its trigger ($mode)" wait_for 20 more_enabled_than "$enabled"
    check "trigger_perfetto activates it" "$P/trigger_perfetto" go
    wait "$client"
    check "the session ends after the delay" test $? -eq 0
    check "its packets are there" $CHECK "$WORK/$mode.pftrace" --contiguous --lossless --min-packets 100
    check "and the trigger's" sh -c "'$P/traceconv' text '$WORK/$mode.pftrace' 2>/dev/null | grep -q 'trigger_name: \"go\"'"
done
trigger_config STOP_TRACING 'producer_name_regex: "nobody"' | sed 's/20000/1000/' >"$WORK/none.pbtx"
check "without its trigger a session ends at the timeout" perfetto -c "$WORK/none.pbtx" -o "$WORK/none.pftrace"
check "and its file is empty" test ! -s "$WORK/none.pftrace"
finish
