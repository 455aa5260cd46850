# SPDX-License-Identifier: Apache-2.0
"""What sessions and triggers of one user do to others."""
import time

from world import Consumer, Failed, Producer, World, field

ATTACKS = ["raised_triggers", "exclusive_session", "lockdown"]


def trigger_config(names):
    triggers = b"".join(field(2, field(1, name) + field(4, 1000)) for name in names)
    return (field(1, field(1, 64)) + field(2, field(1, field(1, "none")))
            + field(17, field(1, 4) + triggers + field(3, 86400000)))


def raise_triggers(ready, path, requests):
    producers = [Producer(path, "hostile", []) for _ in range(12)]
    body = b"".join(field(1, "t") for _ in range(1024))
    for _ in range(requests):
        for producer in producers:
            producer.invoke("ActivateTriggers", body, lambda *_: None)
    ready()


def raised_triggers(build):
    """triggers that are raised as fast as 12 connections can hold nobody up"""
    with World(build) as world:
        consumer = Consumer(world.consumer)
        why = consumer.enable(trigger_config(["t"]))
        if why:
            raise Failed(why)
        victim = world.victim()
        child = world.attack("stranger", raise_triggers, world.producer, 20)
        child.wait_ready(20)
        time.sleep(2)
        worst, failed = victim.worst_s(), victim.failed
        victim.is_ending = True
        if failed or not world.is_alive() or worst > 1.0:
            raise Failed("the victim waited %.1f s %s" % (worst, failed or ""))
        return "the victim waited %.3f s at most" % worst


def enable_as(seat, more):
    def attack(ready, path):
        why = Consumer(path).enable(field(1, field(1, 64)) + more)
        ready("refused" if why else "taken")
    return attack


def play_config(build, more):
    with World(build) as world:
        consumer = Consumer(world.consumer)
        why = consumer.enable(field(1, field(1, 64)))
        if why:
            raise Failed(why)
        said = world.attack("member", enable_as("member", more), world.consumer).wait_ready()
        time.sleep(0.3)
        consumer.settle()
        if said != "refused" or consumer.said:
            raise Failed("the config was %s; root's session: %s" % (said, consumer.said or "runs"))
        if Producer(world.producer, "late", []).is_refused:
            raise Failed("other users' producers are locked out")


def exclusive_session(build):
    """a member of the group cannot end root's session by exclusive_prio"""
    play_config(build, field(41, 1000))


def lockdown(build):
    """nor lock other users' producers out, whether the config is refused or not"""
    play_config(build, field(5, 2))
    play_config(build, field(5, 2) + field(3, 604800001))
