#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A collector of tests, on a stream to a host's spool that tunnel_client carries.

spool_peer.py CLIENT-COMMAND... -- WORD...: put NAME CONFIG SEGMENT_MS | put-ring NAME CONFIG TRIGGER
MIN_INTERVAL_MS AFTER_MS [QUOTA_BYTES] | remove NAME | orders | list | pull FOLDER (reads, verifies and releases all) | pull-first FOLDER (without release). One line of
text for each answer; exit status 1: something was refused or differs.
"""
import hashlib
import os
import struct
import subprocess
import sys

STATES = ("waiting", "running", "refused", "paused", "ended")
WHYS = ("unknown", "quota", "age", "disk_full", "corrupt", "removed", "service_died")


LOST = 4  # the reason of a segment that a disk, or a death, cut short


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    out, at = {}, 0
    while at < len(data):
        tag, at = read_varint(data, at)
        value, at = read_varint(data, at)
        if tag & 7 == 2:
            value, at = data[at:at + value], at + value
        out.setdefault(tag >> 3, []).append(value)
    return out


def first(message, field, default=0):
    return message.get(field, [default])[0]


class Spool:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.last = 0

    def answers(self, request):
        self.last += 1
        message = number(1, self.last) + request
        self.process.stdin.write(struct.pack("<I", len(message)) + message)
        self.process.stdin.flush()
        while True:
            prefix = self.process.stdout.read(4)
            if len(prefix) < 4:
                sys.exit("the stream ended")
            reply = fields(self.process.stdout.read(struct.unpack("<I", prefix)[0]))
            if first(reply, 1) != self.last:
                sys.exit("an answer to another request")
            if first(reply, 3) != 0:
                print(f"refused {first(reply, 3)}: {first(reply, 4, b'').decode()}")
                sys.exit(1)
            yield reply
            if not first(reply, 2):
                return

    def one(self, request):
        return next(self.answers(request))

    def segments(self):
        after, out = b"", []
        while True:
            reply = self.one(text(5, after))
            more = [fields(s) for s in reply.get(6, [])]
            out += more
            if not first(reply, 2):
                return out
            after = text(1, first(more[-1], 4)) + number(2, first(more[-1], 5))


def put_order(spool, name, config, when):
    with open(config, "rb") as file:
        order = text(1, name) + text(2, b"") + text(3, file.read()) + when
    spool.one(text(2, text(1, order) + number(4, 1)))
    print(f"put {name}")


def put(spool, name, config, segment_ms):
    put_order(spool, name, config, text(10, number(1, int(segment_ms))))


def put_ring(spool, name, config, trigger, interval_ms, after_ms, quota_bytes=0):
    when = text(11, text(1, trigger) + number(2, int(interval_ms)) + number(3, int(after_ms)))
    quota = text(20, number(1, int(quota_bytes))) if int(quota_bytes) else b""
    put_order(spool, name, config, when + quota)


def orders(spool):
    for order in map(fields, spool.one(text(4, b"")).get(5, [])):
        print(f"{first(order, 1).decode()} {first(order, 2).decode()} {STATES[first(order, 4)]} "
              f"{first(order, 5, b'').decode()} behind={first(order, 7)} "
              f"copies={first(order, 10)} skipped={first(order, 11)}")


def describe(segment):
    gap = fields(first(segment, 21)) if 21 in segment else None
    what = f"gap-{first(gap, 1)} {WHYS[first(gap, 3)]}" if gap else f"bytes={first(segment, 6)}"
    if first(segment, 13) == LOST:
        what += " lost"
    if 14 in segment:
        trigger = fields(first(segment, 14))
        what += f" trigger={first(trigger, 1).decode()} raised_at={first(trigger, 2).decode()} id={first(trigger, 4).decode()}"
    return f"{first(segment, 4).decode()} {first(segment, 5)} {what}"


def pull(spool, folder, is_released):
    for segment in spool.segments():
        key = text(1, first(segment, 4)) + number(2, first(segment, 5))
        if 21 in segment:
            proof = number(4, first(fields(first(segment, 21)), 1))
        else:
            data = b"".join(first(r, 7, b"") for r in spool.answers(text(6, key)))
            if hashlib.sha256(data).digest() != first(segment, 7) or len(data) != first(segment, 6):
                sys.exit(f"other bytes: {describe(segment)}")
            with open(os.path.join(folder, f"{first(segment, 4).decode()}.{first(segment, 5):06}.pftrace"), "wb") as file:
                file.write(data)
            proof = text(3, first(segment, 7))
        if is_released:
            spool.one(text(7, key + proof))
        print(describe(segment))


def main():
    cut = sys.argv.index("--")
    spool, words = Spool(sys.argv[1:cut]), sys.argv[cut + 1:]
    if words[0] == "put":
        put(spool, *words[1:])
    elif words[0] == "put-ring":
        put_ring(spool, *words[1:])
    elif words[0] == "remove":
        spool.one(text(3, text(2, words[1])))
    elif words[0] == "orders":
        orders(spool)
    elif words[0] == "list":
        for segment in spool.segments():
            print(describe(segment))
    else:
        pull(spool, words[1], words[0] == "pull")
    spool.process.stdin.close()
    spool.process.wait()


main()
