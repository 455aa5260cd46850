#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154
# perfleet record --stream: more than the hosts' buffers hold, in one file that is valid at every
# moment, with bounded memory; one file after the other, each readable by itself; a relay that dies
# and comes back, a host that dies, a full disk, one that is to keep some room.
. "$(dirname "$0")/lib.sh"
PARTIAL=4 WRITE=5

make_pki && start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
hosts=()
for name in one two; do
    start_service "$name" || { check "perfleetd opens its sockets" false; finish; }
    eval "service_$name=\$SERVICE_PID"
    start "example-$name" "$BIN/perfleet-example" --rate 5000 --smb-kb 8192
    check "the example registers at $name" wait_for_source "$EXAMPLE_SOURCE" 1
    start_agent "$name" --retry-max-ms 500
    hosts+=(--host "$name=unix:$WORK/$name/consumer.sock")
done
config "$WORK/eight.pbtx" 8000 1024
config "$WORK/open.pbtx" 0 1024
agents_are() { [ "$(fleet hosts 2>/dev/null | grep -cE '^(web1|web2|one|two)  *up ')" -eq "$1" ]; }
check "two agents are connected" wait_for 60 agents_are 2
P=$BIN/perfleet
file_kib() { echo $(($(stat -c %s "$1") >> 10)); }

peak() { # peak KIB CMD...: no more memory than that at any time, as the kernel saw it
    local limit=$1 out rc=0
    shift
    out=$(python3 -B -c '
import resource, subprocess, sys
rc = subprocess.call(sys.argv[1:])
print("peak", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(rc)' "$@" 2>&1) || rc=$?
    echo "$out"
    [ "$rc" -eq 0 ] && [ "$(sed -n 's/^peak //p' <<<"$out")" -le "$limit" ]
}
LIMIT=65536
[ -z "${PFL_SANITIZE:-}" ] || LIMIT=1048576 # a sanitizer's own memory is not ours
check "two hosts with buffers of 1 MiB are streamed for 8 s, in bounded memory" \
    peak $LIMIT "$P" record --stream -c "$WORK/eight.pbtx" -o "$WORK/stream.pftrace" "${hosts[@]}"
check "nothing is lost, of more than the buffers could hold" \
    $CHECK "$WORK/stream.pftrace" --machines 2 --disjoint --contiguous --lossless --min-packets 30000
check "without it something is" exits_with 3 "$P" record -c "$WORK/eight.pbtx" -o "$WORK/lossy.pftrace" "${hosts[@]}"

# --- by itself --------------------------------------------------------------------------------------
words_of() { # what is said before a recording of no host
    "$P" record -c "$WORK/$1.pbtx" -o "$WORK/none.pftrace" --host "none=unix:$WORK/none.sock" "${@:2}" 2>&1
}
echo "buffers { size_kb: 1024 } data_sources { config { name: \"$EXAMPLE_SOURCE\" } }" >"$WORK/plain.pbtx"
echo "buffers { size_kb: 1024 fill_policy: DISCARD } data_sources { config { name: \"$EXAMPLE_SOURCE\" } }" >"$WORK/discard.pbtx"
check "a long recording is streamed by itself, and it is said" says '^streaming: ' words_of open --duration 2m
check "so is one without an end" says '^streaming: ' words_of plain
check "a ring without an end is not: its last part may be wanted" says '^not streaming: .*last part' words_of open
check "nor is a buffer that is to keep the first part" says '^not streaming: .*first part' words_of discard --duration 2m
check "--no-stream is obeyed" eval '! words_of plain --no-stream | grep -q streaming'
check "one of them" says 'give one of them' words_of plain --no-stream --stream

# --- the file is valid while it grows, Ctrl-C keeps all, a kill what was read ---------------------------
begin() { # begin OUT ARGS...: in the background; RECORDING, its words in WORK/words.log, its code in WORK/code
    local out=$1
    shift
    rm -f "$WORK/words.log" "$WORK/code" "$WORK/recording"
    {
        "$P" record --stream -c "$WORK/open.pbtx" -o "$out" "$@" >"$WORK/words.log" 2>&1 &
        echo $! >"$WORK/recording"
        wait $!
        echo $? >"$WORK/code"
    } 2>/dev/null &
    wait_for 20 test -s "$WORK/recording"
    RECORDING=$(cat "$WORK/recording")
    note_job "$RECORDING"
    rm "$WORK/recording"
}
ends_with() {
    wait_for 60 test -s "$WORK/code" || { kill -9 "$RECORDING"; cat "$WORK/words.log"; return 1; }
    [ "$(cat "$WORK/code")" -eq "$1" ] || { echo "exit code $(cat "$WORK/code"), expected $1"; cat "$WORK/words.log"; return 1; }
}
said() { wait_for 60 grep -qE -- "$1" "$WORK/words.log" || { cat "$WORK/words.log"; return 1; }; }
has_kib() { [ "$(file_kib "$1")" -ge "$2" ]; }

begin "$WORK/grows.pftrace" "${hosts[@]}"
check "the file grows while it records" wait_for 60 has_kib "$WORK/grows.pftrace.partial" 4096
cp "$WORK/grows.pftrace.partial" "$WORK/middle.pftrace"
kill -INT "$RECORDING"
check "Ctrl-C ends it in good order" ends_with 0
check "all of it is there" \
    $CHECK "$WORK/grows.pftrace" --machines 2 --disjoint --contiguous --lossless --min-packets 10000
whole_part() { # up to the last whole packet
    python3 -B -c '
import sys
data, at = open(sys.argv[1], "rb").read(), 0
while at < len(data):
    size, shift, p = 0, 0, at + 1
    while p < len(data):
        size |= (data[p] & 127) << shift
        shift += 7
        p += 1
        if data[p - 1] < 128:
            break
    if p + size > len(data):
        break
    at = p + size
open(sys.argv[1], "wb").write(data[:at])' "$1"
}
whole_part "$WORK/middle.pftrace"
check "and it was a trace in the middle" $CHECK "$WORK/middle.pftrace" --machines 2 --disjoint --contiguous --min-packets 5000
begin "$WORK/killed.pftrace" "${hosts[@]}"
wait_for 60 has_kib "$WORK/killed.pftrace.partial" 2048
kill -KILL "$RECORDING"
ends_with 137
whole_part "$WORK/killed.pftrace.partial"
check "a kill leaves what was read" $CHECK "$WORK/killed.pftrace.partial" --machines 2 --disjoint --contiguous --min-packets 2000

# --- the relay dies and comes back ---------------------------------------------------------------------
begin "$WORK/relay.pftrace" --relay "$RELAY" "${TLS_ME[@]}" --host one --host two
check "through the relay, too" wait_for 60 has_kib "$WORK/relay.pftrace.partial" 1024
kill -KILL "$MEETING_PID"
check "that the relay is away is said" said '^the relay is away'
start_meeting "$RELAY"
size=$(file_kib "$WORK/relay.pftrace.partial")
check "when it comes back it goes on" wait_for 60 has_kib "$WORK/relay.pftrace.partial" $((size + 2048))
kill -INT "$RECORDING"
check "and ends: losses, if any, are reported" eval 'ends_with 0 || ends_with 3'
check "no packet is there twice, none is broken" $CHECK "$WORK/relay.pftrace" --machines 2 --disjoint --min-packets 5000

# --- one file after the other --------------------------------------------------------------------------
for name in one two; do
    use_service "$name"
    start "events-$name" "$BIN/perfleet-example" --track-events --rate 500 --threads 2 --smb-kb 1024
    check "a program with track events registers at $name" wait_for_source track_event 1
    eval "events_$name=\$STARTED"
done
EVENTS="python3 -B $ROOT/tests/support/track_events.py"
cat >"$WORK/events.pbtx" <<END
buffers { size_kb: 4096 fill_policy: RING_BUFFER }
data_sources { config { name: "$EXAMPLE_SOURCE" } }
data_sources { config { name: "track_event" } }
incremental_state_config { clear_period_ms: 300 }
END
each_is_whole() { # a trace by itself: both hosts, each event with its names
    local file
    for file in "$@"; do
        $EVENTS "$file" --summary >"$WORK/events.log" || { echo "$file"; tail -3 "$WORK/events.log"; return 1; }
    done
    $CHECK "${*: -1}" --machines 2 --disjoint --contiguous
}
cp "$WORK/events.pbtx" "$WORK/open.pbtx"
begin "$WORK/turn.pftrace" --rotate-size 1mb "${hosts[@]}"
check "a recording goes on in the next file" wait_for 60 test -e "$WORK/turn-0002.pftrace"
kill -INT "$RECORDING"
check "Ctrl-C completes them" ends_with 0
check "they are named" said 'trace .*turn-0001.pftrace to .*turn-000[3-9].pftrace: [3-9] files, [0-9]+ bytes in all, 2 of 2 hosts'
check "none is left half done" eval '! ls "$WORK"/turn*.partial "$WORK/turn.pftrace" 2>/dev/null'
check "each is a trace by itself" each_is_whole "$WORK"/turn-*.pftrace
cat "$WORK"/turn-*.pftrace >"$WORK/all.pftrace"
check "nothing is lost between them, and nothing is in two" \
    $CHECK "$WORK/all.pftrace" --machines 2 --disjoint --contiguous --lossless --min-packets 5000
check "no track event either" $EVENTS "$WORK/all.pftrace" --summary --once
begin "$WORK/ring.pftrace" --rotate-time 1s --rotate-keep 2 "${hosts[@]}"
check "old files are removed" wait_for 60 test -e "$WORK/ring-0004.pftrace"
check "at once" wait_for 20 test ! -e "$WORK/ring-0002.pftrace"
kill -INT "$RECORDING"
ends_with 0
check "the newest are kept" [ "$(find "$WORK" -name 'ring-*' | wc -l)" -eq 2 ]
check "the others are reported" said '2 files \([2-9] older removed\)'
check "and those that are there are whole" each_is_whole "$WORK"/ring-*.pftrace
check "a pipe cannot be rotated" says 'need the name of a file' words_of open --rotate-size 1mb -o -
check "nor what is read at the end" says 'give one of them' words_of open --no-stream --rotate-size 1mb

for name in one two; do # what a full disk leaves on the hosts would refer to names that came before
    eval "program=\$events_$name"
    end_job "$program"
    wait_for 20 is_gone "$program"
done

# --- a disk that is to keep some room ----------------------------------------------------------------------
begin "$WORK/room.pftrace" --keep-free-mib 1000000000 "${hosts[@]}"
check "a disk that is low ends it" ends_with $WRITE
check "it says so, and whose part is the largest" said 'stopped: the disk of .* are to stay free .*; most of it is of host (one|two)'
check "the file is complete" $CHECK "$WORK/room.pftrace" --machines 2 --disjoint --contiguous --lossless

# --- a full disk ---------------------------------------------------------------------------------------
if [ "$(id -u)" -eq 0 ] && mkdir "$WORK/full.mnt" && mount -t tmpfs -o size=3m tmpfs "$WORK/full.mnt"; then
    begin "$WORK/full.mnt/full.pftrace" --keep-free-mib 0 "${hosts[@]}"
    check "a full disk ends it" ends_with $WRITE
    check "the message names what is there" said 'what came is in .*full.pftrace.partial: .* readable trace'
    check "it is one" $CHECK "$WORK/full.mnt/full.pftrace.partial" --machines 2 --disjoint --min-packets 1000
    kept=$(grep -oE -m1 'perfleet read [^ ]+\.kept' "$WORK/words.log" | cut -d' ' -f3)
    check "what was not read can be" "$P" read "$kept" -o "$WORK/rest.pftrace" "${hosts[@]}"
    rm "$WORK/full.mnt"/*
    begin "$WORK/full.mnt/turn.pftrace" --rotate-size 1mb --keep-free-mib 0 "${hosts[@]}"
    check "a full disk ends a rotation" ends_with $WRITE
    check "the file that has no room is named" said 'last file is in .*turn-0*[2-9].pftrace.partial, a readable trace'
    check "those before it are whole" $CHECK "$WORK/full.mnt/turn-0001.pftrace" --machines 2 --disjoint --contiguous --lossless
    check "so is what is there of it" each_is_whole "$WORK/full.mnt"/turn-*
    "$P" kill "$(grep -oE -m1 'perfleet read [^ ]+\.kept' "$WORK/words.log" | cut -d' ' -f3)" "${hosts[@]}" >"$WORK/kill.log" 2>&1
else
    skip "a full disk ends it" "needs root for a small file system"
fi

# --- a host dies ---------------------------------------------------------------------------------------
begin "$WORK/dies.pftrace" "${hosts[@]}"
wait_for 60 has_kib "$WORK/dies.pftrace.partial" 2048
kill -KILL "$service_two"
check "a host that dies is named" said 'host two.*recording: '
kill -INT "$RECORDING"
check "the others go on" ends_with $PARTIAL
check "what it had sent is in the file" $CHECK "$WORK/dies.pftrace" --machines 2 --disjoint --contiguous --min-packets 1000
finish
