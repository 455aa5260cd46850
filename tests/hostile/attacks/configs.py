# SPDX-License-Identifier: Apache-2.0
"""What a user's configs make the service keep, besides buffers."""
import gc

from attacks.sessions import LargePages, string_filter
from attacks.writers import SESSION, write_long_packet
from smb_producer import fragments
from world import GUARDRAILS_HASTE, Consumer, Failed, World, field

ATTACKS = ["kept_memory", "match_memory", "compressors"]
GUARDRAILS_MIB = 64  # besides what is allowed


def attack(world, function, *args):
    said = world.attack("member", function, *args).wait_ready(120)
    if said != "ready":
        raise Failed("the attacker: " + said)


def enable_large(ready, path):
    """Sessions whose configs compile to as much as is allowed: rules, a filter's table, patterns for names."""
    kept = []
    pattern = "(?:[a-c]y){800}"
    numbers = range(9)
    triggers = b"".join(field(2, field(1, "t%d" % i) + field(2, "%d" % i + pattern)) for i in numbers)
    sources = b"".join(field(2, field(1, field(1, "s%d" % i)) + field(3, "%d" % i + pattern)) for i in numbers)
    for _ in range(5):
        consumer = Consumer(path)
        why = consumer.enable(field(1, field(1, 4)) + sources + field(17, field(1, 4) + triggers + field(3, 60000))
                              + string_filter(pattern, 50, [127 << 3 | 1, 0] * 7900))
        if why:
            raise AssertionError(why)
        kept.append(consumer)
    ready()


def kept_memory(build):
    """with --guardrails, what the configs of one user make the service keep does not end it"""
    with World(build, ["--guardrails"], haste=GUARDRAILS_HASTE) as world:
        before = world.memory_kb("VmRSS")
        attack(world, enable_large, world.consumer)
        grown = (world.memory_kb("VmRSS") - before) >> 10
        if grown < GUARDRAILS_MIB:
            raise Failed("this takes %d MiB, which no guardrail forbids: the attack tries nothing" % grown)
        world.outlive_guardrails()
        return "the service grew by %d MiB, and lives" % grown


def match_deeply(ready, consumers, producers, rules):
    """A string in which each rule goes as deep as it may, with as many groups to remember."""
    consumer = Consumer(consumers)
    why = consumer.enable(field(1, field(1, 1024)) + field(2, field(1, field(1, "s")))
                          + string_filter("()" * 40 + "(?:a|b)*[cd]", rules))
    if why:
        raise AssertionError(why)
    producer = LargePages(producers, "s").join()
    producer.start()
    producer.commit(producer.move(producer.put(fragments(field(900, "a" * 4000)), 1)))
    consumer.call("DisableTracing")
    if consumer.call("ReadBuffers") is None:
        raise AssertionError("no answer")
    ready()


def match_memory(build):
    """what the rules of a filter need to match a string is not kept"""
    with World(build) as world:
        before = world.memory_kb("VmRSS")
        attack(world, match_deeply, world.consumer, world.producer, 60)
        grown = (world.memory_kb("VmRSS") - before) >> 10
        if grown > 50:
            raise Failed("60 rules that matched one string keep %d MiB" % grown)
        return "60 rules that matched one string: the service grew by %d MiB" % grown


def compress_long_packets(ready, consumers, producers):
    """Sessions that compress as well as they can, each of a packet of 2 MiB, and are read."""
    kept = []
    for _ in range(5):
        consumer = Consumer(consumers)
        why = consumer.enable(field(1, field(1, 4096)) + SESSION + field(47, field(2, field(1, 22))))
        if why:
            raise AssertionError(why)
        write_long_packet(lambda: None, producers, 600)
        consumer.call("DisableTracing")
        if consumer.call("ReadBuffers") is None:
            raise AssertionError("no answer")
        kept.append(consumer)
        gc.collect()  # the producer is disconnected, and its shared memory is not allowed for
    ready()


def compressors(build):
    """nor does what the compressors of one user's sessions keep, with --guardrails"""
    with World(build, ["--guardrails"], haste=GUARDRAILS_HASTE) as world:
        before = world.memory_kb("VmRSS")
        attack(world, compress_long_packets, world.consumer, world.producer)
        grown = (world.memory_kb("VmRSS") - before) >> 10
        if grown < 2 * GUARDRAILS_MIB:
            raise Failed("this takes %d MiB, which no guardrail forbids: the attack tries nothing" % grown)
        world.outlive_guardrails()
        return "the service grew by %d MiB, and lives" % grown
