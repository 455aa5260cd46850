#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages of a build whose prefix is /usr: made, judged by lintian, installed, upgraded,
# removed and purged in a root of their own: an overlay over a minimal Debian that is made of this machine's
# packages, or over the one in PFL_FRESH_ROOT (made by debootstrap), so that nothing of either changes.
. "$(dirname "$0")/lib.sh"
. "$ROOT/tests/support/packages.sh"

why_not() {
    [ "$(id -u)" -eq 0 ] || { echo "not root"; return; }
    [ -z "${PFL_SANITIZE:-}" ] || { echo "a build with a sanitizer"; return; }
    grep -q '^CMAKE_INSTALL_PREFIX:PATH=/usr$' "$PFL_BUILD/CMakeCache.txt" || { echo "the build's prefix is not /usr"; return; }
    for tool in dpkg-deb dpkg-shlibdeps cpack go-md2man unshare; do
        command -v $tool >/dev/null || { echo "no $tool"; return; }
    done
    mkdir -p "$WORK/over.mnt" && mount -t tmpfs tmpfs "$WORK/over.mnt" || { echo "no tmpfs"; return; }
    mkdir -p "$WORK"/over.mnt/{upper,work,root,fresh}
    FRESH=/ in_root true >/dev/null 2>&1 || echo "no overlay"
}

# in_root SCRIPT: in the root, with this test's packages in /packages. The mounts live as long as the shell.
in_root() {
    BASE=$FRESH OVER=$WORK/over.mnt DEBS=$WORK/packages unshare --mount --fork --kill-child bash -c '
        set -e
        mount -t overlay overlay -o "lowerdir=$BASE,upperdir=$OVER/upper,workdir=$OVER/work" "$OVER/root"
        for folder in proc dev sys; do mount --rbind "/$folder" "$OVER/root/$folder"; done
        mount -t tmpfs -o mode=755 tmpfs "$OVER/root/run"
        mkdir -p "$DEBS" "$OVER/root/packages"
        mount --bind "$DEBS" "$OVER/root/packages"
        printf "#!/bin/sh\nexit 101\n" >"$OVER/root/usr/sbin/policy-rc.d" # start nothing
        chmod 755 "$OVER/root/usr/sbin/policy-rc.d"
        exec chroot "$OVER/root" env -u TMPDIR HOME=/root DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin \
            bash -c "$1"' in_root "$1"
}

WHY=$(why_not)
if [ -n "$WHY" ]; then
    skip "packages install, upgrade and purge cleanly" "$WHY"
    finish
fi

all_are_made() {
    packages_make "$WORK/packages" || return
    for name in perfleet perfleet-host perfleet-relay perfleet-collector libperfleet0 libperfleet-dev; do
        ls "$WORK"/packages/${name}_*.deb || return 1
    done
}
check "cpack makes the packages" all_are_made
depends_on() { # depends_on PACKAGE NAME...
    local has
    has=$(dpkg-deb -f "$WORK"/packages/"$1"_*.deb Depends)
    shift
    for name in "$@"; do grep -qE "(^|, )$name( |,|$)" <<<"$has" || { echo "$name is not in: $has"; return 1; }; done
}
LIBUV=$(dpkg-query -S '*/libuv.so.1' | sed 's/:.*//') # its name differs between releases
check "hosts depend on what makes users, and reloads" depends_on perfleet-host systemd procps "$LIBUV"
check "relays too" depends_on perfleet-relay systemd procps "$LIBUV"
check "and collectors, with their index" depends_on perfleet-collector systemd procps "$LIBUV" libsqlite3-0
check "who builds with the library has the library" depends_on libperfleet-dev libperfleet0 libc6-dev
# A release's build replaces that of the release before, and gives way to one of a system without a number.
version_names_release() {
    local version upstream number
    version=$(dpkg-deb -f "$WORK"/packages/perfleet_*.deb Version)
    upstream=${version%%~*}
    number=$(. /etc/os-release && [ "$ID" = debian ] && echo "${VERSION_ID:-}")
    [ "$version" = "$upstream${number:+~deb${number}u1}" ] && [ "$("$BIN/perfleet" --version)" = "perfleet $upstream" ] || {
        echo "$version"
        return 1
    }
    dpkg --compare-versions "$upstream~deb12u1" lt "$upstream~deb13u1" && dpkg --compare-versions "$version" le "$upstream"
}
check "their version names the release that they are for" version_names_release
if command -v lintian >/dev/null; then
    check "lintian has no error and no warning to tell" lintian --allow-root --fail-on error,warning --quiet "$WORK"/packages/*.deb
else
    skip "lintian has no error and no warning to tell" "no lintian"
fi
# Nothing is in it but what is essential and what the packages depend on.
FRESH=${PFL_FRESH_ROOT:-$WORK/over.mnt/fresh}
make_fresh() {
    # shellcheck disable=SC2046
    python3 -B "$ROOT/tests/support/base_image.py" systemd openssl libwebsockets-evlib-uv $(for deb in "$WORK"/packages/perfleet*.deb; do
        dpkg-deb -f "$deb" Depends Pre-Depends
    done | sed 's/^[A-Za-z-]*: //; s/([^)]*)//g; s/|[^,]*//g; s/,/ /g') | tar x -C "$FRESH" || return
    # As its installation leaves it.
    systemd-sysusers --root="$FRESH" && tr -d - </proc/sys/kernel/random/uuid >"$FRESH/etc/machine-id"
}
[ -n "${PFL_FRESH_ROOT:-}" ] || check "there is a fresh root" make_fresh || finish
DEBS="/packages/perfleet_*.deb /packages/perfleet-host_*.deb /packages/perfleet-relay_*.deb"

# The next version, as far as dpkg is concerned.
make_next() {
    local deb name
    mkdir "$WORK/packages/next"
    for name in perfleet perfleet-host perfleet-relay; do
        deb=$(ls "$WORK"/packages/${name}_*.deb) || return 1
        rm -rf "$WORK/unpacked"
        dpkg-deb -R "$deb" "$WORK/unpacked" && sed -i 's/^Version: .*/Version: 99.0/' "$WORK/unpacked/DEBIAN/control" &&
            { [ ! -e "$WORK/unpacked/etc/perfleet/relay.conf" ] || echo "# next" >>"$WORK/unpacked/etc/perfleet/relay.conf"; } &&
            dpkg-deb -b -Znone "$WORK/unpacked" "$WORK/packages/next" || return 1
    done
}

# What differs from the root beneath, but for the books of dpkg, apt and the user tools; and our users.
list_root() {
    (cd "$WORK/over.mnt/upper" && find . \( -path ./packages -o -path ./tmp -o -path ./root -o -path ./var/lib/dpkg \
        -o -path ./var/cache -o -path ./var/log/apt -o -path ./var/lib/apt -o -path ./var/lib/systemd \) -prune \
        -o ! -type d ! -name "*-" ! -name "*.lock" ! -name .pwd.lock ! -name dpkg.log -print -o -name "*perfleet*" -print | sort)
    in_root 'grep -h perfleet /etc/passwd /etc/group /etc/shadow; dpkg -l "*perfleet*" 2>/dev/null | grep "^[a-z]"; true'
}

# A fresh root gets what the packages depend on first: it stays after the purge.
if [ -n "${PFL_FRESH_ROOT:-}" ]; then
    check "a fresh root gets the dependencies" in_root "apt-get -q update && apt-get -q -y install --no-install-recommends systemd-sysv openssl libwebsockets-evlib-uv $DEBS && dpkg -P perfleet-host perfleet-relay perfleet"
fi
in_root 'rm -f /var/lib/man-db/auto-update; for file in passwd group shadow gshadow subuid subgid; do touch /etc/$file; done; touch /etc/ld.so.cache'
list_root >"$WORK/before"
check "they install" in_root "dpkg -i $DEBS && dpkg --audit"
check "the users are there, each in its own group, the agent in the privileged one, too" in_root '
    test "$(id -Gn perfleet)" = perfleet && test "$(id -Gn perfleet-agent)" = "perfleet-agent perfleet-privileged" && test "$(id -Gn perfleet-relay)" = perfleet-relay'
check "the folders are there, and closed" in_root '
    test "$(stat -c "%a %U %G" /etc/perfleet/agent /etc/perfleet/relay /var/lib/perfleet /var/log/perfleet | tr "\n" ,)" = \
        "770 root perfleet-agent,750 root perfleet-relay,750 perfleet perfleet,750 perfleet-relay perfleet-relay,"'
check "units are enabled" in_root '
    cd /etc/systemd/system && ls sockets.target.wants/perfleetd-producer.socket sockets.target.wants/perfleetd-consumer.socket \
        multi-user.target.wants/perfleetd.service multi-user.target.wants/perfleet-agent.service multi-user.target.wants/perfleet-relay.service'
check "units are understood where they are" in_root '
    said=$(systemd-analyze verify --man=no /lib/systemd/system/perfleet*.service /lib/systemd/system/perfleet*.socket 2>&1 | grep perfleet); echo "$said"; test -z "$said"'
check "programs run, and there is a manual page of each" in_root '
    for page in perfleet.1 perfleetd.8 perfleet-keep.8 perfleet-trigger.1 perfleet-probes.8 perfleet-agent.8 perfleet-relay.8; do
        ${page%.*} --version && test -s /usr/share/man/man${page##*.}/$page.gz || exit 1
    done'
check "completions are where bash, zsh and fish look for them" in_root '
    cd /usr/share && ls bash-completion/completions/perfleet{,d,-agent,-relay} fish/vendor_completions.d/perfleet{,d,-agent,-relay}.fish \
        zsh/vendor-completions/_perfleet{,-host,-relay}'
check "the installed settings are good" in_root '
    perfleetd --config /etc/perfleet/perfleetd.conf --check-config && perfleet-probes --config /etc/perfleet/probes.conf --check-config'
check "a trace of the host is recorded with what is installed, as users of their own" in_root '
    systemd-tmpfiles --create perfleet-host.conf && chown perfleet:perfleet /run/perfetto
    setpriv --reuid perfleet --regid perfleet --clear-groups perfleetd --config /etc/perfleet/perfleetd.conf --set-socket-permissions perfleet:0666:perfleet:0660 &
    service=$!
    for i in $(seq 600); do [ -S /run/perfetto/traced-consumer.sock ] && break; sleep 0.1; done
    perfleet-probes --config /etc/perfleet/probes.conf --no-ftrace &
    for i in $(seq 600); do perfleet query --host local | grep -q linux.sys_stats && break; sleep 0.1; done
    perfleet record --preset system --duration 2s --host local -o /tmp/a.pftrace
    code=$?
    kill $service %2; wait
    test $code = 0 -a "$(stat -c %s /tmp/a.pftrace)" -gt 1000'

check "the next version is packed" make_next
in_root 'echo "# mine" >>/etc/perfleet/agent.conf; touch /etc/perfleet/agent/key.pem'
check "it upgrades them" in_root 'dpkg -i /packages/next/*.deb && dpkg -l perfleet-host | grep "^ii.*99.0"'
check "settings that were changed stay, others are renewed" in_root 'grep "# mine" /etc/perfleet/agent.conf && grep "# next" /etc/perfleet/relay.conf'
check "a key that somebody put there belongs to the agent now" in_root 'test "$(stat -c "%a %U" /etc/perfleet/agent/key.pem)" = "400 perfleet-agent"'
check "removed, the settings and keys stay" in_root 'dpkg -r perfleet perfleet-host perfleet-relay && test -e /etc/perfleet/agent.conf -a -e /etc/perfleet/agent/key.pem'
check "purged" in_root 'dpkg -P perfleet-host perfleet-relay perfleet'
purge_left_nothing() {
    list_root >"$WORK/after"
    diff "$WORK/before" "$WORK/after"
}
check "nothing is left of them: no file, user, group or unit" purge_left_nothing
relay_alone() {
    in_root 'dpkg -i /packages/perfleet-relay_*.deb && getent group perfleet && dpkg -i /packages/perfleet-host_*.deb &&
        dpkg -P perfleet-host && getent group perfleet && dpkg -P perfleet-relay && ! getent group perfleet'
}
check "host and relay come and go apart, and share the group" relay_alone
check "and leave nothing" purge_left_nothing

# --- under systemd: booted in namespaces, with nothing but our units and what they need -----------
CGROUP=$(findmnt -n -t cgroup2 -o TARGET | head -1)/pfl-$$
# Nothing of it reaches the kernel that we share: /proc/sys is read-only, fstab empty.
boot() {
    mkdir -p "$CGROUP"
    cat >"$WORK/boot.sh" <<'END'
set -e
root=$OVER/root
mount -t overlay overlay -o "lowerdir=$BASE,upperdir=$OVER/upper,workdir=$OVER/work" "$root"
mkdir -p "$root/packages" && mount --bind "$DEBS" "$root/packages"
mount -t tmpfs tmpfs "$root/dev"
for node in null zero full random urandom tty; do touch "$root/dev/$node"; mount --bind "/dev/$node" "$root/dev/$node"; done
mkdir "$root/dev/shm" "$root/dev/pts" && mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx" && ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs -o mode=755 tmpfs "$root/run" && mount -t tmpfs tmpfs "$root/tmp"
rm -f "$root/usr/sbin/policy-rc.d" && : >"$root/etc/fstab"
for unit in systemd-udevd systemd-udev-trigger systemd-modules-load systemd-sysctl systemd-random-seed; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit.service"
done
printf '[Unit]\nWants=perfleetd.service perfleet-probes.service perfleet-agent.service perfleet-relay.service\n' \
    >"$root/etc/systemd/system/perfleet-test.target"
echo $$ >"$CGROUP/cgroup.procs"
exec unshare --pid --cgroup --uts --ipc --net --mount --fork --kill-child bash -c '
    cd '"$root"'
    mount -t proc proc proc && mount --bind -o ro proc/sys proc/sys && mount -o remount,bind,ro proc/sys
    mount -t sysfs sysfs sys && mount -t cgroup2 cgroup2 sys/fs/cgroup
    ip link set lo up
    mkdir -p old && pivot_root . old && umount -l /old
    exec env -i container=pfl PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=journal systemd.unit=perfleet-test.target'
END
    BASE=$FRESH OVER=$WORK/over.mnt DEBS=$WORK/packages CGROUP=$CGROUP \
        start booted unshare --mount --propagation private bash "$WORK/boot.sh"
}
in_boot() {
    local first
    first=$(pgrep -P "$BOOTED") && nsenter -t "$first" -m -p -u -i -n -C -r -w \
        env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin timeout 300 "$@" </dev/null
}
in_boot_sh() { in_boot bash -c "$1"; }
state_of() { in_boot systemctl show -P "$2" "$1"; }
is_confined() { # no capability, no new ones, a filter
    in_boot_sh 'for unit in perfleet-relay perfleet-agent perfleetd; do
        status=/proc/$(systemctl show -P MainPID $unit.service)/status
        grep -q "^CapEff:.*0000000000000000" $status && grep -q "^NoNewPrivs:.*1" $status && grep -q "^Seccomp:.*2" $status || { cat $status; exit 1; }
    done'
}
comes_back() { # comes_back SIGNAL: another process, ready again
    local before
    before=$(state_of perfleetd.service MainPID)
    in_boot systemctl kill -s "$1" perfleetd.service
    wait_for 30 in_boot_sh "test \$(systemctl show -P MainPID perfleetd.service) -gt $before && systemctl is-active --quiet perfleetd.service &&
        perfleet query --host local | grep -q linux.sys_stats"
}
if [ ! -d "${CGROUP%/*}" ] || ! in_root 'test -x /lib/systemd/systemd' || ! unshare --user true 2>/dev/null; then
    skip "the units run under systemd" "no cgroup2, no systemd, or no user namespaces (in a chroot there are none)"
    finish
fi
check "installed again" in_root "dpkg -i $DEBS"
boot
# It is killed, and everything in it: unshare ends on no other signal.
BOOTED=$STARTED
JOBS=()
trap 'kill -9 "$BOOTED" 2>/dev/null; cleanup' EXIT
check "systemd boots, and the service is ready" wait_for 60 in_boot systemctl is-active --quiet perfleetd.service
check "the probes are there" wait_for 20 in_boot_sh 'perfleet query --host local | grep -q linux.process_stats'
check "relay and agent wait for certificates, and have not failed" test "$(state_of perfleet-relay.service ConditionResult)$(state_of perfleet-agent.service Result)" = nosuccess
check "sockets have the modes they should" in_boot_sh 'test "$(stat -c "%a %G" /run/perfetto/*.sock | tr "\n" ,)" = "660 perfleet,666 perfleet,"'
# The authority is the signer's, in its own folder; mine is a copy of what an operator needs.
check "the signer's user makes an authority" in_boot_sh '
    pki() { runuser -u perfleet-signer -- perfleet pki "$1" /var/lib/perfleet-signer "${@:2}"; }
    pki init --fleet lab && pki relay meet && pki operator me && cp -r /var/lib/perfleet-signer /root/pki'
check "a relay with certificate starts" in_boot_sh '
    cd /root &&
    cp pki/ca.pem pki/crl.pem /etc/perfleet/relay && cp pki/relay-meet.pem /etc/perfleet/relay/cert.pem &&
    cp pki/relay-meet.key /etc/perfleet/relay/key.pem && systemd-tmpfiles --create perfleet-relay.conf &&
    echo "signer: \"/run/perfleet/signer.sock\"" >>/etc/perfleet/relay.conf &&
    systemctl start perfleet-relay && systemctl is-active perfleet-relay'
check "the signer's socket is there, for the relay" in_boot_sh '
    systemctl enable -q --now perfleet-signer.socket && test "$(stat -c "%a %U %G" /run/perfleet/signer.sock)" = "660 root perfleet-relay"'
check "a token makes this a host of the fleet, and the agent starts" in_boot_sh '
    perfleet-agent join --relay 127.0.0.1 --token "$(runuser -u perfleet-signer -- perfleet pki join-token /var/lib/perfleet-signer web1)" &&
    echo "relay: \"127.0.0.1:9910\"" >>/etc/perfleet/agent.conf && systemctl start perfleet-agent && systemctl is-active perfleet-agent'
mine="--relay 127.0.0.1:9910 --ca /root/pki/ca.pem --cert /root/pki/operator-me.pem --key /root/pki/operator-me.key"
check "an operator sees it" wait_for 20 in_boot_sh "perfleet hosts $mine | grep -q ^web1"
check "and records it, through relay and agent, without loss" in_boot_sh "perfleet record --preset system --duration 1s $mine --host web1 -o /root/t.pftrace"
check "the relay wrote down who did" in_boot_sh 'grep -q "\"who\":\"me\".*\"host\":\"web1\"" /var/log/perfleet/audit.jsonl'
check "systemctl reload is understood by both" in_boot systemctl reload perfleet-relay perfleet-agent
# journal_has UNIT FIELD=VALUE...: an event of that unit
journal_has() { in_boot_sh "journalctl -u $1 -o cat -q ${*:2} | grep -q ."; }
journal_has_each() {
    journal_has perfleetd.service PERFLEET_EVENT=listening PRIORITY=6 SYSLOG_IDENTIFIER=perfleetd &&
        journal_has perfleet-relay.service PERFLEET_EVENT=reloaded SYSLOG_IDENTIFIER=perfleet-relay &&
        journal_has perfleet-agent.service PERFLEET_EVENT=relay-connected PERFLEET_RELAY=meet &&
        journal_has perfleet-probes.service PERFLEET_EVENT=probes-started
}
check "the journal has events of each daemon as fields" wait_for 20 journal_has_each
louder() { # louder UNIT: debug is on, and off again
    in_boot systemctl kill -s USR1 "$1.service" && wait_for 20 journal_has "$1.service" PERFLEET_EVENT=log-level PERFLEET_LEVEL=debug &&
        in_boot systemctl kill -s USR2 "$1.service" && wait_for 20 journal_has "$1.service" PERFLEET_EVENT=log-level PERFLEET_LEVEL=info
}
for unit in perfleetd perfleet-relay perfleet-agent perfleet-probes; do
    check "$unit logs more on SIGUSR1, and less again" louder "$unit"
done
check "no daemon has a capability" is_confined
check "the signer was started by its socket, and answers its watchdog" test "$(state_of perfleet-signer.service ActiveState) $(state_of perfleet-signer.service NRestarts)" = "active 0"
check "a certificate that is not due is left alone, and nothing has failed" in_boot_sh '
    systemctl start perfleet-agent-renew.service; test "$(systemctl show -P Result perfleet-agent-renew.service)" = exec-condition'
check "one that is due is renewed by the timer's unit, and the agent notified" in_boot_sh '
    runuser -u perfleet-signer -- perfleet pki host /var/lib/perfleet-signer web1 --force --not-before "25 days ago" --not-after "5 days" >/dev/null &&
    cp /var/lib/perfleet-signer/host-web1.pem /etc/perfleet/agent/cert.pem.tmp && cp /var/lib/perfleet-signer/host-web1.key /etc/perfleet/agent/key.pem &&
    mv /etc/perfleet/agent/cert.pem.tmp /etc/perfleet/agent/cert.pem && systemd-tmpfiles --create perfleet-host.conf && systemctl reload perfleet-agent &&
    agent=$(systemctl show -P MainPID perfleet-agent) && ! openssl x509 -in /etc/perfleet/agent/cert.pem -noout -checkend $((6 * 86400)) &&
    systemctl start perfleet-agent-renew.service && openssl x509 -in /etc/perfleet/agent/cert.pem -noout -checkend $((20 * 86400)) &&
    test "$(systemctl show -P MainPID perfleet-agent)" = "$agent" -a "$(stat -c "%a %U" /etc/perfleet/agent/cert.pem)" = "400 perfleet-agent"'
check "the timer is enabled, and waits" in_boot_sh 'systemctl is-enabled -q perfleet-agent-renew.timer && systemctl start perfleet-agent-renew.timer && systemctl is-active -q perfleet-agent-renew.timer'

# --- streams outlive the agent ----------------------------------------------------------------------
# More deaths than a unit is usually forgiven; each process is ready before it is killed.
check "an agent killed six times while its host is recorded: the recording is whole" in_boot_sh "
    perfleet record --preset system --duration 1h $mine --host web1 -o /root/k.pftrace >/root/k.txt 2>&1 & recorder=\$!
    for i in \$(seq 600); do grep -q 'recording for' /root/k.txt && break; sleep 0.1; done
    kept=\$(systemctl show -P NFileDescriptorStore perfleet-agent); died=\$(systemctl show -P NRestarts perfleet-agent)
    for i in \$(seq 6); do
        systemctl kill -s KILL perfleet-agent
        until test \$(systemctl show -P NRestarts perfleet-agent) -ge \$((died + i)) && systemctl is-active -q perfleet-agent; do sleep 0.1; done
    done
    kill -INT \$recorder
    wait \$recorder && test \$kept -ge 2 || { echo \$kept; cat /root/k.txt; exit 1; }"
check "systemd keeps nothing for it then" wait_for 20 in_boot_sh 'test $(systemctl show -P NFileDescriptorStore perfleet-agent) -eq 0'

# --- an upgrade while sessions run ------------------------------------------------------------------
pids() { in_boot_sh 'for unit in perfleetd perfleet-probes perfleet-agent; do systemctl show -P MainPID $unit; done' | tr '\n' ' '; }
check "a session is left running" in_boot_sh "perfleet start flight --preset system $mine --host web1"
PIDS=$(pids)
RELAY_BEFORE=$(state_of perfleet-relay.service MainPID)
check "the packages are upgraded while the host is recorded through them: the recording is whole" in_boot_sh "
    perfleet record --preset system --duration 1h $mine --host web1 -o /root/u.pftrace >/root/u.txt 2>&1 & recorder=\$!
    for i in \$(seq 600); do grep -q 'recording for' /root/u.txt && break; sleep 0.1; done
    dpkg --force-confold -i /packages/next/*.deb >/root/dpkg.txt 2>&1 || { cat /root/dpkg.txt; exit 1; }
    for i in \$(seq 600); do perfleet hosts --json $mine --host web1 | grep -q '\"streams\": [1-9]' && break; sleep 0.1; done
    kill -INT \$recorder
    wait \$recorder || { cat /root/u.txt; exit 1; }"
check "service, probes and agent are the old ones, the relay is another" test "$(pids)" = "$PIDS" -a "$(state_of perfleet-relay.service MainPID)" != "$RELAY_BEFORE"
check "the upgrade says so, and what would end the sessions" in_boot_sh '
    grep -q "go on running, with the tracing sessions in their memory" /root/dpkg.txt && grep -q "systemctl restart perfleetd perfleet-probes perfleet-agent    ends those sessions" /root/dpkg.txt'
still_copied() { in_boot_sh "perfleet snapshot flight $mine --host web1 -o /root/f.pftrace && test \$(stat -c %s /root/f.pftrace) -gt 1000"; }
check "the session left running has its data" wait_for 20 still_copied
check "after that restart it is gone, which is said" in_boot_sh "
    systemctl restart perfleetd perfleet-probes perfleet-agent
    for i in \$(seq 600); do perfleet hosts $mine --host web1 | grep -q '^web1  *up ' && break; sleep 0.1; done
    perfleet snapshot flight $mine --host web1 -o /root/g.pftrace >/root/g.txt 2>&1; test \$? = 1 || { cat /root/g.txt; exit 1; }
    grep -q flight /root/g.txt || { cat /root/g.txt; exit 1; }"
check "a service that is killed comes back, and its producers too" comes_back KILL
# Only now, as a machine may stand still for two seconds, too.
check "a service with a shorter watchdog" in_boot_sh 'mkdir -p /run/systemd/system/perfleetd.service.d && systemctl stop perfleetd &&
    printf "[Service]\nWatchdogSec=5\n" >/run/systemd/system/perfleetd.service.d/test.conf && systemctl daemon-reload && systemctl start perfleetd'
check "and one that hangs, by the watchdog" comes_back STOP
check "nothing of ours has failed" in_boot_sh '! systemctl list-units --failed --no-legend | grep perfleet'
kill -9 "$BOOTED"
wait "$BOOTED" 2>/dev/null
finish_boot() {
    for _ in $(seq 600); do
        find "$CGROUP" -depth -type d -exec rmdir {} \; 2>/dev/null
        [ -e "$CGROUP" ] || return 0
        sleep 0.1
    done
    return 1
}
check "and nothing of it goes on" finish_boot
finish
