#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC1091,SC2016,SC2034,SC2086,SC2153,SC2154
# perfleet-collector with a store of S3: segments of two hosts come into the bucket over TLS, whatever is killed, each
# once and none missing; keys from a file that changes, from the environment and from an instance's metadata service.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/s3rver.sh"
C=$BIN/perfleet-collector

make_pki || { check "perfleet-pki makes an authority and an operator" false; finish; }
KEYS=$WORK/keys/credentials
mkdir -p "$WORK/keys" "$WORK/staging" "$WORK/index"
write_keys() { # write_keys ID: atomically, as tools that renew keys do
    (
        umask 077
        printf '[%s]\naws_access_key_id = %s\naws_secret_access_key = S3RVER\n' other X fleet "$1" >"$KEYS.new"
    )
    mv "$KEYS.new" "$KEYS"
}
write_keys S3RVER
PATH_STYLE=--s3-path-style

# ---- settings
checks() { # checks OPTION...: by --check-config
    "$C" --relay 127.0.0.1 "${TLS_ME[@]}" --store s3://perfleet-test/some/fleet --index "sqlite:$WORK/index/index.sqlite" "$@" --check-config
}
refuses() { exits_with 2 says "$@"; }
check "settings of S3 can be checked" checks --s3-endpoint https://store.example.com:9000 --s3-region eu-central-1 \
    --s3-credentials-file "$KEYS" --s3-profile fleet --s3-ca-file "$WORK/pki/ca.pem" --s3-proxy http://proxy:3128 \
    --s3-path-style --s3-encryption aws:kms:alias/x --s3-staging-dir "$WORK/staging"
check "a text that is no endpoint's URL is refused with the form that is wanted" says '^perfleet-collector: --s3-endpoint: wants https://HOST\[:PORT\], not "ftp://x"' \
    checks --s3-endpoint ftp://x
check "an address without path style, too" says 's3-endpoint: is an address.*s3_path_style' checks --s3-endpoint https://127.0.0.1:9000
check "no bucket" says '--store: wants DIR, s3://BUCKET' "$C" --relay 127.0.0.1 "${TLS_ME[@]}" --store s3://B --check-config
check "a region with a space" says '--s3-region: wants' checks --s3-region 'eu 1'
check "another encryption" says '--s3-encryption: wants AES256' checks --s3-encryption rot13
check "a staging folder that is not there" says '--s3-staging-dir: wants .* folder .*"/nowhere"' checks --s3-staging-dir /nowhere
check "a credentials file without the profile" says '--s3-credentials-file: wants .*aws_access_key_id' \
    checks --s3-credentials-file "$KEYS" --s3-profile nobody
chmod 644 "$KEYS"
check "one that others may read" says '--s3-credentials-file: wants .*chmod 600' checks --s3-credentials-file "$KEYS" --s3-profile fleet
chmod 600 "$KEYS"
check "one that is not there" says '--s3-credentials-file: cannot read "/nowhere/keys": No such file' \
    checks --s3-credentials-file /nowhere/keys
check "a file's line is named" says "^perfleet-collector: $WORK/c.conf:1: s3_region: wants" \
    bash -c 'echo "s3_region: \"EU\"" >"$0/c.conf"; "$@" --config "$0/c.conf"' "$WORK" "$C" --relay 127.0.0.1 "${TLS_ME[@]}" --store s3://perfleet-test --index sqlite:x
no_password() { ! says secretword checks "$@" >/dev/null && says '"@"' checks "$@"; }
check "a proxy's password is refused and not repeated" no_password --s3-proxy http://me:secretword@proxy:3128
check "an endpoint's, too" no_password --s3-endpoint https://me:secretword@store:9000
check "options of S3 without it are wrong usage" says '--s3-region: is for a store of s3://BUCKET' \
    "$C" --relay 127.0.0.1 "${TLS_ME[@]}" --store "$WORK" --s3-region x --check-config

if ! s3rver_find; then
    skip "segments come into a bucket" "npm has no s3rver here"
    finish
fi
pki relay store --ip 127.0.0.1 --dns perfleet-test.s3.localhost
TLS_STORE=(--cert "$WORK/pki/relay-store.pem" --key "$WORK/pki/relay-store.key" --service-endpoint localhost)
PORT=$(lasting_port)
s3rver_start "$WORK/objects" "$PORT" "${TLS_STORE[@]}" || { check "s3rver listens, with TLS" false; finish; }
start_meeting 127.0.0.1:0 || { check "the relay listens" false; finish; }
start_host() { # start_host NAME: its service, an example, its agent
    mkdir -p "$WORK/$1" "$WORK/spool-$1"
    use_service "$1"
    start "$1" "$BIN/perfleetd" --output-dir "$WORK/spool-$1"
    wait_for 20 test -S "$PERFETTO_CONSUMER_SOCK_NAME" || return
    start "example-$1" "$BIN/perfleet-example" --rate 1000
    wait_for_source "$EXAMPLE_SOURCE" 1 && start_agent "$1" --segments-dir "$WORK/spool-$1"
}
# start_collector STORE-OPTION...: with its keys where the case has them
start_collector() {
    start collector "$C" --relay "$RELAY" --store s3://perfleet-test/some/fleet "${TLS_ME[@]}" "$PATH_STYLE" \
        --s3-staging-dir "$WORK/staging" --s3-ca-file "$WORK/pki/ca.pem" --index "sqlite:$WORK/index/index.sqlite" "$@"
    COLLECTOR_PID=$STARTED
}
BY_FILE=(--s3-endpoint "https://127.0.0.1:$PORT" --s3-credentials-file "$KEYS" --s3-profile fleet)
kill_collector() {
    kill -9 "$COLLECTOR_PID"
    wait_for 60 is_gone "$COLLECTOR_PID"
}
objects() { find "$WORK/objects/perfleet-test/some/fleet/v1" -path "*/$1/*.pftrace._S3rver_object" 2>/dev/null; }
has_stored() { [ "$(objects "$1" | wc -l)" -ge "$2" ]; } # has_stored HOST N
more_come() { # from each host, N more
    local one two
    one=$(objects one | wc -l) two=$(objects two | wc -l)
    wait_for 120 has_stored one $((one + $1)) && wait_for 120 has_stored two $((two + $1))
}
index() { "$PFL_BUILD/tests/order_index" "sqlite:$WORK/index/index.sqlite" "$@"; }

cat >"$WORK/order.pbtx" <<END
name: "web"
select { }
config {
  buffers { size_kb: 4096 fill_policy: RING_BUFFER }
  data_sources { config { name: "$EXAMPLE_SOURCE" } }
}
continuous { segment_ms: 1000 }
END
start_host one || { check "the first host is there" false; finish; }
start_host two || { check "and the second" false; finish; }
check "the index takes an order" index put me <"$WORK/order.pbtx"
start_collector "${BY_FILE[@]}"
check "segments of both hosts come into the bucket" more_come 2
check "the collector runs in its sandbox" says 'seccomp|landlock' grep -i sandbox "$WORK/collector.log"

# ---- an operator
as_me() { timeout 300 "$BIN/perfleet" "$1" --relay "$RELAY" "${TLS_ME[@]}" "${@:2}"; }
check "an operator gets traces out of the bucket" as_me traces get --order web -o "$WORK/all.pftrace"
check "which open" $CHECK "$WORK/all.pftrace" --min-packets 10
LINK=$(as_me traces get --host one --url | head -n 1)
check "a link to one needs no certificate" \
    curl -sSf --noproxy '*' --cacert "$WORK/pki/ca.pem" -o "$WORK/one.pftrace" "$LINK"
check "and what it gives opens" $CHECK "$WORK/one.pftrace" --min-packets 1

# ---- what is killed comes back, and all goes on
for _ in 1 2; do
    kill_collector
    start_collector "${BY_FILE[@]}"
    check "after kill -9 of the collector more come" more_come 1
    kill -9 "$S3RVER_PID"
    wait_for 60 is_gone "$S3RVER_PID"
    s3rver_start "$WORK/objects" "$PORT" "${TLS_STORE[@]}"
    check "after kill -9 of s3rver, too" more_come 1
done

# ---- keys
write_keys WRONG
check "keys that the store refuses are said so" wait_for 120 grep -q 'store-failed: .*403' "$WORK/collector.log"
write_keys S3RVER
check "a credentials file that changed is read again, in the sandbox" more_come 1
kill_collector
AWS_ACCESS_KEY_ID=S3RVER AWS_SECRET_ACCESS_KEY=S3RVER start_collector --s3-endpoint "https://127.0.0.1:$PORT"
check "keys of the environment do as well" more_come 1
kill_collector
start metadata python3 -B "$ROOT/tests/support/metadata_service.py" "$WORK/metadata.port"
wait_for 20 test -s "$WORK/metadata.port"
AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:$(cat "$WORK/metadata.port") \
    start_collector --s3-endpoint "https://127.0.0.1:$PORT"
check "and those of an instance's metadata service" more_come 1
kill_collector

# ---- other forms
PATH_STYLE=--s3-encryption=AES256
start_collector "${BY_FILE[@]/127.0.0.1/s3.localhost}"
check "the bucket may be a part of the host's name" more_come 1
kill_collector
PATH_STYLE=--s3-path-style
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
    rm "$WORK/collector.log"
    start_collector "${BY_FILE[@]}" --s3-ca-file /etc/ssl/certs/ca-certificates.crt
    check "a store that another authority vouches for is refused" \
        wait_for 120 grep -qiE 'store-failed: .*(certificate|SSL)' "$WORK/collector.log"
    kill_collector
fi

# ---- nothing is missing
start_collector "${BY_FILE[@]}"
is_drained() { [ -z "$(ls "$WORK/spool-$1")" ]; }
check "the order is removed" index rm me web
check "the collector takes the rest of the first host" wait_for 120 is_drained one
check "and of the second" wait_for 120 is_drained two

# ---- the end
kill -STOP "$S3RVER_PID"
check "the index takes another order" index put me <"$WORK/order.pbtx"
spools_something() { [ -n "$(ls "$WORK/spool-one")" ]; }
check "a host has segments while the store hangs" wait_for 120 spools_something
kill -TERM "$COLLECTOR_PID"
check "SIGTERM ends the collector while the store hangs" wait_for 60 is_gone "$COLLECTOR_PID"
wait "$COLLECTOR_PID"
ENDED=$?
check "with 0" test "$ENDED" -eq 0
kill -CONT "$S3RVER_PID"
check "the order is removed" index rm me web
start_collector "${BY_FILE[@]}"
check "the next collector takes the rest of the first host" wait_for 120 is_drained one
check "and of the second" wait_for 120 is_drained two
kill -TERM "$COLLECTOR_PID"
wait "$COLLECTOR_PID"
keys() {
    python3 -B -c '
import sqlite3, sys
for (key,) in sqlite3.connect(sys.argv[1]).execute("select object_key from segment where state = 1"):
    print(key)' "$WORK/index/index.sqlite"
}
whole() {
    keys | python3 -B "$ROOT/tests/support/stored_check.py" "$WORK/objects/perfleet-test/some/fleet" ._S3rver_object one,two
}
check "each has its SHA-256, none is missing or there twice, and the index has what is in the bucket" whole
opens_alone() {
    local file
    while read -r file; do $CHECK "$file" --min-packets 1 || return; done < <(objects one; objects two)
}
check "each opens alone" opens_alone
check "nothing is left in the staging folder" test -z "$(ls -A "$WORK/staging")"
tells_no_secret() { ! grep -aE 'aws_secret|S3RVER' "$WORK/collector.log"; }
check "the log has no keys" tells_no_secret
finish
