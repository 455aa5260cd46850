# SPDX-License-Identifier: Apache-2.0
"""The highest rate of packets that a service takes in without loss, by bisection.

One thread writes for a while at the rate tried, with the default shared memory (256 KiB), and drops
what does not fit. Two answers: the rate at which two of five tries lost nothing, and that at which
the median of five lost 1 % at most (which a hiccup of the machine does not change). The services
take turns at every step. Service and writer run before all other programs (SCHED_FIFO, as root).
"""
import math
import os
import pathlib
import statistics
import time

STEPS = 7
TRIES = 5
BYTES = 512
BUFFER_MB = 128


class Search:
    """Of one service and writer: the highest rate that passes is in [low, high)."""

    def __init__(self, kind, rates):
        self.kind, (self.low, self.high) = kind, rates
        self.reached = 0

    def rate(self):
        return math.sqrt(self.low * self.high)

    def tell(self, passes, reached):
        if passes:
            self.low, self.reached = self.rate(), reached
        else:
            self.high = self.rate()


def put_first(child):
    """With all its threads; those to come inherit it. The main thread of bench_write never sleeps
    and comes after the others; it is over before the kernel's limit of 95 % in a second counts."""
    is_spinning = pathlib.Path(str(child.args[0])).name == 'bench_write'
    try:
        for task in pathlib.Path(f'/proc/{child.pid}/task').iterdir():
            place = 1 if is_spinning and int(task.name) == child.pid else 2
            os.sched_setscheduler(int(task.name), os.SCHED_FIFO, os.sched_param(place))
    except PermissionError:
        pass


class SdkWriter:
    """Bursts every ms. What was lost is what is missing in the trace."""
    rates = (50e3, 1600e3)

    def __init__(self, program):
        self.program = program

    def start(self, bench, service, rate, count):
        writer = service.program(self.program, '--name', bench.source, '--size', BYTES, '--rate',
                                 int(rate), '--count', count, '--once')
        writer.wait_line('ready')
        return writer

    def result(self, writer, reader, count):
        done = writer.wait_line('done')
        reader.command('flush')
        reader.command('disable')
        return count - reader.command('read')['large'], count / done['write_s']


class LibraryWriter:
    """Packet by packet, evenly. It counts itself what it drops."""
    rates = (100e3, 6400e3)

    def __init__(self, program):
        self.program = program

    def start(self, bench, service, rate, count):
        writer = service.program(self.program, '--bytes', BYTES, '--rate', int(rate), '--packets',
                                 count)
        writer.wait_line('registered')
        return writer

    def result(self, writer, _, count):
        done = writer.wait_line('done')
        return done['dropped'], 1e9 / done['ns_per_packet']


def try_rate(bench, kind, writer, rate, seconds):
    """How many packets were lost, and the rate that the writer reached."""
    count = int(rate * seconds)
    with bench.service(kind) as service:
        reader = service.reader()
        put_first(service.child)
        child = writer.start(bench, service, rate, count)
        put_first(child.child)
        time.sleep(0.1)
        service.enable(reader, BUFFER_MB)
        return writer.result(child, reader, count)


def try_often(bench, search, writer, seconds, is_clean):
    results = [try_rate(bench, search.kind, writer, search.rate(), seconds) for _ in range(TRIES)]
    lost = sorted(lost for lost, _ in results)
    passes = lost[1] == 0 if is_clean else statistics.median(lost) <= search.rate() * seconds / 100
    return passes, statistics.median(rate for _, rate in results)


def measure(bench, kinds, writers, tables):
    """`tables`: for no loss, and for 1 %."""
    seconds = 0.2 * min(1, max(bench.o.scale, 0.05))
    for name, writer in writers.items():
        for table, is_clean in zip(tables, (True, False)):
            for _ in range(bench.o.rounds):
                searches = [Search(kind, writer.rates) for kind in kinds]
                for _ in range(STEPS if bench.o.scale >= 1 else 1):
                    for search in searches:
                        search.tell(*try_often(bench, search, writer, seconds, is_clean))
                for search in searches:
                    table.add(name, search.kind, search.reached / 1000)
