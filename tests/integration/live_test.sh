#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC1091,SC2016
# perfleet open --live: a flight recorder is copied again and again into the same tab of a real browser, as long as that
# tab is there; what it costs the host; and what is said when there is nothing to show.
. "$(dirname "$0")/lib.sh"
P=$BIN/perfleet
NOTHING=1 USAGE=2
mkdir "$WORK/tmp"
export TMPDIR=$WORK/tmp
unset BROWSER DISPLAY WAYLAND_DISPLAY SSH_CONNECTION SUDO_UID

start_service one || { check "perfleetd opens its sockets" false; finish; }
SOCKET=$PERFETTO_CONSUMER_SOCK_NAME
start example "$BIN/perfleet-example" --rate 20000
wait_for_source "$EXAMPLE_SOURCE" 1 || { check "its producer is there" false; finish; }
HERE=(--host "one=unix:$SOCKET" --no-browser)

fails() { # CODE WORDS OPTION...
    local expected=$1 words=$2 code
    shift 2
    timeout 60 "$P" open "$@" >"$WORK/fails.out" 2>&1
    code=$?
    [ "$code" -eq "$expected" ] && grep -qF -- "$words" "$WORK/fails.out" || { echo "exit $code"; cat "$WORK/fails.out"; return 1; }
}
check "without a flight recorder the command that starts one is said" fails $NOTHING \
    'perfleet start flight --preset system --host one=unix:' --live "${HERE[@]}"
check "and why there is none" grep -q 'there is no such session to clone' "$WORK/fails.out"
no_folder() { [ -z "$(find "$TMPDIR" -maxdepth 1 -name 'perfleet-open-*')" ]; }
check "no folder is left" no_folder
check "a session of another name neither" fails $NOTHING 'there is no session "other"' --live --session other "${HERE[@]}"
cat >"$WORK/flight.pbtx" <<END
bugreport_score: 5
buffers { size_kb: 16384 fill_policy: RING_BUFFER }
data_sources { config { name: "$EXAMPLE_SOURCE" } }
END
check "a flight recorder runs" "$P" start flight -c "$WORK/flight.pbtx" --host "unix:$SOCKET"
has_data() {
    "$P" snapshot flight --host "unix:$SOCKET" -o "$WORK/first.pftrace" >/dev/null 2>&1 &&
        $CHECK "$WORK/first.pftrace" --min-packets 10 >/dev/null 2>&1
}
check "it has packets" wait_for 30 has_data

# ---- as a browser would, by hand
# serve OPTION...: in the background; its link is $LINK
serve() {
    rm -f "$WORK/open.log"
    start open "$P" open --live "${HERE[@]}" "$@"
    OPEN=$STARTED
    check "it prints a link" wait_for 60 grep -q ^http "$WORK/open.log" || finish
    LINK=$(grep -m1 ^http "$WORK/open.log")
}
said() { grep -qF -- "$1" "$WORK/open.log"; }
ends() { # CLAIM CODE
    local code
    wait "$OPEN"
    code=$?
    check "$1" [ "$code" -eq "$2" ]
}
SELF=(-H "Sec-Fetch-Site: same-origin")
ask() { curl -s --max-time 60 "${SELF[@]}" "${LINK}next?$1"; } # ask QUERY
value() { # FILE KEY.KEY...
    python3 -c 'import json, sys
value = json.load(open(sys.argv[1]))
for key in sys.argv[2].split("."):
    value = value[key]
print(value)' "$@"
}
is_status() { # STATUS CURL-OPTION...
    local got
    got=$(curl -s -o /dev/null -w '%{http_code}' --max-time 20 "${@:2}")
    [ "$got" = "$1" ] || { echo "status $got"; return 1; }
}
cpu_ms() { # of the service
    local stat
    read -r -a stat <"/proc/$SERVICE_PID/stat"
    echo $(((stat[13] + stat[14]) * 1000 / $(getconf CLK_TCK)))
}
fetch() { # N HAVE: the view that is newer than HAVE, as $WORK/view-N.pftrace
    local path
    for _ in 1 2 3; do
        ask "have=$2&tab=open&hold=0" >"$WORK/now-$1" || return
        path=$(value "$WORK/now-$1" view.path)
        [ "$path" = None ] || break
    done
    value "$WORK/now-$1" view.number >"$WORK/number-$1"
    date +%s%N >"$WORK/time-$1"
    curl -s --max-time 60 "${SELF[@]}" -o "$WORK/view-$1.pftrace" "${LINK%/*/}/${path#../}"
}
number() { cat "$WORK/number-$1"; }

serve --every 2s
check "what a view costs is said" said "buffers, at most every 2 s"
check "the page is there" says '<h1>Live view' curl -s "$LINK"
check "a question needs the page's origin" is_status 403 "${LINK}next?have=0&tab=open&hold=0"
check "not another one" is_status 403 -H "Origin: https://evil.example" "${LINK}next?have=0&tab=open&hold=0"
check "and the link's key" is_status 404 "${SELF[@]}" "${LINK%/*/}/00000000000000000000000000000000/next?have=0&tab=open&hold=0"
check "one that is none is refused" is_status 400 "${SELF[@]}" "${LINK}next?have=x"
BEFORE=$(cpu_ms)
check "the first view comes" fetch 1 0
check "it is a trace" $CHECK "$WORK/view-1.pftrace" --min-packets 10
check "nobody gets it again" is_status 410 "${SELF[@]}" "${LINK%/*/}/$(value "$WORK/now-1" view.path | cut -c4-)"
check "the second is newer" eval 'fetch 2 "$(number 1)" && [ "$(number 2)" -gt "$(number 1)" ]'
check "and the third" eval 'fetch 3 "$(number 2)" && [ "$(number 3)" -gt "$(number 2)" ]'
check "each ends later than the one before" python3 -B - "$WORK" <<'END'
import sys
def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        size = {1: 8, 5: 4}.get(key & 7, 0)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            if key & 7 == 2:
                size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value
newest = []  # time stamps: field 8 of a packet
for n in "123":
    data = open(f"{sys.argv[1]}/view-{n}.pftrace", "rb").read()
    newest.append(max(v for _, packet in fields(data) for f, v in fields(packet) if f == 8 and isinstance(v, int)))
print(newest)
assert newest[0] < newest[1] < newest[2]
END
check "not as fast as one can ask" eval '[ $(($(cat "$WORK/time-3") - $(cat "$WORK/time-1"))) -gt 2000000000 ]'
SPENT=$(($(cpu_ms) - BEFORE))
READ=$(value "$WORK/now-3" read_bytes)
echo "# a view reads $READ bytes; two, and four seconds of the producer, took $SPENT ms of the service's CPU time"
check "the page has the bytes that a view reads" [ "$READ" -gt 100000 ]
check "and their sum" [ "$(value "$WORK/now-3" total_bytes)" -gt "$READ" ]
check "no copy is left on the host" eval '! "$P" ps --host "unix:$SOCKET" | grep -i clon'

N=$(number 3)
kill -STOP "$SERVICE_PID"
fails_to_copy() { ask "have=$N&tab=open&hold=0" >"$WORK/now" && [ -n "$(value "$WORK/now" why)" ]; }
check "a host that does not answer is said on the page" wait_for 60 fails_to_copy
check "and on the terminal" said "one: "
kill -CONT "$SERVICE_PID"
is_back() { ask "have=$N&tab=open&hold=0" >"$WORK/now" && [ "$(value "$WORK/now" view.number)" -gt "$N" ]; }
check "it is tried again" wait_for 120 is_back
check "and said" said "one: is there again"
check "a person who looks is not disturbed" eval '
    ask "have=0&tab=open&hold=1" >"$WORK/now-a"; sleep 3; ask "have=0&tab=open&hold=1" >"$WORK/now-b"
    [ "$(value "$WORK/now-a" total_bytes)" -eq "$(value "$WORK/now-b" total_bytes)" ]'
check "when the tab is closed the page is answered so" says "the UI's tab was closed" ask "have=$N&tab=closed&hold=0"
ends "the program ends" 0
check "and says what it read" says "^one: .* views, .* read of its buffers, [1-9].* failed; the UI's tab was closed" tail -1 "$WORK/open.log"
check "no folder is left then" no_folder

serve
ask "have=0&tab=open&hold=0" >"$WORK/now"
ends "a page that asks no more ends it" 0
check "and that is said" said "the page of perfleet open was closed"
serve --max-time 1s
ask "have=0&tab=open&hold=0" >"$WORK/now"
check "time ends it" says "the time is over" ask "have=1&tab=open&hold=0"
ends "with 0, too" 0
serve --serve-for 1s
ends "a browser that does not come, with 1" $NOTHING
serve
kill -INT "$OPEN"
ends "and Ctrl-C" 130
kill -STOP "$SERVICE_PID"
start open "$P" open --live "${HERE[@]}"
OPEN=$STARTED
check "a first copy waits for its host" wait_for 60 eval '! no_folder'
kill -INT "$OPEN"
ends "Ctrl-C ends it, too" 130
kill -CONT "$SERVICE_PID"
check "and no folder is left" no_folder
no_room() { (ulimit -f 100 && fails $NOTHING 'it cannot be written below $TMPDIR or /var/tmp: make room there' --live "${HERE[@]}"); }
check "a place without room is said" no_room
check "and has no folder then" no_folder
check "a limit is kept" fails $NOTHING 'it sent more than --max-host-mib 1: the rest was not read' \
    --live --max-host-mib 1 "${HERE[@]}"

# ---- the button of a host's page
PAGE=(curl -sS --max-time 30 -b "$WORK/jar" -c "$WORK/jar")
begin_pages() { # OPTION...
    local link
    rm -f "$WORK/ui.log" "$WORK/jar"
    start ui "$P" ui --host "one=unix:$SOCKET" "$@"
    UI=$STARTED
    wait_for 20 grep -q '/enter?token=' "$WORK/ui.log" || return
    link=$(grep -o 'http://127[^ ]*' "$WORK/ui.log")
    PAGES=${link%/enter*}
    "${PAGE[@]}" "$link" >"$WORK/page"
    "${PAGE[@]}" "$PAGES/host?name=one" >"$WORK/page"
    TOKEN=$(grep -o 'name="change" value="[^"]*' "$WORK/page" | head -1 | sed 's/.*"//')
}
watch() { # STATUS CURL-OPTION...: presses the button; the answer is $WORK/watch
    local got
    got=$("${PAGE[@]}" -o "$WORK/watch" -w '%{http_code}' -H "Origin: $PAGES" -d change="$TOKEN" "${@:2}" "$PAGES/host/live")
    [ "$got" = "$1" ] || { echo "status $got"; cat "$WORK/watch"; return 1; }
}
follow() { LINK=$(grep -o 'http://127[^"]*' "$WORK/watch" | tail -1); }
views() { pgrep -cP "$UI" || true; }
begin_pages
check "the pages are there" [ -n "$TOKEN" ]
check "a host's page has a button for its flight recorder" grep -q '<button type="submit" formtarget="_blank">Watch live' "$WORK/page"
check "it needs the page's token" eval 'TOKEN=x; watch 403 -d name=one -d session=flight'
check "a host that is none is refused" watch 404 -d name=other -d session=flight
check "a session that is none is, in words" watch 502 -d name=one -d session=other
check "the command's own" says 'There is no live view: .*there is no session &quot;other&quot;' cat "$WORK/watch"
check "an option is a name" watch 502 -d name=one --data-urlencode session=--help
check "no process is left then" wait_for 20 eval '[ "$(views)" -eq 0 ]'
check "pressed, it leads to the live view" watch 200 -d name=one -d session=flight
follow
check "whose page is there" says '<h1>Live view' curl -s "$LINK"
check "and gets views" fetch 4 0
for _ in 1 2 3; do watch 200 -d name=one -d session=flight; done
check "a fifth is refused" watch 409 -d name=one -d session=flight
kill -INT "$UI"
wait "$UI"
check "the pages end with 0" [ $? -eq 0 ]
check "and their views with them" is_status 000 "$LINK"
check "no folder is left of them" no_folder

# ---- a browser
if command -v chromium >/dev/null; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=ui.perfetto.dev" \
        -keyout "$WORK/ui.key" -out "$WORK/ui.pem" 2>/dev/null
    start page python3 -B "$ROOT/tests/support/https_folder.py" "$WORK/ui.pem" "$WORK/ui.key" "$ROOT/tests/support/ui"
    check "a page stands for the UI" wait_for 20 grep -q '^port' "$WORK/page.log"
    PORT=$(sed -n 's/^port //p' "$WORK/page.log")
    browse() { # VIEWS: in the background; words go to descriptor 5
        rm -rf "${WORK:?}/home" "$WORK/words" "$WORK/seen.log"
        mkfifo "$WORK/words"
        exec 5<>"$WORK/words"
        python3 -B "$ROOT/tests/support/open_link.py" "$WORK/home" "$LINK" --live "$1" \
            --map "ui.perfetto.dev=127.0.0.1:$PORT" <"$WORK/words" >"$WORK/seen.log" 2>&1 &
        note_job $!
        JOBS+=($!)
    }
    saw_views() { [ "$(grep -c "^trace .* live view" "$WORK/seen.log")" -eq "$1" ]; }
    serve --every 2s
    browse 3
    check "three views come into the same tab" wait_for 90 saw_views 3
    check "each another one" eval '[ "$(grep "^trace" "$WORK/seen.log" | cut -d" " -f3 | sort -u | wc -l)" -eq 3 ]'
    check "in order" eval 'sed -n "s/^trace.* live view //p" "$WORK/seen.log" | sort -nuc'
    check "the page says what a view costs" wait_for 20 grep -qE "^Each view reads [0-9.]+ [KM]iB of this host's buffers, in " "$WORK/seen.log"
    echo tab >&5
    check "the tab is closed, and the page says that it ended" wait_for 60 grep -q "^The live view ended: the UI's tab was closed" "$WORK/seen.log"
    ends "the program ends with the tab" 0
    echo end >&5
    check "the browser has asked" wait_for 30 grep -q '"requests"' "$WORK/seen.log"
    check "nobody else" eval '! tail -1 "$WORK/seen.log" | grep -oE "(GET|POST) [a-z]+://[^\"]*" |
        grep -vE "^(GET https://ui.perfetto.dev/|(GET|POST) http://127.0.0.1:)"'

    serve --every 2s --ui-dir "$ROOT/tests/support/ui"
    browse 2
    check "a UI of one's own has views, too" wait_for 90 saw_views 2
    kill -9 "$SERVICE_PID"
    echo say >&5
    check "the host is killed: the page says so" wait_for 60 grep -q '^The last copy failed: ' "$WORK/seen.log"
    echo page >&5
    ends "a page that is closed ends it" 0
    check "with those words" said "the page of perfleet open was closed"
    echo end >&5

    rm "$WORK"/one/*.sock # what was killed left them: nobody listens there yet
    start_service one || { check "perfleetd opens its sockets again" false; finish; }
    check "a flight recorder runs again" "$P" start flight -c "$WORK/flight.pbtx" --host "unix:$SOCKET"
    begin_pages --ui-dir "$ROOT/tests/support/ui"
    check "the button is pressed" watch 200 -d name=one -d session=flight
    follow
    browse 2
    check "and two views come into a tab" wait_for 90 saw_views 2
    echo tab >&5
    check "the tab is closed: its process ends" wait_for 60 eval '[ "$(views)" -eq 0 ]'
    echo end >&5
    kill -INT "$UI"
    wait "$UI"
    check "the pages end with 0, too" [ $? -eq 0 ]
else
    skip "a real browser shows the live view" "no chromium"
fi

# ---- mistakes
check "a file beside it" fails $USAGE 'leave out "a.pftrace"' --live a.pftrace "${HERE[@]}"
check "its options without it" fails $USAGE 'need --live' a --session flight
check "too often" fails $USAGE '--every: give 2s to 10m' --live --every 1s "${HERE[@]}"
check "two hosts" fails $USAGE 'shows one host, and 2 are chosen' --live --host "a=unix:$SOCKET" --host "b=unix:$SOCKET" --no-browser
check "neither a file nor a host" fails $USAGE 'something is missing: perfleet open FILE... | --live --host HOST'
finish
