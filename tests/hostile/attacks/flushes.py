# SPDX-License-Identifier: Apache-2.0
"""One user's flushes wait for ever, and for many; another user's end as they should."""
import time

from attacks.totals import REGISTER, connect, descriptor, hello, invoke, raise_fds, send_all, settle
from world import Consumer, Failed, Producer, World, field

ATTACKS = ["unacknowledged", "short_periods"]
FOR_EVER_MS = 4000000000


def offer(ready, path, number, name):
    """Producers that acknowledge nothing, and do not read what they are asked."""
    raise_fds()
    kept = []
    for _ in range(number):
        kept.append(connect(path))
        send_all(kept[-1], hello() + invoke(4, REGISTER, field(1, descriptor(name, 0))))
    for sock in kept[-10:]:
        settle(sock)
    ready()


def flush_all(ready, path, name, number):
    """Five sessions, so often each."""
    consumers, refused = [Consumer(path) for _ in range(5)], []
    for consumer in consumers:
        why = consumer.enable(field(1, field(1, 64)) + field(2, field(1, field(1, name))))
        if why:
            raise AssertionError(why)
    for first in range(0, number, 50):
        for consumer in consumers:
            for _ in range(first, first + 50):
                consumer.invoke("Flush", field(1, FOR_EVER_MS), lambda ok, *_: refused.append(ok))
            consumer.call("QueryCapabilities")
    ready("%d" % (5 * number - len(refused)))


def acknowledge(ready, path, number):
    """All flushes there are and will be, as a producer of root's session."""
    producer = Producer(path, "hostile", ["mine"])
    for _ in range(number):
        producer.invoke("CommitData", field(3, 1 << 63), lambda *_: None)
    producer.call("Sync")
    ready()


def get_cost(world, number):
    """Of so many acknowledgements, in ms of the service's loop."""
    before, fds = world.loop_ns(), world.fds()
    child = world.attack("stranger", acknowledge, world.producer, number)
    child.wait_ready()
    cost_ms = (world.loop_ns() - before) / 1e6
    child.end()
    world.children.remove(child)
    end = time.monotonic() + 10
    while world.fds() > fds and time.monotonic() < end:  # a flush would wait for it, and fail when it is gone
        time.sleep(0.01)
    return cost_ms


def flush_as_root(consumer):
    for producer in consumer.friends:
        producer.settle()  # what it has read already, it would not see while the consumer waits
    answer = consumer.call("Flush", field(1, 5000))
    if answer is None or not answer[0]:
        raise Failed("root's flush fails")


def unacknowledged(build):
    """who has flushes wait for a million producers keeps nobody from flushing, and acknowledgements cheap"""
    with World(build) as world:
        producer, consumer = Producer(world.producer, "root's", ["mine"]), Consumer(world.consumer)
        why = consumer.enable(field(1, field(1, 64)) + field(2, field(1, field(1, "mine"))))
        if why:
            raise Failed(why)
        consumer.friends.append(producer)
        flush_as_root(consumer)
        world.attack("stranger", offer, world.producer, 220, "theirs").wait_ready()
        quiet_ms = get_cost(world, 1000)
        memory_kb = world.memory_kb("VmRSS")
        waiting = world.attack("member", flush_all, world.consumer, "theirs", 1000).wait_ready()
        if not waiting.isdigit() or int(waiting) < 100:
            raise Failed("the attack tries nothing: " + waiting)
        flush_as_root(consumer)
        ms = get_cost(world, 1000)
        note = "%s flushes wait, %d MiB; 1000 acknowledgements %.1f ms, quiet %.1f" % (
            waiting, (world.memory_kb("VmRSS") - memory_kb) >> 10, ms, quiet_ms)
        if int(waiting) * 220 > 1 << 19 or ms > 3 * quiet_ms + 5:
            raise Failed(note)
        return note


def flush_often(ready, path):
    config = (field(1, field(1, 64)) + field(2, field(1, field(1, "clears"))) + field(13, 1) + field(21, field(1, 1)))
    consumers = [Consumer(path) for _ in range(5)]
    for consumer in consumers:
        why = consumer.enable(config)
        if why:
            raise AssertionError(why)
    ready()


def short_periods(build):
    """nor who has five sessions flush and clear every millisecond keeps the service and all producers busy"""
    with World(build) as world:
        producer = Producer(world.producer, "root's", ["clears"])
        if world.attack("member", flush_often, world.consumer).wait_ready() != "ready":
            raise Failed("the attack tries nothing")
        before, end = len(producer.received), time.monotonic() + 1
        while time.monotonic() < end:
            if producer.has_input(end - time.monotonic()):
                producer.dispatch()
        asked = sum(line.startswith(("flush", "clear")) for line in producer.received[before:])
        if not 0 < asked <= 2 * 5 * 12:
            raise Failed("it was asked %d times in a second" % asked)
        return "it was asked %d times in a second" % asked
