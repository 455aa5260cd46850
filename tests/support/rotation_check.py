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

import config_text
import unpacked
from clone_check import CONFIG, SOURCE, UUID, assert_rising, count, end, numbers_of, read
from service_peers import Consumer, Producer, field, fields

SEGMENT_MS = 1000


def expand(packets):
    """The packets with those inside the compressed ones."""
    return [value for _, value in fields(unpacked.unpack(b"".join(field(1, packet) for packet in packets))[0])]


def record(path, folder, extra, period_ms=200):
    name = os.path.join(folder, "segments.%d" % len(glob.glob(folder + "/*.index")))
    config = config_text.encode(
        'buffers { size_kb: 16384 } write_into_file: true file_write_period_ms: %d '
        'output_path: "%s" %s %s' % (period_ms, name, SOURCE, extra))
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


def look_at_compressed(segments, lines, number):
    look_at(segments, lines)
    for packets in segments:
        assert count(packets, number) >= 1, "nothing is compressed"
    everything = sum(len(expand(packets)) for packets in segments)
    outside = sum(len(packets) - count(packets, number) for packets in segments)
    assert outside * 2 < everything, "%d of %d packets are not compressed" % (outside, everything)


def compressed_segments_have_every_packet_once(path, folder):
    look_at_compressed(*record(path, folder, "compression { deflate { } }"), unpacked.DEFLATE)


def so_have_those_that_are_no_longer_than_a_write_period(path, folder):
    """Each write is a cut."""
    look_at_compressed(*record(path, folder, "compression { zstd { } }", SEGMENT_MS), unpacked.ZSTD)



def a_producer_that_does_not_flush_leaves_segments_that_open_alone(path, folder):
    """Each cut waits for it longer than for several write periods, while the others have cleared their state."""
    late = Producer(os.environ["PERFETTO_PRODUCER_SOCK_NAME"], "late", ["com.example.late"])
    sources = ('data_sources { config { name: "com.example.late" } } data_sources { config { name: "track_event" } } '
               'flush_timeout_ms: 1000 ')
    try:
        look_at(*record(path, folder, sources))
        look_at_compressed(*record(path, folder, sources + "compression { deflate { } }"), unpacked.DEFLATE)
    finally:
        late.close()


def the_index_is_shortened_to_what_is_there(path, folder):
    """Of eight segments two stay; each third line shortens it. Whoever looks finds whole lines."""
    name = os.path.join(folder, "short")
    consumer = Consumer(path)
    rotation = field(2, SEGMENT_MS) + field(3, 2) + field(4, 3)
    why = consumer.enable(config_text.encode(
        'buffers { size_kb: 4096 } write_into_file: true file_write_period_ms: 200 output_path: "%s" %s'
        % (name, SOURCE)) + field(50001, rotation))
    assert why is None, why
    limit = time.monotonic() + 60
    looks = set()
    while not os.path.exists(name + ".000008") and time.monotonic() < limit:
        with open(name + ".index", encoding="utf-8") as index:
            text = index.read()
        assert text == "" or text.endswith("}\n"), text
        looks.add(len(text.splitlines()))
        time.sleep(0.01)
    end(consumer)
    consumer.close()
    assert max(looks) <= 1 + 2 + 3, looks
    with open(name + ".index", encoding="utf-8") as index:
        lines = [json.loads(line) for line in index]
    head, numbers = lines[0], [line["segment"] for line in lines[1:]]
    assert head["shortened"] >= 2, head
    assert numbers == list(range(head["segments"] + 1, numbers[-1] + 1)) and numbers[-1] >= 8, lines
    assert not os.path.exists(name + "~.index")


CLAIMS = [the_index_is_shortened_to_what_is_there, segments_have_every_packet_once, compressed_segments_have_every_packet_once,
          so_have_those_that_are_no_longer_than_a_write_period,
          a_producer_that_does_not_flush_leaves_segments_that_open_alone]


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
