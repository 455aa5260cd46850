#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# perfleet open: a real Chromium opens the link; a page with the Perfetto UI's content policy and hand-over
# loads the trace. Who else asks gets nothing, and the program ends in every phase.

# Port 9001 is the only one that ui.perfetto.dev may fetch from: a network of its own.
if [ -z "$PFL_OPEN_NETWORK" ] && [ "$(id -u)" -eq 0 ] && unshare -n true 2>/dev/null; then
    PFL_OPEN_NETWORK=own exec unshare -n "$0" "$@"
fi
# shellcheck disable=SC2016,SC1091
. "$(dirname "$0")/lib.sh"
if [ -z "$PFL_OPEN_NETWORK" ]; then
    skip "perfleet open hands traces to a browser" "no network of its own: not root"
    finish
fi
ip link set lo up
unset BROWSER DISPLAY WAYLAND_DISPLAY SSH_CONNECTION SUDO_UID
UI=https://ui.perfetto.dev

# A trace of some MB whose bytes are known.
python3 - "$WORK/a.pftrace" <<'END'
import random, sys
random.seed(1)
with open(sys.argv[1], "wb") as out:
    for _ in range(300):
        body = b"\x40\x01\x52" + b"\x90\x4e" + random.randbytes(10000)
        out.write(b"\x0a\x95\x4e" + body)
END
SHA=$(sha256sum <"$WORK/a.pftrace" | cut -d' ' -f1)
BYTES=$(stat -c %s "$WORK/a.pftrace")
cp "$WORK/a.pftrace" "$WORK/b.pftrace"

# serve CLAIM OPTION...: perfleet open in the background; its link is $LINK, the address in it $URL.
serve() {
    local claim=$1
    shift
    rm -f "$WORK/open.log"
    start open "$BIN/perfleet" open "$@"
    OPEN=$STARTED
    check "$claim" wait_for 60 grep -qE '^http|^\{' "$WORK/open.log"
    LINK=$(grep -m1 ^http "$WORK/open.log")
    URL=${LINK#*url=}
}
# get OPTION...: what the UI asks; prints the status
get() { curl -s -o "$WORK/got" -w '%{http_code}\n' --max-time 60 "$@"; }
from_ui=(-H "Origin: $UI")
ends() { # CLAIM CODE: the one that serves
    local code
    wait "$OPEN"
    code=$?
    check "$1" [ "$code" -eq "$2" ]
}
is_same() { cmp "$WORK/got" "$WORK/a.pftrace"; }
said() { grep -qF -- "$1" "$WORK/open.log"; }
refused() { # STATUS CURL-OPTION...
    local status=$1 code
    shift
    code=$(get "$@")
    [ "$code" = "$status" ] || { echo "status $code"; return 1; }
}

serve "an own UI waits" --no-browser --ui-dir "$ROOT/tests/support/ui" "$WORK/a.pftrace"
check "at a port of its own, where nobody left anything in the browser" \
    eval '[[ $LINK =~ ^http://127.0.0.1:[0-9]+/ ]] && [[ $LINK != *:9001/* ]]'
kill -INT "$OPEN"
ends "and ends" 130
serve "it prints the link and waits" --no-browser "$WORK/a.pftrace"
check "the link has no file's name: that page reports its address" \
    eval '[[ $LINK =~ ^https://ui.perfetto.dev/#!/\?url=http://127.0.0.1:9001/[0-9a-f]{32}/trace-1.pftrace$ ]]'
is_narrow() { ! grep -v ^http "$WORK/open.log" | grep -E '^.{61}'; }
check "no line but the link is longer than 60 columns" is_narrow
check "a page of another origin is refused" refused 403 -H "Origin: https://evil.example" "$URL"
check "so is a request without an origin" refused 403 "$URL"
check "and one with another Host, as after rebinding" refused 403 "${from_ui[@]}" -H "Host: evil.example:9001" "$URL"
check "another name is not there" refused 404 "${from_ui[@]}" "${URL%/*}/other"
check "another key neither" refused 404 "${from_ui[@]}" http://127.0.0.1:9001/00000000000000000000000000000000/trace-1.pftrace
check "a browser's question before is answered for the UI" refused 204 -X OPTIONS "${from_ui[@]}" \
    -H "Access-Control-Request-Private-Network: true" "$URL"
check "and not for others" refused 403 -X OPTIONS -H "Origin: https://evil.example" "$URL"
check "the UI's search for a Trace Processor finds none" refused 404 "${from_ui[@]}" -X POST -d '' http://127.0.0.1:9001/status
check "another user's program gets nothing" eval \
    '[ "$(setpriv --reuid nobody --regid nogroup --clear-groups curl -s "${from_ui[@]}" -o /dev/null -w "%{http_code}" "$URL")" = 000 ]'
check "it listens on loopback alone" eval '[ "$(ss -Hltn "sport = :9001" | awk "{print \$4}")" = 127.0.0.1:9001 ]'
check "each refusal is said" said "a page of another origin asks for a trace"
check "the UI gets it" refused 200 "${from_ui[@]}" "$URL"
check "whole" is_same
ends "and the program ends" 0
check "nothing listens any more" refused 000 "${from_ui[@]}" "$URL"

serve "two files have two links" --no-browser "$WORK/a.pftrace" "$WORK/b.pftrace"
SECOND=$(grep ^http "$WORK/open.log" | tail -1)
check "the first is fetched" refused 200 "${from_ui[@]}" "$URL"
check "once" refused 410 "${from_ui[@]}" "$URL"
check "then the second" refused 200 "${from_ui[@]}" "${SECOND#*url=}"
ends "and it ends" 0

export SUDO_UID
SUDO_UID=$(id -u nobody)
serve "with sudo" --no-browser "$WORK/a.pftrace"
check "the browser is that of the user who typed it" eval \
    '[ "$(setpriv --reuid nobody --regid nogroup --clear-groups curl -s "${from_ui[@]}" -o /dev/null -w "%{http_code}" "$URL")" = 200 ]'
ends "it ends" 0
unset SUDO_UID

# ---- the browser ----
if command -v chromium >/dev/null; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=ui.perfetto.dev" \
        -keyout "$WORK/ui.key" -out "$WORK/ui.pem" 2>/dev/null
    start page python3 -B "$ROOT/tests/support/https_folder.py" "$WORK/ui.pem" "$WORK/ui.key" "$ROOT/tests/support/ui"
    check "a page stands for the UI" wait_for 20 grep -q '^port' "$WORK/page.log"
    PORT=$(sed -n 's/^port //p' "$WORK/page.log")
    # A browser as BROWSER names it: with_browser OPTION-OF-open_link...
    with_browser() {
        rm -rf "${WORK:?}/seen" "${WORK:?}/home"
        printf '#!/bin/bash\nexec python3 -B %q %q "$1" %s >%q 2>&1\n' "$ROOT/tests/support/open_link.py" "$WORK/home" \
            "$*" "$WORK/seen.new" >"$WORK/browser"
        printf 'mv %q %q\n' "$WORK/seen.new" "$WORK/seen" >>"$WORK/browser"
        sed -i 's/^exec //' "$WORK/browser"
        chmod 755 "$WORK/browser"
        export BROWSER=$WORK/browser
    }
    has_seen() { wait_for 90 test -s "$WORK/seen" && { grep -qF -- "$1" "$WORK/seen" || { cat "$WORK/seen"; return 1; }; }; }
    here="--map ui.perfetto.dev=127.0.0.1:$PORT --map evil.example=127.0.0.1:$PORT --map ui.example.com=127.0.0.1:$PORT"

    with_browser "$here --public $PORT --allow"
    serve "one command starts the browser" "$WORK/a.pftrace"
    check "it says that the browser runs as root" said 'starting $BROWSER as root'
    check "the UI, of the Internet and allowed to reach this device, has the trace" has_seen "trace $BYTES $SHA trace-1.pftrace"
    ends "the program ends" 0
    check "and says so" said "the UI has it"
    check "no request went elsewhere" eval \
        '! python3 -c "import json,sys; print(*json.load(open(sys.argv[1]))[\"requests\"], sep=\"\\n\")" "$WORK/seen" |
         grep -vE "^(GET https://ui.perfetto.dev/|GET http://127.0.0.1:9001/|POST http://127.0.0.1:9001/status$)"'

    with_browser "$here --public $PORT"
    serve "a browser whose user does not allow it" "$WORK/a.pftrace"
    check "keeps the page from this device" has_seen "failed Failed to fetch"
    check "the hint says what to allow" said "If the browser asks whether ui.perfetto.dev may reach this"
    kill -INT "$OPEN"
    ends "Ctrl-C ends it" 130

    with_browser "$here --evil https://evil.example/"
    serve "a page of another origin that knows the link" "$WORK/a.pftrace"
    check "does not get the trace in a browser" has_seen "failed Failed to fetch"
    check "and is reported" said "a page of another origin asks for a trace"
    kill -INT "$OPEN"
    ends "it ends" 130

    with_browser ""
    serve "an own UI is served" --ui-dir "$ROOT/tests/support/ui" "$WORK/a.pftrace"
    check "and has the trace, with the file's name" has_seen "trace $BYTES $SHA a.pftrace"
    ends "it ends when the UI is quiet" 0

    with_browser "$here --click"
    serve "a UI elsewhere has a page" --ui-url https://ui.example.com --ui-port 0 "$WORK/a.pftrace"
    check "which hands the trace over" has_seen "trace $BYTES $SHA a.pftrace"
    check "and says so" has_seen "a.pftrace: handed over"
    ends "then it ends" 0
    unset BROWSER
else
    skip "a real browser loads the trace" "no chromium"
fi

# ---- no browser ----
export SSH_CONNECTION="192.0.2.1 50000 192.0.2.9 22"
serve "over ssh it waits, too" "$WORK/a.pftrace"
check "it says what to type" said "ssh -L 9001:127.0.0.1:9001 $(id -un)@192.0.2.9"
check "in 60 columns" is_narrow
kill -INT "$OPEN"
ends "and ends with Ctrl-C" 130
unset SSH_CONNECTION
export DISPLAY=:99
serve "as root it starts none" "$WORK/a.pftrace"
unset DISPLAY
check "and says why" said "you are root"
check "in 60 columns" is_narrow
kill -TERM "$OPEN"
ends "and ends with SIGTERM" 130
chmod 644 "$WORK/a.pftrace"
serve "without a display it says so" --json --no-browser "$WORK/a.pftrace"
check "JSON is a line a link" python3 -c '
import json, sys
row = json.loads(next(line for line in open(sys.argv[1]) if line.startswith("{")))
assert row["trace"].endswith("/a.pftrace") and row["url"].startswith("https://ui.perfetto.dev/#!/?url="), row' "$WORK/open.log"
kill -INT "$OPEN"
ends "it ends" 130
export BROWSER=/nowhere/browser
serve "a browser that is not there" "$WORK/a.pftrace"
unset BROWSER
check "is said" wait_for 20 said 'does not open the link: no such file or directory; follow it in a browser'
kill -INT "$OPEN"
ends "and the link waits until Ctrl-C" 130

# ---- phases, and files that change ----
truncate -s 2G "$WORK/large.pftrace"
dd if="$WORK/a.pftrace" of="$WORK/large.pftrace" conv=notrunc status=none
serve "a file of 2 GiB" --no-browser "$WORK/large.pftrace"
check "goes over" eval '[ "$(curl -s "${from_ui[@]}" -o /dev/null -w "%{size_download}" "$URL")" = 2147483648 ]'
ends "the program ends" 0
serve "again" --no-browser "$WORK/large.pftrace"
start slow curl -s "${from_ui[@]}" --limit-rate 1M -o /dev/null "$URL"
is_sending() { ss -Htn state established "sport = :9001" | awk '$2 > 0 { found = 1 } END { exit !found }'; }
wait_for 20 is_sending
sleep 1
check "a reader that is slow takes no memory here" eval \
    '[ "$(awk "/^VmHWM/ { print \$2 }" /proc/$OPEN/status)" -lt 65536 ]'
check "a second reader at the same time is refused" refused 409 "${from_ui[@]}" "$URL"
kill -INT "$OPEN"
ends "Ctrl-C in the middle ends it" 130
serve "a reader that leaves" --no-browser "$WORK/large.pftrace"
check "has not all of it" eval '! curl -s "${from_ui[@]}" -o /dev/null --max-time 3 --limit-rate 1M "$URL"'
check "which is said" wait_for 20 said "the browser did not take all of it"
check "and may come again" eval '! curl -s "${from_ui[@]}" -o /dev/null --max-time 3 --limit-rate 1M "$URL"'
kill -INT "$OPEN"
ends "it ends with Ctrl-C" 130
serve "time ends it" --no-browser --serve-for 1s "$WORK/a.pftrace"
ends "with exit code 1" 1
check "and the remedy" said "--serve-for waits longer"

# ---- what cannot work ----
fails() { # CODE WORDS COMMAND...
    local expected=$1 words=$2 code
    shift 2
    timeout 60 "$@" >"$WORK/fails.log" 2>&1
    code=$?
    [ "$code" -eq "$expected" ] && grep -qF -- "$words" "$WORK/fails.log" || { echo "exit $code"; cat "$WORK/fails.log"; return 1; }
}
start squatter python3 -c 'import socket, time
s = socket.create_server(("127.0.0.1", 9001))
time.sleep(600)'
check "another program has the port" wait_for 20 eval 'ss -Hltn "sport = :9001" | grep -q .'
check "the message names the remedy" fails 1 "end it, as ui.perfetto.dev fetches from this port alone" \
    "$BIN/perfleet" open --no-browser "$WORK/a.pftrace"
kill "$STARTED"
check "no such file" fails 1 'cannot be opened: No such file or directory' "$BIN/perfleet" open "$WORK/none"
check "a folder" fails 1 'cannot be opened: it is a folder' "$BIN/perfleet" open "$WORK"
: >"$WORK/empty"
check "an empty file" fails 1 'cannot be opened: it is empty' "$BIN/perfleet" open "$WORK/empty"
mkfifo "$WORK/pipe"
check "a pipe is not waited for" fails 1 'cannot be opened: it is no file' "$BIN/perfleet" open "$WORK/pipe"
cp "$BIN/perfleet" "$WORK/p"
chmod 600 "$WORK/b.pftrace"
check "a file that the user may not read" fails 1 'cannot be opened: Permission denied' \
    setpriv --reuid nobody --regid nogroup --clear-groups "$WORK/p" open "$WORK/b.pftrace"
echo "this is no trace" >"$WORK/text"
check "what is no trace is said, and served" fails 1 'does not begin as a trace does' \
    "$BIN/perfleet" open --no-browser --serve-for 1s "$WORK/text"
check "another port for ui.perfetto.dev" fails 2 'ui.perfetto.dev fetches from port 9001 alone' \
    "$BIN/perfleet" open --ui-port 9002 "$WORK/a.pftrace"
check "a wrong address of a UI" fails 2 '--ui-url "ui.example.com": give an address such as' \
    "$BIN/perfleet" open --ui-url ui.example.com "$WORK/a.pftrace"
check "two UIs" fails 2 'give one of them' "$BIN/perfleet" open --ui-dir . --ui-url https://a "$WORK/a.pftrace"
check "a folder without a UI" fails 1 'it has no index.html' "$BIN/perfleet" open --ui-dir "$WORK" "$WORK/a.pftrace"
: >"$WORK/ui.zip"
check "a packed UI" fails 1 'unpack it: unzip FILE -d DIR' "$BIN/perfleet" open --ui-dir "$WORK/ui.zip" "$WORK/a.pftrace"
check "--no-browser without --open" fails 2 'are for --open' \
    "$BIN/perfleet" record sched --no-browser --host "unix:$WORK/none" -o "$WORK/r.pftrace"
check "--open of standard output" fails 2 'the UI reads a file' \
    "$BIN/perfleet" record sched --open --host "unix:$WORK/none" -o -

# ---- record --open ----
start_service one || { check "perfleetd opens its sockets" false; finish; }
start example env PERFETTO_PRODUCER_SOCK_NAME="$WORK/one/producer.sock" "$BIN/perfleet-example" --rate 1000 --track-events
start record "$BIN/perfleet" record track_event --duration 1s --host "unix:$WORK/one/consumer.sock" -o "$WORK/r.pftrace" \
    --open --no-browser
RECORD=$STARTED
check "a recording is handed over when it is there" wait_for 60 grep -q ^https "$WORK/record.log"
URL=$(grep -m1 ^https "$WORK/record.log")
check "the UI gets it" refused 200 "${from_ui[@]}" "${URL#*url=}"
check "it is the file" cmp "$WORK/got" "$WORK/r.pftrace"
wait "$RECORD"
CODE=$?
check "and the recording's exit code stays" [ "$CODE" -eq 0 ]
check "perfleet knows its file" $CHECK "$WORK/r.pftrace" --min-packets 10
finish
