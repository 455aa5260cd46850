#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2153,SC2154,SC2016,SC2034
# The requests of Perfetto's BigTrace page (v58.2), as its client sends them, replayed against `perfleet ui`, a
# collector with traces of two hosts and a Trace Processor: the one of TRACE_PROCESSOR, or a played one.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"
. "$ROOT/tests/support/collected_hosts.sh"
P=$BIN/perfleet
ENGINE=${TRACE_PROCESSOR:-$ROOT/tests/support/played_processor.py}
cd "$WORK" || exit 1
is() { [ "$("${@:2}")" = "$1" ]; }

# ---- a relay, a collector, traces of two hosts
as_me() { as me "$@"; }
store_traces cpu 3
ALL=$(count_traces)
WEB=$(count_traces --host web1)

# ---- the page's side: start_ui NAME OPTIONS...; then BASE, and the cookie in NAME.jar
start_ui() {
    local TLS link
    tls_of me
    start "$1" env -u TRACE_PROCESSOR "$P" ui --relay "$RELAY" "${TLS[@]}" "${@:2}"
    wait_for 20 grep -q '/enter?token=' "$WORK/$1.log"
    link=$(grep -oE 'http://127[^ ]*token=[0-9a-f]+' "$WORK/$1.log")
    JAR=$WORK/$1.jar BASE=${link%%/enter*}
    curl -s -c "$JAR" -o /dev/null "$link"
    API=$BASE/bigtrace SELF=(-H "Origin: $BASE" -H 'Sec-Fetch-Site: same-origin')
}
FROM=()
ask() { curl -s -m 120 -b "$JAR" "${FROM[@]:-${SELF[@]}}" "$@"; }
get() { ask "${@:2}" "$API$1"; }
post() { ask -H 'Content-Type: application/json' -d "${2:-{\}}" "${@:3}" "$API$1"; }
status() { "$@" -o /dev/null -w '%{http_code}'; }
# of CODE: what the JSON on standard input (j) has
of() { python3 -c 'import json, sys
j = json.load(sys.stdin)
print(eval(sys.argv[1]))' "$1"; }
values() { of '"\n".join(",".join("NULL" if v is None else v for v in r["values"]) for r in j["rows"])'; }
start_ui ui --trace-processor "$ENGINE" --jobs 2
UI_PID=$STARTED

# ---- what the page loads first
check "the settings are there" is 'since,until,host,select,order,trigger,lossy' eval \
    'post /bigtrace_execution_config | of "\",\".join(s[\"id\"] for s in j[\"setting\"])"'
check "the traces' columns, with those that are shown" is 'host,start,trace' eval \
    'post /trace_metadata_schema "{\"settings\":[]}" | of "\",\".join(c[\"name\"] for c in j[\"columns\"] if c[\"defaultVisible\"])"'
check "the ready questions are its presets" is 'losses' eval \
    'get /trace_presets | of "[p[\"id\"] for p in j[\"tracePresets\"] if \"losses\" in p[\"id\"]][0]"'
check "no question was asked yet" is '[]' eval 'get /query_executions | of "j[\"queryExecutions\"]"'

# ---- the grid of traces
setting() { printf '{"setting_id":"%s","values":["%s"],"category":"TRACE_ADDRESS"}' "$1" "$2"; }
SETTINGS="[$(setting since 24h),$(setting until ''),$(setting host '')]"
traces() { post /trace_metadata "{\"settings\":${3:-$SETTINGS},\"limit\":$1,\"offset\":$2${4:-}}"; }
check "traces are listed, and counted" is "2 $ALL" eval 'traces 2 0 | of "len(j[\"rows\"]), j[\"totalFilteredRows\"]" | tr -d "(),"'
check "with the columns that are shown" is 'host,start,trace' eval 'traces 2 0 | of "\",\".join(j[\"columnNames\"])"'
check "all values are texts" says '^(web1|db1),20[0-9-]+T[0-9:.]+Z,[0-9A-Z]{26}$' eval 'traces 2 0 | values'
check "pages do not overlap" is "$ALL" eval \
    '{ traces 3 0; traces 1000 3; } | python3 -c "import json, sys
d = json.JSONDecoder(); t = sys.stdin.read(); a, n = d.raw_decode(t); b, _ = d.raw_decode(t[n:].lstrip())
print(len({tuple(r[\"values\"]) for r in a[\"rows\"] + b[\"rows\"]}))"'
check "a setting selects" is web1 eval \
    'traces 1000 0 "[$(setting since 24h),$(setting host "web*")]" ",\"columns\":[\"host\"]" | values | sort -u'
check "a label does" is db1 eval \
    'traces 1000 0 "[$(setting select role=db)]" ",\"columns\":[\"host\"]" | values | sort -u'
check "a filter does" is "$WEB" eval \
    'traces 0 0 "$SETTINGS" ",\"filters\":[{\"field\":\"host\",\"op\":\"=\",\"value\":\"web1\"}]" | of "j[\"totalFilteredRows\"]"'
check "filters all hold" is 0 eval \
    'traces 9 0 "$SETTINGS" ",\"filters\":[{\"field\":\"host\",\"op\":\"glob\",\"value\":\"w*\"},{\"field\":\"host\",\"op\":\"not in\",\"value\":[\"web1\"]}]" |
    of "j[\"totalFilteredRows\"]"'
check "the order is the page's" eval \
    'traces 1000 0 "$SETTINGS" ",\"order_by\":\"bytes desc\",\"columns\":[\"bytes\"]" | values >sizes && sort -c -rn sizes && [ "$(wc -l <sizes)" -eq "$ALL" ]'
check "a time that is none is said" says 'Times: give one such as' eval 'traces 9 0 "[$(setting since nonsense)]" | of "j[\"detail\"]"'
check "as is a column that is not there" says 'there is no column shoe' eval \
    'traces 9 0 "$SETTINGS" ",\"columns\":[\"shoe\"]" | of "j[\"detail\"]"'
check "with status 400" is 400 eval 'status post /trace_metadata "{\"settings\":[],\"limit\":1,\"offset\":0,\"order_by\":\"shoe asc\"}"'

# ---- a question that is waited for. QUESTION has a row for each trace, of the engine that is there.
if [ "$ENGINE" = "$ROOT/tests/support/played_processor.py" ]; then
    QUESTION='packets' ROWS='rows 100' COLUMN=n WRONG=wrong SLOW=wait
else
    QUESTION='SELECT 1 AS packets, 0.5 AS real'
    ROWS='WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n < 99) SELECT n, NULL AS host FROM c'
    COLUMN=n WRONG='SELECT * FROM wrong'
    SLOW='WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c'
fi
body() { # body LIMIT SQL [MEMBERS]
    printf '{"limit":%s,"perfetto_sql":"%s","settings":%s%s}' "$1" "$2" "$SETTINGS" "${3:-}"
}
META=',"trace_metadata_columns":["host","start","trace"]'
check "an answer comes at once" is "$ALL" eval \
    'post /execute_bigtrace_query "$(body 1000 "$QUESTION" "$META")" >now.json; of "len(j[\"rows\"])" <now.json'
check "its columns, then the trace's" says '^packets,real,.*host,start,trace$' of '",".join(j["columnNames"])' <now.json
check "with an id" says '^[0-9A-Z]{26}$' of 'j["queryUuid"]' <now.json
check "each row has its trace" is "$ALL" eval 'of "len({r[\"values\"][-1] for r in j[\"rows\"]})" <now.json'
check "without traces' columns there are none" is True eval \
    'post /execute_bigtrace_query "$(body 1000 "$QUESTION")" | of "\"host\" not in j[\"columnNames\"]"'
check "an error of the question is said" says 'The question has an error' eval \
    'post /execute_bigtrace_query "$(body 9 "$WRONG")" | of "j[\"detail\"]"'
check "no trace is said, too" says 'No trace is selected' eval \
    'post /execute_bigtrace_query "$(body 9 "$QUESTION" ",\"trace_filters\":[{\"field\":\"host\",\"op\":\"=\",\"value\":\"none\"}]")" | of "j[\"detail\"]"'

# ---- one whose answer is fetched: execute, status until it is over, fetch
begin() { UUID=$(post /execute_bigtrace_query_async "$1" | of 'j["queryUuid"]'); }
is_status() { get "/query_executions/$UUID:status" >status.json && is "$1" of 'j["status"]' <status.json; }
fetch() { post "/query_executions/$UUID:fetch_results" "{\"limit\":$1,\"offset\":$2${3:-}}" "${@:4}"; }
begin "$(body 5000 "$ROWS" "$META,\"trace_order_by\":\"start asc\",\"trace_filters\":[{\"field\":\"host\",\"op\":\"=\",\"value\":\"web1\"}]")"
check "it ends well" wait_for 60 is_status SUCCESS
check "its progress is counted" is "$WEB $WEB $((WEB * 100))" eval \
    'of "j[\"processedTraces\"], j[\"totalTraces\"], j[\"processedRows\"]" <status.json | tr -d "(),"'
check "its times are there" says '^20.*Z 20.*Z$' of 'j["startTime"] + " " + j["endTime"]' <status.json
check "a page of it is fetched" is '50' eval 'fetch 50 100 | tee page.json | of "len(j[\"rows\"])"'
check "with how many there are" is $((WEB * 100)) of 'j["totalFilteredRows"]' <page.json
check "its column of a name that traces have, too, has another" says '^n,host_2,host,start,trace$' of '",".join(j["columnNames"])' <page.json
check "all columns can be chosen" says 'n host_2 .*labels' of '" ".join(j["availableColumnNames"])' <page.json
check "as can those of traces" is "role=web" eval 'fetch 9999 0 ",\"columns\":[\"labels\"]" | values | sort -u'
check "numbers sort as numbers" is "99,98" eval \
    'fetch $((2 * WEB)) 0 ",\"order_by\":\"n desc\",\"columns\":[\"n\"]" | values | uniq | head -n 2 | paste -sd,'
check "and are compared as such" is $((WEB * 9)) eval \
    'fetch 1 0 ",\"filters\":[{\"field\":\"n\",\"op\":\"<\",\"value\":\"9\"}]" | of "j[\"totalFilteredRows\"]"'
check "the traces were asked in the page's order" eval \
    'fetch 9999 0 ",\"columns\":[\"start\"],\"filters\":[{\"field\":\"n\",\"op\":\"=\",\"value\":\"0\"}]" | values >starts && [ "$(wc -l <starts)" -eq "$WEB" ]'
check "what was asked is there" is "start asc" eval 'get "/query_executions/$UUID" | tee whole.json | of "j[\"traceOrderBy\"]"'
check "with its settings in the page's words" is since of 'j["settings"][0]["settingId"]' <whole.json
check "it is in the history" is "$UUID True" eval 'get /query_executions | of "j[\"queryExecutions\"][0][\"queryUuid\"], j[\"queryExecutions\"][0][\"materialized\"]" | tr -d "(),'"'"'"'
begin "$(body 150 "$ROWS")"
check "a limit ends it" wait_for 60 is_status SUCCESS
check "with so many rows" is 150 of 'j["processedRows"]' <status.json
begin "$(body 9 "$WRONG")"
check "a wrong one fails" wait_for 60 is_status FAILED
check "and says why" says 'The question has an error' eval 'get "/query_executions/$UUID" | of "j[\"errorMessage\"]"'

# ---- cancelled, removed, too many
begin "$(body 9 "$SLOW")"
SECOND=$(post /execute_bigtrace_query_async "$(body 9 "$SLOW")" | of 'j["queryUuid"]')
check "it is in progress" is_status IN_PROGRESS
check "rows that are not there yet are 400, as the page expects" is 400 status fetch 9 0 ''
check "a third one has to wait" says 'two questions are being asked already' eval \
    'post /execute_bigtrace_query_async "$(body 9 "$SLOW")" | of "j[\"detail\"]"'
check "it can be cancelled" is '{}' post "/query_executions/$UUID:cancel"
check "and is" wait_for 20 is_status CANCELLED
check "one under way can be removed" is '{}' ask -X DELETE "$API/query_executions/$SECOND"
check "it is not there then" is 404 status get "/query_executions/$SECOND"
no_engine() { ! pgrep -P "$UI_PID" >/dev/null; }
check "their processes are gone" wait_for 20 no_engine
left() { timeout 2 curl -s -b "$JAR" "${SELF[@]}" -H 'Content-Type: application/json' -d "$(body 9 "$SLOW")" "$API/execute_bigtrace_query"; }
left
check "one that nobody waits for any more is cancelled" wait_for 20 eval \
    'is CANCELLED eval "get /query_executions | of \"j[\\\"queryExecutions\\\"][0][\\\"status\\\"]\""'
for _ in {1..18}; do post /execute_bigtrace_query "$(body 1 "$QUESTION")" >/dev/null; done
check "the newest are kept" is 16 eval 'get /query_executions | of "len(j[\"queryExecutions\"])"'

# ---- what is partial is said to be: a trace that is broken in the store
ID=$(as_me traces --json --host web1 | grep -o '"id": *"[^"]*"' | head -n 1 | cut -d'"' -f4)
FILE=$(find "$WORK/store/v1" -name "$ID.pftrace")
head -c "$(stat -c %s "$FILE")" /dev/zero >altered && mv -f altered "$FILE"
begin "$(body 5000 "$QUESTION" "$META")"
check "an answer without a trace is partial" wait_for 60 is_status FAILED
check "names the trace" says "Trace $ID of web1 is passed over: it cannot be read" eval 'get "/query_executions/$UUID" | of "j[\"errorMessage\"]"'
check "and says so" says "The answer is partial: 1 of $ALL traces are passed over" eval 'get "/query_executions/$UUID" | of "j[\"errorMessage\"]"'
check "the others' rows are there" is $((ALL - 1)) eval 'fetch 9999 0 | of "len(j[\"rows\"])"'
check "waited for, it is an error that says the same" says 'partial.*run it materialized' eval \
    'post /execute_bigtrace_query "$(body 5000 "$QUESTION")" | of "j[\"detail\"].replace(chr(10), \" \")"'

# ---- who may
is_refused() { is "$1" status "${@:2}"; } # is_refused STATUS REQUEST...
bare() { curl -s -m 20 "$@"; }
check "without the cookie it is refused" is_refused 403 bare "${SELF[@]}" "$API/query_executions"
check "a form of another page is" is_refused 403 bare -b "$JAR" -H 'Origin: https://evil.example' -H 'Content-Type: text/plain' -d '{}' "$API/bigtrace_execution_config"
check "a body that a form can send is no request" is_refused 400 bare -b "$JAR" "${SELF[@]}" -H 'Content-Type: text/plain' -d '{}' "$API/bigtrace_execution_config"
check "a change without an origin is none" is_refused 403 bare -b "$JAR" -H 'Content-Type: application/json' -d '{}' "$API/bigtrace_execution_config"
check "nor is one of a name that was rebound" is_refused 403 bare -b "$JAR" -H 'Host: evil.example' "$API/query_executions"
check "another origin's page gets no permission" is_refused 403 bare -X OPTIONS -H 'Origin: https://evil.example' -H 'Access-Control-Request-Method: POST' "$API/bigtrace_execution_config"
check "no page is asked with DELETE" is_refused 405 bare -b "$JAR" "${SELF[@]}" -X DELETE "$BASE/hosts"
check "what it does not know is 404, as the page expects" is_refused 404 get /metrics
check "JSON that is none is said" says 'no JSON object' post /trace_metadata '[1]'
check "too much of it is refused" is_refused 413 eval 'head -c 70000 /dev/zero | tr "\0" x | ask -H "Content-Type: application/json" -d @- "$API/trace_metadata"'

# ---- the page elsewhere
GUEST=http://127.0.0.1:1234
check "an origin that is none is refused" exits_with 2 "$P" ui --bigtrace-origin http://a.example/path
check "a Trace Processor that is not there is, when it was named" exits_with 1 "$P" ui --trace-processor nowhere
start_ui guest --bigtrace-origin "$GUEST" --trace-processor "$ENGINE"
FROM=(-H "Origin: $GUEST" -H 'Sec-Fetch-Site: same-site')
check "a named origin's page is let in" is 204 status bare -X OPTIONS -H "Origin: $GUEST" -H 'Access-Control-Request-Method: POST' \
    -H 'Access-Control-Request-Headers: content-type' "$API/bigtrace_execution_config"
check "by CORS" says "^Access-Control-Allow-Origin: $GUEST" eval 'post /bigtrace_execution_config "{}" -i | tr -d "\r"'
WHOLE=',"trace_filters":[{"field":"host","op":"=","value":"db1"}]'
check "it asks" is 1 eval 'post /execute_bigtrace_query "$(body 1 "$QUESTION" "$WHOLE")" | of "len(j[\"rows\"])"'
check "but reads no page" is_refused 403 ask "$BASE/hosts"
FROM=()
check "this one's own still asks, too" is 200 status post /bigtrace_execution_config '{}'

# ---- without what it needs
start_ui bare --jobs 1
check "without a Trace Processor the page gets the remedy" says 'no trace_processor_shell in PATH' eval \
    'PATH=/usr/bin:/bin post /execute_bigtrace_query "$(body 1 "$QUESTION")" | of "j[\"detail\"]"'
check "but the list of traces" is "$ALL" eval 'traces 1 0 | of "j[\"totalFilteredRows\"]"'
kill "$COLLECTOR_PID"
gone() { traces 1 0 | grep -q 'no collector is connected'; }
check "without a collector it is said" wait_for 20 gone
finish
