#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws a part of a merged trace as an SVG, in the manner of the Perfetto UI: hosts, their threads
and counters, on one time axis.

Usage: picture.py TRACE OUT.svg [--span MS] [--at MS] [--threads N]

--at is the begin of the part, in milliseconds after the first event; without it, the part is taken
in which all hosts are busy. --threads is how many threads of a host are shown (3), the busiest
first. Exit code 1 if the trace has no slice to draw.
"""
import argparse
import bisect
import collections
import html
import os
import re
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/support"))
from trace_check import BOOTTIME, Trace, fields  # noqa: E402
from track_events import Message, Sequence, double, signed  # noqa: E402

MONOTONIC = 3
BEGIN, END, COUNTER = 1, 2, 4
WIDTH, LEFT, RULER, BAND, PROCESS, ROW, GAP = 1000, 190, 30, 24, 19, 16, 4
DEPTH_MAX = 4  # rows of a thread
COUNTER_HEIGHT = 26
LETTER = 6.0  # width of one, in slices
PALETTE = ["#aecbfa", "#fdd0a2", "#b7e1b5", "#f4b6c2", "#cdb9f0", "#fbe08a", "#a5dfe3", "#e9bfe0",
           "#cfe09b", "#bccbdb", "#f3c0b0"]
STYLE = """
text { font-family: Roboto, "Helvetica Neue", Arial, sans-serif; font-size: 11px; fill: #3c4043 }
.slice { font-size: 10px; fill: #1f2a37 }
.host { font-size: 13px; font-weight: bold; fill: #1a3a6b }
.process { font-weight: bold }
.note { fill: #5f6b7a }
.right { text-anchor: end }
"""


class Track:
    """A thread or a counter. Slices are (begin, end, depth, name), values (time, value)."""

    def __init__(self):
        self.name, self.parent, self.is_thread, self.process = "", 0, False, None
        self.steps = []  # (time, kind, name or value), as they come
        self.slices, self.values = [], []

    def finish(self):
        """Pairs begins with ends. A slice that has no begin or no end is left out."""
        open_slices = []
        for time, kind, what in sorted(self.steps, key=lambda step: step[0]):
            if kind == BEGIN:
                open_slices.append((time, what))
            elif kind == END and open_slices:
                begin, name = open_slices.pop()
                self.slices.append((begin, time, len(open_slices), name))
            elif kind == COUNTER:
                self.values.append((time, what))

    def busy_ns(self, begin, end):
        return sum(min(e, end) - max(b, begin) for b, e, depth, _ in self.slices
                   if depth == 0 and b < end and e > begin)


class Events:
    """The track events of all hosts, at nanoseconds of the first host's boot clock."""

    def __init__(self, data):
        self.trace = Trace(data)
        self.points = {m: sorted(p) for m, p in self.trace.points.items()}
        self.machine_clocks = collections.defaultdict(int)  # boot clock less monotonic clock
        self.sequences = collections.defaultdict(Sequence)
        self.is_monotonic = collections.defaultdict(bool)  # a sequence's times
        self.tracks = collections.defaultdict(Track)
        self.errors_ns = {}
        for _, span in fields(data, 0, len(data)):
            self.packet(Message(data, span))
        for track in self.tracks.values():
            track.finish()

    def hosts(self):
        """Machine ids with tracks, in the order of the trace."""
        return sorted({machine for machine, _ in self.tracks if self.trace.machines[machine].name})

    def offset_ns(self, machine, time=0):
        """How far the machine's boot clock is ahead of the timeline's."""
        points = self.points.get(machine)
        if not points:
            return 0
        at = min(bisect.bisect(points, (time, 0)), len(points) - 1)
        return points[at][0] - points[at][1]

    def snapshot(self, machine, packet, sequence):
        clocks = {c.get(1): c.get(2) for s in packet.all(6) for c in s.all(1)}
        if BOOTTIME in clocks and MONOTONIC in clocks:
            self.machine_clocks[machine] = clocks[BOOTTIME] - clocks[MONOTONIC]
        elif clocks:
            self.is_monotonic[packet.get(10)] = MONOTONIC in clocks
        for s in packet.all(6):
            sequence.snapshot(s)

    def time(self, machine, packet, sequence):
        time = sequence.time(packet)
        if packet.get(58, 0) == MONOTONIC or 58 not in packet and self.is_monotonic[packet.get(10)]:
            time += self.machine_clocks[machine]
        return time - self.offset_ns(machine, time)

    def packet(self, packet):
        machine, sequence = packet.get(98), self.sequences[packet.get(10)]
        if packet.get(13) & 1:
            sequence.forget()
        for attributes in packet.all(126):
            for a in attributes.all(1):
                if a.text(1).startswith("perfleet.clock_error_ns."):
                    self.errors_ns[a.text(1).split(".", 2)[2]] = a.get(2)
        for descriptor in packet.all(60):
            self.describe(machine, descriptor)
        for defaults in packet.all(59):
            sequence.clock = defaults.get(58)
            sequence.track = defaults.all(11)[0].get(11) if 11 in defaults else 0
        for data in packet.all(12):
            sequence.intern(data)
        time = self.time(machine, packet, sequence) if 8 in packet else 0
        self.snapshot(machine, packet, sequence)
        for event in packet.all(11):
            self.event(self.tracks[machine, event.get(11, sequence.track)], sequence, time, event)

    def describe(self, machine, t):
        track = self.tracks[machine, t.get(1)]
        track.parent = t.get(5)
        for process in t.all(3):
            track.process = (process.get(1), process.text(6))
        for thread in t.all(4):
            track.is_thread, track.name = True, thread.text(5)
        track.name = track.name or t.text(2) or t.text(10)

    @staticmethod
    def event(track, sequence, time, event):
        kind = event.get(9)
        if kind == COUNTER:
            value = double(event.get(44)) if 44 in event else signed(event.get(30))
            track.steps.append((time, kind, value))
        elif kind in (BEGIN, END):
            name = sequence.find("name", event.get(10)) if 10 in event else event.text(23)
            track.steps.append((time, kind, name))

    def process_of(self, machine, track):
        """Its id and name, without the folder."""
        while track.process is None and (machine, track.parent) in self.tracks and track.parent:
            track = self.tracks[machine, track.parent]
        number, name = track.process or (0, "")
        return number, os.path.basename(name)

    def shown(self, machine, begin, end, threads_max):
        """The busiest threads, each process with one of its counters."""
        tracks = [t for (m, _), t in self.tracks.items() if m == machine]
        threads = sorted((t for t in tracks if t.is_thread and t.busy_ns(begin, end) > 0),
                         key=lambda t: -t.busy_ns(begin, end))[:threads_max]
        counters = {}
        for t in sorted(tracks, key=lambda t: t.name):
            parent = self.tracks.get((machine, t.parent))
            if parent is not None and parent.process is not None and \
                    any(begin <= time < end for time, _ in t.values):
                counters.setdefault(self.process_of(machine, t), t)
        out = collections.defaultdict(list)
        for t in sorted(threads, key=lambda t: t.name):
            out[self.process_of(machine, t)].append(t)
        for process, of_process in out.items():
            of_process += [counters[process]] if process in counters else []
        return sorted(out.items())

    def bounds(self):
        times = [t.slices[0][0] for t in self.tracks.values() if t.slices]
        ends = [t.slices[-1][1] for t in self.tracks.values() if t.slices]
        return (min(times), max(ends)) if times else (0, 0)

    def best_begin(self, span, threads_max):
        """Where all hosts are busy, with several threads each."""
        first, last = self.bounds()
        step = span // 4
        busy = collections.defaultdict(collections.Counter)  # (host, step) -> thread -> ns
        for (machine, uuid), track in self.tracks.items():
            for begin, end, depth, _ in track.slices if track.is_thread else []:
                if depth < DEPTH_MAX and end - begin < span // 2:
                    busy[machine, (begin - first) // step][uuid] += end - begin

        def score(at):
            product = 1.0
            for machine in self.hosts():
                threads = sum((busy[machine, at + i] for i in range(3)), collections.Counter())
                product *= sum(ns ** 0.5 for _, ns in threads.most_common(threads_max))
            return product

        return first + step * max(range(max((last - first) // step - 4, 1)), key=score)


def plain(name):
    """A C++ function's name without its arguments and return type."""
    name = re.sub(r"^auto ", "", name.replace("(anonymous namespace)::", ""))
    return re.sub(r"\(.*", "", name)


class Picture:
    def __init__(self, begin, end):
        self.begin, self.end, self.y = begin, end, RULER
        self.out, self.lines = [], []

    def x(self, time):
        time = min(max(time, self.begin), self.end)
        return LEFT + (time - self.begin) * (WIDTH - LEFT) / (self.end - self.begin)

    def rect(self, x, y, width, height, color, more=""):
        self.out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" '
                        f'fill="{color}"{more}/>')

    def text(self, x, y, text, kind=""):
        kind = f' class="{kind}"' if kind else ""
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}"{kind}>{html.escape(text)}</text>')

    def rule(self, y):
        self.out.append(f'<path d="M0 {y:.1f}H{WIDTH}" stroke="#e3e7ec"/>')

    def ruler(self, first):
        """A line a round number of microseconds."""
        unit = next(u * 10 ** e for e in range(3, 12) for u in (1, 2, 5)
                    if (self.end - self.begin) / (u * 10 ** e) <= 9)
        for i in range((self.end - self.begin) // unit + 1):
            x = self.x(self.begin + i * unit)
            self.lines.append(x)
            if x < WIDTH - 40:
                self.text(x + 4, RULER - 12, f"+{i * unit / 1e6:g} ms", "note")
        seconds = (self.begin - first) / 1e9
        self.text(10, RULER - 12, f"{seconds:.3f} s", "note")

    def band(self, host, note):
        self.rect(0, self.y, WIDTH, BAND, "#e4edfb")
        self.text(10, self.y + 17, "▾ " + host, "host")
        self.text(WIDTH - 10, self.y + 17, note, "note right")
        self.y += BAND

    def slices(self, track):
        seen = [(b, e, d, plain(n)) for b, e, d, n in track.slices
                if b < self.end and e > self.begin and d < DEPTH_MAX]
        last = {}  # depth -> where the last slice ends, in pixels
        for begin, end, depth, name in sorted(seen):
            x, width = self.x(begin), max(self.x(end) - self.x(begin), 0.5)
            if x + width < last.get(depth, 0) + 0.4:
                continue  # less than a pixel beside another
            last[depth] = x + width
            y = self.y + GAP + depth * ROW
            color = PALETTE[zlib.crc32(name.encode()) % len(PALETTE)]
            edge = ' stroke="#fff" stroke-width="0.6"' if width > 3 else ""
            self.rect(x, y, width, ROW - 1, color, edge)
            letters = int((width - 6) / LETTER)
            if letters >= 3:
                cut = name if len(name) <= letters else name[:letters - 1] + "…"
                self.text(x + 4, y + 12, cut, "slice")
        return ROW * (1 + max((s[2] for s in seen), default=0))

    def values(self, track):
        """A step for each value; the value before the part counts, too."""
        at = bisect.bisect(track.values, (self.begin, float("-inf")))
        seen = track.values[max(at - 1, 0):bisect.bisect(track.values, (self.end, float("-inf")))]
        top = max(value for _, value in seen) or 1
        floor = self.y + GAP + COUNTER_HEIGHT
        path = [f"M{self.x(seen[0][0]):.1f} {floor}"]
        for time, value in seen:
            path.append(f"H{self.x(time):.1f}V{floor - (COUNTER_HEIGHT - 4) * value / top:.1f}")
        self.out.append(f'<path d="{"".join(path)}H{WIDTH}V{floor}Z" fill="#d6e6fa" '
                        'stroke="#5b8fd6" stroke-width="1"/>')
        return COUNTER_HEIGHT

    def process(self, name):
        self.rect(0, self.y, WIDTH, PROCESS, "#f1f4f8")
        self.text(20, self.y + 13, "▾ " + name, "process")
        self.y += PROCESS

    def track(self, track):
        height = self.slices(track) if track.is_thread else self.values(track)
        self.text(34, self.y + GAP + 12, track.name)
        self.y += height + 2 * GAP
        self.rule(self.y)

    def svg(self, what):
        grid = "".join(f'<path d="M{x:.1f} {RULER - 8}V{self.y}" stroke="#e9ecf0"/>'
                       for x in self.lines)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.y:.0f}" '
                f'role="img">\n<title>{html.escape(what)}</title>\n<style>{STYLE}</style>\n'
                f'<rect width="{WIDTH}" height="{self.y:.0f}" fill="#fff"/>\n'
                f'<rect width="{LEFT}" height="{self.y:.0f}" fill="#f7f9fb"/>\n{grid}\n'
                + "\n".join(self.out) + f'\n<path d="M{LEFT} 0V{self.y:.0f}" stroke="#d5dbe3"/>\n'
                f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{self.y - 1:.0f}" '
                'fill="none" stroke="#c4ccd6"/>\n</svg>\n')


def clock_note(events, machine, name):
    offset = events.offset_ns(machine)
    if offset == 0:
        return "the time axis is its boot clock"
    error = events.errors_ns.get(name, 0)
    return f"boot clock {offset / 1e9:+,.3f} s, aligned within ±{error / 1e3:.0f} µs"


def draw(events, begin, end, threads_max):
    picture = Picture(begin, end)
    picture.ruler(events.bounds()[0])
    for machine in events.hosts():
        name = events.trace.machines[machine].name
        picture.band(name, clock_note(events, machine, name))
        for (_, process), tracks in events.shown(machine, begin, end, threads_max):
            picture.process(process)
            for track in tracks:
                picture.track(track)
    hosts = ", ".join(events.trace.machines[m].name for m in events.hosts())
    return picture.svg(f"A trace of the hosts {hosts} on one time axis")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("out")
    parser.add_argument("--span", type=float, default=8)
    parser.add_argument("--at", type=float)
    parser.add_argument("--threads", type=int, default=3)
    options = parser.parse_args()
    with open(options.trace, "rb") as f:
        events = Events(f.read())
    if not any(t.slices for t in events.tracks.values()):
        print(f"{options.trace}: no slices", file=sys.stderr)
        return 1
    span = int(options.span * 1e6)
    begin = events.best_begin(span, options.threads) if options.at is None else \
        events.bounds()[0] + int(options.at * 1e6)
    with open(options.out, "w", encoding="utf-8") as f:
        f.write(draw(events, begin, begin + span, options.threads))
    return 0


if __name__ == "__main__":
    sys.exit(main())
