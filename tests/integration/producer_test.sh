#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# libperfleet by its example program: exact accounts of what was written and dropped, large
# packets, several sessions, a service that dies and comes back, an installed copy.
. "$(dirname "$0")/lib.sh"

start_service one || { check "perfleetd opens its sockets" false; finish; }
config "$WORK/big.pbtx" 0 400000
config "$WORK/short.pbtx" 1000 65536

# run_example NAME ARGS...: writes while a recording runs until the example has ended by itself.
run_example() {
    local name=$1 recorder
    shift
    timeout 600 "$BIN/perfleet-example" "$@" >"$WORK/$name.out" 2>&1 &
    local example=$!
    wait_for_source "$EXAMPLE_SOURCE" 1 || return 1
    "$BIN/perfleet" record -c "$WORK/big.pbtx" -o "$WORK/$name.pftrace" \
        --host "one=unix:$WORK/one/consumer.sock" >"$WORK/$name-record.log" 2>&1 &
    recorder=$!
    wait $example || return 1
    wait_for 20 grep -q 'recording ' "$WORK/$name-record.log" # before that it would be broken off
    kill -INT $recorder
    wait $recorder || [ $? -eq 3 ] # losses are counted below
}

# What the example says it wrote is what is in the trace: account NAME DROPPED-REGEX
account() {
    local written
    written=$(grep -o 'written=[0-9]*' "$WORK/$1.out") || { cat "$WORK/$1.out"; return 1; }
    grep -qE "dropped=$2 " "$WORK/$1.out" || { cat "$WORK/$1.out"; return 1; }
    says " test_packets=${written#written=} " $CHECK "$WORK/$1.pftrace"
}

check "a flood that drops runs to its end" \
    run_example flood --rate 0 --count 200000 --size 512 --policy drop
check "written packets arrived, all others were counted as dropped" account flood '[0-9]+'
check "a flood that stalls runs to its end" \
    run_example stall --rate 0 --count 100000 --threads 2 --size 512 --policy stall
check "nothing was dropped and everything arrived" account stall 0
check "and in order" $CHECK "$WORK/stall.pftrace" --contiguous --lossless --min-packets 200000
check "packets of 300 kB over many chunks run to their end" \
    run_example large --rate 200 --count 150 --threads 2 --size 300000 --policy stall
check "every one arrived whole" account large 0
check "and in order" $CHECK "$WORK/large.pftrace" --contiguous --lossless --min-packets 300
check "track events are recorded" \
    run_example slices --rate 200 --count 200 --threads 2 --track-events
check "as slices and counters" \
    $CHECK "$WORK/slices.pftrace" --lossless --min-track-events 4000

# --- several sessions, and a service that comes back ------------------------------------------
start example "$BIN/perfleet-example" --rate 2000 --smb-kb 4096 --threads 2
check "the example registers" wait_for_source "$EXAMPLE_SOURCE" 1
at_once() {
    local name pids=()
    for name in a b c; do
        record one "$WORK/short.pbtx" "$WORK/$name.pftrace" &
        pids+=($!)
    done
    for name in "${pids[@]}"; do wait "$name" || return 1; done
}
check "three sessions record one producer at once" at_once
for name in a b c; do
    check "session $name has its own whole sequences" \
        $CHECK "$WORK/$name.pftrace" --contiguous --lossless --min-packets 10
done
kill -9 "$SERVICE_PID"
wait "$SERVICE_PID" 2>/dev/null # 137: that is what was asked for
start_service one
check "a service that was killed and came back sees the data source again" \
    wait_for_source "$EXAMPLE_SOURCE" 1
check "and records it" record one "$WORK/short.pbtx" "$WORK/again.pftrace"
check "whole" $CHECK "$WORK/again.pftrace" --contiguous --lossless --min-packets 10

# --- the library as others get it -------------------------------------------------------------
cat >"$WORK/user.c" <<'END'
#include <perfleet.h>
int main(void)
{
    struct perfleet_conf conf = {.producer_name = "user"};
    struct perfleet *tracing;
    if (perfleet_open(&conf, &tracing) != 0)
        return 1;
    perfleet_close(tracing);
    return 0;
}
END
printf '#include <perfleet.h>\nvoid f(perfleet_source *s)\n{\n    perfleet_writer *w;\n%s}\n' \
    '    PERFLEET_TRACE (s, w) { perfleet_packet_begin(w); perfleet_packet_end(w); }
' >"$WORK/user.cc"
installed() {
    DESTDIR=$WORK/root cmake --install "$PFL_BUILD" >/dev/null || return 1
    PKG_CONFIG_SYSROOT_DIR=$WORK/root
    PKG_CONFIG_PATH=$(dirname "$(find "$WORK/root" -name perfleet.pc)")
    export PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_PATH
    export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
    # shellcheck disable=SC2046
    cc -std=c11 -Wall -Wextra -Werror "$WORK/user.c" -o "$WORK/user" \
        $(pkg-config --cflags --libs perfleet) || return 1
    LD_LIBRARY_PATH=$(dirname "$(find "$WORK/root" -name libperfleet.so)") "$WORK/user"
}
# A project of its own, in C and, where there is a compiler, C++; shared and static; moved elsewhere.
found_by_cmake() {
    local languages=C
    mkdir -p "$WORK/project" && cp "$WORK/user.c" "$WORK/project/" || return 1
    cp "$ROOT/producer/example/hello.cc" "$WORK/project/hello.cc" || return 1
    command -v c++ >/dev/null && languages="C CXX"
    {
        echo 'cmake_minimum_required(VERSION 3.25)'
        echo "project(user LANGUAGES $languages)"
        echo 'find_package(perfleet 0.1 REQUIRED)'
        echo 'add_executable(user user.c)'
        echo 'target_link_libraries(user PRIVATE perfleet::perfleet)'
        echo 'add_executable(user_static user.c)'
        echo 'target_link_libraries(user_static PRIVATE perfleet::static)'
        if [ "$languages" != C ]; then
            echo 'add_executable(hello hello.cc)'
            echo 'target_link_libraries(hello PRIVATE perfleet::perfleet)'
        fi
    } >"$WORK/project/CMakeLists.txt"
    mv "$WORK/root" "$WORK/elsewhere" || return 1
    cmake -S "$WORK/project" -B "$WORK/project/build" >"$WORK/cmake.log" 2>&1 \
        -Dperfleet_DIR="$(dirname "$(find "$WORK/elsewhere" -name perfleetConfig.cmake)")" &&
        cmake --build "$WORK/project/build" >>"$WORK/cmake.log" 2>&1 &&
        "$WORK/project/build/user" && "$WORK/project/build/user_static" && return 0
    cat "$WORK/cmake.log"
    return 1
}
speaks_cxx() {
    # shellcheck disable=SC2046
    c++ -std=c++11 -Wall -Wextra -Werror -fsyntax-only -I"$ROOT/producer" "$WORK/user.cc"
}
exports_only_its_own() {
    local lib
    lib=$(find "$PFL_BUILD/producer" -name 'libperfleet.so' | head -n 1)
    [ "$(nm -D --defined-only "$lib" | awk '$2 != "A" && $3 !~ /^perfleet_/' | wc -l)" -eq 0 ]
}
# Else a plug-in's dlclose takes away what its threads run at their end.
stays_loaded() {
    readelf -d "$(find "$PFL_BUILD/producer" -name 'libperfleet.so' | head -n 1)" | grep -q NODELETE
}
check "the shared library is never unloaded under its threads" stays_loaded
if grep -q 'PFL_SANITIZE:STRING=.\+' "$PFL_BUILD/CMakeCache.txt"; then
    skip "the installed library is found by pkg-config and works" "sanitized build"
    skip "find_package finds it wherever it is moved, for C and C++" "sanitized build"
else
    check "the installed library is found by pkg-config and works" installed
    check "find_package finds it wherever it is moved, for C and C++" found_by_cmake
    check "it exports perfleet_ names alone" exports_only_its_own
fi
if command -v c++ >/dev/null; then
    check "a C++ program can include the header" speaks_cxx
else
    skip "a C++ program can include the header" "no C++ compiler"
fi
finish
