# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Whole machines for the integration tests (sourced after lib.sh; needs root): each has a root of its own over
# this machine's (or over PFL_FRESH_ROOT, made by debootstrap), its own namespaces, an address, and, unless it is
# `bare`, a real systemd as its first process. They reach each other, by name and by ssh, and nothing else.
#
#   machines_why_not               says why there can be none, or nothing
#   machines_init "NAME..." DEB... makes the root that all share, with these packages in /root; each NAME is an
#                                  address, and NAME.example.com
#   machine_start NAME [bare]      starts it; machine_is_up NAME: systemd is done
#   machine NAME CMD...            runs it there, as root, in /root, for at most MACHINE_TIMEOUT seconds; with
#                                  MACHINE_NETWORK='' in this machine's network, which may reach more
#   machines_fini                  ends them all and leaves nothing; legal twice
#
#   WORK/machines.mnt (tmpfs): base/ the packages that the root lacks, hosts, keys; NAME/ what differs there

MACHINES=$WORK/machines.mnt
MACHINES_BASE=${PFL_FRESH_ROOT:-/}
MACHINES_NET=10.198.52
MACHINES_PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
MACHINE_TIMEOUT=400
declare -A MACHINE_NUMBER=() MACHINE_JOB=() MACHINE_PID=() MACHINE_CGROUP=()

machines_why_not() {
    [ "$(id -u)" -eq 0 ] || { echo "not root"; return; }
    for tool in unshare nsenter ip findmnt; do
        command -v $tool >/dev/null || { echo "no $tool"; return; }
    done
    findmnt -n -t cgroup2 >/dev/null || { echo "no cgroup2"; return; }
    unshare --user true 2>/dev/null || { echo "no user namespaces (in a chroot there are none)"; return; }
    unshare --net ip link add pfl0 type bridge 2>/dev/null || { echo "no network namespaces"; return; }
    mkdir -p "$MACHINES" && mount -t tmpfs -o mode=755 tmpfs "$MACHINES" || { echo "no tmpfs"; return; }
    mkdir -p "$MACHINES"/base/{upper,work,root}
    machines_in_base true 2>/dev/null || { echo "no overlay"; return; }
    [ -x "${PFL_FRESH_ROOT:-}/lib/systemd/systemd" ] || [ -n "${PFL_FRESH_ROOT:-}" ] || echo "no systemd"
}

# Changes the root that all share: machines_in_base SCRIPT
machines_in_base() {
    BASE=$MACHINES_BASE OVER=$MACHINES/base unshare --mount --fork --kill-child bash -e -c '
        mount -t overlay overlay -o "lowerdir=$BASE,upperdir=$OVER/upper,workdir=$OVER/work" "$OVER/root"
        for folder in proc dev sys; do mount --rbind "/$folder" "$OVER/root/$folder"; done
        mount -t tmpfs tmpfs "$OVER/root/run"
        exec chroot "$OVER/root" env -u TMPDIR HOME=/root DEBIAN_FRONTEND=noninteractive PATH='$MACHINES_PATH' \
            bash -e -c "$1"' machines_in_base "$1"
}

machines_init() {
    local upper=$MACHINES/base/upper name number=10
    for name in $1; do MACHINE_NUMBER[$name]=$((++number)); done
    shift
    mkdir -p "$upper"/{root/.ssh,etc/ssh/sshd_config.d,etc/systemd/system,etc/apt/apt.conf.d,usr/sbin}
    chmod 700 "$upper/root" "$upper/root/.ssh"
    cp "$@" "$upper/root/" || return
    # What the root lacks goes into what lies over it. An ssh server is not for machines that are not for tests.
    printf '#!/bin/sh\nexit 101\n' >"$upper/usr/sbin/policy-rc.d"
    chmod 755 "$upper/usr/sbin/policy-rc.d"
    if [ -n "${PFL_FRESH_ROOT:-}" ]; then
        machines_in_base 'apt-get -q update && cd /root && apt-get -q -y install --no-install-recommends systemd systemd-sysv \
            openssh-server openssh-client openssl libwebsockets-evlib-uv curl ./*.deb && dpkg -P perfleet-host perfleet-relay perfleet \
            libperfleet-dev libperfleet0' || return
    elif [ ! -x /usr/sbin/sshd ]; then
        machines_in_base 'wanted="apt-get -q -y install --no-install-recommends openssh-server openssh-client"
            $wanted || { apt-get -q update && $wanted; }' || return
    fi
    # Questions of apt are answered, the kernel that we share is left alone, and ssh knows everybody.
    echo 'APT::Get::Assume-Yes "true"; APT::Sandbox::User "root"; Acquire::Retries "5";' >"$upper/etc/apt/apt.conf.d/90test"
    : >"$upper/etc/fstab"
    for unit in systemd-udevd systemd-udev-trigger systemd-modules-load systemd-sysctl systemd-random-seed; do
        ln -sf /dev/null "$upper/etc/systemd/system/$unit.service"
    done
    printf '[Unit]\nRequires=sysinit.target\nAfter=sysinit.target\nWants=ssh.service\n' >"$upper/etc/systemd/system/machine.target"
    printf 'UsePAM no\nHostKey /etc/ssh/ssh_host_ed25519_key\n' >"$upper/etc/ssh/sshd_config.d/test.conf"
    # shellcheck disable=SC2016
    machines_in_base 'rm -f /etc/ssh/ssh_host_*
        ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/ssh_host_ed25519_key && ssh-keygen -q -t ed25519 -N "" -C root -f /root/.ssh/id_ed25519
        cp /root/.ssh/id_ed25519.pub /root/.ssh/authorized_keys
        echo "* $(cut -d" " -f1,2 /etc/ssh/ssh_host_ed25519_key.pub)" >/root/.ssh/known_hosts' || return
    echo 127.0.0.1 localhost >"$upper/etc/hosts"
    for name in "${!MACHINE_NUMBER[@]}"; do
        echo "$MACHINES_NET.${MACHINE_NUMBER[$name]} $name.example.com $name" >>"$upper/etc/hosts"
    done
    machines_in_base 'rm -f /usr/sbin/policy-rc.d /etc/hostname /etc/resolv.conf /var/lib/man-db/auto-update; : >/etc/resolv.conf
        id ann >/dev/null 2>&1 || useradd --create-home ann' || return
    unshare --net --fork --kill-child sleep infinity &
    MACHINES_NET_JOB=$!
    MACHINES_NET_PID=$(pfl_child_of "$MACHINES_NET_JOB") || return
    nsenter -t "$MACHINES_NET_PID" --net sh -e -c "
        ip link set lo up; ip link add pfl0 type bridge; ip addr add $MACHINES_NET.1/24 dev pfl0; ip link set pfl0 up"
}

# What a machine does first: mounts as at a boot, and then systemd, or nothing.
machines_boot_script() {
    cat <<'END'
set -e
mkdir -p "$OVER/upper" "$OVER/work" "$OVER/root"
root=$OVER/root
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$OVER/upper,workdir=$OVER/work" "$root"
mount -t tmpfs tmpfs "$root/dev"
for node in null zero full random urandom tty; do touch "$root/dev/$node"; mount --bind "/dev/$node" "$root/dev/$node"; done
mkdir "$root/dev/shm" "$root/dev/pts" && mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx" && ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs -o mode=755 tmpfs "$root/run" && mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
echo "$NAME" >"$root/etc/hostname"
echo $$ >"$CGROUP/cgroup.procs"
exec unshare --pid --cgroup --uts --ipc --net --mount --fork --kill-child bash -e -c '
    hostname "$NAME"
    cd "$OVER/root"
    mount -t proc proc proc && mount --bind -o ro proc/sys proc/sys && mount -o remount,bind,ro proc/sys
    mount -t sysfs sysfs sys && mount -t cgroup2 cgroup2 sys/fs/cgroup
    ip link set lo up
    mkdir -p old && pivot_root . old && umount -l /old
    if [ "$KIND" = bare ]; then exec sleep infinity; fi
    exec env -i container=pfl PATH="$PATH" /lib/systemd/systemd --log-target=journal systemd.unit=machine.target'
END
}

machine_start() {
    local name=$1 number=${MACHINE_NUMBER[$1]} group
    group=$(findmnt -n -t cgroup2 -o TARGET | head -1)/pfl-$$-$name
    mkdir -p "$group" "$MACHINES/$name"
    MACHINE_CGROUP[$name]=$group
    machines_boot_script >"$MACHINES/$name/boot.sh"
    NAME=$name KIND=${2:-booted} OVER=$MACHINES/$name CGROUP=$group LOWER=$MACHINES/base/upper:$MACHINES_BASE PATH=$MACHINES_PATH \
        unshare --mount --propagation private bash "$MACHINES/$name/boot.sh" >"$WORK/machine-$name.log" 2>&1 </dev/null &
    MACHINE_JOB[$name]=$!
    wait_for 60 machine_is_there "$name" || return
    nsenter -t "$MACHINES_NET_PID" --net sh -e -c "
        ip link add m$number type veth peer name eth0 netns ${MACHINE_PID[$name]}
        ip link set m$number master pfl0 up"
    nsenter -t "${MACHINE_PID[$name]}" --net sh -e -c "ip addr add $MACHINES_NET.$number/24 dev eth0; ip link set eth0 up"
}
machine_is_there() { # its first process has become sleep or systemd
    local first
    first=$(cat "/proc/${MACHINE_JOB[$1]}/task/${MACHINE_JOB[$1]}/children") && [ -n "$first" ] || return 1
    MACHINE_PID[$1]=${first%% *}
    grep -qE '^(sleep|systemd)' "/proc/${MACHINE_PID[$1]}/comm"
}

machine_is_up() {
    [ "$(machine "$1" systemctl is-active machine.target)" = active ]
}

machine() {
    local name=$1
    shift
    nsenter -t "${MACHINE_PID[$name]}" -m -p -u -i ${MACHINE_NETWORK--n} -C -r \
        env -i -C /root HOME=/root USER=root LOGNAME=root TERM=dumb LANG=C.UTF-8 PATH=$MACHINES_PATH timeout "$MACHINE_TIMEOUT" "$@" </dev/null
}

machines_fini() {
    local name
    for name in "${!MACHINE_JOB[@]}"; do
        # With its first process everything there ends: unshare ends on no other signal.
        kill -9 "${MACHINE_JOB[$name]}" "${MACHINE_PID[$name]}" 2>/dev/null
        wait "${MACHINE_JOB[$name]}" 2>/dev/null
    done
    kill -9 ${MACHINES_NET_PID:-} 2>/dev/null
    wait ${MACHINES_NET_JOB:-} 2>/dev/null
    for name in "${!MACHINE_CGROUP[@]}"; do
        pfl_wait_for 60 machine_group_is_gone "${MACHINE_CGROUP[$name]}"
    done
    MACHINE_JOB=() MACHINE_PID=() MACHINE_CGROUP=() MACHINES_NET_PID='' MACHINES_NET_JOB=''
}
machine_group_is_gone() {
    find "$1" -depth -type d -exec rmdir {} \; 2>/dev/null
    [ ! -e "$1" ]
}
