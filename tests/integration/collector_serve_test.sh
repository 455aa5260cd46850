#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2153,SC2154
# What operators ask a collector for, on real processes: each sees what the policy gives; traces are found, fetched,
# verified, pinned and removed; orders are kept; and a policy that takes a right back takes effect.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"
. "$ROOT/tests/support/collected_hosts.sh"
P=$BIN/perfleet

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
pki operator keeper
pki operator guest
set_policy() { # set_policy RIGHTS-OF-GUESTS
    cat >"$WORK/policy.pbtx" <<END
rule { name: "me" operator: "me" host: "*" }
rule { name: "keeper" operator: "keeper" host: "*" role: "collectors" }
rule { name: "guests" operator: "guest" host: "*" label: "role=web" role: "guests" }
role { name: "collectors" collect: true }
role { name: "guests" $1 }
END
}
set_policy "traces: true"
MEETING=(--policy "$WORK/policy.pbtx")
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
mkdir -m 700 "$WORK/store"

# ---- two hosts with segments, and a collector that stores them
write_order cpu
start_host web1 web || { check "the first host is there" false; finish; }
start_host db1 db || { check "and the second" false; finish; }
count_traces() { as "$1" traces --json "${@:2}" 2>/dev/null | grep -c '"id"'; }
has_traces() { [ "$(count_traces "$1" "${@:3}")" -ge "$2" ]; } # has_traces OPERATOR N [OPTION...]

check "without a collector there is none to ask" says 'no collector is connected' as me traces
start_collector
check "it serves" wait_for 20 is_serving
check "an order selects its hosts itself" says 'no option --select' as me order put "$WORK/cpu.pbtx" --select '*'
check "it takes an order" says '^cpu: put' as me order put "$WORK/cpu.pbtx"
check "traces of the first host are found" wait_for 120 has_traces me 3 --host web1
check "and of the second" wait_for 120 has_traces me 3 --host db1
running() { as me order show cpu | grep -c ' running '; }
are_running() { [ "$(running)" -eq 2 ]; }
check "what hosts do is shown" wait_for 60 are_running
lacks() { local out; out=$("${@:2}") && ! grep -q -- "$1" <<<"$out"; } # lacks REGEX CMD...
check "a guest sees another's order that a host of theirs has" says '^cpu +me ' as guest order list
check "with that host" says '^  web1 +running' as guest order show me/cpu
check "and no other" lacks db1 as guest order show me/cpu
check "by a data source of their order, too" has_traces me 3 --data-source "$EXAMPLE_SOURCE"
check "and not by another" says 'no traces' as me traces --data-source linux.ftrace
check "the order is removed" as me order rm cpu
check "the collector takes the rest" wait_for 120 is_drained

# ---- who sees what
check "a guest sees the host of his rule" has_traces guest 3
check "and no other" says 'no traces' as guest traces --host db1
ids() { as "$1" traces --json "${@:2}" | grep -o '"id": *"[^"]*"' | cut -d'"' -f4; }
DB_ID=$(ids me --host db1 | head -n 1)
WEB_ID=$(ids me --host web1 | head -n 1)
check "nor by its id" says 'no trace is selected' as guest traces get "$DB_ID" -o "$WORK/none.pftrace"
check "the keeper, who only collects, sees nothing" says 'policy gives you no traces' as keeper traces
check "what is missing is said of all" says 'nothing missing' as me traces missing
hosts_of() { as "$1" traces missing | grep ' unexplained$' | cut -d' ' -f1 | sort -u | xargs; }
check "of both hosts" test "$(hosts_of me)" = "db1 web1"
check "and to the guest of one" test "$(hosts_of guest)" = web1

# ---- bytes
check "traces of both hosts come as one" as me traces get --order cpu -o "$WORK/all.pftrace"
check "which opens" $CHECK "$WORK/all.pftrace" --min-packets 10
are_compressed() { # are_compressed CODECS: all traces in the store
    local file
    while read -r file; do $CHECK "$file" --compressed "$1" >/dev/null || return
    done < <(find "$WORK/store/v1" -name '*.pftrace')
}
check "what is stored is compressed by zstd" are_compressed zstd
check "what comes is not" $CHECK "$WORK/all.pftrace" --compressed none
values() { # values FILE...: how many packets of the example's are in them
    local file
    for file; do $CHECK "$file" --json; done | python3 -c 'import json, sys; print(sum(json.loads(l)["test_values"] for l in sys.stdin))'
}
mapfile -t STORED < <(find "$WORK/store/v1" -name '*.pftrace')
check "and has every packet of what is stored" test "$(values "$WORK/all.pftrace")" = "$(values "${STORED[@]}")"
# What breaks off may come too late, when all is there: then again.
break_off() { # break_off: Ctrl-C, so to say, while a get reads; its exit code is in CODE
    local TLS pid
    tls_of me
    rm -f "$WORK/cut.pftrace.partial"
    echo old >"$WORK/cut.pftrace"
    "$P" traces get --relay "$RELAY" "${TLS[@]}" --order cpu -o "$WORK/cut.pftrace" >"$WORK/cut.txt" 2>&1 &
    pid=$!
    until [ -e "$WORK/cut.pftrace.partial" ] || is_gone "$pid"; do :; done
    kill -TERM "$pid" 2>/dev/null
    CODE=0
    wait "$pid" || CODE=$?
    [ "$CODE" -eq 4 ]
}
check "a get that is broken off has exit code 4" wait_for 120 break_off
check "it names the file of what came" grep -q 'what came is in .*/cut.pftrace.partial$' "$WORK/cut.txt"
check "which is there" test -s "$WORK/cut.pftrace.partial"
check "and the file of before is, too" grep -q '^old$' "$WORK/cut.pftrace"
check "and as they are, in a tar" as me traces get --order cpu --tar -o "$WORK/all.tar"
check "whose manifest names machines and relates their clocks" python3 -B - "$WORK/all.tar" "$WORK/member.pftrace" <<'END'
import json, sys, tarfile
tar = tarfile.open(sys.argv[1])
members = {member.name: member.size for member in tar}
manifest = json.load(tar.extractfile("perfetto_manifest.json"))["perfetto_manifest"]
files = manifest["files"]
assert sorted(members) == sorted([file["path"] for file in files] + ["perfetto_manifest.json"])
assert {file["machine"]["name"] for file in files} == {"web1", "db1"}
related = [file for file in files if "clocks" in file]
assert len(related) == 1 and related[0]["clocks"]["sync_to"]["file"] == manifest["trace_time"]["file"]
assert abs(related[0]["clocks"]["offset_ns"]) < 10**9  # one machine, one clock
open(sys.argv[2], "wb").write(tar.extractfile(files[0]["path"]).read())
END
check "a member opens alone" $CHECK "$WORK/member.pftrace" --min-packets 1
check "a limit of a host is refused where nothing is decompressed" \
    exits_with 2 as me traces get --order cpu --tar --max-host-mib 1 -o "$WORK/none.tar"
check "and taken where it is" as me traces get --order cpu --max-host-mib 4000 -o "$WORK/limit.pftrace"
check "links and a file are not asked for at once" exits_with 2 as me traces get --order cpu --url --tar
check "one trace comes" as guest traces get "$WEB_ID" -o "$WORK/one.pftrace"
check "and opens" $CHECK "$WORK/one.pftrace" --min-packets 1
# Handed to a UI in a browser, from a file that is not kept.
tls_of guest
mkdir "$WORK/kept-not"
start opened env TMPDIR="$WORK/kept-not" "$P" traces open "$WEB_ID" --relay "$RELAY" "${TLS[@]}" \
    --ui-dir "$ROOT/tests/support/ui" --ui-port 0 --no-browser -q
OPENED=$STARTED
check "one trace is served to a UI" wait_for 60 grep -q '^http' "$WORK/opened.log"
check "its file has no name any more" test -z "$(find "$WORK/kept-not" -type f)"
SHOWN=$(sed -n 's/^http.*url=//p' "$WORK/opened.log")
check "the UI fetches it" curl -sf -H 'Sec-Fetch-Site: same-origin' -o "$WORK/shown.pftrace" "$SHOWN"
check "it is that trace" $CHECK "$WORK/shown.pftrace" --min-packets 1
CODE=0
wait "$OPENED" || CODE=$?
check "then it ends" test "$CODE" -eq 0
check "and leaves nothing" test -z "$(ls "$WORK/kept-not")"
check "links are not opened" exits_with 2 as guest traces open "$WEB_ID" --url
check "of two, of which one is not there, one comes" \
    exits_with 3 as me traces get "$WEB_ID" "${WEB_ID%?}@" -o "$WORK/one.pftrace"
check "and a program reads an object a line" \
    python3 -c 'import json, sys; [json.loads(line)["id"] for line in sys.stdin]' < <(as me traces --json)
check "a folder has no links" says 'no links' as me traces get "$WEB_ID" --url
check "all are as they were" says '^[1-9][0-9]* traces? verified' as me traces verify
FILE=$(find "$WORK/store/v1" -name "$WEB_ID.pftrace")
check "a trace has its file" test -s "$FILE"
cat "$FILE" >"$WORK/saved"
cat "$FILE" >"$WORK/altered"
printf X | dd of="$WORK/altered" bs=1 seek=10 conv=notrunc status=none
mv -f "$WORK/altered" "$FILE"
check "one that was altered is named" says "$WEB_ID" as me traces verify
check "that is exit 3" exits_with 3 as me traces verify --host web1
mv -f "$WORK/saved" "$FILE"

# ---- pins and removal
check "a guest may not pin" says 'policy gives you no manage_traces' as guest traces pin "$WEB_ID" --reason mine
check "a reason of two lines is refused" says 'control character' as me traces pin "$WEB_ID" --reason $'a\nb'
check "who may pins" says '^1 trace pinned' as me traces pin "$WEB_ID" --reason "the outage"
check "others see why" says 'pinned: "?the outage' as guest traces
check "it is the operator's own name" says '"pinned_by": *"me"' as me traces --json --host web1
check "what is pinned is not removed" says '1 are pinned' as me traces rm "$WEB_ID"
check "it is unpinned" says '^1 trace unpinned' as me traces unpin "$WEB_ID"
check "and removed" says '^1 trace removed' as me traces rm "$WEB_ID"
check "once" exits_with 1 as me traces rm "$WEB_ID"
check "it is not found any more" says 'no trace is selected' as me traces get "$WEB_ID" -o "$WORK/none.pftrace"
check "and nothing is missing: it was stored" says 'nothing missing' as me traces missing
check "what was removed is said" says '1 removed' as me traces missing
check "the log has the removal" grep -q 'operator-changed: operator=me request=remove .*changed=1' "$WORK/collector.log"
check "and the trace" grep -q "operator-changed-traces: operator=me request=remove traces=$WEB_ID\$" \
    "$WORK/collector.log"
check "and the refusal" grep -q 'operator-refused: operator=guest request=pin .*status=403' "$WORK/collector.log"

# ---- orders
order() {
    printf 'name: "%s"\nselect { label: "role=%s" }\npreset: "sched"\ncontinuous { }\n' "$1" "$2" >"$WORK/put.pbtx"
    as "${3:-me}" order put "$WORK/put.pbtx"
}
check "there are no orders" says '^no orders$' as me order list
check "an order is put" says '^night: put' order night none
check "it is in the list" says '^night +me +continuous' as me order list
check "a guest may not put one" says 'policy gives you no order' order mine web guest
check "another's order for other hosts is not there for a guest" lacks night as guest order list
check "nor by its name" says 'there is no order "me/night"' as guest order show me/night
check "who may do everything everywhere sees it" says 'night of me: continuous' as me order show me/night
check "and may not remove another's" says 'policy gives you no order' as guest order rm night
check "it is paused" as me order pause night
check "which is shown" says 'night of me: continuous, generation [0-9]+, paused' as me order show night
check "and resumed" as me order resume night
check "it is removed" as me order rm night
check "and not there any more" says 'no such order' as me order rm night

# ---- another codec, none, and a host that sends bombs
once() { # once NAME COMPRESSION: at the second host
    printf 'name: "%s"\nselect { label: "role=db" }\nonce { duration_ms: 3000 }\ncompression: %s\n' "$1" "$2"
    printf 'config { buffers { size_kb: 4096 } data_sources { config { name: "%s" } } }\n' "$EXAMPLE_SOURCE"
}
for codec in DEFLATE NONE; do
    once "$codec" "$codec" >"$WORK/once.pbtx"
    check "an order chooses $codec" as me order put "$WORK/once.pbtx"
    check "its trace is found" wait_for 120 has_traces me 1 --order "$codec"
    FILE=$(find "$WORK/store/v1" -name "$(ids me --order "$codec" | head -n 1).pftrace")
    want=$(tr '[:upper:]' '[:lower:]' <<<"$codec")
    check "it is stored so" $CHECK "$FILE" --min-packets 10 --compressed "$want"
    check "and fetched" as me traces get --order "$codec" --whole -o "$WORK/$codec.pftrace"
    check "and has every packet" test "$(values "$WORK/$codec.pftrace")" = "$(values "$FILE")"
    as me order rm "$codec"
done
once small ZSTD | sed 's/size_kb: 4096/size_kb: 4/' >"$WORK/once.pbtx"
check "an order has a buffer that is too small" as me order put "$WORK/once.pbtx"
check "its trace is found as one with losses" wait_for 120 has_traces me 1 --lossy --order small
check "whose number is there" says '"losses": [1-9]' as me traces --json --order small
as me order rm small
once bomb ZSTD | sed 's/^once.*/continuous { segment_ms: 600000 }/' >"$WORK/bomb.pbtx"
check "an order for a long segment is put" as me order put "$WORK/bomb.pbtx"
is_recording() { [ -n "$(find "$WORK/spool-db1" -name '*.pftrace.000001' -size +20k)" ]; }
check "it is recorded" wait_for 60 is_recording
kill -9 "$AGENT_PID"
has_ended() { grep -q '"reason":"end"' "$WORK"/spool-db1/*.pftrace.index; }
check "without its agent the session ends" wait_for 60 has_ended
python3 -B - "$ROOT/tests/support" "$WORK"/spool-db1/*.pftrace.000001 <<'END'
import ctypes, sys
sys.path.insert(0, sys.argv[1])
from service_peers import field
lib = ctypes.CDLL("libzstd.so.1")
lib.ZSTD_compress.restype = ctypes.c_size_t
size, out = 60 << 20, ctypes.create_string_buffer(1 << 20)
length = lib.ZSTD_compress(out, ctypes.c_size_t(len(out)), bytes(size), ctypes.c_size_t(size), 1)
open(sys.argv[2], "ab").write(200 * field(1, field(133, out.raw[:length])))  # 12 GB
END
start_agent db1 --segments-dir "$WORK/spool-db1" --label "role=db"
check "what the host adds to a segment is stored with it" wait_for 120 has_traces me 1 --order bomb
as me order rm bomb
mapfile -t BOMBS < <(ids me --order bomb)
get_bomb() { as me traces get "${BOMBS[@]}" --whole "$@" -o "$WORK/bomb.pftrace" >"$WORK/bomb.txt" 2>&1; }
check "a host whose segments hold far more than their bytes tell is cut short" exits_with 4 get_bomb
check "which is said, with the remedy" grep -q 'cut short: .*--max-host-mib' "$WORK/bomb.txt"
check "what came before is there" $CHECK "$WORK/bomb.pftrace" --min-packets 10
check "without a limit for the host that segment is left there" exits_with 3 get_bomb --max-host-mib 0
check "which is said" grep -q '[1-9] unreadable' "$WORK/bomb.txt"
check "what was before it is there" $CHECK "$WORK/bomb.pftrace" --min-packets 10

# ---- another policy, another life
set_policy "data_source: \"none\""
kill -HUP "$MEETING_PID"
check "a right that is taken back is gone" wait_for 60 says 'policy gives you no traces' as guest traces
kill -9 "$COLLECTOR_PID"
wait_for 20 is_gone "$COLLECTOR_PID"
start_collector
check "after kill -9 of the collector it is asked again" wait_for 60 has_traces me 3
kill -9 "$MEETING_PID"
start_meeting "$RELAY"
check "and after that of the relay" wait_for 60 has_traces me 3
kill -TERM "$COLLECTOR_PID"
wait "$COLLECTOR_PID"
ENDED=$?
check "SIGTERM ends it with 0" test "$ENDED" -eq 0
finish
