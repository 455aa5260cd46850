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
else
    skip "every case of a store holds on s3rver" "npm has no s3rver here"
fi

finish
