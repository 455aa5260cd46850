# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2153
# A server of S3 for the integration tests (sourced after lib.sh): s3rver of npm, whose keys are S3RVER and S3RVER. It
# keeps the object KEY of a bucket in FOLDER/BUCKET/KEY._S3rver_object. It judges the key's id and not the signature:
# signatures are compared with AWS's examples (tests/unit/collector/store/sigv4_test.c), and judged
# by radosgw (radosgw.sh).
#
#   s3rver_find                         0: SERVER is the program, which test runs keep
#   s3rver_start FOLDER PORT OPTION...  with the bucket perfleet-test on 127.0.0.1; S3RVER_PID, S3RVER_PORT
. "$(dirname "${BASH_SOURCE[0]}")/cache.sh"

s3rver_find() {
    local folder
    command -v npm >/dev/null && command -v node >/dev/null || return 1
    folder=$(pfl_cache_folder s3rver-3.7.1) || folder=$WORK/s3rver
    SERVER=$folder/node_modules/.bin/s3rver
    [ -x "$SERVER" ] && return 0
    mkdir -p "$folder"
    # One at a time, as several tests want it.
    (
        flock 8
        [ -x "$SERVER" ] || timeout 300 npm install --prefix "$folder" --no-audit --no-fund --ignore-scripts \
            --loglevel error s3rver@3.7.1 >"$WORK/npm.txt" 2>&1
    ) 8>"$folder/.lock"
    [ -x "$SERVER" ]
}
s3rver_listens() { grep -q 'listening on' "$WORK/s3rver.log"; }
s3rver_start() {
    mkdir -p "$1"
    rm -f "$WORK/s3rver.log"
    # Its tokens of lists use a cipher that OpenSSL 3 has put aside; it lacks requests of uploads in parts.
    start s3rver env NODE_OPTIONS="--openssl-legacy-provider --require $ROOT/tests/support/s3rver_uploads.js" \
        S3RVER_FOLDER="$1" "$SERVER" -d "$1" -a 127.0.0.1 -p "$2" \
        --configure-bucket perfleet-test "${@:3}"
    S3RVER_PID=$STARTED
    wait_for 60 s3rver_listens || return
    S3RVER_PORT=$(grep -oE 'listening on .*' "$WORK/s3rver.log" | grep -oE '[0-9]+$')
}
