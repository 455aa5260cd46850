# SPDX-License-Identifier: Apache-2.0
"""How costs grow: the service's CPU time while one number grows and everything else stays.

A series is a list of (n, cost in µs); `exponent` is the slope of its last points on logarithmic
scales, 1 for linear. Costs per chunk ought to stay as they are (0), costs of n things to be linear.
"""
import math
import statistics
import time

PACKETS = 1e6  # of 512 bytes: 530 MB, some 130,000 chunks
BUFFER_MB = 64
IDLE = 'perfleet.idle'
OTHERS_PRODUCERS = 1000  # with 4000 the stock service's flush runs into its timeout on a busy machine
OTHERS_READ_MB = 64  # its read-out takes minutes of the larger ones
SEQUENCES_READ = 1000  # with 10,000 the stock service's packet of statistics fits into no frame


class Series:
    def __init__(self, name, unit, expected):
        self.name, self.unit, self.expected = name, unit, expected
        self.points = {}  # kind: {n: [values]}

    def add(self, kind, n, value):
        self.points.setdefault(kind.name, {}).setdefault(n, []).append(value)

    def medians(self, kind_name):
        return [(n, statistics.median(v)) for n, v in sorted(self.points[kind_name].items())]

    def exponent(self, kind_name):
        """Least squares over the last three points."""
        points = [(math.log(n), math.log(max(v, 1e-3))) for n, v in self.medians(kind_name) if n > 0]
        points = points[-3:]
        if len(points) < 2:
            return 0.0
        mx, my = (statistics.mean(c) for c in zip(*points))
        spread = sum((x - mx) ** 2 for x, _ in points)
        return sum((x - mx) * (y - my) for x, y in points) / spread if spread else 0.0

    def as_dict(self):
        return {'name': self.name, 'unit': self.unit, 'expected': self.expected,
                'kinds': {k: self.medians(k) for k in self.points},
                'exponents': {k: round(self.exponent(k), 2) for k in self.points}}


def ingest(bench, service, load, buffer_mb=BUFFER_MB, extra=()):
    """µs of CPU for each chunk taken in."""
    reader = service.reader()
    fill = service.program(bench.dir / 'bench_fill', service.producer_socket, *load.args(), *extra)
    fill.wait_line('registered=')
    time.sleep(0.05)  # for what the service still does about newcomers
    before = service.cpu_seconds()
    service.enable(reader, buffer_mb)
    done = fill.wait_line('packets=')
    used = service.cpu_seconds() - before
    return used / done['chunks'] * 1e6, reader


def crowd(bench, service, count, source):
    if count:
        service.program(bench.dir / 'bench_crowd', service.producer_socket, count,
                        source).wait_line('registered=')


def sequences(bench, kind, n, out, load):
    with bench.service(kind) as service:
        cost, reader = ingest(bench, service, load, extra=['--writers', n])
        out['chunk'].add(kind, n, cost)
        if n > SEQUENCES_READ and kind.name != 'perfleetd':
            return
        reader.command('disable')
        before = service.cpu_seconds()
        mb = reader.command('read')['bytes'] / 1e6
        out['read'].add(kind, n, (service.cpu_seconds() - before) / mb * 1e6)


def producers(bench, kind, n, out, load):
    if n > OTHERS_PRODUCERS and kind.name != 'perfleetd':
        return
    with bench.service(kind) as service:
        crowd(bench, service, n, IDLE)
        cost, reader = ingest(bench, service, load)
        out['chunk'].add(kind, n, cost)
        reader.command('disable')
        starter = service.reader()
        before = service.cpu_seconds()
        service.enable(starter, 4, IDLE)
        starter.command('flush')
        starter.command('disable')
        starter.command('free')
        starter.command('query 1 0')
        out['start'].add(kind, n, (service.cpu_seconds() - before) * 1e6)


def sessions(bench, kind, n, out, load):
    with bench.service(kind) as service:
        other = service.reader()
        crowd(bench, service, 1, IDLE)
        before = service.cpu_seconds()
        other.command(f'crowd {n} 64 {IDLE}')
        out['start'].add(kind, n, (service.cpu_seconds() - before) * 1e6)
        out['chunk'].add(kind, n, ingest(bench, service, load)[0])


def buffers(bench, kind, n, out, load):
    """The input fills the buffer four times: a quarter of the pages is touched for the first time."""
    packets = max(load.count, n * 4 * 2**20 / 536 * min(1, bench.o.scale))
    with bench.service(kind) as service:
        cost, reader = ingest(bench, service, type(load)(packets, load.bytes), n)
        out['chunk'].add(kind, n, cost)
        reader.command('disable')
        before = service.cpu_seconds()
        if n <= OTHERS_READ_MB or kind.name == 'perfleetd':
            mb = reader.command('read')['bytes'] / 1e6
            out['read'].add(kind, n, (service.cpu_seconds() - before) / mb * 1e6)
        before = service.cpu_seconds()
        reader.command('free')
        reader.command('query 1 0')
        out['free'].add(kind, n, (service.cpu_seconds() - before) * 1e6)


def parts():
    """What grows: name -> (function, values of n, series, only for services that allow it)."""
    return {
        'sequences': (sequences, [1, 10, 100, 1000, 10000, 30000], {
            'chunk': Series('a chunk taken in, n sequences take turns', 'µs', 0),
            'read': Series('a MB read, n sequences', 'µs', 0)}, None),
        'producers': (producers, [1, 10, 100, 1000, 4000], {
            'chunk': Series('a chunk taken in, n idle producers', 'µs', 0),
            'start': Series('start, flush, stop of a session with n producers', 'µs', 1)}, None),
        'sessions': (sessions, [1, 10, 100, 400, 800], {
            'chunk': Series('a chunk taken in, n idle sessions', 'µs', 0),
            'start': Series('starting n sessions', 'µs', 1)}, 'perfleetd'),
        'buffer size': (buffers, [1, 4, 16, 64, 256, 1024], {
            'chunk': Series('a chunk taken in, buffer of n MiB', 'µs', 0),
            'read': Series('a MB read, buffer of n MiB', 'µs', 0),
            'free': Series('freeing a full buffer of n MiB', 'µs', 1)}, None),
    }


def measure(bench, kinds, load_type):
    load = load_type(PACKETS * bench.o.scale, 512)
    wanted = bench.o.grow.split(',') if bench.o.grow else None
    for name, (function, ns, series, only) in parts().items():
        if wanted and name not in wanted:
            continue
        ns = ns if bench.o.scale >= 1 else ns[:3]
        for _ in range(bench.o.rounds):
            for n in ns:
                for kind in kinds:
                    if only in (None, kind.name):
                        began = time.monotonic()
                        function(bench, kind, n, series, load)
                        bench.say(f'growth: {name}: {n}: {kind.name}: '
                                  f'{time.monotonic() - began:.1f} s')
        bench.grown[name] = [s.as_dict() for s in series.values()]


def markdown(result):
    for name, series in result.items():
        for s in series:
            ns = [n for n, _ in next(iter(s['kinds'].values()))]
            yield f'| {s["name"]} [{s["unit"]}]; n = | ' + ' | '.join(map(str, ns)) + \
                ' | exponent | at most |'
            yield '|' + '---|' * (len(ns) + 3)
            for kind, points in s['kinds'].items():
                yield f'| {kind} | ' + ' | '.join(f'{v:.3g}' for _, v in points) + \
                    f' | {s["exponents"][kind]:.2f} | {s["expected"]} |'
            yield ''
