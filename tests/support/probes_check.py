#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a trace of perfleet-probes has: probes_check.py TRACE CLAIM...

Claims: process_tree, process_stats, sys_stats, cpu_info, compact_switch, compact_waking,
no_compact_switch, event:FIELD (an FtraceEvent with that field), ftrace_stats_begin,
ftrace_stats_end, setup_errors, error:TEXT (one of them), setup_unknown, overrun, preserved, all_started, failed:EVENT,
kprobes:HITS:MISSES, raw_clock, only_pid:N (events of one thread), lossless. A decoder of its own: it knows protobuf and field numbers only.
"""
import sys


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            if at + size > len(data):
                raise ValueError("a field past its message")
            value, at = data[at:at + size], at + size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at:at + size], at + size
        else:
            raise ValueError(f"wire type {kind}")
        yield tag >> 3, value


PACKETS = {2: "process_tree", 9: "process_stats", 7: "sys_stats", 67: "cpu_info"}


def look_at_bundle(bundle, seen):
    for field, value in fields(bundle):
        if field == 2:
            for inner, number in fields(value):
                seen.add(f"event:{inner}")
                if inner == 2:
                    seen.add(f"pid:{number}")
        elif field == 3 and value:
            seen.add("lost")
        elif field == 8:
            seen.add("error")
        elif field == 5 and value == 4:
            seen.add("raw_clock")
        elif field == 4:
            for inner, _ in fields(value):
                seen.add({1: "compact_switch", 7: "compact_waking"}.get(inner, ""))


def look_at_stats(stats, seen):
    for field, value in fields(stats):
        if field == 1:
            seen.add({1: "ftrace_stats_begin", 2: "ftrace_stats_end"}.get(value, ""))
        elif field == 2:
            seen.update("overrun" for inner, number in fields(value) if inner == 3 and number)
        elif field in (5, 13):
            seen.update(("setup_errors", f"error:{value.decode()}"))
        elif field == 6:
            seen.add("setup_unknown")
        elif field == 7:
            seen.add(f"failed:{value.decode()}")
        elif field == 8 and value:
            seen.add("preserved")
        elif field == 10:
            sums = dict(fields(value))
            seen.add(f"kprobes:{sums[1]}:{sums[2]}")


def main(path, claims):
    seen = set()
    for number, packet in fields(open(path, "rb").read()):
        for field, value in fields(packet) if number == 1 else ():
            seen.add(PACKETS.get(field, ""))
            if field == 1:
                look_at_bundle(value, seen)
            elif field == 34:
                look_at_stats(value, seen)
            elif field == 69:
                seen.update("all_started" for inner, _ in fields(value) if inner == 1)
            elif field == 42:
                seen.add("lost")
    wrong = 0
    for claim in claims:
        if claim == "lossless":
            good = "lost" not in seen and "error" not in seen
        elif claim.startswith("only_pid:"):
            good = {c for c in seen if c.startswith("pid:")} == {claim[5:]}
        elif claim.startswith("no_"):
            good = claim[3:] not in seen
        else:
            good = claim in seen
        if not good:
            wrong += 1
            print(f"not so: {claim}; seen: {sorted(seen)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
