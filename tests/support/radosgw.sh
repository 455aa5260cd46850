# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2153
# A server of S3 that judges signatures, for the integration tests (sourced after lib.sh): Ceph's radosgw, before a
# cluster of one monitor and one OSD that keeps objects in memory. Everything is in one folder and on loopback; the
# cluster itself asks for no keys. The programs are those of Debian's packages radosgw, ceph-mon and ceph-osd: installed,
# or unpacked into the folder PFL_CEPH_ROOT (docs/testing.md).
#
#   radosgw_find                  0: the programs are there
#   radosgw_start FOLDER          RADOSGW_PORT of localhost; a bucket is also BUCKET.localhost. The user's keys are
#                                 exported as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; "testkey-1" is a key of KMS
#   radosgw_bucket NAME [BYTES]   makes a bucket, which may hold so many bytes
#   radosgw_stop                  kills all of it

CEPH=() # before each program of Ceph
radosgw_find() {
    local root=${PFL_CEPH_ROOT:-} lib name
    if [ -n "$root" ]; then
        lib=$(echo "$root"/usr/lib/*-linux-gnu)
        CEPH=(env "PATH=$root/usr/bin:$PATH" "LD_LIBRARY_PATH=$lib:$lib/ceph:$(echo "$root"/lib/*-linux-gnu)"
            "PYTHONPATH=$root/usr/lib/python3/dist-packages")
    fi
    for name in ceph ceph-mon ceph-osd monmaptool radosgw radosgw-admin; do
        "${CEPH[@]}" which "$name" >/dev/null || return
    done
}
radosgw_conf() { # radosgw_conf FOLDER MONITOR-PORT
    local lib
    lib=$(echo "${PFL_CEPH_ROOT:-}"/usr/lib/*-linux-gnu/rados-classes)
    lib=${lib%/rados-classes}
    cat <<END
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon host = v2:127.0.0.1:$2/0
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
# radosgw would encrypt by default, which needs keys.
ms mon client mode = crc
keyring = $1/keyring
run dir = $1
crash dir = $1
admin socket =
pid file =
log file =
log to stderr = true
err to stderr = true
debug rocksdb = 0
mon allow pool size one = true
mon data avail crit = 0
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
plugin dir = $lib/ceph
erasure code dir = $lib/ceph/erasure-code
osd class dir = $lib/rados-classes
[mon.a]
mon data = $1/mon
mon cluster log file = $1/cluster.log
[osd.0]
osd data = $1/osd
osd objectstore = memstore
memstore device bytes = 2147483648
[client.rgw]
rgw data = $1
rgw frontends = beast endpoint=127.0.0.1:$RADOSGW_PORT
rgw dns name = localhost
rgw gc obj min wait = 5
rgw gc processor period = 5
rgw crypt require ssl = false
rgw crypt s3 kms backend = testing
rgw crypt s3 kms encryption keys = testkey-1=$(head -c 32 /dev/zero | base64)
END
}
ceph_says() { # ceph_says PROGRAM ARGS...
    timeout 120 "${CEPH[@]}" "$1" -c "$RADOSGW_FOLDER/ceph.conf" "${@:2}" >>"$WORK/ceph-tools.log" 2>&1
}
radosgw_answers() { curl -sSf --noproxy '*' -o "$RADOSGW_FOLDER/page" "http://127.0.0.1:$RADOSGW_PORT/"; }
radosgw_start() {
    local port osd conf=$1/ceph.conf
    RADOSGW_FOLDER=$1
    RADOSGW_PORT=$(lasting_port)
    port=$(lasting_port)
    osd=$(cat /proc/sys/kernel/random/uuid)
    mkdir -p "$1/mon" "$1/osd"
    : >"$1/keyring"
    radosgw_conf "$1" "$port" >"$conf"
    ceph_says monmaptool --create --fsid "$(sed -n 's/^fsid = //p' "$conf")" --addv a "v2:127.0.0.1:$port/0" \
        "$1/monmap" && ceph_says ceph-mon -i a --mkfs --monmap "$1/monmap" || return
    start ceph-mon "${CEPH[@]}" ceph-mon -c "$conf" -i a -f
    RADOSGW_PIDS=("$STARTED")
    wait_for 120 ceph_says ceph osd new "$osd" && ceph_says ceph-osd -i 0 --mkfs --osd-uuid "$osd" || return
    start ceph-osd "${CEPH[@]}" ceph-osd -c "$conf" -i 0 -f
    RADOSGW_PIDS+=("$STARTED")
    export AWS_ACCESS_KEY_ID=PERFLEET AWS_SECRET_ACCESS_KEY=not/a+real=secret
    wait_for 300 ceph_says radosgw-admin user create --uid=perfleet --display-name=perfleet \
        "--access-key=$AWS_ACCESS_KEY_ID" "--secret-key=$AWS_SECRET_ACCESS_KEY" || return
    start radosgw "${CEPH[@]}" radosgw -c "$conf" -n client.rgw -f
    RADOSGW_PIDS+=("$STARTED")
    wait_for 120 radosgw_answers
}
radosgw_bucket() {
    curl -sSf --noproxy '*' -X PUT --aws-sigv4 aws:amz:us-east-1:s3 -u "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \
        -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' "http://127.0.0.1:$RADOSGW_PORT/$1" || return
    [ $# -lt 2 ] && return
    ceph_says radosgw-admin quota set --quota-scope=bucket "--bucket=$1" "--max-size=$2" &&
        ceph_says radosgw-admin quota enable --quota-scope=bucket "--bucket=$1"
}
radosgw_stop() {
    local pid
    kill -9 "${RADOSGW_PIDS[@]}" 2>/dev/null
    for pid in "${RADOSGW_PIDS[@]}"; do wait_for 60 is_gone "$pid"; done
}
