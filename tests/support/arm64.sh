# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# arm64 on an amd64 machine (sourced): a Debian root of its own, with the cross compiler, the arm64
# libraries (multiarch) and qemu-user, so that this machine gets no second architecture.
#
#   pfl_arm64_why_not         prints why it cannot be used; nothing: it can
#   pfl_arm64_open            makes the root if need be, and a place to run in
#   "${PFL_ARM64[@]}" CMD...  runs there, as one process, in the current folder; arm64 programs start
#                             like any other
#   pfl_arm64_close
#
# The root is kept in ${PFL_CACHE:-/var/cache/perfleet} and made once; what runs sees an overlay of
# it, this project and /tmp. It runs in a user namespace, in which root is root, because such a
# namespace has a binfmt_misc of its own (Linux 6.7): the emulator is registered there and nowhere
# else. Older kernels can use one that the machine has registered (Debian's qemu-user-static).

PFL_ARM64_SUITE=trixie
PFL_ARM64_ROOT=${PFL_CACHE:-/var/cache/perfleet}/debian-13-arm64-cross
PFL_ARM64_MIRROR=${PFL_DEBIAN_MIRROR:-http://deb.debian.org/debian}
# Their magic: ELF, 64 bits, little-endian, a program or a shared object, machine 183.
PFL_ARM64_MAGIC='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
PFL_ARM64_MASK='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
PFL_ARM64_PROJECT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
PFL_ARM64_HOLDER=
PFL_ARM64_DIR=
# shellcheck disable=SC2034
PFL_ARM64=()
# shellcheck source=deploy/packages.sh
. "$PFL_ARM64_PROJECT/deploy/packages.sh"
# shellcheck source=tests/support/root.sh
. "$PFL_ARM64_PROJECT/tests/support/root.sh"

# What is built is of this machine's kind, what it is built with and runs on is not.
pfl_arm64_packages() {
    local package
    for package in $PFL_PACKAGES_BUILD libcmocka-dev; do
        case $package in
        gcc) echo gcc-aarch64-linux-gnu ;;
        lib*-dev | libwebsockets-evlib-uv | zlib1g-dev) echo "$package:arm64" ;;
        *) echo "$package" ;;
        esac
    done
    printf '%s\n' qemu-user-static ccache iproute2 openssl procps python3
}

pfl_arm64_is_made() {
    [ "$(cat "$PFL_ARM64_ROOT/.made" 2>/dev/null)" = "$(pfl_arm64_packages)" ]
}

pfl_arm64_why_not() {
    local tool
    [ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || { echo "not an amd64 machine with dpkg"; return; }
    [ "$(id -u)" -eq 0 ] || { echo "not root"; return; }
    for tool in unshare nsenter flock pivot_root; do
        command -v $tool >/dev/null || { echo "no $tool"; return; }
    done
    unshare -U -m --propagation private true 2>/dev/null || { echo "no user namespaces"; return; }
    [ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ] ||
        unshare -U -r -m --propagation private mount -t binfmt_misc none /proc/sys/fs/binfmt_misc 2>/dev/null ||
        { echo "no binfmt_misc in a user namespace (Linux before 6.7), and qemu-aarch64 is not registered"; return; }
    pfl_arm64_is_made || command -v debootstrap >/dev/null || apt-cache show debootstrap >/dev/null 2>&1 ||
        { echo "no debootstrap"; return; }
}

pfl_arm64_in_root() {
    chroot "$PFL_ARM64_ROOT.new" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive "$@"
}

pfl_arm64_make() {
    local new=$PFL_ARM64_ROOT.new
    command -v debootstrap >/dev/null || apt-get -q -y install debootstrap || return
    rm -rf "$new" "$PFL_ARM64_ROOT"
    mkdir -p "$new"
    debootstrap --variant=minbase "$PFL_ARM64_SUITE" "$new" "$PFL_ARM64_MIRROR" || return
    cp /etc/resolv.conf "$new/etc/resolv.conf"
    pfl_arm64_in_root dpkg --add-architecture arm64 &&
        pfl_arm64_in_root apt-get -q update || return
    # shellcheck disable=SC2046
    pfl_arm64_in_root apt-get -q -y install --no-install-recommends $(pfl_arm64_packages) || return
    rm -rf "$new"/var/cache/apt/archives/*.deb
    pfl_arm64_packages >"$new/.made"
    mv "$new" "$PFL_ARM64_ROOT"
}

# In a mount namespace of its own: the root with the project and /tmp.
pfl_arm64_mount() {
    local root=/mnt/root
    pfl_root_mount "$PFL_ARM64_ROOT" /mnt /proc /sys /dev /tmp "$PFL_ARM64_PROJECT" || return
    mkdir -p "$root/var/cache/ccache" "$PFL_ARM64_ROOT.ccache"
    mount --bind "$PFL_ARM64_ROOT.ccache" "$root/var/cache/ccache" || return
    # What an arm64 kernel says: the counter can be read (qemu makes it of this machine's clock).
    echo arch_sys_counter >/mnt/clocksource
    mount --bind /mnt/clocksource "$root/sys/devices/system/clocksource/clocksource0/current_clocksource"
}

# In a user namespace below that: the emulator, and the root for all.
pfl_arm64_hold() {
    local root=/mnt/root fs=/mnt/root/proc/sys/fs/binfmt_misc
    read -r _ <"$1.go" || return
    mount --rbind "$root" "$root" || return
    if mount -t binfmt_misc none "$fs"; then
        printf '%s' ":qemu-aarch64:M::$PFL_ARM64_MAGIC:$PFL_ARM64_MASK:$root/usr/bin/qemu-aarch64-static:F" \
            >"$fs/register" || return
    fi
    pfl_root_enter /mnt || return
    touch "$1.ready"
    exec sleep infinity
}

pfl_arm64_wait_for() { # CMD...: true, while the holder lives
    until "$@"; do
        kill -0 "$PFL_ARM64_HOLDER" 2>/dev/null || return
        sleep 0.05
    done
}
pfl_arm64_has_user_namespace() {
    [ "$(readlink "/proc/$PFL_ARM64_HOLDER/ns/user")" != "$(readlink /proc/self/ns/user)" ]
}

pfl_arm64_start_holder() {
    # shellcheck disable=SC2016
    unshare -m --propagation private bash -c '
        . "$1" && pfl_arm64_mount &&
            exec unshare -U -m --propagation private bash -c ". \"\$1\" && pfl_arm64_hold \"\$2\"" hold "$@"' \
        mount "${BASH_SOURCE[0]}" "$PFL_ARM64_DIR" </dev/null >"$PFL_ARM64_DIR.log" 2>&1 &
    PFL_ARM64_HOLDER=$!
    pfl_arm64_wait_for pfl_arm64_has_user_namespace || return
    echo '0 0 65536' >"/proc/$PFL_ARM64_HOLDER/uid_map" || return
    echo '0 0 65536' >"/proc/$PFL_ARM64_HOLDER/gid_map" || return
    echo go >"$PFL_ARM64_DIR.go"
    pfl_arm64_wait_for test -e "$PFL_ARM64_DIR.ready"
}

pfl_arm64_open() {
    mkdir -p "$(dirname "$PFL_ARM64_ROOT")"
    ( flock 9; pfl_arm64_is_made || pfl_arm64_make ) 9>"$PFL_ARM64_ROOT.lock" || return
    PFL_ARM64_DIR=$(mktemp -d /tmp/pfl-arm64.XXXXXX)
    mkfifo "$PFL_ARM64_DIR.go"
    pfl_arm64_start_holder || { cat "$PFL_ARM64_DIR.log"; pfl_arm64_close; return 1; }
    PFL_ARM64=(nsenter -t "$PFL_ARM64_HOLDER" -U -m -r -w -- /usr/bin/env -i -C "$PFL_ARM64_PROJECT"
        PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8 PFL_EMULATOR=qemu-user
        CCACHE_DIR=/var/cache/ccache CMAKE_C_COMPILER_LAUNCHER=ccache)
}

pfl_arm64_close() {
    [ -z "$PFL_ARM64_HOLDER" ] || kill "$PFL_ARM64_HOLDER" 2>/dev/null
    [ -z "$PFL_ARM64_DIR" ] || rm -rf "$PFL_ARM64_DIR" "$PFL_ARM64_DIR".{go,ready,log}
    # shellcheck disable=SC2034
    PFL_ARM64_HOLDER='' PFL_ARM64_DIR='' PFL_ARM64=()
}
