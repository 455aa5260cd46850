# SPDX-License-Identifier: Apache-2.0
"""The highest rate of packets that a service takes in without loss.

Writers that wait when the memory is full (Perfetto's policy "stall") lose nothing: how much gets
through, flat out. Writers that drop: by bisection. One thread writes for a while at the rate tried, with the default shared memory (256 KiB), and drops
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
    buffer_mb = 128  # holds all

    def __init__(self, program):
        self.program = program

    def start(self, bench, service, rate, count):
        writer = service.program(self.program, '--name', 'perfleet.bench', '--size', BYTES, '--rate',
                                 int(rate), '--count', count, '--once')
        writer.wait_line('ready')
        return writer

    def result(self, writer, reader, count):
        done = writer.wait_line('done')
        reader.command('flush')
        reader.command('disable')
        return count - reader.command('read')['large'], count / done['write_s']


class LibraryWriter:
    """Packet by packet, evenly. It counts itself what it drops, once the buffer has gone round."""
    rates = (100e3, 6400e3)
    buffer_mb = 16

    def __init__(self, program):
        self.program = program

    def start(self, bench, service, rate, count):
        writer = service.program(self.program, '--bytes', BYTES, '--rate', int(rate), '--packets',
                                 count, '--warm-up', self.buffer_mb * 2 * 10**6 // BYTES)
        writer.wait_line('registered')
        return writer

    def result(self, writer, _, count):
        done = writer.wait_line('done')
        return done['dropped'], 1e9 / done['ns_per_packet']


class Waiting:
    """A writer that waits. `writers` of one size and service: GB/s of strings, nothing lost."""
    sizes = (512, 100, 4000)

    def __init__(self, name, program, gigabytes):
        self.name, self.program, self.gigabytes = name, program, gigabytes

    def measure(self, bench, kind, size):
        count = max(1000, int(self.gigabytes * 1e9 / size))
        args = ['--bytes', size, '--packets', count, '--stall']
        if self.name != 'libperfleet':
            args = ['--name', bench.source, '--size', size, '--count', count, '--once', '--policy',
                    'stall']
        with bench.service(kind) as service:
            reader = service.reader()
            put_first(service.child)
            child = service.program(self.program, *args)
            child.wait_line('registered' if self.name == 'libperfleet' else 'ready')
            put_first(child.child)
            time.sleep(0.1)
            service.enable(reader, 64)
            done = child.wait_line('done')
            if done.get('dropped', 0) != 0:
                raise RuntimeError('a waiting writer dropped packets')
            return size / done['ns_per_packet']


def measure_waiting(bench, kinds, programs, table):
    """Rows: each writer on both services; perfleet's own pair against Perfetto's."""
    gigabytes = min(1, max(bench.o.scale, 0.001))
    for size in Waiting.sizes:
        for _ in range(bench.o.rounds):
            rates = {}
            for name, program in programs.items():
                for kind in kinds:
                    rate = Waiting(name, program, gigabytes).measure(bench, kind, size)
                    table.add(f'{size} bytes, {name}', kind, rate)
                    rates[name, kind.name] = rate
            for kind, name in zip(kinds, programs):
                if len(kinds) == len(programs):
                    table.add(f'{size} bytes, libperfleet here, C++ SDK there', kind,
                              rates[name, kind.name])


def try_rate(bench, kind, writer, rate, seconds):
    """How many packets were lost, and the rate that the writer reached."""
    count = int(rate * seconds)
    with bench.service(kind) as service:
        reader = service.reader()
        put_first(service.child)
        child = writer.start(bench, service, rate, count)
        put_first(child.child)
        time.sleep(0.1)
        service.enable(reader, writer.buffer_mb)
        return writer.result(child, reader, count)


def measure_fixed(bench, kinds, writer, table):
    """Lost of what was written at a fixed rate: median of the tries of all rounds."""
    seconds = 0.2 * min(1, max(bench.o.scale, 0.05))
    for rate in (1e6, 2e6, 3e6, 4e6, 6e6):
        for kind in kinds * (TRIES * bench.o.rounds if bench.o.scale >= 1 else 1):
            lost, _ = try_rate(bench, kind, writer, rate, seconds)
            table.add(f'{rate / 1e6:.0f} million packets/s', kind, 100 * lost / (rate * seconds))


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
