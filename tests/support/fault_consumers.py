#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Consumers that disconnect in every state of a session, and in the middle of every request:

  fault_consumers.py CONSUMER_SOCKET PRODUCER_SOCKET SERVICE_PID DIR

Beside each runs another session, with a producer of its own, that loses nothing; afterwards the
session and its descriptors are gone. A line of TAP a claim."""
import os
import socket
import struct
import sys

import config_text
from fault_world import (FOREVER_MS, PATIENT, PROMPT_S, World, eventually, fills_its_pipe,
                         run_claims)
from service_peers import field, fields
from smb_producer import SmbProducer, fragments, packet

VICTIM = PATIENT + 'buffers { size_kb: 4096 } data_sources { config { name: "dying" } } %s'
OTHER = PATIENT + 'buffers { size_kb: 512 } data_sources { config { name: "steady" } }'


class Beside:
    """The other session and both producers. At its end the victim must be gone, the other whole."""

    def __init__(self, world, notifies=(0, 0)):
        self.world = world
        self.steady = world.join_steady()
        self.producer = SmbProducer(world.producer_path, "dying", notifies=notifies).join()
        world.clients.append(self.producer)
        self.other = world.start(config=OTHER)
        self.steady.start()
        self.steady.write("before")

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            return
        world = self.world
        assert eventually(self.is_alone), "%d sessions" % world.sessions()
        self.steady.write("after")
        is_ok, took = world.flush(self.other)
        assert is_ok and took < PROMPT_S, "the other's flush: %s, %.1f s" % (is_ok, took)
        took, tags, _ = world.end(self.other)
        assert tags == ["before", "after"], tags
        assert took < PROMPT_S, took
        self.producer.settle()  # it is served, too

    def is_alone(self):
        """Is the other session the only one? The victim's producer is alive and answers meanwhile."""
        while self.producer.has_input(0) and self.producer.dispatch():
            pass
        return self.world.sessions() == 1

    def victim(self, more="", fd=None):
        return self.world.start(more, VICTIM, fd)

    def fill(self, consumer, mebibytes=3):
        """Unread packets in the victim's buffer, larger than any socket."""
        if not self.producer.received or not any(t.startswith("start ") for t in self.producer.received):
            self.producer.start()
        one = fragments(packet("x" * 4000))
        for _ in range(mebibytes * 16):
            pages = [self.producer.put(one, 1) for _ in range(16)]
            self.producer.commit(b"".join(self.producer.move(page) for page in pages))
        return consumer


def leave(consumer):
    consumer.sock.close()


def lost_after_half_a_config(world):
    with Beside(world) as beside:
        consumer = world.consumer()
        body = field(2, 99) + field(5, field(1, consumer.service) + field(
            2, consumer.methods["EnableTracing"]) + field(
                3, field(1, config_text.encode(VICTIM % ""))))
        consumer.sock.sendall((struct.pack("<I", len(body)) + body)[:-7])
        leave(consumer)
        assert beside


def lost_in_the_middle_of_every_request(world):
    with Beside(world) as beside:
        for method in sorted(beside.other.methods):
            consumer = beside.victim()
            body = field(2, 99) + field(5, field(1, consumer.service) + field(
                2, consumer.methods[method]) + field(3, field(1, 12345)))
            consumer.sock.sendall((struct.pack("<I", len(body)) + body)[:-2])
            leave(consumer)
            assert eventually(lambda: world.sessions() == 1), method


def lost_while_the_session_waits_to_be_started(world):
    with Beside(world) as beside:
        consumer = beside.victim("deferred_start: true")
        assert beside.producer.wait_for("setup ")
        leave(consumer)


def lost_while_producers_start(world):
    with Beside(world, notifies=(0, 1)) as beside:
        consumer = beside.victim()
        assert beside.producer.wait_for("start ")
        leave(consumer)


def lost_while_tracing(world):
    with Beside(world) as beside:
        consumer = beside.fill(beside.victim(), 1)
        leave(consumer)
        assert beside.producer.wait_for("stop ")


def lost_while_it_waits_for_a_trigger_to_start(world):
    with Beside(world) as beside:
        leave(beside.victim('trigger_config { trigger_mode: START_TRACING trigger_timeout_ms: 600000 '
                            'triggers { name: "never" stop_delay_ms: 1000 } }'))


def lost_between_a_trigger_and_its_stop(world):
    with Beside(world) as beside:
        consumer = beside.victim('trigger_config { trigger_mode: STOP_TRACING '
                                 'trigger_timeout_ms: 600000 '
                                 'triggers { name: "now" stop_delay_ms: 500000 } }')
        beside.producer.start()
        beside.producer.call("ActivateTriggers", field(1, "now"))
        leave(consumer)
        assert beside.producer.wait_for("stop ")


def lost_with_a_snapshot_announced_and_not_fetched(world):
    with Beside(world) as beside:
        consumer = beside.victim('trigger_config { trigger_mode: CLONE_SNAPSHOT '
                                 'trigger_timeout_ms: 600000 '
                                 'triggers { name: "copy" stop_delay_ms: 1 } }')
        events = []
        consumer.invoke("ObserveEvents", field(1, 4), lambda *a: events.append(a))
        beside.producer.start()
        beside.producer.call("ActivateTriggers", field(1, "copy"))
        while not events:
            assert consumer.dispatch()
        leave(consumer)


def lost_while_producers_stop(world):
    with Beside(world, notifies=(1, 0)) as beside:
        consumer = beside.victim()
        beside.producer.start()
        consumer.invoke("DisableTracing", b"", lambda *_: None)
        assert beside.producer.wait_for("stop ")
        leave(consumer)


def lost_when_stopped_and_unread(world):
    with Beside(world) as beside:
        consumer = beside.fill(beside.victim(), 1)
        consumer.call("DisableTracing")
        while not consumer.said:
            consumer.dispatch()
        leave(consumer)


def lost_in_the_middle_of_reading(world):
    with Beside(world) as beside:
        consumer = beside.fill(beside.victim())
        consumer.call("DisableTracing")
        consumer.invoke("ReadBuffers", b"", lambda *_: None)
        assert consumer.read_frame() is not None  # and no more: its socket is full soon
        assert beside.other.call("QueryCapabilities"), "another client waits for the reader"
        leave(consumer)


def lost_in_the_middle_of_reading_while_tracing(world):
    with Beside(world) as beside:
        consumer = beside.fill(beside.victim())
        consumer.invoke("ReadBuffers", b"", lambda *_: None)
        assert consumer.read_frame() is not None
        beside.fill(consumer, 2)  # the ring moves on under the reader
        leave(consumer)


def lost_after_reading_in_parts(world):
    with Beside(world) as beside:
        consumer = beside.fill(beside.victim(), 1)
        assert len(consumer.packets()) > 200
        beside.fill(consumer, 1)
        consumer.call("FreeBuffers")
        leave(consumer)


def half_closed_in_the_middle_of_reading(world):
    with Beside(world) as beside:
        consumer = beside.fill(beside.victim())
        consumer.invoke("ReadBuffers", b"", lambda *_: None)
        assert consumer.read_frame() is not None
        consumer.sock.shutdown(socket.SHUT_RD)
        assert eventually(lambda: world.sessions() == 1 or leave(consumer) is None)


def lost_while_a_flush_is_answered(world):
    with Beside(world) as beside:
        consumer = beside.victim()
        beside.producer.start()
        beside.producer.holds.add("flush")
        consumer.invoke("Flush", field(1, FOREVER_MS), lambda *_: None)
        assert beside.producer.wait_for("flush ")
        leave(consumer)
        assert eventually(lambda: world.sessions() == 1)
        beside.producer.holds.clear()
        beside.producer.invoke("CommitData", field(3, 2 ** 40), lambda *_: None)  # an answer nobody waits for


def lost_while_the_duration_s_flush_is_answered(world):
    with Beside(world) as beside:
        consumer = beside.victim("duration_ms: 50")
        beside.producer.holds.add("flush")
        assert beside.producer.wait_for("flush ")
        leave(consumer)


def lost_after_detaching(world):
    with Beside(world) as beside:
        consumer = beside.victim("duration_ms: 60000")
        assert consumer.call("Detach", field(1, "key"))[0]
        leave(consumer)
        assert world.sessions() == 2, "a detached session stays"
        again = world.consumer()
        assert again.call("Attach", field(1, "key"))[0]
        leave(again)  # attached: now it ends


def detached_for_good_it_ends_by_its_duration(world):
    with Beside(world) as beside:
        consumer = beside.victim('duration_ms: 200 write_into_file: true output_path: "%s"' %
                                 os.path.join(world.folder, "detached"))
        assert consumer.call("Detach", field(1, "other key"))[0]
        leave(consumer)


def lost_while_detaching(world):
    with Beside(world) as beside:
        consumer = beside.victim("duration_ms: 300")
        consumer.invoke("Detach", field(1, "third key"), lambda *_: None)
        leave(consumer)  # whichever comes first, it is over soon


def lost_while_a_clone_waits_for_its_flush(world):
    with Beside(world) as beside:
        source = beside.victim()
        beside.producer.start()
        number = max(s[1][0] for s in source.state())
        beside.producer.holds.add("flush")
        clone = world.consumer()
        clone.invoke("CloneSession", field(1, number), lambda *_: None)
        assert beside.producer.wait_for("flush ")
        leave(clone)
        assert eventually(lambda: world.sessions() == 2)
        leave(source)


def the_source_lost_while_its_clone_waits(world):
    with Beside(world) as beside:
        source = beside.victim()
        beside.producer.start()
        number = max(s[1][0] for s in source.state())
        beside.producer.holds.add("flush")
        answers = []
        clone = world.consumer()
        clone.invoke("CloneSession", field(1, number), lambda *a: answers.append(a))
        assert beside.producer.wait_for("flush ")
        leave(source)
        while not answers:
            assert clone.dispatch()
        leave(clone)


def clone_of(world, beside):
    """A filled session's consumer, and one with a clone of it."""
    source = beside.fill(beside.victim(), 3)
    clone = world.consumer()
    clone.friends = [beside.producer]
    success, _ = clone.call("CloneSession", field(1, max(s[1][0] for s in source.state())))
    clone.friends = []
    assert success
    return source, clone


def lost_with_a_clone_unread(world):
    with Beside(world) as beside:
        source, clone = clone_of(world, beside)
        leave(clone)
        assert eventually(lambda: world.sessions() == 2)
        leave(source)


def lost_in_the_middle_of_reading_a_clone(world):
    with Beside(world) as beside:
        source, clone = clone_of(world, beside)
        leave(source)
        clone.invoke("ReadBuffers", b"", lambda *_: None)
        assert clone.read_frame() is not None
        leave(clone)


def lost_while_a_worker_compresses_for_it(world):
    with Beside(world) as beside:
        consumer = beside.fill(beside.victim("compression_type: COMPRESSION_TYPE_DEFLATE"))
        consumer.call("DisableTracing")
        consumer.invoke("ReadBuffers", b"", lambda *_: None)
        leave(consumer)  # the first batch is with the worker by now, or will be


def lost_while_its_file_is_completed(world):
    """The end of a pipe: completed behind the lost consumer's back, whenever it is read."""
    with Beside(world) as beside:
        end, fd = os.pipe()
        consumer = beside.victim("write_into_file: true file_write_period_ms: 600000", fd)
        os.close(fd)
        beside.fill(consumer, 1)
        consumer.invoke("DisableTracing", b"", lambda *_: None)
        assert eventually(lambda: fills_its_pipe(end)), "nothing was written"
        leave(consumer)
        assert beside.other.call("QueryCapabilities"), "another client waits for a hanging disk"
        got = 0
        while data := os.read(end, 1 << 20):
            got += len(data)
        os.close(end)
        assert got > 1000000, got


def lost_while_it_observes(world):
    with Beside(world) as beside:
        consumer = beside.victim()
        consumer.invoke("ObserveEvents", field(1, 1) + field(1, 2) + field(1, 4), lambda *_: None)
        beside.producer.start()
        leave(consumer)


def lost_while_the_service_writes_its_file(world):
    with Beside(world) as beside:
        name = os.path.join(world.folder, "lost.pftrace")
        fd = os.open(name, os.O_WRONLY | os.O_CREAT, 0o600)
        consumer = beside.victim("write_into_file: true file_write_period_ms: 100", fd)
        os.close(fd)
        beside.fill(consumer, 1)
        leave(consumer)
        assert eventually(lambda: world.sessions() == 1)
        assert eventually(lambda: os.stat(name).st_size > 1000000), os.stat(name).st_size


def lost_with_its_file_s_reader_asleep(world):
    """The file is a pipe that nobody reads: its write hangs until the pipe is gone."""
    with Beside(world) as beside:
        end, fd = os.pipe()
        consumer = beside.victim("write_into_file: true file_write_period_ms: 100", fd)
        os.close(fd)
        beside.fill(consumer, 1)
        assert eventually(lambda: fills_its_pipe(end)), "nothing was written"
        assert beside.other.call("QueryCapabilities"), "another client waits for a hanging disk"
        leave(consumer)
        assert eventually(lambda: world.sessions() == 1), "the hanging write keeps the session"
        os.close(end)


def a_write_that_hangs_goes_on_when_it_is_read(world):
    with Beside(world) as beside:
        end, fd = os.pipe()
        consumer = beside.victim("write_into_file: true file_write_period_ms: 100", fd)
        os.close(fd)
        beside.fill(consumer, 1)
        assert eventually(lambda: fills_its_pipe(end)), "nothing was written"
        consumer.invoke("DisableTracing", b"", lambda *_: None)
        got = 0
        while True:
            data = os.read(end, 1 << 20)
            if not data:
                break
            got += len(data)
        os.close(end)
        assert got > 1000000, got
        while not consumer.said:
            assert consumer.dispatch()
        leave(consumer)


CLAIMS = [claim for name, claim in list(globals().items()) if callable(claim) and
          getattr(claim, "__module__", "") == "__main__" and
          name.startswith(("lost_", "half_", "detached_", "the_source_", "a_write_"))]


def every_loss_again_leaves_no_memory(world):
    quick = [lost_while_tracing, lost_in_the_middle_of_reading, lost_while_a_flush_is_answered]
    for n in range(6):
        for claim in quick:
            claim(world)
            world.close()
        assert eventually(lambda: world.sessions() == 0)
        if n == 2:
            before = world.rss_kb()
    after = world.rss_kb()
    if not os.environ.get("PFL_SANITIZE"):
        assert after <= before + 1024, "%d KiB, were %d" % (after, before)


if __name__ == "__main__":
    WORLD = World(*sys.argv[1:5])
    sys.exit(1 if run_claims(WORLD, CLAIMS + [every_loss_again_leaves_no_memory]) else 0)
