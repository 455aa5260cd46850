#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Debian's Chromium, unchanged, as producer of a perfleetd.
. "$(dirname "$0")/lib.sh"

if ! command -v chromium >/dev/null; then
    skip "Chromium registers its processes and delivers track events" "no chromium"
    finish
fi
start_service one || { check "perfleetd opens its sockets" false; finish; }
chmod 777 "$WORK/one" "$WORK/one/producer.sock"
mkdir -m 777 "$WORK/home"
cp "$ROOT/deploy/demo/page.html" "$WORK/"
as_user=()
[ "$(id -u)" -ne 0 ] || as_user=(setpriv --reuid nobody --regid nogroup --clear-groups)
start chromium env HOME="$WORK/home" "${as_user[@]}" chromium "${PFL_CHROMIUM_FLAGS[@]}" \
    --user-data-dir="$WORK/home/profile" "file://$WORK/page.html"

sequences_at_least() {
    local n
    n=$($CHECK "$WORK/t.pftrace" --json | grep -oE '"sequences": [0-9]+' | awk '{ n += $2 } END { print n }')
    [ "$n" -ge "$1" ] || { echo "$n sequences"; return 1; }
}
no_source() {
    ! source_count_is "$1" 1
}

check "at least five of Chromium's processes register track_event" wait_for_source track_event 5

cat >"$WORK/c.pbtx" <<'END'
buffers { size_kb: 65536 fill_policy: RING_BUFFER }
duration_ms: 3000
data_sources { config { name: "track_event" track_event_config { enabled_categories: "*" } } }
data_sources { config { name: "org.chromium.trace_metadata2" } }
END
check "a recording of Chromium succeeds" record one "$WORK/c.pbtx" "$WORK/t.pftrace"
check "it has thousands of track events and every packet parses" \
    $CHECK "$WORK/t.pftrace" --min-track-events 2000
check "they come from several processes' sequences" sequences_at_least 5
check "a second recording works too" record one "$WORK/c.pbtx" "$WORK/t2.pftrace"
check "and has as many" $CHECK "$WORK/t2.pftrace" --min-track-events 2000
kill "$STARTED"
check "when Chromium ends its data sources go away" wait_for 20 no_source track_event
check "the service lives on" is_alive "$SERVICE_PID"
finish
