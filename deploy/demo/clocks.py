#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the clock offsets that `perfleet record` printed with the truth.

Usage: clocks.py SUMMARY < "NAME SECONDS" lines (how far its boot clock is from the reference's).
Fails when a true offset is not within the bound that was printed for it, or was not printed.
"""
import re
import sys

LINE = re.compile(r"^host (\S+):.*clock ([+-][\d.]+) ms \+- ([\d.]+) ms")


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        found = {m.group(1): (float(m.group(2)), float(m.group(3)))
                 for m in map(LINE.match, f) if m}
    wrong = 0
    for name, seconds in (line.split() for line in sys.stdin if line.strip()):
        true_ms = int(seconds) * 1000.0
        offset_ms, bound_ms = found.get(name, (None, None))
        if offset_ms is None:
            print(f"{name}: true {true_ms:+.3f} ms, not measured")
            wrong += 1
            continue
        error_ms = offset_ms - true_ms
        holds = abs(error_ms) <= bound_ms + 0.001  # what was printed is rounded
        print(f"{name}: true {true_ms:+.3f} ms, measured {offset_ms:+.3f} ms: wrong by "
              f"{error_ms:+.3f} ms, bound {bound_ms:.3f} ms{'' if holds else '  <-- NOT WITHIN'}")
        wrong += not holds
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
