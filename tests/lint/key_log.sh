#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails if a program of a build that is no debug build can write the secrets of its TLS connections
# (base/io/tls_key_log.h), and if those of a debug build cannot: then this gate would see nothing.
# Usage: key_log.sh BUILD CONFIG
set -u
build=${1:?} config=${2:?}
failed=0
for name in perfleet perfleet-relay perfleet-agent; do
    program=$build/bin/$name
    if [ ! -e "$program" ]; then
        echo "key_log: no $program"
        failed=1
        continue
    fi
    found=no
    ! grep -qaE 'SSLKEYLOGFILE|CLIENT_RANDOM' "$program" || found=yes
    case $config:$found in
    Debug:yes) ;;
    Debug:no) echo "key_log: $name of a debug build has no key log"; failed=1 ;;
    *:yes) echo "key_log: $name of a build for $config can write TLS secrets"; failed=1 ;;
    esac
done
echo "key_log: $config, $([ $failed -eq 0 ] && echo as it must be || echo wrong)"
exit $failed
