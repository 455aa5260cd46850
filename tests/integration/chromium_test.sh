#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Debian's Chromium, unchanged, as producer of a perfleetd; and as what shows the Perfetto UI's recording
# page, which records two hosts, this browser among them, through perfleet tunnel --ui.
. "$(dirname "$0")/lib.sh"

if ! command -v chromium >/dev/null; then
    skip "Chromium registers its processes and delivers track events" "no chromium"
    finish
fi
as_user=()
[ "$(id -u)" -ne 0 ] || as_user=(setpriv --reuid nobody --regid nogroup --clear-groups)
start_service two || { check "perfleetd opens its sockets" false; finish; }
start example "$BIN/perfleet-example" --rate 1000 --smb-kb 4096
start_service one || { check "perfleetd opens its sockets" false; finish; }
chmod 777 "$WORK"/{one,two}{,/producer.sock,/consumer.sock}
mkdir -m 777 "$WORK/home"

# Pages of the UI's name come from this machine; the tunnel is the browser's user's, and all of it is in
# a place where that user may read.
cp "$ROOT/deploy/demo/page.html" "$BIN/perfleet" "$WORK/"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=ui.perfetto.dev" \
    -keyout "$WORK/ui.key" -out "$WORK/ui.pem" 2>/dev/null
start page python3 -B "$ROOT/tests/support/fleet_page.py" "$WORK/ui.pem" "$WORK/ui.key" "$WORK/page.html" "$WORK"
start tunnel env TMPDIR="$WORK/home" "${as_user[@]}" "$WORK/perfleet" tunnel "one=unix:$WORK/one/consumer.sock" \
    "two=unix:$WORK/two/consumer.sock" --ui --ui-port 0
check "the page is served" wait_for 20 grep -q '^port' "$WORK/page.log"
check "the tunnel listens" wait_for 20 grep -q '/fleet$' "$WORK/tunnel.log"
SERVER=127.0.0.1:$(sed -n 's/^port //p' "$WORK/page.log")
start chromium env HOME="$WORK/home" "${as_user[@]}" chromium "${PFL_CHROMIUM_FLAGS[@]}" \
    --user-data-dir="$WORK/home/profile" --ignore-certificate-errors \
    --host-resolver-rules="MAP ui.perfetto.dev $SERVER, MAP evil.example $SERVER, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1" \
    https://ui.perfetto.dev/
CHROMIUM=$STARTED

sequences_at_least() {
    local n
    n=$(grep -oE '"sequences": [0-9]+' "$WORK/t.json" | awk '{ n += $2 } END { print n }')
    [ "$n" -ge "$1" ] || { echo "$n sequences"; return 1; }
}
no_source() {
    ! source_count_is "$1" 1
}

check "at least five of Chromium's processes register track_event" wait_for_source track_event 5

cat >"$WORK/c.pbtx" <<'END'
buffers { size_kb: 65536 fill_policy: RING_BUFFER }
duration_ms: 1000
data_sources { config { name: "track_event" track_event_config { enabled_categories: "*" } } }
data_sources { config { name: "org.chromium.trace_metadata2" } }
END
check "a recording of Chromium succeeds" record one "$WORK/c.pbtx" "$WORK/t.pftrace"
check "it has thousands of track events and every packet parses" \
    eval "$CHECK $WORK/t.pftrace --min-track-events 2000 --json >$WORK/t.json"
check "they come from several processes' sequences" sequences_at_least 5

sed -nE 's,.*(ws://127.0.0.1:[0-9]+/fleet)$,\1,p' "$WORK/tunnel.log" >"$WORK/begin"
check "the UI's page records both hosts, this browser among them" wait_for 20 test -s "$WORK/trace"
check "it was shown how many hosts there are" grep -qE '^version=perfleet [0-9.]+: 2 hosts$' "$WORK/said"
check "no request of its failed" eval '! grep -E "fail|closed" "$WORK/said"'
check "its trace is one of both, with as many track events" \
    $CHECK "$WORK/trace" --machines 2 --disjoint --contiguous --min-packets 100 --min-track-events 2000
check "a page of another origin, in the same browser, is kept out" wait_for 20 grep -q '^other origin: refused$' "$WORK/said"
check "for that" grep -q 'browser-refused: status=403 reason="this origin' "$WORK/tunnel.log"
kill "$CHROMIUM"
check "when Chromium ends its data sources go away" wait_for 20 no_source track_event
check "the service lives on" is_alive "$SERVICE_PID"
finish
