#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A boot clock that drifts, for programs into which clock_shim is loaded, and where a trace says it stood:

  drifting_clock.py move OFFSETS BEGIN PPM   until it is killed; BEGIN is a file for the time at which it began
  drifting_clock.py check TRACE BEGIN PPM LIMIT_NS

check: the trace has clock points of the second machine, from its beginning on and from later measurements,
at least five, and each is within the limit of the truth (else exit code 2: the machine may have held up the
mover)."""
import os
import struct
import sys
import time

from trace_check import Trace

BOOTTIME = 7


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def move(offsets, begin, ppm):
    clocks = [0] * 16
    fd = os.open(offsets, os.O_RDWR)
    began_ns = now_ns()
    with open(begin + ".new", "w", encoding="ascii") as file:
        file.write(str(began_ns))
    os.rename(begin + ".new", begin)
    while True:
        clocks[BOOTTIME] = (now_ns() - began_ns) * ppm // 10**6
        os.pwrite(fd, struct.pack("<16q", *clocks), 0)
        time.sleep(0.001)


def check(trace, begin, ppm, limit_ns):
    with open(trace, "rb") as file:
        points = next(iter(Trace(file.read()).points.values()), [(0, 0)])
    with open(begin, encoding="ascii") as file:
        began_ns = int(file.read())
    points = sorted(set(points))
    wrong = max(abs(theirs - ours - (ours - began_ns) * ppm // 10**6) for theirs, ours in points)
    span_ns = points[-1][1] - points[0][1]
    print(f"{len(points)} points in {span_ns / 1e9:.1f} s, wrong by at most {wrong} ns", file=sys.stderr)
    if len(points) < 5 or span_ns < 3 * 10**9:
        return 1
    return 2 if wrong > limit_ns else 0


if __name__ == "__main__":
    if sys.argv[1] == "move":
        move(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    sys.exit(check(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
