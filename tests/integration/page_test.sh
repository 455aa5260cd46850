#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC1091,SC2153,SC2154
# perfleet ui: a browser walks its pages on a small fleet with a collector; who may not come in; what is shown of a host
# whose names are scripts; and what is said when the relay is lost.
. "$(dirname "$0")/lib.sh"
. "$ROOT/tests/support/collected_hosts.sh"
. "$ROOT/tests/support/axe.sh"
P=$BIN/perfleet
NOTHING=1 USAGE=2
EVIL='<script>alert(1)</script>'

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
pki operator keeper
pki operator guest
cat >"$WORK/policy.pbtx" <<END
rule { name: "me" operator: "me" host: "*" }
rule { name: "keeper" operator: "keeper" host: "*" role: "collectors" }
rule { name: "guests" operator: "guest" host: "*" role: "guests" }
role { name: "collectors" collect: true }
role { name: "guests" method: "Query*" }
END
MEETING=(--policy "$WORK/policy.pbtx")
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
mkdir -m 700 "$WORK/store" "$WORK/shots"

start_host db1 db || { check "the first host is there" false; finish; }
start_host web1 web || { check "and the second" false; finish; }
start_collector
write_order cpu
wait_for 20 is_serving
check "an order records both hosts" says '^cpu: put' fleet order put "$WORK/cpu.pbtx"

# A process, its data source and a session whose names are markup.
start evil env PYTHONPATH="$ROOT/tests/support" python3 -B -c 'import os, sys, time
from smb_producer import SmbProducer
SmbProducer(os.environ["PERFETTO_PRODUCER_SOCK_NAME"], sys.argv[1]).join()
time.sleep(900)' '<img src=x onerror=alert(1)>'
cat >"$WORK/evil.pbtx" <<END
buffers { size_kb: 64 fill_policy: RING_BUFFER }
data_sources { config { name: "$EXAMPLE_SOURCE" } }
END
check "a session's name may be a script" "$P" start "$EVIL" -c "$WORK/evil.pbtx" --relay "$RELAY" "${TLS_ME[@]}" --host web1
has_traces() { [ "$(fleet traces --json --host web1 | grep -c '"id"')" -ge 2 ]; }
has_evil() { fleet query --host web1 | grep -q 'smb.<img src=x'; }
check "so may those of a process and its data source" wait_for 20 has_evil
check "the collector has traces" wait_for 120 has_traces

# visit NAME PATH: with the cookie of the link that NAME.log has
visit() {
    python3 -B - "$(grep -o 'http://127[^" ]*' "$WORK/$1.log")" "$WORK/$1.cookie" "$2" <<'END'
import http.client, os, sys, urllib.parse
link, jar, path = sys.argv[1:]
at = urllib.parse.urlsplit(link)
def get(path, **fields):
    c = http.client.HTTPConnection(at.hostname, at.port, timeout=60)
    c.request("GET", path, headers=fields)
    return c.getresponse()
if not os.path.exists(jar):
    answer = get(f"{at.path}?{at.query}")
    open(jar, "w").write(answer.getheader("Set-Cookie").split(";")[0])
print(get(path, Cookie=open(jar).read()).read().decode())
END
}
start guest "$P" ui --relay "$RELAY" --ca "$WORK/pki/ca.pem" --cert "$WORK/pki/operator-guest.pem" \
    --key "$WORK/pki/operator-guest.key" --port 0
wait_for 20 grep -q '/enter?token=' "$WORK/guest.log"
check "an operator without the right to traces sees why there are none" says 'the policy gives you no traces' \
    visit guest '/host?name=web1'
check "and the host" says 'com.example.load' visit guest '/host?name=web1'
check "and how to watch its session" says '<code>perfleet open --live .*--host web1 --session' visit guest '/host?name=web1'
start nobody "$P" ui --relay "$RELAY" "${TLS_ME[@]}" --collector nobody --select role=web --port 0
wait_for 20 grep -q '/enter?token=' "$WORK/nobody.log"
check "a collector that is not there is said" says '<p class="bad">' visit nobody '/host?name=web1'
check "a selection limits the hosts" says '1 to 1 of 1; 1 of all 1 are connected' visit nobody /hosts
check "and is in the command line" says 'perfleet hosts .*--select role=web<' visit nobody /hosts
check "others have no page" says 'There is no such host' visit nobody '/host?name=db1'
start ui "$P" ui --relay "$RELAY" "${TLS_ME[@]}" --port 0 --ui-dir "$ROOT/tests/support/ui" --ui-port 0
UI=$STARTED
check "it prints a link" wait_for 20 grep -q '/enter?token=' "$WORK/ui.log"
LINK=$(grep -o 'http://127[^ ]*' "$WORK/ui.log")
PORT=$(sed -nE 's,.*127.0.0.1:([0-9]+)/.*,\1,p' <<<"$LINK")
listens_on() { # by the hex of the address in the kernel's table
    grep -qiE "^ *[0-9]+: $1:$(printf %04X "$PORT") " /proc/net/tcp
}
check "it listens on loopback" listens_on 0100007F
check "and nowhere else" eval '! listens_on 00000000'
gets_nothing() { # as another user: the connection ends without a byte
    local got
    got=$(setpriv --reuid 65534 --clear-groups bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT
        printf 'GET / HTTP/1.1\r\nHost: 127.0.0.1:$PORT\r\n\r\n' >&3; cat <&3" 2>/dev/null)
    [ -z "$got" ] || { echo "$got"; return 1; }
}
if [ "$(id -u)" -eq 0 ]; then
    check "another user's program gets nothing" gets_nothing
    check "and the log says so" grep -q "browser-refused: reason=\"other users' programs" "$WORK/ui.log"
else
    skip "another user's program gets nothing" "no root"
    skip "and the log says so" "no root"
fi
has_packets() { $CHECK "$1" >/dev/null || { $CHECK "$1"; return 1; }; }
if ! command -v chromium >/dev/null; then
    skip "a browser walks the pages" "no chromium"
else
    axe_find || { AXE=-; skip "axe-core judges the pages" "no npm, or axe-core cannot be installed"; }
    tap_claims env -u PERFETTO_PRODUCER_SOCK_NAME python3 -B "$ROOT/tests/support/page_walk.py" "$LINK" "$MEETING_PID" "$WORK/shots" "$AXE" \
        "${PFL_CHROMIUM_FLAGS[@]}"
    check "what was downloaded is a trace of both" has_packets "$WORK/shots/download.pftrace"
    [ -z "${PFL_SHOTS:-}" ] || cp "$WORK/shots"/*.png "$PFL_SHOTS/"
fi
kill "$UI"
wait "$UI"
check "a signal ends it with 0" test $? -eq 0

# ---- without a relay, and mistakes
start local "$P" ui --host "one=unix:$WORK/db1/consumer.sock" --port 0 --json
wait_for 20 grep -q '"link"' "$WORK/local.log"
check "a host that was named has a page, too" says 'com.example.load' visit local '/host?name=one'
check "and a row" says '1 to 1 of 1; 1 of all 1 answer' visit local /hosts
# Connections of another user, thousands of them, each repeated as soon as it ends.
UI_CLIENT=(python3 -B "$ROOT/tests/support/ui_client.py")
python3 -c 'import websockets' 2>/dev/null || UI_CLIENT[0]=/usr/bin/python3
is_served() { # past the attacker of this log
    wait_for 60 grep -q ready "$WORK/$1.log" || { cat "$WORK/$1.log"; return 1; }
    for _ in 1 2 3 4 5; do says '1 of all 1 answer' visit local /hosts || return; done
    is_alive "$STARTED"
}
if [ "$(id -u)" -eq 0 ]; then
    start strangers "${UI_CLIENT[@]}" strangers "$(grep -oE '127.0.0.1:[0-9]+' "$WORK/local.log" | cut -d: -f2)" 400 65534
    BEFORE=$SECONDS
    check "another user with thousands of connections does not keep the browser out" is_served strangers
    check "nor for long" test $((SECONDS - BEFORE)) -lt 60
    kill "$STARTED"
else
    skip "another user with thousands of connections does not keep the browser out" "no root"
    skip "nor for long" "no root"
fi
PORT=$(grep -oE '127.0.0.1:[0-9]+' "$WORK/local.log" | cut -d: -f2)
check "a port that is taken is said" exits_with $NOTHING "$P" ui --host "unix:$WORK/db1/consumer.sock" --port "$PORT"
start remote env SSH_CONNECTION='192.0.2.1 1000 192.0.2.9 22' "$P" ui --host "unix:$WORK/db1/consumer.sock" --port 8439
start first "$P" ui --host "unix:$WORK/db1/consumer.sock"
start second "$P" ui --host "unix:$WORK/db1/consumer.sock"
link_of() { wait_for 20 grep -q '/enter?token=' "$WORK/$1.log" && grep -oE '127.0.0.1:[0-9]+' "$WORK/$1.log"; }
check "each run has a port of its own" eval 'FIRST=$(link_of first) && SECOND=$(link_of second) && [ "$FIRST" != "$SECOND" ]'
check "who came by ssh learns what to type" wait_for 20 grep -q 'ssh -L 8439:127.0.0.1:8439 THIS-MACHINE' "$WORK/remote.log"
check "a port that is none is wrong usage" exits_with $USAGE "$P" ui --host local --port 70000
finish
