#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Are moments of hosts in time namespaces in their places in a merged file?

  placed.py FILE SUMMARY [COUNT]

Namespaces differ in the boot clock and share the wall clock, and services note both together, again and again:
each such note is a moment whose true place is known. SUMMARY is what `perfleet record --json` or `perfleet
traces get` printed. Each of the COUNT machines (3) must have notes, and lie within the bound that was printed
for it. A note whose two clocks were read with a pause between them is wrong by itself: so the middle one counts.
"""
import json
import re
import statistics
import sys

from trace_check import CLOCK_SNAPSHOT, MACHINE, BOOTTIME, Trace, fields, message

REALTIME = 1
READING_NS = 5000  # between the two readings of one note
KEPT = re.compile(r"^(.+?): \d+ segments?, \d+ packets, (?:its clock is the trace's|clock \S+ s, within ([\d.]+) us)")


class Placed(Trace):
    def __init__(self, data):
        self.notes = {}  # machine id -> [(boot clock, wall clock)]
        super().__init__(data)

    def packet(self, span):
        super().packet(span)
        f = message(self.data, span)
        if CLOCK_SNAPSHOT not in f:
            return
        clocks = [message(self.data, v) for n, v in fields(self.data, *f[CLOCK_SNAPSHOT]) if n == 1]
        clocks = {c.get(1): c.get(2) for c in clocks}
        if BOOTTIME in clocks and REALTIME in clocks:
            self.notes.setdefault(f.get(MACHINE, 0), []).append((clocks[BOOTTIME], clocks[REALTIME]))

    def place(self, machine, boot_ns):
        """On the file's timeline: by the last clock point before it."""
        points = sorted(self.points.get(machine, [(0, 0)]))
        theirs, ours = max((p for p in points if p[0] <= boot_ns), default=points[0])
        return boot_ns - (theirs - ours)


def read_bounds(path):
    """name -> ns; 0: the reference"""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if text.startswith("{"):
        return {h["name"]: h.get("clock_error_ns", 0) for h in json.loads(text)["hosts"]}
    found = (KEPT.match(line) for line in text.splitlines())
    return {m[1]: float(m[2] or 0) * 1000 for m in found if m}


def main():
    with open(sys.argv[1], "rb") as file:
        trace = Placed(file.read())
    bounds = read_bounds(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    truth = statistics.median(boot - wall for boot, wall in trace.notes[0])
    wrong = len(trace.notes) != count
    for machine, notes in sorted(trace.notes.items()):
        name = trace.machines[machine].name
        bound = bounds.get(name)
        off = statistics.median(trace.place(machine, boot) - wall - truth for boot, wall in notes)
        print(f"{name}: {len(notes)} notes, wrong by {off / 1000:+.1f} us, bound {(bound or 0) / 1000:.1f} us")
        wrong |= bound is None or abs(off) > bound + READING_NS
    print("worst bound", max(bounds.values()) / 1000, "us")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
