# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The root of another release or architecture, entered without changing it (sourced by in_root, arm64.sh and
# tests/release/run). Both functions want root in a mount namespace of the caller's own, which takes all away again.
#
#   pfl_root_mount ROOT DIR PLACE...  DIR/root is ROOT, under an overlay in memory, with these places of this machine
#                                     where they are here. None of them may hold DIR
#   pfl_root_enter DIR                makes DIR/root the root. By pivot_root: in a chroot there are no user namespaces

pfl_root_mount() {
    local root=$1 dir=$2 place
    shift 2
    mount -t tmpfs -o mode=755 tmpfs "$dir" && mkdir "$dir/upper" "$dir/work" "$dir/root" || return
    mount -t overlay -o "lowerdir=$root,upperdir=$dir/upper,workdir=$dir/work" overlay "$dir/root" || return
    for place; do
        mkdir -p "$dir/root$place" && mount --rbind "$place" "$dir/root$place" || return
    done
}

pfl_root_enter() {
    cd "$1/root" && mkdir -p old && pivot_root . old && cd / && umount --lazy /old && rmdir /old
}
