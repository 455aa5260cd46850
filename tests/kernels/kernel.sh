# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Debian's kernels for tests/kernels/run (sourced): from a package to a folder that qemu can boot.
#
#   pfl_kernel_get NAME ARCH        KERNEL_DIR: vmlinuz, modules/, VERSION, boot.cpio.gz; made once, kept in
#                                   ${PFL_CACHE:-/var/cache/perfleet}/kernels. NAME is one of PFL_KERNEL_SUITES
#                                   or the path of a linux-image package.
#   pfl_kernel_job DIR FILE         a second archive with what the first process reads (/job)
#
# A package comes from Debian's archive by apt, with lists of its own: the machine's sources stay as they are.

# Debian's releases have the kernels; bullseye 11, bookworm 12, trixie 13.
declare -A PFL_KERNEL_SUITES=([5.10]=bullseye [6.1]=bookworm [6.12]=trixie)
PFL_KERNEL_ARCHIVE=${PFL_KERNEL_ARCHIVE:-http://deb.debian.org}
PFL_KERNEL_KEYS=/usr/share/keyrings/debian-archive-keyring.gpg
PFL_KERNEL_CACHE=${PFL_CACHE:-/var/cache/perfleet}/kernels
# What reaches the shared root: the first process loads these with all that they need.
PFL_KERNEL_MODULES="virtio_pci virtio_mmio 9pnet_virtio 9p overlay"

# The newest kernel of a suite into the current folder.
pfl_kernel_download() { # SUITE ARCH
    local suite=$1 arch=$2 state=$PWD/apt package options
    mkdir -p "$state/lists/partial" "$state/archives/partial"
    printf 'deb [signed-by=%s] %s %s main\n' \
        "$PFL_KERNEL_KEYS" "$PFL_KERNEL_ARCHIVE/debian" "$suite" \
        "$PFL_KERNEL_KEYS" "$PFL_KERNEL_ARCHIVE/debian-security" "$suite-security" >"$state/sources.list"
    : >"$state/status"
    options=(-o "Dir::Etc::sourcelist=$state/sources.list" -o Dir::Etc::sourceparts=/nonexistent
        -o "Dir::State=$state" -o "Dir::State::status=$state/status" -o "Dir::Cache=$state"
        -o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o Acquire::Languages=none
        -o APT::Sandbox::User=)
    apt-get -qq "${options[@]}" update || return 1
    package=$(apt-cache "${options[@]}" depends "linux-image-$arch" | sed -n 's/.*Depends: \(linux-image-[^ ]*\)/\1/p')
    [ -n "$package" ] || { echo "suite $suite has no kernel for $arch" >&2; return 1; }
    apt-get -qq "${options[@]}" download "$package" || return 1
    rm -r "$state"
}

# The modules named, each after those that it needs, as the first process shall load them.
pfl_kernel_modules_for_boot() { # DIR VERSION OUT
    local module path
    mkdir -p "$3/m"
    for module in $PFL_KERNEL_MODULES; do
        modprobe -d "$1" -S "$2" --show-depends "$module" 2>/dev/null | sed -n 's/^insmod \([^ ]*\) *$/\1/p'
    done | awk '!seen[$0]++' | while read -r path; do
        module=${path##*/}
        case $path in
        *.xz) xz -dc "$path" >"$3/m/${module%.xz}" && module=${module%.xz} ;;
        *.zst) zstd -qdc "$path" >"$3/m/${module%.zst}" && module=${module%.zst} ;;
        *) cp "$path" "$3/m/$module" ;;
        esac
        echo "$module"
    done >"$3/load"
}

# A static busybox of that architecture.
pfl_kernel_busybox() { # ARCH
    local own=/bin/busybox
    if [ "$1" != "$(dpkg --print-architecture)" ]; then own=${PFL_BUSYBOX:-/nonexistent}; fi
    [ -x "$own" ] || { echo "no static busybox for $1: install busybox-static, or name one in PFL_BUSYBOX" >&2; return 1; }
    echo "$own"
}

pfl_cpio() { # FOLDER
    (cd "$1" && find . -print0 | LC_ALL=C sort -z | cpio -0 -o -H newc --quiet -R 0:0)
}

# From a package to what can be booted, in the current folder.
pfl_kernel_unpack() { # PACKAGE ARCH
    local version
    mkdir root && dpkg-deb -x "$1" root || return 1
    [ -d root/lib ] || ln -s usr/lib root/lib
    version=$(ls root/lib/modules) && [ -n "$version" ] || { echo "$1: no modules" >&2; return 1; }
    mv "root/boot/vmlinuz-$version" vmlinuz && mv "root/boot/config-$version" config || return 1
    depmod -b root "$version" || return 1
    mkdir -p boot/bin boot/proc boot/sys boot/dev boot/new boot/lower boot/over boot/share || return 1
    cp "$(pfl_kernel_busybox "$2")" boot/bin/busybox || return 1
    pfl_kernel_modules_for_boot root "$version" boot
    [ -e boot/m/9p.ko ] || { echo "$1: no 9p (a cloud kernel?)" >&2; return 1; }
    cp "$PFL_KERNELS_HERE/init" boot/init || return 1
    pfl_cpio boot | gzip -1 >boot.cpio.gz
    mv "root/lib/modules" modules && rm -r root boot
    echo "$version" >VERSION
}

pfl_kernel_get() { # NAME ARCH
    local name=$1 arch=$2 package=
    if [ -f "$name" ]; then
        package=$(readlink -f "$name")
        name=${package##*/}
        name=${name%.deb}
        arch=${name##*_}
    elif [ -z "${PFL_KERNEL_SUITES[$name]:-}" ]; then
        echo "no kernel $name: it is one of ${!PFL_KERNEL_SUITES[*]}, or a linux-image package" >&2
        return 1
    fi
    KERNEL_DIR=$PFL_KERNEL_CACHE/$name-$arch
    # One that an earlier init made is made again.
    if [ -e "$KERNEL_DIR/VERSION" ] && [ ! "$PFL_KERNELS_HERE/init" -nt "$KERNEL_DIR/VERSION" ] &&
        [ ! "$PFL_KERNELS_HERE/kernel.sh" -nt "$KERNEL_DIR/VERSION" ]; then
        return 0
    fi
    mkdir -p "$PFL_KERNEL_CACHE/packages" || return 1
    local work
    work=$(mktemp -d "$PFL_KERNEL_CACHE/making.XXXXXX") || return 1
    chmod 755 "$work"
    if [ -z "$package" ]; then
        package=$(find "$PFL_KERNEL_CACHE/packages" -name "$name-$arch.deb")
    fi
    if [ -z "$package" ]; then
        (cd "$work" && pfl_kernel_download "${PFL_KERNEL_SUITES[$name]}" "$arch" &&
            mv linux-image-*.deb "../packages/$name-$arch.deb") || { rm -rf "$work"; return 1; }
        package=$PFL_KERNEL_CACHE/packages/$name-$arch.deb
    fi
    (cd "$work" && pfl_kernel_unpack "$package" "$arch") || { rm -rf "$work"; return 1; }
    rm -rf "$KERNEL_DIR"
    mv "$work" "$KERNEL_DIR"
}

pfl_kernel_job() { # DIR FILE
    mkdir -p "$1" && cp "$2" "$1/job" || return 1
    pfl_cpio "$1" | gzip -1
}
