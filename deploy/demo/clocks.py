#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the clock offsets that `perfleet record` or `perfleet traces get` printed with the truth.

Usage: clocks.py SUMMARY < "NAME SECONDS" lines (how far each boot clock is from this machine's).
Fails when a true offset is not within the bound that was printed for it, or was not printed.
"""
import re
import sys

RECORDED = re.compile(r"^host (\S+):.* clock (?:(reference)|([+-][\d.]+) s \+- ([\d.]+) s)")
KEPT = re.compile(r"^(\S+): .*(?:(its clock is the trace's)|clock ([+-][\d.]+) s, within ([\d.]+) us)")


def read_summary(lines):
    """({name: (offset, bound)}, the reference's name)"""
    found, reference = {}, None
    for line in lines:
        for pattern, unit in ((RECORDED, 1), (KEPT, 1e-6)):
            m = pattern.match(line)
            if m:
                found[m[1]] = float(m[3] or 0), float(m[4] or 0) * unit
                reference = m[1] if m[2] else reference
    return found, reference


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        found, reference = read_summary(f)
    true = {name: int(seconds) for name, seconds in (line.split() for line in sys.stdin if line.strip())}
    wrong = 0
    for name, seconds in true.items():
        seconds -= true.get(reference, 0)
        offset, bound = found.get(name, (None, None))
        if offset is None:
            print(f"{name}: true {seconds:+d} s, not measured")
            wrong += 1
            continue
        error = offset - seconds
        holds = abs(error) <= bound + 1e-6  # what was printed is rounded to the microsecond
        print(f"{name}: true {seconds:+d} s, measured {offset:+.6f} s, wrong by {error * 1e6:+.0f} us, bound "
              f"{bound * 1e6:.0f} us{'' if holds else ' NOT WITHIN'}")
        wrong += not holds
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
