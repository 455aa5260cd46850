#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the track events of a trace say, by an independent reader: shares no code with perfleet.

Usage: track_events.py FILE [--summary] [--expect FILE] [--once]

Resolves interned data, timestamps, defaults and track descriptors per sequence, and prints one line
per event, in the order of time, then the tracks. Times are microseconds after the whole second of
the first event; states are shown without. Exit code 1 if an event names what its sequence does not know, comes
before the sequence's state was cleared, or differs from --expect. --summary prints counts only. --once: no
sequence has the same event at the same time twice.
"""
import argparse
import collections
import difflib
import struct
import sys

from trace_check import Malformed, fields

TYPES = {1: "BEGIN", 2: "END", 3: "INSTANT", 4: "COUNTER", 5: "STATE"}
ARG_VALUES = {2: "bool", 3: "uint", 4: "int", 5: "double", 6: "str", 7: "pointer", 9: "json"}
DISORDER = []


def signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


def double(value):
    return struct.unpack("<d", struct.pack("<Q", value))[0]


class Message:
    """Fields of a message, by number, each a list."""

    def __init__(self, data, span):
        self.data = data
        self.fields = collections.defaultdict(list)
        for number, value in fields(data, *span):
            self.fields[number].append(value)

    def __contains__(self, number):
        return number in self.fields

    def get(self, number, default=0):
        return self.fields[number][-1] if number in self.fields else default

    def text(self, number, default=""):
        if number not in self.fields:
            return default
        begin, end = self.fields[number][-1]
        return self.data[begin:end].decode("utf-8", "replace")

    def texts(self, number):
        return [self.data[b:e].decode("utf-8", "replace") for b, e in self.fields[number]]

    def all(self, number):
        return [Message(self.data, span) for span in self.fields[number]]


class Sequence:
    INTERNED = {1: "category", 2: "name", 3: "argument", 4: "location", 20: "body"}

    def __init__(self):
        self.is_cleared = False
        self.clears = self.events = self.losses = 0
        self.forget()

    def forget(self):
        self.known = {kind: {} for kind in self.INTERNED.values()}
        self.clock = self.track = self.incremental = 0
        self.units = {}

    def intern(self, data):
        for number, kind in self.INTERNED.items():
            for entry in data.all(number):
                iid = entry.get(1)
                if kind == "location":
                    text = f"{entry.text(2)}:{entry.get(4)} {entry.text(3)}"
                else:
                    text = entry.text(2)
                if self.known[kind].setdefault(iid, text) != text:
                    DISORDER.append(f"{kind} {iid} means two things")

    def find(self, kind, iid):
        if iid not in self.known[kind]:
            DISORDER.append(f"{kind} {iid} is unknown")
        return self.known[kind].get(iid, "?")

    def time(self, packet):
        """Nanoseconds on the clock that the packet means."""
        value, clock = packet.get(8), packet.get(58, self.clock)
        unit, is_incremental = self.units.get(clock, (1, False))
        if not is_incremental:
            return value * unit
        self.incremental += value * unit
        return self.incremental

    def snapshot(self, snapshot):
        for clock in snapshot.all(1):
            unit = clock.get(4, 1)
            self.units[clock.get(1)] = (unit, bool(clock.get(3)))
            if clock.get(3):
                self.incremental = clock.get(2) * unit


class Reader:
    def __init__(self, data):
        self.sequences = collections.defaultdict(Sequence)
        self.tracks = collections.defaultdict(dict)
        self.seen, self.twice = set(), 0
        self.events = []
        self.counts = collections.Counter()
        for number, span in fields(data, 0, len(data)):
            if number != 1:
                raise Malformed("not a trace")
            self.packet(Message(data, span))

    def packet(self, packet):
        sequence = self.sequences[packet.get(10)]
        if packet.get(42):
            sequence.losses += 1
            sequence.is_cleared = False
        if packet.get(13) & 1:
            sequence.is_cleared = True
            sequence.clears += 1
            sequence.forget()
        if 60 in packet:
            self.track(packet.all(60)[0])
        if not sequence.is_cleared:
            if 11 in packet:
                DISORDER.append("an event before the sequence's state was cleared")
            return
        for defaults in packet.all(59):
            sequence.clock = defaults.get(58)
            sequence.track = defaults.all(11)[0].get(11) if 11 in defaults else 0
        for data in packet.all(12):
            sequence.intern(data)
        time = sequence.time(packet) if 8 in packet else 0
        for snapshot in packet.all(6):
            sequence.snapshot(snapshot)
        for event in packet.all(11):
            sequence.events += 1
            self.event(sequence, time, event)
            key = (packet.get(10), self.events[-1])
            self.twice += key in self.seen
            self.seen.add(key)

    # --- tracks -------------------------------------------------------------------------------
    def track(self, t):
        track = self.tracks[t.get(1)]
        track.setdefault("parent", t.get(5))
        for number, key in ((14, "description"), (11, "child_ordering"), (12, "rank"),
                            (15, "merge")):
            if number in t:
                track[key] = t.text(number) if number == 14 else signed(t.get(number))
        if 3 in t:
            track["name"], track["kind"] = "process", "process"
        elif 4 in t:
            track["name"], track["kind"] = "thread " + t.all(4)[0].text(5), "thread"
        else:
            track["name"] = t.text(2) or t.text(10)
            track["kind"] = "counter" if 8 in t else "state" if 18 in t else "named"
        for counter in t.all(8):
            for number, key in ((3, "unit"), (4, "multiplier"), (5, "is_incremental")):
                if number in counter and not (key == "multiplier" and counter.get(number) == 1):
                    track[key] = signed(counter.get(number))
            if 6 in counter:
                track["unit_name"] = counter.text(6)

    def path(self, uuid):
        names = []
        while uuid != 0 and len(names) < 20:
            if uuid not in self.tracks:
                DISORDER.append(f"track {uuid} is unknown")
                return "?"
            names.append(self.tracks[uuid]["name"])
            uuid = self.tracks[uuid]["parent"]
        return "/".join(reversed(names))

    # --- events -------------------------------------------------------------------------------
    def argument(self, sequence, arg, prefix, out):
        name = sequence.find("argument", arg.get(1)) if 1 in arg else arg.text(10)
        key = prefix + name
        for number, kind in ARG_VALUES.items():
            if number in arg:
                value = arg.get(number)
                if kind in ("str", "json"):
                    value = arg.text(number)
                elif kind == "int":
                    value = signed(value)
                elif kind == "double":
                    value = double(value)
                out.append(f"{key}={value!r}:{kind}")
        for entry in arg.all(11):
            self.argument(sequence, entry, key + ".", out)
        for i, entry in enumerate(arg.all(12)):
            self.argument(sequence, entry, f"{key}[{i}]", out)

    def extras(self, sequence, e):
        out = []
        for arg in e.all(4):
            self.argument(sequence, arg, "debug.", out)
        out += [f"flow={i}" for i in e.fields[47]]
        out += [f"terminating_flow={i}" for i in e.fields[48]]
        if 30 in e:
            out.append(f"value={signed(e.get(30))}")
        if 44 in e:
            out.append(f"value={double(e.get(44))}")
        if 52 in e:
            out.append(f"correlation_id={e.get(52)}")
        if 53 in e:
            out.append(f"correlation_id={e.text(53)}")
        if 34 in e:
            out.append("location=" + sequence.find("location", e.get(34)))
        for log in e.all(21):
            out.append(f"log={log.get(3)} {sequence.find('body', log.get(2))} at "
                       f"{sequence.find('location', log.get(1))}")
        for action in e.all(25):
            out.append(f"chrome_user_event={action.text(1)}")
        return sorted(out)

    def event(self, sequence, time, e):
        kind = TYPES.get(e.get(9), "?")
        categories = [sequence.find("category", i) for i in e.fields[3]] + e.texts(22)
        name = sequence.find("name", e.get(10)) if 10 in e else e.text(23)
        track = self.path(e.get(11, sequence.track))
        line = " ".join([track, "|", kind, ",".join(categories), repr(name)])
        self.counts[line.split("| ", 1)[1]] += 1
        self.events.append((time, kind, " ".join([line, *self.extras(sequence, e)])))

    def lines(self):
        first = min((time for time, kind, _ in self.events if kind != "STATE"), default=0)
        first -= first % 1000000000
        timed = sorted((e for e in self.events if e[1] != "STATE"), key=lambda e: e[0])
        for time, _, line in timed:
            yield f"{(time - first) / 1000:+.3f} {line}"
        for _, _, line in (e for e in self.events if e[1] == "STATE"):
            yield line
        for path, uuid in sorted((self.path(uuid), uuid) for uuid in self.tracks):
            track = {k: v for k, v in self.tracks[uuid].items() if k not in ("name", "parent") and v}
            yield f"track {path}: " + " ".join(f"{k}={track[k]}" for k in sorted(track))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--expect")
    options = parser.parse_args()
    with open(options.file, "rb") as f:
        reader = Reader(f.read())
    lines = list(reader.lines())
    if options.once and reader.twice:
        DISORDER.append(f"{reader.twice} of {len(reader.events)} events are there twice")
    if options.summary:
        sequences = [s for s in reader.sequences.values() if s.events]
        print(f"sequences={len(sequences)} events={len(reader.events)} "
              f"clears={sum(s.clears for s in sequences)} "
              f"losses={sum(s.losses for s in sequences)}")
        for line, count in sorted(reader.counts.items()):
            print(f"{count} {line}")
    elif not options.expect:
        print("\n".join(lines))
    for complaint in sorted(set(DISORDER)):
        print(f"# {complaint}", file=sys.stderr)
    if options.expect:
        with open(options.expect, encoding="utf-8") as f:
            diff = list(difflib.unified_diff(f.read().splitlines(), lines, options.expect,
                                             options.file, lineterm="", n=0))
        print("\n".join(diff) if diff else "as expected")
        return 1 if diff or DISORDER else 0
    return 1 if DISORDER else 0


if __name__ == "__main__":
    sys.exit(main())
