#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the clock offsets that `perfleet record` printed with the truth.

Usage: clocks.py SUMMARY < "NAME SECONDS" lines (how far its boot clock is from the reference's).
Fails when a true offset is not within the bound that was printed for it, or was not printed.
"""
import re
import sys

LINE = re.compile(r"^host (\S+):.* clock (?:(reference)|([+-][\d.]+) s \+- ([\d.]+) s)")


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        found = {m.group(1): (float(m.group(3) or 0), float(m.group(4) or 0))
                 for m in map(LINE.match, f) if m}
    wrong = 0
    for name, seconds in (line.split() for line in sys.stdin if line.strip()):
        offset, bound = found.get(name, (None, None))
        if offset is None:
            print(f"{name}: true {seconds} s, not measured")
            wrong += 1
            continue
        error = offset - int(seconds)
        holds = abs(error) <= bound + 1e-6  # what was printed is rounded to the microsecond
        print(f"{name}: true {int(seconds):+d} s, measured {offset:+.6f} s, wrong by "
              f"{error * 1e6:+.0f} us, bound {bound * 1e6:.0f} us{'' if holds else ' NOT WITHIN'}")
        wrong += not holds
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
