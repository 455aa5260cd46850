# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The blocks of commands of the documents on machines (sourced after lib.sh and machines.sh).
#   run_page PAGE      each block of it is a claim; what a page has set and where it went lasts until its end.
#                      `before NUMBER` is called before each, `settle NUMBER MACHINES` after it: what it began is
#                      there when the next one comes. PAGE_ENV is what a page begins with.

# In this order: what one page has made the next finds there. integration.docs, integration.containers.
# shellcheck disable=SC2034
PAGES_OF_HOSTS=(docs/first-fleet.md docs/man/perfleet.1.md docs/man/perfleet-relay.8.md README.md docs/without-packages.md
    docs/certificates.md
    docs/man/perfleet-agent.8.md docs/man/perfleetd.8.md docs/sizing.md
    docs/troubleshooting.md docs/metrics.md docs/hardening.md docs/upgrades.md)
# shellcheck disable=SC2034
PAGES_OF_ENGINES=(deploy/containers/README.md deploy/kubernetes/README.md)

# run_block NUMBER MACHINE: as a person would type it: a command that fails is seen, variables and folders last
# until the end of the page, and what was started goes on.
run_block() {
    local script=/tmp/block-$1.sh
    {
        echo '[ ! -e /tmp/page.env ] || . /tmp/page.env; set -e'
        cat "$WORK/blocks/$1.sh"
        echo '{ export -p; echo "cd \"$PWD\""; } >/tmp/page.env'
    } | machine_write "$2" "$script" && machine "$2" bash "$script" >"$WORK/block-$1-$2.out" 2>&1
}
machine_write() { # machine_write NAME FILE
    nsenter -t "${MACHINE_PID[$1]}" -m -r sh -c "cat >$2"
}

run_on_all() { # run_on_all NUMBER MACHINE...: at the same time
    local number=$1 name failed=0 jobs=()
    shift
    for name in "$@"; do
        run_block "$number" "$name" &
        jobs+=($!)
    done
    for name in "$@"; do
        wait "${jobs[0]}" || { failed=1; echo "on $name:"; tail -n 20 "$WORK/block-$number-$name.out"; }
        jobs=("${jobs[@]:1}")
    done
    return $failed
}

before() { :; }
settle() { :; }
run_page() {
    local number where machines name since
    for name in "${!MACHINE_PID[@]}"; do
        machine_write "$name" /tmp/page.env <<<"${PAGE_ENV:-}"
        # Those without systemd have nobody who ends what was left.
        [ "$(cat "/proc/${MACHINE_PID[$name]}/comm")" != sleep ] || machine "$name" sh -c \
            'kill $(pidof perfleetd perfleet-relay perfleet-agent perfleet-example perfleet ssh socat)' 2>/dev/null
    done
    rm -rf "$WORK/blocks"
    while read -r number where machines; do
        since=${EPOCHREALTIME/./}
        before "$number"
        # shellcheck disable=SC2086
        check "$where works on $machines" run_on_all "$number" $machines
        echo "# $(((${EPOCHREALTIME/./} - since) / 1000)) ms"
        settle "$number" "$machines" || echo "# what it started is not all there yet"
    done < <(python3 -B "$ROOT/tests/support/doc_commands.py" extract "$WORK/blocks" "$1")
}
