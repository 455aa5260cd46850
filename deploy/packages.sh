# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The packages of Debian 12 and 13 that building, testing and the demo need, and how they are installed.
# Sourced by tests/run and deploy/demo/run: pfl_packages_need build test demo

PFL_PACKAGES_BUILD="gcc libc6-dev cmake ninja-build pkg-config libuv1-dev libprotobuf-c-dev
    protobuf-c-compiler libdeflate-dev libmbedtls-dev libseccomp-dev libjansson-dev libnghttp2-dev libpcre2-dev libssl-dev
    libcurl4-openssl-dev libpq-dev libsqlite3-dev libwebsockets-dev libwebsockets-evlib-uv libzstd-dev zlib1g-dev"
# Debian packages, and judging them.
PFL_PACKAGES_DEB="go-md2man dpkg-dev file"
PFL_PACKAGES_PACKAGE="$PFL_PACKAGES_DEB lintian systemd"
# Images and containers, for the test of deploy/containers and deploy/kubernetes.
PFL_PACKAGES_ENGINE="podman runc netavark aardvark-dns iptables nftables docker-compose python3-kubernetes"
PFL_PACKAGES_TOOLS="iproute2 util-linux openssl procps python3"
PFL_PACKAGES_DEMO="chromium $PFL_PACKAGES_TOOLS"
# The tests, but for browsers, containers and the gates that are bound to this machine's release (tests/release/run).
PFL_PACKAGES_RELEASE="ccache clang codespell curl libclang-rt-dev git libcmocka-dev python3-websockets python3-yaml shellcheck
    nginx-light postgresql socat stunnel4
    yamllint $PFL_PACKAGES_PACKAGE
    $PFL_PACKAGES_TOOLS"
# npm: the tests of S3 get a server of S3 from its registry.
PFL_PACKAGES_TEST="clang-format clang-tidy debootstrap fish npm protobuf-compiler tmux zsh $PFL_PACKAGES_RELEASE
    $PFL_PACKAGES_ENGINE
    $PFL_PACKAGES_DEMO"

# The packages of the named sets, each once, one a line.
pfl_packages_list() {
    local set var
    for set in "$@"; do
        var=PFL_PACKAGES_${set^^}
        # shellcheck disable=SC2086
        printf '%s\n' ${!var}
    done | sort -u
}

# npm counts by its program: a nodejs that is not Debian's has it, and conflicts with Debian's package.
pfl_packages_has() {
    if [ "$1" = npm ] && command -v npm >/dev/null; then return; fi
    dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed
}

# Installs what is missing of the named sets. Without root: says what is missing and fails; with
# everything there it needs neither root nor network.
pfl_packages_need() {
    local missing=() package said
    for package in $(pfl_packages_list "$@"); do
        pfl_packages_has "$package" || missing+=("$package")
    done
    if [ ${#missing[@]} -eq 0 ]; then
        echo "packages: all installed"
        return 0
    fi
    if [ "$(id -u)" -ne 0 ]; then
        echo "packages: missing, and installing them needs root: apt-get install ${missing[*]}" >&2
        return 1
    fi
    echo "packages: apt-get install ${missing[*]}"
    # What apt says matters only when it fails.
    said=$(pfl_packages_install "${missing[@]}" 2>&1 </dev/null) || {
        printf '%s\n' "$said" | tail -n 20 >&2
        return 1
    }
}

pfl_packages_install() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get -q -o DPkg::Lock::Timeout=300 update &&
        apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "$@"
}
