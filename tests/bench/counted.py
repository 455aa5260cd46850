# SPDX-License-Identifier: Apache-2.0
"""Builds of perfleet side by side by the instructions that their processes execute for a unit of work, counted by valgrind
(callgrind): the same on a busy machine. What the kernel does, and waits for memory, are not in them.

A unit is the difference between a run with twice the work and one with the work, so what starts and ends a process is in none."""
import copy
import pathlib
import shutil
import socket
import sys
import tempfile
import time

import builds
import tunnel

START_S = 60


def count_of(folder):
    """Of all processes that ended since, which are several where one forks."""
    files = list(pathlib.Path(folder).glob('out.*'))
    lines = [line for f in files for line in f.read_text().splitlines() if line.startswith(('summary:', 'totals:'))]
    for f in files:
        f.unlink()
    if not lines:
        raise RuntimeError('valgrind counted nothing')
    return max(int(line.split()[1]) for line in lines)


class Counter:
    """Runs a piece of work with a process of a build below callgrind."""

    def __init__(self, bench, folder):
        self.bench, self.folder = bench, folder
        self.inside = ('valgrind', '-q', '--tool=callgrind', f'--callgrind-out-file={folder}/out.%p')

    def counted(self, kind):
        other = copy.copy(kind)
        other.inside = (*kind.inside, *self.inside)
        other.args = [*kind.args, '--sandbox', 'off']
        return other

    def per_unit(self, work, kind, units):
        counts = []
        for times in (1, 2):
            work(kind, times * units)
            counts.append(count_of(self.folder))
        return (counts[1] - counts[0]) / units

    # ---- the work ----

    def write(self, size, policy):
        def work(kind, packets):
            with self.bench.service(kind) as service:
                reader = service.reader()
                writer = service.program(*self.inside, kind.build / 'bench' / 'bench_write', '--packets', int(packets),
                                         '--bytes', size, *(['--stall'] if policy == 'stall' else []))
                writer.wait_line('registered')
                time.sleep(0.1)
                service.enable(reader, 64)
                writer.wait_line('done')
                writer.child.stdin.close()
                writer.child.wait()
        return work

    def take_in(self, load_of, is_read):
        def work(kind, gigabytes):
            load = load_of(gigabytes)
            with self.bench.service(self.counted(kind)) as service:
                reader, _, _ = self.bench.record(service, load, load.mb() * 1.15 + 4)
                reader.command('flush')
                reader.command('disable')
                if is_read:
                    reader.command('read')
        return work

    def shake_hands(self, keys):
        def work(kind, count):
            with CountedRelay(self.counted(kind), keys) as relay:
                relay.shake_hands(int(count))
        return work

    def carry(self, keys):
        def work(kind, blocks):
            with CountedRelay(self.counted(kind), keys, int(blocks)) as relay:
                relay.carry_all()
        return work


class CountedRelay(builds.Relay):
    """A relay whose peers get so many blocks, or bytes until they leave."""

    def __init__(self, kind, keys, blocks=None):
        self.blocks = blocks
        super().__init__(kind, keys)

    def server_command(self, name, bin_dir):
        return [*super().server_command(name, bin_dir), '--sandbox', 'off']

    def carry_all(self):
        left, room = self.blocks * tunnel.BLOCK, memoryview(bytearray(tunnel.BLOCK))
        with socket.create_connection(('127.0.0.1', self.client_port)) as s:
            s.sendall(b'x')
            while left > 0:
                left -= s.recv_into(room) or self.fail()

    @staticmethod
    def wait_for(port):
        end = time.monotonic() + START_S
        while True:
            try:
                return tunnel.Tunnel.wait_for(port)
            except RuntimeError:
                if time.monotonic() > end:
                    raise


def measure(bench, load_class):
    if not shutil.which('valgrind'):
        print('counted: needs valgrind', file=sys.stderr)
        return
    scale = bench.o.scale
    library = bench.table('a packet of the library', 'instructions', is_more_better=False)
    service = bench.table('the service', 'million instructions/GB', is_more_better=False)
    shake = bench.table('a handshake with mutual certificates, the relay', 'million instructions', is_more_better=False)
    relay = bench.table('one stream through the relay', 'million instructions/GB', is_more_better=False)

    def measure_service(kind, counter, size):
        def load_of(gigabytes):
            return load_class(gigabytes * 1e9 / (size + 23.5), size)
        taken, both = (counter.per_unit(counter.take_in(load_of, is_read), kind, 0.2 * scale) / 1e6 for is_read in (False, True))
        service.add(f'{size}-byte packets, taken in', kind, taken)
        service.add(f'{size}-byte packets, read', kind, both - taken)

    with tempfile.TemporaryDirectory(prefix='pfl-bench-') as place:
        counter, keys = Counter(bench, place), tunnel.make_keys(place) if shutil.which('stunnel') else None
        for kind in bench.pairs():
            for size, policy in ((100, 'drop'), (512, 'drop'), (100, 'stall'), (512, 'stall')):
                library.add(f'{size} bytes, full: {policy}', kind,
                            counter.per_unit(counter.write(size, policy), kind, 200_000 * scale))
            for size in (512, 100, 4000):
                measure_service(kind, counter, size)
            if keys:
                shake.add('one after the other', kind, counter.per_unit(counter.shake_hands(keys), kind, max(2, 20 * scale)) / 1e6)
                relay.add('from host to client', kind, counter.per_unit(counter.carry(keys), kind, max(4, 64 * scale)) / tunnel.BLOCK * 1e3)
