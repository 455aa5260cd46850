#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Disks that fill and files that cannot be written, under sessions that the service writes itself:

  fault_disks.py CONSUMER_SOCKET PRODUCER_SOCKET SERVICE_PID DIR DISK LOG

DISK is an empty file system of 1 MiB, LOG the service's. A session beside loses nothing, what is
not in the file can be read or is in the log as lost. A line of TAP a claim."""
import json
import os
import re
import resource
import sys
import tempfile

import config_text
from fault_consumers import Beside, leave
from fault_world import World, eventually, run_claims, tags_of
from service_peers import field, fields
from smb_producer import fragments, packet

CONFIG = """buffers { size_kb: 16384 } write_into_file: true file_write_period_ms: 100
data_sources { config { name: "dying" } } %s"""
PACKET_BYTES = 4000


class Disk:
    def __init__(self, folder):
        self.folder = folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def clear(self):
        for name in os.listdir(self.folder):
            os.unlink(self.path(name))


DISK, LOG = None, None


def enable(world, more="", rotation=b"", fd=None):
    consumer = world.consumer()
    why = consumer.enable(config_text.encode(CONFIG % more) + rotation, fd)
    return consumer, why


def write_numbers(producer, first, count):
    """Packets with consecutive numbers, each of PACKET_BYTES."""
    for begin in range(first, first + count, 16):
        moves = b""
        for number in range(begin, begin + 16):
            moves += producer.move(producer.put(fragments(packet(
                ("%06d" % number).ljust(PACKET_BYTES, "x"))), 1))
        producer.commit(moves)


def numbers(packets):
    return [int(tag[:6]) for tag in tags_of(packets)]


def packets_in(*names):
    """Of files that must be whole."""
    out = []
    for name in names:
        packets, is_whole = read_packets(name)
        assert is_whole, name + " ends within a packet"
        out += packets
    return out


def read_packets(name):
    """(packets, whether the file ends with the last of them)"""
    with open(name, "rb") as trace:
        data = trace.read()
    at, out = 0, []
    while at < len(data):
        pos, size, shift = at + 1, 0, 0
        while pos < len(data):
            byte = data[pos]
            size |= (byte & 0x7F) << shift
            shift, pos = shift + 7, pos + 1
            if byte < 0x80:
                break
        if pos + size > len(data):
            return out, False
        out.append(data[pos:pos + size])
        at = pos + size
    return out, True


def wait_until_over(consumer):
    while not consumer.said:
        assert consumer.dispatch(), "disconnected"


def lost_bytes():
    with open(LOG, encoding="utf-8") as log:
        found = re.findall(r"trace-file-failed: .*lost_bytes=(\d+)", log.read())
    return [int(n) for n in found]


def assert_accounted(in_file, unread, count):
    """Each number is in the file, can still be read, or was in the batch whose loss is logged."""
    assert in_file == list(range(len(in_file))), "the file's packets are no prefix"
    first = unread[0] if unread else count
    assert unread == list(range(first, count)), "what is left is no suffix"
    gap = first - len(in_file)
    assert 0 < gap, "nothing is lost on a full disk?"
    lost = lost_bytes()[-1]
    assert (gap - 1) * PACKET_BYTES < lost < (gap + 2) * PACKET_BYTES + 65536, (
        "%d packets are missing, %d bytes are logged as lost" % (gap, lost))


def a_disk_that_fills_ends_its_session_and_every_packet_is_accounted_for(world):
    DISK.clear()
    with Beside(world) as beside:
        name = DISK.path("full.pftrace")
        consumer, why = enable(world, 'output_path: "%s"' % name)
        assert why is None, why
        beside.producer.start()
        write_numbers(beside.producer, 0, 512)  # 2 MiB
        wait_until_over(consumer)
        unread = numbers(consumer.packets())
        assert_accounted(numbers(read_packets(name)[0]), unread, 512)
        leave(consumer)


def so_does_one_that_fills_under_a_descriptor(world):
    DISK.clear()
    with Beside(world) as beside:
        name = DISK.path("fd.pftrace")
        fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        consumer, why = enable(world, fd=fd)
        os.close(fd)
        assert why is None, why
        beside.producer.start()
        write_numbers(beside.producer, 0, 512)
        wait_until_over(consumer)
        unread = numbers(consumer.packets())
        assert_accounted(numbers(read_packets(name)[0]), unread, 512)
        leave(consumer)


def a_file_that_may_not_grow_ends_its_session_alone(world):
    """The service's own limit (ulimit -f, LimitFSIZE=), which its log meets too."""
    limit = resource.prlimit(world.pid, resource.RLIMIT_FSIZE)
    with Beside(world) as beside, tempfile.TemporaryFile(dir=world.folder) as file:
        consumer, why = enable(world, fd=file.fileno())
        assert why is None, why
        beside.producer.start()
        resource.prlimit(world.pid, resource.RLIMIT_FSIZE, (1, limit[1]))
        try:
            write_numbers(beside.producer, 0, 512)
            wait_until_over(consumer)
        finally:
            resource.prlimit(world.pid, resource.RLIMIT_FSIZE, limit)
        assert os.stat(file.fileno()).st_size < 1 << 20
        leave(consumer)


def of_two_sessions_on_a_full_disk_neither_harms_the_other_or_a_third(world):
    DISK.clear()
    with Beside(world) as beside:
        both = []
        for name in ("one", "two"):
            consumer, why = enable(world, 'output_path: "%s"' % DISK.path(name))
            assert why is None, why
            both.append(consumer)
        failures = len(lost_bytes())
        beside.producer.settle()
        assert len(beside.producer.buffers) == 2
        for number, buffer in enumerate(beside.producer.buffers):
            beside.producer.begin_writer(number + 2, buffer)
            write_numbers(beside.producer, 0, 512)
        assert eventually(lambda: len(lost_bytes()) == failures + 2), "both are full"
        for consumer in both:
            wait_until_over(consumer)
            leave(consumer)


def segments_of(name):
    folder = os.path.dirname(name)
    return sorted(os.path.join(folder, f) for f in os.listdir(folder) if re.search(r"\.\d{6}$", f))


def index_of(name):
    with open(name + ".index", encoding="utf-8") as index:
        return [json.loads(line) for line in index]


def a_rotated_trace_on_a_full_disk_keeps_its_whole_segments(world):
    DISK.clear()
    with Beside(world) as beside:
        name = DISK.path("rot")
        consumer, why = enable(world, 'output_path: "%s"' % name, field(50001, field(1, 200000)))
        assert why is None, why
        session = max(s[1][0] for s in consumer.state())
        beside.producer.start()
        for step in range(64):
            write_numbers(beside.producer, step * 16, 16)
            while beside.producer.has_input(0.02):
                beside.producer.dispatch()
            if consumer.has_input(0):
                break
        wait_until_over(consumer)
        index = index_of(name)
        assert index, "no segment is complete"
        for line in index:
            file = os.path.join(DISK.folder, line["file"])
            assert os.stat(file).st_size == line["bytes"], line
            assert numbers(packets_in(file)), line
        with open(LOG, encoding="utf-8") as log:
            assert log.read().count("trace-file-failed: session=%d " % session) == 1, "failed twice"
        everything = [n for line in index for n in numbers(packets_in(os.path.join(DISK.folder, line["file"])))]
        assert everything == list(range(len(everything))), "whole segments have a gap"
        leave(consumer)


def with_a_limit_of_segments_a_small_disk_is_enough_for_ever(world):
    DISK.clear()
    with Beside(world) as beside:
        name = DISK.path("ever")
        consumer, why = enable(world, 'output_path: "%s"' % name,
                               field(50001, field(1, 100000) + field(3, 3)))
        assert why is None, why
        beside.producer.start()
        for step in range(40):  # 2.5 MiB
            write_numbers(beside.producer, step * 16, 16)
            while beside.producer.has_input(0.06):
                beside.producer.dispatch()
            assert not consumer.said
        consumer.friends = [beside.producer]
        assert consumer.call("Flush")[0]
        consumer.call("DisableTracing")
        wait_until_over(consumer)
        assert len(index_of(name)) > 5, len(index_of(name))
        left = segments_of(name)
        assert 1 <= len(left) <= 4, left
        got = numbers(packets_in(*left))
        assert got and got == list(range(got[0], 40 * 16)), "the last segments have a gap"
        leave(consumer)


def a_next_segment_that_cannot_be_created_ends_the_session_alone(world):
    DISK.clear()
    with Beside(world) as beside:
        name = DISK.path("taken")
        consumer, why = enable(world, 'output_path: "%s"' % name, field(50001, field(1, 100000)))
        assert why is None, why
        with open(name + ".000002", "w", encoding="ascii") as taken:
            taken.write("somebody's")
        beside.producer.start()
        for step in range(8):
            write_numbers(beside.producer, step * 16, 16)
            while beside.producer.has_input(0.05):
                beside.producer.dispatch()
        wait_until_over(consumer)
        with open(name + ".000002", encoding="ascii") as taken:
            assert taken.read() == "somebody's", "it is overwritten"
        in_file = numbers(packets_in(name + ".000001"))
        assert in_file == list(range(len(in_file))) and in_file
        leave(consumer)


def a_pipe_without_a_reader_ends_its_session_alone(world):
    with Beside(world) as beside:
        end, fd = os.pipe()
        os.close(end)
        consumer, why = enable(world, fd=fd)
        os.close(fd)
        assert why is None, why
        beside.producer.start()
        write_numbers(beside.producer, 0, 16)
        wait_until_over(consumer)
        leave(consumer)


def a_descriptor_that_cannot_be_written_is_refused_or_ends_its_session_alone(world):
    with Beside(world) as beside:
        fd = os.open("/dev/null", os.O_RDONLY)
        consumer, why = enable(world, fd=fd)
        os.close(fd)
        if why is None:
            beside.producer.start()
            write_numbers(beside.producer, 0, 16)
            wait_until_over(consumer)
        leave(consumer)


CLAIMS = [claim for name, claim in list(globals().items()) if callable(claim) and
          getattr(claim, "__module__", "") == "__main__" and
          name.startswith(("a_", "so_", "of_", "with_"))]


if __name__ == "__main__":
    DISK, LOG = Disk(sys.argv[5]), sys.argv[6]
    sys.exit(1 if run_claims(World(*sys.argv[1:5]), CLAIMS) else 0)
