#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which fields a trace of perfleet-probes has in its polled packets: probes_fields.py TRACE CLAIM...

A claim is a path of field numbers from TracePacket on: 2.1.7 (ProcessTree.processes.process_start_from_boot),
7.18 (SysStats.slab_info); -2.1.7: there is none; 7.1:>2 and 7.1:1: how many values different in their first
field (the kinds of a counter).
"""
import sys

from trace_check import fields

NESTED = ((2, 1), (2, 2), (9, 1))
# Repeated messages of which the first field tells the kind.
KEYED = {1, 2, 10, 12, 13, 14, 15, 16, 18}


def look(data, path, span, seen, keys):
    parts = list(fields(data, *span))
    for number, value in parts:
        inner = path + (number,)
        seen.add(inner)
        if len(inner) == 1 and number in (2, 7, 9, 69) or inner in NESTED:
            look(data, inner, value, seen, keys)
        elif len(inner) == 2 and inner[0] == 7 and number in KEYED:
            first = next((v for n, v in fields(data, *value) if n == 1), None)
            first = data[first[0]:first[1]] if isinstance(first, tuple) else first
            keys.setdefault(inner, set()).add(first)


def main(path, claims):
    with open(path, 'rb') as file:
        data = file.read()
    seen, keys = set(), {}
    for number, packet in fields(data, 0, len(data)):
        if number == 1:
            look(data, (), packet, seen, keys)
    wrong = 0
    for claim in claims:
        what, _, count = claim.partition(':')
        place = tuple(int(number) for number in what.lstrip('-').split('.'))
        good = (place in seen) != what.startswith('-')
        if count.startswith('>'):
            good = len(keys.get(place, ())) > int(count[1:])
        elif count:
            good = len(keys.get(place, ())) == int(count)
        if not good:
            wrong += 1
            print(f'not so: {claim}; {len(keys.get(place, ()))} kinds; seen: {sorted(seen)}')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1], sys.argv[2:]))
