#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces in segments, compressed or not: rotation_check.py CONSUMER_SOCKET DIR

A producer of the data source com.example.load is at work. A line of TAP a claim."""
import glob
import json
import os
import sys
import time
import traceback
import zlib

import config_text
from clone_check import CONFIG, SOURCE, UUID, assert_rising, count, end, numbers_of, read
from service_peers import Consumer, field, fields

COMPRESSED = 50
SEGMENT_MS = 1000


def expand(packets):
    """The packets with those inside the compressed ones."""
    out = []
    for packet in packets:
        parts = dict(fields(packet))
        if COMPRESSED in parts:
            out += [value for _, value in fields(zlib.decompress(parts[COMPRESSED]))]
        else:
            out.append(packet)
    return out


def record(path, folder, extra):
    name = os.path.join(folder, "segments.%d" % len(glob.glob(folder + "/*.index")))
    config = config_text.encode(
        'buffers { size_kb: 16384 } write_into_file: true file_write_period_ms: 200 '
        'output_path: "%s" %s %s' % (name, SOURCE, extra))
    consumer = Consumer(path)
    why = consumer.enable(config + field(50001, field(2, SEGMENT_MS)))
    assert why is None, why
    limit = time.monotonic() + 60
    while not os.path.exists(name + ".000003") and time.monotonic() < limit:
        time.sleep(0.02)
    end(consumer)
    consumer.close()
    with open(name + ".index", encoding="utf-8") as index:
        lines = [json.loads(line) for line in index]
    return [read(os.path.join(folder, line["file"])) for line in lines], lines


def look_at(segments, lines):
    assert len(segments) >= 3, "%d segments" % len(segments)
    for packets, line in zip(segments, lines):
        plain = expand(packets)
        assert count(plain, CONFIG) == 1 and count(plain, UUID) == 1, "it does not open alone"
        assert line["unresolved"] == 0, line
        assert_rising(numbers_of(plain))
    joined = [packet for packets in segments for packet in expand(packets)]
    assert_rising(numbers_of(joined), 500)


def segments_have_every_packet_once(path, folder):
    look_at(*record(path, folder, ""))


def compressed_segments_have_every_packet_once(path, folder):
    segments, lines = record(path, folder, "compression { deflate { } }")
    for packets in segments:
        assert count(packets, COMPRESSED) >= 1, "nothing is compressed"
    look_at(segments, lines)
    everything = sum(len(expand(packets)) for packets in segments)
    outside = sum(len(packets) - count(packets, COMPRESSED) for packets in segments)
    assert outside * 2 < everything, "%d of %d packets are not compressed" % (outside, everything)


CLAIMS = [segments_have_every_packet_once, compressed_segments_have_every_packet_once]


def main(path, folder):
    failed = 0
    for claim in CLAIMS:
        try:
            claim(path, folder)
            print("ok -", claim.__name__.replace("_", " "), flush=True)
        except Exception:  # whatever it is, it is this claim's failure
            failed += 1
            print("not ok -", claim.__name__.replace("_", " "), flush=True)
            print("".join("#   " + line for line in traceback.format_exc().splitlines(True)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
