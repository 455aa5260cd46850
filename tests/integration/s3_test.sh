#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC1091
# The store of S3 on servers that speak it: s3rver of npm. What holds for every engine of a store, large objects in
# parts, presigned links (tests/unit/collector/store/store_s3_test.c has the cases).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/s3rver.sh"

CASES=$PFL_BUILD/tests/store_s3_test

passes() { PFL_TEST_S3_ENDPOINT=http://127.0.0.1:$1 timeout 600 "$CASES"; }

if s3rver_find; then
    s3rver_start "$WORK/objects" 0
    check "every case of a store holds on s3rver, also below a prefix" passes "$S3RVER_PORT"
    key=http://127.0.0.1:$S3RVER_PORT/perfleet-test/fleet/v1/trace
    uploads=$WORK/objects/perfleet-test/._S3rver_uploads
    ask() {
        curl -sf --noproxy '*' --aws-sigv4 aws:amz:us-east-1:s3 --user S3RVER:S3RVER \
            -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' "$@"
    }
    begins_upload() {
        ask -X POST "$key?uploads" | grep -oP '(?<=<UploadId>)[^<]+' >"$WORK/upload" &&
            ask -T "$CASES" "$key?partNumber=1&uploadId=$(cat "$WORK/upload")" && [ "$(ls "$uploads" | wc -l)" -eq "$1" ]
    }
    collector() { # PROGRAM WORD...
        AWS_ACCESS_KEY_ID=S3RVER AWS_SECRET_ACCESS_KEY=S3RVER no_proxy=127.0.0.1 "$@" --store s3://perfleet-test/fleet \
            --s3-endpoint "http://127.0.0.1:$S3RVER_PORT" --s3-path-style --s3-staging-dir "$WORK" --index "sqlite:$WORK/index"
    }
    sweeps() { collector "$BIN/perfleet-collector" rebuild && collector "$PFL_BUILD/tests/store_sweep" --fleet test; }
    check "an upload in parts begins, and does not end" begins_upload 1
    touch -d '2 days ago' "$uploads"/*
    check "another one is on its way" begins_upload 2
    check "the sweep of the store has something to remove" says '"leftovers": 1' sweeps
    check "no part of the old one is left, and all of the other" test "$(ls "$uploads")" = "$(cat "$WORK/upload")"
else
    skip "every case of a store holds on s3rver" "npm has no s3rver here"
fi

finish
