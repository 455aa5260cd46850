#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An independent reader of trace files, for the tests and the demo: shares no code with perfleet.

Usage: trace_check.py FILE [--json] [CHECK ...]

Walks every packet to its last byte and says, per machine, what it holds. Checks, each of which
makes the exit code 1 when it does not hold (that every packet parses is always checked):
  --disjoint            no packet sequence id is used by two machines, but for 1, which is the
                        writer of the file itself
  --machines N          packets of exactly N machines (service packets of the trace's own included)
  --contiguous          for_testing.seq_value of every sequence rises by one, from its first value
  --test-sequences N:FIRST:LAST  exactly N sequences have a seq_value, each begins with FIRST and ends
                        with LAST; with --contiguous: each value is there, once, in order
  --lossless            no packet is marked with previous_packet_dropped
  --min-packets N       every machine has at least N packets from producers
  --min-track-events N  at least N track events in all
  --compressed CODECS   what is compressed in the file is so by these ("deflate", "zstd", "deflate,zstd",
                        or "none"); all checks are of the packets inside
  --ordered             seq_value never falls on a sequence (for rings that were overwritten)
"""
import argparse
import collections
import json
import sys
import zlib

import unpacked

TRACK_EVENT, CLOCK_SNAPSHOT, SEQUENCE, STATS, DROPPED, SYSTEM_INFO = 11, 6, 10, 35, 42, 45
PID, MACHINE, REMOTE_CLOCK_SYNC, FOR_TESTING = 79, 98, 107, 900
UID, TIMESTAMP = 3, 8
OWN_SEQUENCE = 1
BOOTTIME = 6


class Malformed(Exception):
    pass


def varint(data, pos, end):
    value = shift = 0
    while True:
        if pos >= end or shift > 63:
            raise Malformed("varint")
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7


def fields(data, pos, end):
    """Yields (id, value) of a message: an int, or (begin, end) of length-delimited bytes."""
    while pos < end:
        tag, pos = varint(data, pos, end)
        kind = tag & 7
        if tag >> 3 == 0:
            raise Malformed("field id 0")
        if kind == 0:
            value, pos = varint(data, pos, end)
        elif kind == 2:
            size, pos = varint(data, pos, end)
            value = (pos, pos + size)
            pos += size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value = int.from_bytes(data[pos:pos + size], "little")
            pos += size
        else:
            raise Malformed(f"wire type {kind}")
        if pos > end:
            raise Malformed("a field runs past its message")
        yield tag >> 3, value


def message(data, span):
    return dict(fields(data, *span))


class Machine:
    def __init__(self):
        self.packets = self.bytes = self.service_packets = self.track_events = self.dropped = 0
        self.test_packets = 0
        self.sequences, self.pids, self.uids = set(), set(), set()
        self.name = ""
        self.buffer_losses = collections.Counter()
        self.first_ns = self.last_ns = 0


class Trace:
    LOSS_FIELDS = {3: "chunks_overwritten", 6: "patches_failed", 9: "abi_violations",
                   18: "chunks_discarded", 19: "trace_writer_packet_loss"}

    def __init__(self, data):
        self.data = data
        self.machines = collections.defaultdict(Machine)
        self.owner = {}       # sequence id -> machine id
        self.shared = set()   # sequence ids of two machines
        self.values = {}      # sequence -> last seq_value
        self.firsts = {}      # sequence -> first seq_value
        self.gaps, self.falls, self.values_seen = [], [], 0
        self.offsets = {}     # machine id -> boot clock of the machine less ours, ns, per sync
        self.points = {}      # likewise -> both clocks
        self.packets = 0
        for number, span in fields(data, 0, len(data)):
            if number != 1 or not isinstance(span, tuple):
                raise Malformed(f"top-level field {number}")
            self.packets += 1
            self.packet(span)

    def packet(self, span):
        f = message(self.data, span)
        machine = self.machines[f.get(MACHINE, 0)]
        machine.packets += 1
        machine.bytes += span[1] - span[0]
        machine.track_events += TRACK_EVENT in f
        machine.dropped += bool(f.get(DROPPED, 0))
        if REMOTE_CLOCK_SYNC in f:
            self.clock_sync(f.get(MACHINE, 0), f[REMOTE_CLOCK_SYNC])
        if SYSTEM_INFO in f:
            name = message(self.data, f[SYSTEM_INFO]).get(17)
            machine.name = self.text(name) if name else machine.name
        if STATS in f:
            self.stats(machine, f[STATS])
        if PID in f:
            machine.pids.add(f[PID])
        else:
            machine.service_packets += 1
        if TIMESTAMP in f and TRACK_EVENT in f:
            machine.first_ns = machine.first_ns or f[TIMESTAMP]
            machine.last_ns = f[TIMESTAMP]
        machine.uids.add(f.get(UID, -1))
        self.sequence(machine, f)

    def sequence(self, machine, f):
        sequence = f.get(SEQUENCE)
        if sequence is None:
            return
        machine.sequences.add(sequence)
        if sequence != OWN_SEQUENCE and self.owner.setdefault(
                sequence, f.get(MACHINE, 0)) != f.get(MACHINE, 0):
            self.shared.add(sequence)
        if FOR_TESTING not in f:
            return
        machine.test_packets += 1
        value = message(self.data, f[FOR_TESTING]).get(2)
        if value is None:
            return
        self.values_seen += 1
        before = self.values.get(sequence)
        if before is not None and value != before + 1:
            self.gaps.append((sequence, before, value))
        if before is not None and value <= before:
            self.falls.append((sequence, before, value))
        self.firsts.setdefault(sequence, value)
        self.values[sequence] = value

    def text(self, span):
        return self.data[span[0]:span[1]].decode("utf-8", "replace")

    def stats(self, machine, span):
        counts = collections.Counter()
        for number, value in fields(self.data, *span):
            if number == 1:
                for field, count in fields(self.data, *value):
                    if field in self.LOSS_FIELDS:
                        counts[self.LOSS_FIELDS[field]] += count
        machine.buffer_losses = counts

    def boottime(self, span):
        for number, value in fields(self.data, *span):
            if number == 1:
                clock = message(self.data, value)
                if clock.get(1) == BOOTTIME:
                    return clock.get(2, 0)
        return None

    def clock_sync(self, machine_id, span):
        for number, value in fields(self.data, *span):
            if number != 1:
                continue
            pair = message(self.data, value)
            if 2 in pair and 3 in pair:
                theirs, ours = self.boottime(pair[2]), self.boottime(pair[3])
                if theirs is not None and ours is not None:
                    self.offsets.setdefault(machine_id, []).append(theirs - ours)
                    self.points.setdefault(machine_id, []).append((theirs, ours))

    def ranges(self):
        return sorted((first, self.values[sequence]) for sequence, first in self.firsts.items())

    def summary(self):
        out = {"packets": self.packets, "test_values": self.values_seen,
               "test_ranges": self.ranges(), "test_gaps": sorted(gap[1:] for gap in self.gaps),
               "machines": {}}
        for number, m in sorted(self.machines.items()):
            offsets = sorted(self.offsets.get(number, []))
            out["machines"][str(number)] = {
                "name": m.name, "packets": m.packets, "bytes": m.bytes,
                "service_packets": m.service_packets, "sequences": len(m.sequences),
                "pids": len(m.pids), "track_events": m.track_events,
                "test_packets": m.test_packets, "dropped_marks": m.dropped,
                "buffer_losses": dict(m.buffer_losses),
                "boot_offset_ns": offsets[len(offsets) // 2] if offsets else None}
        return out


def judge(trace, args):
    problems = []
    if args.disjoint and trace.shared:
        problems.append(f"{len(trace.shared)} sequence ids are used by two machines")
    if args.machines is not None and len(trace.machines) != args.machines:
        problems.append(f"{len(trace.machines)} machines, expected {args.machines}")
    if args.contiguous and (trace.gaps or not trace.values_seen):
        problems.append(f"{len(trace.gaps)} gaps in {trace.values_seen} values, e.g. {trace.gaps[:3]}")
    if args.ordered and (trace.falls or not trace.values_seen):
        problems.append(f"{len(trace.falls)} falls in {trace.values_seen} values: {trace.falls[:3]}")
    if args.test_sequences is not None:
        number, first, last = map(int, args.test_sequences.split(":"))
        if trace.ranges() != [(first, last)] * number:
            problems.append(f"seq_values are {trace.ranges()}, expected {args.test_sequences}")
    dropped = sum(m.dropped for m in trace.machines.values())
    if args.lossless and dropped:
        problems.append(f"{dropped} packets are marked with a loss before them")
    for number, m in trace.machines.items():
        own = m.packets - m.service_packets
        if args.min_packets is not None and own < args.min_packets:
            problems.append(f"machine {number} has {own} packets, expected {args.min_packets}")
    events = sum(m.track_events for m in trace.machines.values())
    if args.min_track_events is not None and events < args.min_track_events:
        problems.append(f"{events} track events, expected {args.min_track_events}")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    for flag in ("--json", "--disjoint", "--contiguous", "--lossless", "--ordered"):
        parser.add_argument(flag, action="store_true")
    for option in ("--machines", "--min-packets", "--min-track-events"):
        parser.add_argument(option, type=int)
    parser.add_argument("--test-sequences")
    parser.add_argument("--compressed")
    args = parser.parse_args()
    with open(args.file, "rb") as f:
        data = f.read()
    try:
        plain, codecs = unpacked.unpack(data)
        trace = Trace(plain)
    except (Malformed, ValueError, zlib.error) as why:
        print(f"{args.file}: malformed: {why}")
        return 1
    summary = trace.summary()
    if args.json:
        print(json.dumps(summary))
    else:
        print(f"{args.file}: {trace.packets} packets, {len(data)} bytes")
        for number, m in summary["machines"].items():
            print(f"  machine {number} " + " ".join(f"{k}={v!r}" for k, v in m.items()))
    problems = judge(trace, args)
    if args.compressed is not None and args.compressed != (",".join(sorted(codecs)) or "none"):
        problems.append(f"compressed by {sorted(codecs)}, expected {args.compressed}")
    for p in problems:
        print(f"{args.file}: {p}", file=sys.stderr)
    return 1 if problems or not trace.packets else 0


if __name__ == "__main__":
    sys.exit(main())
