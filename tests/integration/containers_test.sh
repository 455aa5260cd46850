#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The commands of deploy/containers/README.md and deploy/kubernetes/README.md, as they stand there, on a machine of
# its own (tests/support/machines.sh) with a real systemd and Debian's container engine: images are built, a fleet of
# containers is brought up and recorded. The base image is made of this machine's packages, no registry is asked; its
# compiler does not optimise, to save time. kubectl speaks with tests/support/kube_api.py: there is no cluster here.
. "$(dirname "$0")/lib.sh"
. "$ROOT/tests/support/machines.sh"
. "$ROOT/tests/support/packages.sh"
. "$ROOT/tests/support/pages.sh"
MACHINE_TIMEOUT=1200
BASE_IMAGE=$(sed -n 's/^ARG BASE=//p' "$ROOT/deploy/containers/Containerfile")

# The image's build installs packages: where from?
archive_answers() {
    local place
    place=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' | grep -m 1 debian) || return
    curl -sfI -m 30 -o /dev/null "${place% *}dists/${place##* }/InRelease"
}
why_not() {
    if ! grep -q '^CMAKE_INSTALL_PREFIX:PATH=/usr$' "$PFL_BUILD/CMakeCache.txt" || [ -n "${PFL_SANITIZE:-}" ]; then
        echo "a build without packages"
        return
    fi
    for tool in podman runc docker-compose curl go-md2man; do
        command -v $tool >/dev/null || { echo "no $tool"; return; }
    done
    [ -z "${PFL_FRESH_ROOT:-}" ] || { echo "a root without an engine"; return; }
    archive_answers || echo "no archive of packages answers"
}
WHY=$(why_not)
[ -n "$WHY" ] || WHY=$(machines_why_not)
if [ -n "$WHY" ]; then
    skip "the commands for containers and Kubernetes work" "$WHY"
    finish
fi
trap 'machines_fini; cleanup' EXIT

start_box() {
    local wanted=
    machines_init box "$WORK"/packages/perfleet_*.deb || return
    cp /etc/resolv.conf "$MACHINES/base/upper/etc/resolv.conf"
    [ -e /usr/bin/kubectl ] || wanted+=" kubernetes-client"
    command -v docker >/dev/null || wanted+=" podman-docker" # docker-compose asks it to show what a container says
    [ -z "$wanted" ] || machines_in_base "for try in 1 2; do
        ! apt-get -q -y install --no-install-recommends $wanted || exit 0
        apt-get -q update
    done; exit 1" || return
    machine_start box && wait_for 60 machine_is_up box || return
    # This kernel's limits are not ours to set, so the engine sets none, or those that there are; images are in memory.
    machine box bash -e -c 'mount -t tmpfs tmpfs /var/lib/containers; mount -o remount,bind,rw /proc/sys; dpkg -i perfleet_*.deb
        limits() { echo "\"$1=$(ulimit -S $2):$(ulimit -H $2)\"" | sed "s/unlimited/-1/g"; }
        printf "%s\n" "[containers]" "pids_limit=0" "default_ulimits=[$(limits nofile -n), $(limits nproc -u)]" \
            "[engine]" "cgroup_manager=\"cgroupfs\"" "runtime=\"runc\"" "events_logger=\"file\"" \
            "[network]" "network_backend=\"netavark\"" >/etc/containers/containers.conf
        mkdir -p perfleet/build; echo x >perfleet/build/left' &&
        machine_write box /root/perfleet-example <"$BIN/perfleet-example" &&
        (cd "$ROOT" && git ls-files -z --cached --others --exclude-standard | tar c --null --ignore-failed-read -T -) |
        nsenter -t "${MACHINE_PID[box]}" -m -r tar x -C /root/perfleet
}
import_base() {
    # shellcheck disable=SC2016
    machine_write box /root/base_image.py <"$ROOT/tests/support/base_image.py" && machine box sh -e -c '
        python3 -B base_image.py >base.tar
        mkdir -p usr/local/bin
        printf "#!/bin/sh\nexec gcc \"\$@\" -O0 -g0 -fno-lto -Wp,-U_FORTIFY_SOURCE\n" >usr/local/bin/cc
        chmod 755 usr/local/bin/cc
        tar rf base.tar usr/local/bin/cc
        podman import -q base.tar $0
        rm base.tar' "$BASE_IMAGE"
}
# run_page calls it before each block: what an image's build asks for it gets by this machine's network.
before() {
    unset MACHINE_NETWORK
    ! grep -q 'podman build' "$WORK/blocks/$1.sh" || MACHINE_NETWORK=
}
# The host's agent has reached the relay: one who types is slower than this script.
settle() {
    unset MACHINE_NETWORK
    ! grep -q 'up -d' "$WORK/blocks/$1.sh" || wait_for 120 host_is_there
}
host_is_there() { says '^one: .*service' box "$OPERATOR hosts $RELAY"; }
box() { # box SCRIPT: where compose.yaml is
    machine box bash -e -c "export DOCKER_HOST=unix:///run/podman/podman.sock COMPOSE_HTTP_TIMEOUT=900; cd perfleet/deploy/containers; $1"
}
OPERATOR='docker-compose run --rm operator'
RELAY='--relay relay:9910 --ca /pki/ca.pem --cert /pki/operator-ann.pem --key /pki/operator-ann.key'

check "there are packages" packages_make "$WORK/packages" || finish
start_box >"$WORK/start.log" 2>&1
if ! machine_is_up box 2>/dev/null; then
    sed 's/^/# /' "$WORK/start.log" | tail -n 20
    skip "the commands for containers and Kubernetes work" "no root for a machine could be made"
    finish
fi
# ---- Kubernetes
machine_write box /root/kube_api.py <"$ROOT/tests/support/kube_api.py"
machine box sh -c 'setsid python3 -B kube_api.py 0 /root/kube.conf >/tmp/kube.log 2>&1 </dev/null &'
wait_for 30 machine box test -s kube.conf
PAGE_ENV='export KUBECONFIG=/root/kube.conf; cd /root/perfleet'
kube() { machine box env KUBECONFIG=/root/kube.conf bash -e -c "cd perfleet; $1"; }
check "a namespace that nobody has made is refused" says 'not found' kube 'kubectl -n perfleet create secret generic x --from-file=README.md'
run_page deploy/kubernetes/README.md
all_is_there() {
    local said
    said=$(kube 'kubectl apply -k deploy/kubernetes') || return
    echo "$said"
    [ "$(wc -l <<<"$said")" -eq "$(grep -h '^kind:' "$ROOT"/deploy/kubernetes/*.yaml | grep -cv Kustomization)" ] && ! grep -v ' unchanged$' <<<"$said"
}
check "every object is there, and a second apply changes none" all_is_there
check "the Secret has the relay's key" kube \
    'kubectl -n perfleet get secret perfleet-relay-tls -o "jsonpath={.data.tls\.key}" | base64 -d | cmp - pki/relay-relay.key'
check "a field that Kubernetes has not is refused" says 'unknown field "Deployment.spec.replicaz"' kube \
    'sed "s/replicas:/replicaz:/; s/perfleet-relay$/other/" deploy/kubernetes/relay.yaml | kubectl apply -f -'
check "and so is a wrong type" says 'memory. is not str' kube \
    'sed "s/memory: 64Mi/memory: []/; s/perfleet-relay$/more/" deploy/kubernetes/relay.yaml | kubectl apply -f -'

# ---- containers
check "there is an image to begin with" import_base
# On a bridge, as compose.yaml has them, and with process ids of the machine.
if ! machine box podman run --rm --pid=host "$BASE_IMAGE" true >"$WORK/engine.log" 2>&1; then
    sed 's/^/# /' "$WORK/engine.log"
    skip "the commands for containers work" "the engine runs no container here"
    finish
fi
PAGE_ENV='export BUILDAH_ISOLATION=chroot COMPOSE_HTTP_TIMEOUT=900; cd /root/perfleet'
begin=$SECONDS
run_page deploy/containers/README.md
echo "# deploy/containers/README.md: $((SECONDS - begin)) s"

# ---- what came of it
trace_is_whole() { # trace_is_whole NAME PACKETS
    box "cat traces/$1" >"$WORK/$1" && $CHECK "$WORK/$1" --disjoint --lossless --machines 1 --min-packets "$2"
}
nobody_is_root() {
    local image
    for image in perfleet-host perfleet-relay perfleet-collector perfleet; do
        says '^64' machine box podman inspect --type image -f '{{.Config.User}}' $image || return
    done
}
check "no image runs as root" nobody_is_root
same_packages() { diff <(cd "$WORK/packages" && ls) <(machine box ls perfleet/packages); }
check "the packages are all there" same_packages
check "a build takes nothing of what .dockerignore names" machine box sh -e -c \
    'cd perfleet && BUILDAH_ISOLATION=chroot podman build -q -f deploy/containers/Containerfile --target build -t perfleet-build .
    podman run --rm perfleet-build sh -c "test -e /src/README.md && ! test -e /src/build/left"'
check "service, probes, agent, relay and collector run, the operator does not" says '^5$' box 'podman ps -q | wc -l'
check "the trace is whole" trace_is_whole fleet.pftrace 1
check "the service is confined in its container" says 'sandbox: uid=64000 capabilities=none .*seccomp=on' \
    box 'podman logs $(podman ps -q --filter name=perfleetd) 2>&1'
segment_is_kept() { says '"host": *"one"' box "$OPERATOR traces $RELAY --order always --json"; }
check "the collector keeps segments of the order" wait_for 90 segment_is_kept
check "one of them is fetched whole" box "$OPERATOR traces get $RELAY --order always -o traces/kept.pftrace"
check "and is a trace" trace_is_whole kept.pftrace 1
config "$WORK/load.pbtx" 1000
machine_write box /root/perfleet/deploy/containers/traces/load.pbtx <"$WORK/load.pbtx"
machine box chmod 755 perfleet-example
check "a program in a container with the sockets' volume becomes a producer" box \
    'podman run -d --name load -v containers_sockets:/run/perfetto -v /root/perfleet-example:/usr/bin/perfleet-example:ro perfleet-host perfleet-example'
has_the_source() { says "$EXAMPLE_SOURCE" box "$OPERATOR query $RELAY --host one"; }
check "which the operator sees" wait_for 30 has_the_source
check "and records" box "$OPERATOR record $RELAY --host one -c traces/load.pbtx -o traces/load.pftrace"
check "whole" trace_is_whole load.pftrace 1
nothing_is_left() {
    box 'podman rm -f -v -t 1 load; docker-compose down -v -t 5' && box 'podman ps -aq; podman volume ls -q; podman network ls -q --filter name=containers_' >"$WORK/left" &&
        ! grep . "$WORK/left"
}
check "taken down, no container, volume or network is left" nothing_is_left
finish
