#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC1091
# The store of S3 on a server that judges each signature: Ceph's radosgw, where it is installed. What holds for every
# engine of a store; odd keys, wrong secrets, links, uploads that do not end, encryption, both places of the bucket's
# name (tests/unit/collector/store/s3_http_test.c has the cases).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/radosgw.sh"
T=$PFL_BUILD/tests

if ! radosgw_find; then
    skip "a server of S3 judges what the store signs" "no radosgw, ceph-mon and ceph-osd here"
    finish
fi
sets_up() { radosgw_start "$WORK/ceph" && radosgw_bucket perfleet-test && radosgw_bucket perfleet-small 10000000; }
sets_up || { check "radosgw answers, with two buckets" false; finish; }
passes() { PFL_TEST_S3_ENDPOINT=http://localhost:$RADOSGW_PORT timeout 1500 "$@"; }
check "every case of a store holds on radosgw, also below a prefix" passes env PFL_TEST_S3_SORTS=yes "$T/store_s3_test"
check "what is signed well is taken, what is not is refused" passes "$T/s3_http_test"
rebuilds() { # rebuilds SECRET
    AWS_SECRET_ACCESS_KEY=$1 "$BIN/perfleet-collector" rebuild --store s3://perfleet-test/some/fleet --s3-path-style \
        --s3-endpoint "http://localhost:$RADOSGW_PORT" --index "sqlite:$WORK/index.sqlite"
}
check "a collector reads the bucket with the right secret" rebuilds "$AWS_SECRET_ACCESS_KEY"
refusal() { says 'store-failed: reason="the bucket: 403 SignatureDoesNotMatch"' rebuilds wrong; }
check "and says why it cannot with another one" refusal
radosgw_stop
finish
