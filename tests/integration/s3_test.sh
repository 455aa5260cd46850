#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC1091
# The store of S3 on servers that speak it: s3rver of npm. What holds for every engine of a store, large objects in
# parts, presigned links (tests/unit/collector/store/store_s3_test.c has the cases).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/cache.sh"

CASES=$PFL_BUILD/tests/store_s3_test

# The server's program, from the folder that test runs keep; SERVER.
find_server() {
    local folder
    command -v npm >/dev/null && command -v node >/dev/null || return 1
    folder=$(pfl_cache_folder s3rver-3.7.1) || folder=$WORK/s3rver
    SERVER=$folder/node_modules/.bin/s3rver
    [ -x "$SERVER" ] && return 0
    mkdir -p "$folder"
    timeout 300 npm install --prefix "$folder" --no-audit --no-fund --ignore-scripts --loglevel error s3rver@3.7.1 \
        >"$WORK/npm.txt" 2>&1 && [ -x "$SERVER" ]
}
listens() { grep -q 'listening on' "$WORK/s3rver.log"; }
passes() { PFL_TEST_S3_ENDPOINT=http://127.0.0.1:$1 timeout 600 "$CASES"; }
port_of() { grep -oE 'listening on .*' "$WORK/s3rver.log" | grep -oE '[0-9]+$'; }

if find_server; then
    mkdir "$WORK/objects"
    # Its tokens of lists use a cipher that OpenSSL 3 has put aside.
    start s3rver env NODE_OPTIONS=--openssl-legacy-provider "$SERVER" -d "$WORK/objects" -a 127.0.0.1 -p 0 --configure-bucket perfleet-test
    check "s3rver listens" wait_for 60 listens
    check "every case of a store holds on s3rver, also below a prefix" passes "$(port_of)"
else
    skip "every case of a store holds on s3rver" "npm has no s3rver here"
fi

finish
