#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Producers that are killed (SIGKILL) at every state of the chunk protocol and of their connection:

  fault_producers.py CONSUMER_SOCKET PRODUCER_SOCKET SERVICE_PID DIR

For each: what could be read of it is delivered, what could not is in the statistics, the steady
producer beside it loses nothing, flush and stop wait for nobody who is dead, and nothing is left.
A line of TAP a claim."""
import os
import signal
import socket
import struct
import sys

from fault_world import PROMPT_S, World, eventually, run_claims
from service_peers import Client, field, fields
from smb_producer import (FREE, FROM_PREVIOUS, READING, TO_NEXT, UNPATCHED, WRITING, SmbProducer, fragments, packet)

WRITTEN, READ, OVERWRITTEN, DISCARDED, ABI = 2, 17, 3, 18, 9


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class Death:
    """A producer in a process of its own. `act(producer)` is the last thing it does; what is in
    `holds` it does not answer from the beginning."""

    def __init__(self, world, act, holds=(), **options):
        self.act = act
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                ours.close()
                producer = SmbProducer(world.producer_path, "dying", **options).join()
                producer.holds.update(holds)
                theirs.sendall(b"r")
                producer.start()
                producer.write("first")
                act(producer)
                die()
            except BaseException as why:  # no test goes on in a child
                print("# the dying producer:", repr(why), flush=True)
            os._exit(1)
        theirs.close()
        self.sock = ours

    def wait_ready(self):
        self.sock.settimeout(60)
        assert self.sock.recv(1) == b"r", "it never registered"

    def wait(self):
        _, status = os.waitpid(self.pid, 0)
        self.sock.close()
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status


def dies(world, act, delivered=(), unread=0, options=None, more="", flushes=True):
    """The whole life of a session in which a producer dies in `act`. `unread` chunks of it are in
    the buffer for good."""
    steady = world.join_steady()
    death = Death(world, act, **(options or {}))
    death.wait_ready()
    consumer = world.start(more)
    steady.start()
    steady.write("steady 1", "steady 2")
    if not flushes:
        is_ok, took = world.flush(consumer)  # the dying one dies of it
        assert not is_ok and took < PROMPT_S, "flush: %s, %.1f s" % (is_ok, took)
    death.wait()
    assert eventually(lambda: "smb.dying" not in world.producers()), "the service has not noticed"
    steady.write("steady 3")
    is_ok, took = world.flush(consumer)
    assert is_ok and took < PROMPT_S, "flush: %s, %.1f s" % (is_ok, took)
    took, tags, stats = world.end(consumer)
    assert took < PROMPT_S, "the stop took %.1f s" % took
    assert [t for t in tags if t.startswith("steady")] == ["steady 1", "steady 2", "steady 3"], tags
    of_dead = [t for t in tags if not t.startswith("steady")]
    assert of_dead == ["first"] + list(delivered), of_dead
    account = stats.get(WRITTEN, 0) - stats.get(READ, 0) - stats.get(OVERWRITTEN, 0)
    assert account == unread, "%d chunks unread in %s" % (account, stats)
    consumer.close()
    return stats


# --- the chunk's states -------------------------------------------------------------------------


def killed_with_a_page_divided_and_free(world):
    dies(world, lambda p: p.set_state(p.page, FREE))


def killed_before_the_header_of_a_chunk_is_written(world):
    dies(world, lambda p: p.set_state(p.page, WRITING))


def killed_in_the_first_packet_of_a_chunk(world):
    dies(world, lambda p: p.put(fragments(packet("half"))[:5], 1, state=WRITING))


def killed_in_the_second_packet_the_first_is_delivered(world):
    half = fragments(packet("done")) + fragments(packet("half"))[:5]
    dies(world, lambda p: p.put(half, 2, state=WRITING), ["done"])


def killed_in_the_second_packet_without_scraping_neither_is_delivered(world):
    half = fragments(packet("done")) + fragments(packet("half"))[:5]
    dies(world, lambda p: p.put(half, 2, state=WRITING), options={"does_scrape": False})


def killed_with_more_packets_claimed_than_there_are(world):
    def act(p):
        p.commit(p.move(p.put(fragments(packet("one"), packet("two")) + b"\xff\xff\x7f", 9)))
    assert dies(world, act, ["one", "two"]).get(ABI, 0) == 1, "the violation is not counted"


def killed_with_more_packets_claimed_in_a_chunk_that_was_not_committed(world):
    stats = dies(world, lambda p: p.put(fragments(packet("one")) + b"\xff\xff\x7f", 9), ["one"])
    assert stats.get(ABI, 0) >= 1, "the violation is not counted"


def killed_with_a_complete_chunk_that_was_not_committed(world):
    dies(world, lambda p: p.put(fragments(packet("done")), 1), ["done"])


def killed_with_complete_chunks_out_of_order(world):
    def act(p):
        pages = [p.put(fragments(packet("out %d" % n)), 1) for n in range(4)]
        p.commit(p.move(pages[2]) + p.move(pages[0]))
    dies(world, act, ["out %d" % n for n in range(4)])


def killed_with_a_chunk_in_the_service_s_own_state(world):
    dies(world, lambda p: p.set_state(p.put(fragments(packet("x")), 1), READING))


def killed_with_a_layout_that_is_none(world):
    dies(world, lambda p: p.set_state(p.page, WRITING, 7 << 28))


# --- patches -----------------------------------------------------------------------------------


def put_unpatched(p):
    """A packet over two chunks; its nested size, four bytes in the first, comes with a patch."""
    inner = field(1, "patched" + "." * 60)
    head = b"\xa2\x38"  # field 900, length-delimited
    size = bytes([0x80 | len(inner) & 0x7F, 0x80, 0x80, 0])
    data = head + b"\0\0\0\0" + inner
    chunk_id = p.chunk_id
    p.commit(p.move(p.put(fragments(data[:30]), 1, TO_NEXT | UNPATCHED)) +
             p.move(p.put(fragments(data[30:], packet("behind")), 2, FROM_PREVIOUS)))
    return chunk_id, 1 + len(head), size


def killed_before_a_patch(world):
    dies(world, put_unpatched, unread=2)


def killed_between_two_patches(world):
    def act(p):
        chunk_id, offset, patch = put_unpatched(p)
        p.commit(p.patch(chunk_id, offset, patch, has_more=1))
    dies(world, act, unread=2)


def killed_after_the_last_patch(world):
    def act(p):
        chunk_id, offset, patch = put_unpatched(p)
        p.commit(p.patch(chunk_id, offset, patch))
    dies(world, act, ["patched" + "." * 60, "behind"])


def killed_before_the_rest_of_a_packet(world):
    whole = packet("x" * 100)
    dies(world, lambda p: p.commit(p.move(p.put(fragments(whole[:50]), 1, TO_NEXT))), unread=1)


# --- the connection ------------------------------------------------------------------------------


def killed_within_a_frame_of_commit_data(world):
    def act(p):
        body = field(5, field(1, p.service) + field(2, p.methods["CommitData"]) + field(
            3, p.move(p.put(fragments(packet("done")), 1))))
        frame = field(2, p.last_id + 1) + body
        p.sock.sendall((struct.pack("<I", len(frame)) + frame)[:-3])
    dies(world, act, ["done"])  # found by scraping


def killed_while_a_flush_waits_for_it(world):
    def act(p):
        assert p.wait_for("flush ")
    dies(world, act, options={"holds": ("flush",)}, flushes=False)


def killed_while_a_stop_waits_for_it(world):
    steady = world.join_steady()

    def act(p):
        p.holds.add("flush")
        assert p.wait_for("stop ")
    death = Death(world, act, notifies=(1, 0))
    death.wait_ready()
    consumer = world.start()
    steady.start()
    steady.write("steady 1")
    assert eventually(lambda: stats_of(consumer).get(WRITTEN, 0) >= 2)
    took, tags, _ = world.end(consumer)
    death.wait()
    assert took < PROMPT_S, "the stop took %.1f s" % took
    assert sorted(tags) == ["first", "steady 1"], tags
    consumer.close()


def killed_while_a_start_waits_for_it(world):
    dies(world, lambda p: None, options={"notifies": (0, 1)})


def stats_of(consumer):
    stats = dict(fields(consumer.call("GetTraceStats")[1]))[1]
    return dict(fields(dict(fields(stats))[1]))


def steps_of_a_connection():
    """Each leaves a connection in a state of its own."""
    def connected(path):
        import socket as s
        sock = s.socket(s.AF_UNIX)
        sock.connect(path)
        return sock

    def half_a_prefix(path):
        sock = connected(path)
        sock.sendall(b"\x10\0")
        return sock

    def half_a_bind(path):
        sock = connected(path)
        body = field(2, 1) + field(3, field(1, "ProducerPort"))
        sock.sendall((struct.pack("<I", len(body)) + body)[:-4])
        return sock

    def bound(path):
        return Client(path, "ProducerPort")

    def initialized(path):
        producer = SmbProducer(path, "dying")
        producer.initialize()
        return producer

    def listening(path):
        producer = initialized(path)
        producer.listen()
        return producer

    def registered(path):
        return SmbProducer(path, "dying").join()
    return [connected, half_a_prefix, half_a_bind, bound, initialized, listening, registered]


def killed_at_every_step_before_a_session(world):
    for step in steps_of_a_connection():
        pid = os.fork()
        if pid == 0:
            try:
                keep = step(world.producer_path)
                assert keep
                die()
            finally:
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status), step.__name__
    steady = world.join_steady()
    consumer = world.start()
    steady.start()
    steady.write("steady 1")
    assert eventually(lambda: world.producers() == ["smb.steady"]), world.producers()
    _, tags, _ = world.end(consumer)
    assert tags == ["steady 1"], tags
    consumer.close()


def killed_with_the_shared_memory_unread_in_its_socket(world):
    steady = world.join_steady()
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            producer = SmbProducer(world.producer_path, "dying").join()
            theirs.sendall(b"r")
            while not producer.has_input(20):  # the descriptor is there, and stays there
                pass
            die()
        finally:
            os._exit(1)
    ours.recv(1)
    consumer = world.start()
    steady.start()
    os.waitpid(pid, 0)
    ours.close()
    theirs.close()
    steady.write("steady 1")
    assert world.flush(consumer)[1] < PROMPT_S
    took, tags, _ = world.end(consumer)
    assert took < PROMPT_S and tags == ["steady 1"], (took, tags)
    consumer.close()


CLAIMS = [claim for name, claim in list(globals().items()) if name.startswith("killed_")]


def twenty_deaths_leave_no_memory(world):
    whole = fragments(packet("done"))
    for n in range(20):
        dies(world, lambda p: p.put(whole, 1), ["done"])
        world.close()
        if n == 4:
            before = world.rss_kb()
    after = world.rss_kb()
    if not os.environ.get("PFL_SANITIZE"):
        assert after <= before + 512, "%d KiB, were %d after the first" % (after, before)


if __name__ == "__main__":
    WORLD = World(*sys.argv[1:5])
    sys.exit(1 if run_claims(WORLD, CLAIMS + [twenty_deaths_leave_no_memory]) else 0)
