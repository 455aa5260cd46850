#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC1091,SC2034,SC2153,SC2154
# perfleet ui for a team, behind Debian's nginx with the configuration of docs/page.md and a service that signs people in:
# who gets whose pages; what a browser sends has no say in that; nobody else reaches a socket.
. "$(dirname "$0")/lib.sh"
P=$BIN/perfleet
USAGE=2

command -v nginx >/dev/null || { skip "a team's pages behind a proxy" "no nginx"; finish; }
[ "$(id -u)" -eq 0 ] || { skip "a team's pages behind a proxy" "no root: nginx and other users"; finish; }
make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
pki operator alice
pki operator readers
cat >"$WORK/policy.pbtx" <<END
rule { name: "alice" operator: "alice" host: "*" }
rule { name: "me" operator: "me" host: "*" }
rule { name: "readers" operator: "readers" host: "web1" role: "readers" }
role { name: "readers" method: "Query*" }
END
MEETING=(--policy "$WORK/policy.pbtx" --audit-log "$WORK/audit.jsonl")
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
for HOST in web1 db1; do
    mkdir -p "$WORK/$HOST"
    use_service "$HOST"
    start "$HOST" "$BIN/perfleetd"
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME" && start_agent "$HOST"
done
all_are_there() { [ "$(fleet hosts --json | grep -o '"is_connected": *true' | wc -l)" -eq 2 ]; }
check "two hosts are connected" wait_for 20 all_are_there

# ---- the proxy: the page's configuration, with this test's paths and ports
start sign_in python3 -B "$ROOT/tests/support/sign_in.py"
wait_for 20 grep -q port "$WORK/sign_in.log"
PORT=$(lasting_port)
ORIGIN=https://perfleet.example.com:$PORT
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=perfleet.example.com \
    -keyout "$WORK/web.key" -out "$WORK/web.pem" 2>/dev/null
chmod 711 "$WORK"
mkdir -m 755 "$WORK/run" "$WORK/perfleet-ui"
{
    echo "pid $WORK/nginx.pid; error_log stderr warn; daemon off; user www-data; events {} http { access_log off;"
    for KIND in client_body proxy fastcgi uwsgi scgi; do echo "${KIND}_temp_path $WORK/run/$KIND;"; done
    sed -n '/^```conf$/,/^```$/p' "$ROOT/docs/page.md" | grep -v '^```' |
        sed -e "s,/run/perfleet-ui/,$WORK/perfleet-ui/,; s,/run/perfleet-nobody,$WORK/run/nobody," \
            -e "s,listen 443 ssl,listen 127.0.0.1:$PORT ssl," -e "s,/etc/nginx/perfleet,$WORK/web," \
            -e "s,127.0.0.1:4180,127.0.0.1:$(cut -d' ' -f2 "$WORK/sign_in.log"),"
    echo "}"
} >"$WORK/nginx.conf"
check "the page's configuration is one of nginx" nginx -t -e stderr -c "$WORK/nginx.conf"

pages() { # pages OPERATOR ARGS...
    start "$1" "$P" ui --relay "$RELAY" --ca "$WORK/pki/ca.pem" --cert "$WORK/pki/operator-$1.pem" \
        --key "$WORK/pki/operator-$1.key" --behind-proxy "$WORK/perfleet-ui/$1" --proxy-user www-data --origin "$ORIGIN"
}
pages alice
ALICE=$STARTED
pages readers
READERS=$STARTED
check "perfleet ui serves a socket" wait_for 20 test -S "$WORK/perfleet-ui/alice"
check "and another one" wait_for 20 test -S "$WORK/perfleet-ui/readers"
check "it says where the pages are, and prints no link" eval \
    'wait_for 20 grep -q "The pages are at $ORIGIN/" "$WORK/alice.log" && ! grep -q token "$WORK/alice.log"'
listens_nowhere() { ! ss -Htlnp | grep -q "pid=$ALICE,"; }
check "it listens on no port" listens_nowhere
start nginx nginx -e stderr -c "$WORK/nginx.conf"
web() { # web PERSON PATH CURL-ARGS...: as a browser in which that person signed in; "-": nobody
    local jar=$WORK/jar-$1 resolve=(-sk --resolve "perfleet.example.com:$PORT:127.0.0.1")
    if [ "$1" != - ] && [ ! -e "$jar" ]; then
        curl "${resolve[@]}" -c "$jar" -o "$WORK/signed-in" "$ORIGIN/sign-in/as?$1" || return
    fi
    [ "$1" = - ] || resolve+=(-b "$jar")
    curl "${resolve[@]}" "${@:3}" "$ORIGIN$2"
}
status() { web "$1" "$2" -o "$WORK/got" -w '%{http_code}' "${@:3}"; } # its body is in `got`
is_status() { # is_status STATUS PERSON PATH CURL-ARGS...
    local got
    got=$(status "${@:2}")
    [ "$got" = "$1" ] || { echo "status $got"; head -c 600 "$WORK/got"; return 1; }
}
answers() { [ "$(status - /)" = 302 ]; }
check "nginx answers" wait_for 20 answers

# ---- who gets what
check "who is not signed in is sent to sign in" is_status 302 - /hosts
check "and sees no page" eval '! grep -q web1 "$WORK/got"'
check "alice gets the pages of her certificate" eval 'is_status 200 alice /hosts && grep -q ">db1<" "$WORK/got" && grep -q ">web1<" "$WORK/got"'
check "bob those of his role" eval 'is_status 200 bob /hosts && grep -q ">web1<" "$WORK/got"'
check "without the host that it does not have" eval '! grep -q "db1" "$WORK/got"'
check "nor its own page" is_status 404 bob '/host?name=db1'
check "carol has bob's role" eval 'is_status 200 carol /hosts && grep -q ">web1<" "$WORK/got" && ! grep -q "db1" "$WORK/got"'
check "whom nobody gave a role gets none" eval 'is_status 403 dave /hosts && grep -q "You have no role" "$WORK/got"'
check "pages have a style" is_status 200 bob /style.css
for FIELD in X-Person X-Forwarded-User X-Auth-Request-User Remote-User; do
    check "a forged $FIELD changes nothing" eval \
        'is_status 200 bob /hosts -H "$FIELD: alice" && ! grep -q "db1" "$WORK/got"'
    check "nor does it sign in" is_status 302 - /hosts -H "$FIELD: alice"
done
check "a link's token is none here" is_status 404 bob "/enter?token=$(printf '0%.0s' {1..32})"
check "no cookie is set" eval 'web alice /hosts -D "$WORK/head" -o /dev/null && ! grep -qi "^set-cookie" "$WORK/head"'
check "the content policy is ours" grep -qi "^content-security-policy: default-src 'none'; script-src 'self'" "$WORK/head"

# ---- changes, and other sites
check "a change without the form's token is refused" is_status 403 alice /stop -d a=b -H "Origin: $ORIGIN"
check "and one without an origin" is_status 403 alice /stop -d a=b
check "and one of another origin" is_status 403 alice /stop -d a=b -H 'Origin: https://evil.example'
check "another site reads nothing" eval 'is_status 403 alice /hosts -H "Origin: https://evil.example" && ! grep -q web1 "$WORK/got"'
check "nor embeds a page" is_status 403 alice /hosts -H 'Sec-Fetch-Site: cross-site'
SESSION=$(awk '$6 == "session" { print $7 }' "$WORK/jar-alice")
check "another name of the proxy has no pages" eval \
    'is_status 403 - /hosts -H "Host: evil.example" -H "Cookie: session=$SESSION" && ! grep -q web1 "$WORK/got"'

# ---- the socket itself
knocks_as() { # knocks_as UID: what a program of that user gets from alice's socket
    setpriv --reuid "$1" --clear-groups curl -s --max-time 10 --unix-socket "$WORK/perfleet-ui/alice" \
        -H "Host: perfleet.example.com:$PORT" http://x/hosts
}
check "another local user's program gets nothing from the socket" eval '[ -z "$(knocks_as 65534)" ]'
check "and the log says so" grep -q "browser-refused: reason=\"other users' programs" "$WORK/alice.log"
check "the proxy's user does" eval 'knocks_as "$(id -u www-data)" | grep -q ">web1<"'
no_cross() { ! setpriv --reuid 65534 --clear-groups ls "$WORK/perfleet-ui/x" >/dev/null 2>&1 && \
    ! setpriv --reuid 65534 --clear-groups touch "$WORK/perfleet-ui/mallory" 2>/dev/null; }
check "nobody else puts a socket beside it" no_cross

# ---- the relay's audit log has whose certificate it was
check "alice's page asks her hosts" eval 'is_status 200 alice "/host?name=db1"'
check "the audit log says alice" wait_for 20 grep -q '"who":"alice".*"action":"connect".*"host":"db1"' "$WORK/audit.jsonl"
check "bob's page asks his" eval 'is_status 200 bob "/host?name=web1"'
check "and for him his role" wait_for 20 grep -q '"who":"readers".*"action":"connect".*"host":"web1"' "$WORK/audit.jsonl"
check "which did nothing at another host" eval '! grep -q "\"who\":\"readers\".*\"host\":\"db1\"" "$WORK/audit.jsonl"'

# ---- a browser
if command -v chromium >/dev/null; then
    mkdir -m 700 "$WORK/browser"
    tap_claims python3 -B "$ROOT/tests/support/page_team_walk.py" "$ORIGIN" "$WORK/browser" "${PFL_CHROMIUM_FLAGS[@]}" \
        "--host-resolver-rules=MAP perfleet.example.com 127.0.0.1"
else
    skip "a browser signs in" "no chromium"
fi

# ---- when a process is away, and its end
kill "$READERS"
wait "$READERS"
check "a signal ends it with 0" test $? -eq 0
check "its socket is gone" test ! -e "$WORK/perfleet-ui/readers"
check "its people get no other's pages" is_status 502 bob /hosts
check "others keep theirs" is_status 200 alice /hosts

# ---- mistakes
ui() { timeout 20 "$P" ui --host "unix:$WORK/web1/consumer.sock" "$@"; }
check "a proxy needs an origin" exits_with $USAGE ui --behind-proxy "$WORK/perfleet-ui/x"
check "an origin has no path" exits_with $USAGE ui --behind-proxy "$WORK/perfleet-ui/x" --origin https://a/
check "a port and a proxy exclude each other" exits_with $USAGE ui --behind-proxy "$WORK/perfleet-ui/x" --origin https://a --port 8040
check "an origin alone is wrong" exits_with $USAGE ui --origin https://a
check "a user must be one" exits_with $USAGE ui --behind-proxy "$WORK/perfleet-ui/x" --origin https://a --proxy-user no-such-user
check "a folder of everybody's is refused" exits_with $USAGE ui --behind-proxy "/tmp/perfleet-page.$$" --origin https://a
check "a folder that is not there is said" exits_with 1 ui --behind-proxy "$WORK/none/x" --origin https://a
finish
