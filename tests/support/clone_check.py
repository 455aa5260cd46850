#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clones of sessions, whole: clone_check.py CONSUMER_SOCKET DIR [--far]

A producer of the data source com.example.load is at work. Its packets have a number that counts up
per sequence: what a clone and its source have is compared by these. A line of TAP a claim. --far: the
socket is a tunnel's; what has to do with files."""
import collections
import os
import sys
import time
import traceback

import config_text
import unpacked
from service_peers import Consumer, field, fields

FOR_TESTING, SEQUENCE, CONFIG, UUID, STATS, EVENT = 900, 10, 33, 89, 35, 69
SOURCE = 'data_sources { config { name: "com.example.load" } } '


def packets_in(data):
    return [value for number, value in fields(data) if number == 1]


def numbers_of(packets):
    """Per sequence, the numbers of its packets in their order."""
    out = collections.defaultdict(list)
    for packet in packets:
        parts = dict(fields(packet))
        if FOR_TESTING in parts:
            out[parts[SEQUENCE]].append(dict(fields(parts[FOR_TESTING])).get(2, 0))
    return out


def count(packets, number):
    return sum(number in dict(fields(packet)) for packet in packets)


def assert_rising(numbers, at_least=1):
    assert numbers, "no packets of the producer"
    for sequence, values in numbers.items():
        assert len(values) >= at_least, "%d packets" % len(values)
        for a, b in zip(values, values[1:]):
            assert b == a + 1, "sequence %d: %d after %d" % (sequence, b, a)


class World:
    serial = 0

    def __init__(self, path, folder):
        self.path = path
        self.folder = folder

    def consumer(self):
        return Consumer(self.path)

    def start(self, config, fd=None):
        consumer = self.consumer()
        why = consumer.enable(config_text.encode(config), fd)
        assert why is None, why
        session = max(s[1][0] for s in consumer.state())
        return consumer, session

    def file(self, flags=os.O_RDWR):
        World.serial += 1
        name = os.path.join(self.folder, "clone.%d" % World.serial)
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        return name, os.open(name, flags)

    def clone(self, selector, fd=None):
        """The consumer that has the clone, and the answer."""
        consumer = self.consumer()
        success, data = consumer.call("CloneSession", selector, fd)
        assert success
        return consumer, dict(fields(data))

    def clone_file(self, session):
        name, fd = self.file()
        consumer, reply = self.clone(field(1, session), fd)
        os.close(fd)
        assert reply.get(1), reply.get(2)
        assert reply.get(5), "was_write_into_file is not set"
        with open(name, "rb") as f:
            return packets_in(f.read()), consumer


def end(consumer):
    consumer.call("Flush")
    consumer.call("DisableTracing")
    while not consumer.said:
        consumer.dispatch()


def read(name):
    with open(name, "rb") as f:
        return packets_in(f.read())


def wait_for_bytes(name, size):
    limit = time.monotonic() + 60
    while os.stat(name).st_size < size and time.monotonic() < limit:
        time.sleep(0.02)


def wait_until_written(consumer, wanted):
    """Until the session's buffers have seen that many bytes."""
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        _, data = consumer.call("GetTraceStats")
        stats = dict(fields(data))[1]
        buffers = [dict(fields(v)) for n, v in fields(stats) if n == 1]
        if sum(b.get(1, 0) for b in buffers) >= wanted:
            return
        time.sleep(0.02)
    raise AssertionError("nothing is written")


def a_clone_has_what_its_source_has_which_goes_on(world):
    source, session = world.start("buffers { size_kb: 16384 } " + SOURCE)
    wait_until_written(source, 20000)
    clone, reply = world.clone(field(1, session))
    assert reply.get(1) and not reply.get(5)
    cloned = numbers_of(clone.packets())
    assert_rising(cloned)
    wait_until_written(source, 40000)
    end(source)
    whole = numbers_of(source.packets())
    assert_rising(whole)
    for sequence, values in cloned.items():
        assert values[0] == whole[sequence][0] and values[-1] < whole[sequence][-1]
    clone.close()
    source.close()


def a_ring_is_cloned_by_name(world):
    source, _ = world.start("buffers { size_kb: 64 fill_policy: RING_BUFFER } "
                            'unique_session_name: "ring" ' + SOURCE)
    wait_until_written(source, 200000)
    for _ in range(3):
        clone, reply = world.clone(field(4, "ring"))
        assert reply.get(1), reply.get(2)
        assert_rising(numbers_of(clone.packets()))
        clone.close()
    source.close()


def a_clone_is_compressed_if_that_is_asked_for(world):
    source, session = world.start("buffers { size_kb: 16384 } compression { zstd { } } " + SOURCE)
    wait_until_written(source, 20000)
    for asks in (0, 1):
        clone, reply = world.clone(field(1, session) + field(50001, asks))
        assert reply.get(1), reply.get(2)
        packets = clone.packets()
        assert (count(packets, unpacked.ZSTD) != 0) == bool(asks)
        plain, _ = unpacked.unpack(b"".join(field(1, packet) for packet in packets))
        assert_rising(numbers_of(packets_in(plain)), 100)
        clone.close()
    source.close()


def a_session_that_writes_is_cloned_whole_file_and_buffers(world):
    name, fd = world.file()
    source, session = world.start("buffers { size_kb: 16384 } write_into_file: true "
                                  "file_write_period_ms: 150 " + SOURCE, fd)
    os.close(fd)
    wait_for_bytes(name, 20000)
    packets, clone = world.clone_file(session)
    cloned = numbers_of(packets)
    assert_rising(cloned)
    assert count(packets, STATS) >= 1
    wait_for_bytes(name, os.stat(name).st_size + 20000)
    second, other = world.clone_file(session)
    end(source)
    whole = read(name)
    assert_rising(numbers_of(whole))
    assert count(whole, CONFIG) == 1, "the source tells everything once"
    for sequence, values in cloned.items():
        assert values == numbers_of(whole)[sequence][:len(values)], "the sequences' ids differ"
        assert len(numbers_of(second)[sequence]) > len(values)
    for consumer in (clone, other, source):
        consumer.close()


def without_a_descriptor_a_session_that_writes_is_not_cloned(world):
    name, fd = world.file()
    source, session = world.start("buffers { size_kb: 4096 } write_into_file: true " + SOURCE, fd)
    os.close(fd)
    wait_until_written(source, 5000)
    clone, reply = world.clone(field(1, session))
    assert not reply.get(1) and b"descriptor" in reply[2], reply
    end(source)
    assert_rising(numbers_of(read(name)))
    clone.close()
    source.close()


def a_file_that_the_host_writes_is_not_cloned_and_the_answer_says_so(world):
    path = os.path.join(world.folder, "of-the-host")
    source, session = world.start('buffers { size_kb: 4096 } write_into_file: true output_path: "%s" ' % path + SOURCE)
    _, target = world.file()
    clone, reply = world.clone(field(1, session), target)
    os.close(target)
    assert not reply.get(1) and b"clone it on the host" in reply[2], reply
    end(source)
    clone.close()
    source.close()


def a_file_that_cannot_be_read_is_not_cloned_and_is_not_hurt(world):
    name, fd = world.file(os.O_WRONLY)
    source, session = world.start("buffers { size_kb: 16384 } write_into_file: true "
                                  "file_write_period_ms: 150 " + SOURCE, fd)
    os.close(fd)
    wait_for_bytes(name, 5000)
    _, target = world.file()
    clone, reply = world.clone(field(1, session), target)
    os.close(target)
    assert not reply.get(1) and b"cannot be read" in reply[2], reply
    end(source)
    assert_rising(numbers_of(read(name)))
    clone.close()
    source.close()


def the_current_segment_of_a_rotated_trace_is_cloned(world):
    path = os.path.join(world.folder, "rotated")
    config = config_text.encode("buffers { size_kb: 16384 } write_into_file: true "
                                "file_write_period_ms: 100 output_path: \"%s\" " % path + SOURCE)
    consumer = world.consumer()
    rotation = config_text.varint(50001 << 3 | 2) + b"\x03\x10\xe8\x07"  # segment_period_ms: 1000
    why = consumer.enable(config + rotation)
    assert why is None, why
    session = max(s[1][0] for s in consumer.state())
    limit = time.monotonic() + 60
    while not os.path.exists(path + ".000002") and time.monotonic() < limit:
        time.sleep(0.02)
    packets, clone = world.clone_file(session)
    end(consumer)
    assert_rising(numbers_of(packets))
    assert count(packets, CONFIG) >= 1 and count(packets, UUID) >= 1
    first = numbers_of(read(path + ".000001"))
    for sequence, values in numbers_of(packets).items():
        assert values[0] == first[sequence][-1] + 1, "it does not begin with its segment"
    clone.close()
    consumer.close()


def a_transferred_buffer_is_empty_for_the_next_clone(world):
    source, session = world.start("buffers { size_kb: 16384 transfer_on_clone: true } " + SOURCE)
    chains = []  # ids are assigned again in each clone: what follows upon what is one sequence
    for _ in range(4):
        wait_until_written(source, 10000)
        clone, reply = world.clone(field(1, session))
        assert reply.get(1), reply.get(2)
        chain_up(chains, numbers_of(clone.packets()))
        clone.close()
    end(source)
    chain_up(chains, numbers_of(source.packets()))
    assert len(chains) == 2, "not two sequences: %s" % [(c[0], c[-1]) for c in chains]
    assert_rising(dict(enumerate(chains)), 100)
    source.close()


def chain_up(chains, numbers):
    """A chunk that was not full at the clone comes again when it is: a page's packets at most. Which
    begins last has the fewest chains to go on with: it chooses first. A packet that begins in the one
    buffer and ends in the other is in neither."""
    taken = []
    for values in sorted(numbers.values(), reverse=True):
        free = [c for c in chains if -1 <= c[-1] + 1 - values[0] < 45 and c[-1] <= values[-1]]
        for chain in free:
            if not any(chain is c for c in taken):
                taken.append(chain)
                if chain[-1] + 2 == values[0]:
                    chain.append(chain[-1] + 1)  # torn
                chain += values[chain[-1] + 1 - values[0]:]
                break
        else:
            chains.append(values)


def what_a_buffer_has_before_the_clone_can_be_left_out(world):
    source, session = world.start(
        "buffers { size_kb: 16384 clear_before_clone: true } " + SOURCE)
    wait_until_written(source, 30000)
    clone, reply = world.clone(field(1, session))
    assert reply.get(1), reply.get(2)
    values = [v for vs in numbers_of(clone.packets()).values() for v in vs]
    end(source)
    rest = numbers_of(source.packets())
    assert not values or min(values) > 100, "what was there before is in the clone"
    assert_rising(rest)
    clone.close()
    source.close()


CLAIMS = [a_clone_has_what_its_source_has_which_goes_on, a_ring_is_cloned_by_name,
          a_clone_is_compressed_if_that_is_asked_for,
          a_session_that_writes_is_cloned_whole_file_and_buffers,
          without_a_descriptor_a_session_that_writes_is_not_cloned,
          a_file_that_cannot_be_read_is_not_cloned_and_is_not_hurt,
          the_current_segment_of_a_rotated_trace_is_cloned,
          a_transferred_buffer_is_empty_for_the_next_clone,
          what_a_buffer_has_before_the_clone_can_be_left_out]


FAR = [a_session_that_writes_is_cloned_whole_file_and_buffers,
       without_a_descriptor_a_session_that_writes_is_not_cloned,
       a_file_that_the_host_writes_is_not_cloned_and_the_answer_says_so,
       a_file_that_cannot_be_read_is_not_cloned_and_is_not_hurt]


def main(path, folder, far=None):
    failed = 0
    for claim in FAR if far else CLAIMS:
        try:
            claim(World(path, folder))
            print("ok -", claim.__name__.replace("_", " "), flush=True)
        except Exception:  # whatever it is, it is this claim's failure
            failed += 1
            print("not ok -", claim.__name__.replace("_", " "), flush=True)
            print("".join("#   " + line for line in traceback.format_exc().splitlines(True)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
