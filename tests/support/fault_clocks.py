#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clocks that jump under a running service (tests/support/clock_shim.c is loaded into it):

  fault_clocks.py CONSUMER_SOCKET PRODUCER_SOCKET SERVICE_PID DIR OFFSETS

The wall clock is set forward and back, the machine sleeps (boot clock), the process was stopped for
an hour (all clocks). Timers, flushes and clock snapshots behave. A line of TAP a claim."""
import os
import struct
import sys
import time

from fault_world import PROMPT_S, World, eventually, run_claims
from service_peers import LIMIT_S, field, fields

REALTIME, MONOTONIC, RAW, REALTIME_COARSE, MONOTONIC_COARSE, BOOTTIME = 0, 1, 4, 5, 6, 7
HOUR_NS = 3600 * 10 ** 9
FLUSHES = 12  # flushes_requested
CONFIG = 'buffers { size_kb: 512 } data_sources { config { name: "steady" } } %s'


class Clocks:
    """Moves clocks, and puts all back."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR)
        self.now = [0] * 16

    def move(self, ns, *clocks):
        for clock in clocks:
            self.now[clock] += ns
        os.pwrite(self.fd, struct.pack("<16q", *self.now), 0)


CLOCKS = None


def set_wall_clock(ns):
    CLOCKS.move(ns, REALTIME, REALTIME_COARSE)


def sleep_machine(ns):
    CLOCKS.move(ns, BOOTTIME, REALTIME, REALTIME_COARSE)


def stop_process(ns):
    CLOCKS.move(ns, BOOTTIME, REALTIME, REALTIME_COARSE, MONOTONIC, MONOTONIC_COARSE, RAW)


def begin(world, more):
    steady = world.join_steady()
    consumer = world.start(more, CONFIG)
    consumer.friends = [steady]
    steady.start()
    steady.write("before")
    return consumer


def wait_for_end(world, consumer, limit_s):
    """Seconds until the session ended by itself; both are served meanwhile."""
    start = time.monotonic()
    while not consumer.said:
        left = limit_s - (time.monotonic() - start)
        assert left > 0, "it has not ended"
        if world.steady.has_input(0.005):
            world.steady.dispatch()
        if consumer.has_input(0.005):
            consumer.dispatch()
    return time.monotonic() - start


def snapshots(packets):
    """Of each clock snapshot, by clock id, the distance to the boot clock in hours."""
    out = []
    for packet in packets:
        snapshot = dict(fields(packet)).get(6)
        if snapshot is None:
            continue
        clocks = {}
        for number, value in fields(snapshot):
            if number == 1:
                clock = dict(fields(value))
                clocks[clock[1]] = clock[2]
        out.append({clock: round((at - clocks[6]) / HOUR_NS) for clock, at in clocks.items()})
    return out


def stats(consumer):
    return dict(fields(dict(fields(consumer.call("GetTraceStats")[1]))[1]))


def the_wall_clock_set_forward_and_back_moves_no_timer(world):
    start = time.monotonic()
    consumer = begin(world, "duration_ms: 2500 flush_period_ms: 500")
    set_wall_clock(HOUR_NS)
    world.steady.write("between")
    assert world.flush(consumer)[0]
    set_wall_clock(-3 * HOUR_NS)
    world.steady.write("after")
    wait_for_end(world, consumer, LIMIT_S)
    took = time.monotonic() - start
    assert 2.5 <= took, "it ended after %.1f s" % took
    packets = consumer.packets()
    hours = [s[1] for s in snapshots(packets)]
    assert {h - hours[0] for h in hours} == {0, 1, -2}, hours
    assert all(s[3] == snapshots(packets)[0][3] for s in snapshots(packets)), "the monotonic clock jumped"
    set_wall_clock(2 * HOUR_NS)
    consumer.close()


def a_sleep_is_in_the_snapshots_and_not_in_the_duration(world):
    start = time.monotonic()
    consumer = begin(world, "duration_ms: 2500")
    sleep_machine(HOUR_NS)
    assert world.flush(consumer)[0]
    wait_for_end(world, consumer, LIMIT_S)
    took = time.monotonic() - start
    assert 2.5 <= took, "it ended after %.1f s" % took
    hours = [s[3] for s in snapshots(consumer.packets())]
    assert {h - hours[0] for h in hours} == {0, -1}, hours
    consumer.close()


def a_duration_that_counts_sleep_ends_after_it(world):
    consumer = begin(world, "duration_ms: 600000 prefer_suspend_clock_for_duration: true "
                     "builtin_data_sources { snapshot_interval_ms: 300000 }")
    sleep_machine(HOUR_NS)
    wait_for_end(world, consumer, LIMIT_S)  # nothing else wakes the service so soon
    consumer.close()


def an_hour_missed_is_made_up_for_by_one_of_each(world):
    """Flushes, snapshots, clears and writes of an hour ago are not repeated one by one."""
    name = os.path.join(world.folder, "missed.pftrace")
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    steady = world.join_steady()
    consumer = world.start('write_into_file: true file_write_period_ms: 100 flush_period_ms: 200 '
                           'incremental_state_config { clear_period_ms: 200 }', CONFIG, fd)
    os.close(fd)
    consumer.friends = [steady]
    steady.start()
    steady.write("before")
    count = stats(consumer).get(FLUSHES, 0)
    stop_process(HOUR_NS)
    steady.write("after")
    assert world.flush(consumer)[0]
    assert stats(consumer).get(FLUSHES, 0) - count < 1000, stats(consumer)  # of 18000 in that hour
    consumer.call("DisableTracing")
    wait_for_end(world, consumer, LIMIT_S)
    with open(name, "rb") as trace:
        packets = [value for number, value in fields(trace.read()) if number == 1]
    assert sum(900 in dict(fields(p)) for p in packets) == 2
    assert len(packets) < 200, "%d packets" % len(packets)
    consumer.close()


def an_hour_missed_ends_what_was_waited_for(world):
    consumer = begin(world, "duration_ms: 600000")
    world.steady.holds.add("flush")
    answers = []
    consumer.invoke("Flush", field(1, 60000), lambda *a: answers.append(a[0]))
    assert world.steady.wait_for("flush ")
    world.steady.settle()
    stop_process(HOUR_NS)
    world.steady.settle()  # it would have woken by itself: waits went on in that hour
    world.steady.holds.clear()
    while not answers and consumer.has_input(PROMPT_S):
        consumer.dispatch()
    assert answers == [False], answers
    world.steady.invoke("CommitData", field(3, 2 ** 40), lambda *_: None)  # the duration's flush, if held
    wait_for_end(world, consumer, LIMIT_S)
    consumer.close()


CLAIMS = [the_wall_clock_set_forward_and_back_moves_no_timer,
          a_sleep_is_in_the_snapshots_and_not_in_the_duration,
          a_duration_that_counts_sleep_ends_after_it,
          an_hour_missed_is_made_up_for_by_one_of_each,
          an_hour_missed_ends_what_was_waited_for]


if __name__ == "__main__":
    CLOCKS = Clocks(sys.argv[5])
    sys.exit(1 if run_claims(World(*sys.argv[1:5]), CLAIMS) else 0)
