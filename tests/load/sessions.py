# SPDX-License-Identifier: Apache-2.0
"""Sessions of the load test: their forms, and what each does from start to account."""
import random
import subprocess
import threading
import time

RING, DISCARD = 1, 2
STALL_THEN_DROP = 3
LOG_CHUNKS, NESTED = 1, 2  # enum pfl_load_flags
DRAIN_S = 2  # how often a consumer reads that reads all the time


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, value):
    """Numbers as varints, bytes and strings with their length, lists one by one."""
    if isinstance(value, list):
        return b''.join(field(number, v) for v in value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def filter_bytecode():
    """Trace.packet is message 1; of TracePacket every field passes but timestamp (8)."""
    words = [(1 << 3) | 3, 1, 0, (1 << 3) | 2, 7, (9 << 3) | 2, 4000, 0]
    hash_ = 0xcbf29ce484222325
    for word in words:
        for shift in (0, 8, 16, 24):
            hash_ = (hash_ ^ (word >> shift & 0xff)) * 0x100000001b3 % 2**64
    return b''.join(varint(w) for w in words + [hash_ & 0xffffffff])


class Form:
    """What kind of session. `chunks`: its account goes down to chunks, so nothing may read before
    its end; `lossless`: the buffer is read often enough."""

    def __init__(self, name, kb=4096, policy=RING, **more):
        self.name, self.kb, self.policy = name, kb, policy
        self.chunks = more.get('chunks', False)
        self.file = more.get('file', False)
        self.codec = more.get('codec', 0)
        self.filter = more.get('filter', False)
        self.flush_ms = more.get('flush_ms', 0)
        self.drains = more.get('drains', False)
        self.trigger = more.get('trigger', False)
        self.clones = more.get('clones', False)


FORMS = [
    Form('ring', kb=0, chunks=True),
    Form('discard', kb=0, policy=DISCARD, chunks=True),
    Form('ring, periodic flush', kb=0, flush_ms=3000),
    Form('read all the time', kb=16384, drains=True),
    Form('file', kb=16384, file=True),
    Form('file, flush, deflate', kb=16384, file=True, codec=1, flush_ms=5000),
    Form('file, zstd', kb=16384, file=True, codec=2),
    Form('file, filter', kb=16384, file=True, filter=True),
]
SHORT_FORMS = FORMS + [
    Form('stopped by a trigger', kb=32768, trigger=True),
    Form('cloned', kb=131072, clones=True),
    Form('cloned, periodic flush', kb=131072, clones=True, flush_ms=2000),
]


class Refused(Exception):
    pass


class Reader:
    """load_reader, one command at a time."""

    def __init__(self, load, session):
        command = [load.o.build / 'load/load_reader', load.consumer_socket, session]
        self.child = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True, bufsize=1)

    def command(self, text):
        self.child.stdin.write(text + '\n')
        line = self.child.stdout.readline()
        if line.startswith('refused'):
            raise Refused(line.strip())
        if not line.startswith('ok'):
            raise RuntimeError(f'load_reader ended at "{text}"')
        return {k: int(v) for k, v in (w.split('=') for w in line.split()[1:])}

    def close(self):
        self.child.stdin.close()
        self.child.stdout.close()
        return self.child.wait()


class Session:
    def __init__(self, load, number, form, groups, flags):
        self.load, self.number, self.form, self.groups = load, number, form, groups
        self.flags = flags | (LOG_CHUNKS if form.chunks else 0)
        self.random = random.Random(load.o.seed * 7919 + number)
        self.path = load.dir / f'{number}.trace'
        self.stats = {}
        self.faults = {}
        self.clones = []  # (time of the request in ns, path of the report, did all answer the flush)
        self.reader = None

    def request(self):
        """EnableTracingRequest {trace_config}"""
        form = self.form
        sources = []
        for group in self.groups:
            config = field(1, f'load.{group}') + field(1000, f'{self.number} {self.flags}')
            if form.chunks or self.random.random() < 0.5:
                config += field(9, STALL_THEN_DROP)
            sources.append(field(1, config))
        config = field(1, field(1, form.kb or self.load.o.ring_kb) + field(4, form.policy)) + field(2, sources)
        config += field(22, f'load.{self.number}') + field(23, 60000)
        if form.file:
            config += field(8, 1) + field(9, 1000) + field(29, str(self.path))
        if form.flush_ms:
            config += field(13, form.flush_ms)
        if form.codec:
            config += field(47, field(form.codec, b''))
        if form.filter:
            config += field(33, field(1, filter_bytecode()))
        if form.trigger:
            trigger = field(1, f'load.{self.number}') + field(3, self.random.randrange(1, 500))
            config += field(17, field(1, 2) + field(2, trigger) + field(3, 3600000))
        return field(1, config)

    def enable(self):
        path = self.load.dir / f'{self.number}.request'
        path.write_bytes(self.request())
        self.reader = Reader(self.load, self.number)
        self.reader.command(f'enable {path}')

    def live_until(self, ends_at):
        next_clone = time.monotonic() + self.random.uniform(2, 20)
        while True:
            left = ends_at - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, DRAIN_S))
            if self.form.drains:
                self.reader.command('read')
            if self.form.clones and time.monotonic() >= next_clone:
                self.make_clone()
                next_clone = time.monotonic() + self.random.uniform(5, 30)

    def make_clone(self):
        clone = Reader(self.load, self.number)
        path = self.load.dir / f'{self.number}.clone{len(self.clones)}'
        at_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        clone.command(f'clone load.{self.number}')
        clone.command('read')
        result = clone.command(f'report {path}')
        self.faults = add(self.faults, result)
        clone.close()
        self.clones.append((at_ns, path, result['final_flush'] == 1))

    def end(self):
        reader = self.reader
        if self.form.trigger:
            reader.command('stats')  # answered: the session is there, and the trigger will meet it
            self.load.producers.trigger(f'load.{self.number}')
            reader.command('wait')
        else:
            reader.command('disable')
        for at_ns, _, _ in self.clones:
            reader.command(f'mark {at_ns}')
        if not self.form.file:
            reader.command('read')
        self.stats = reader.command('stats')
        reader.command('free')
        if self.form.file:
            self.stats['file_bytes'] = reader.command(f'file {self.path}')['bytes']
        report = self.load.dir / f'{self.number}.report'
        self.faults = add(self.faults, reader.command(f'report {report}'))
        if reader.close() != 0:
            raise RuntimeError('load_reader failed')
        self.load.ledger.close_session(self, report)
        for path in [self.path, report] + [path for _, path, _ in self.clones]:
            path.unlink(missing_ok=True)


def add(a, b):
    return {key: a.get(key, 0) + b.get(key, 0) for key in set(a) | set(b)}


class Plan:
    """Two thirds of the sessions run from beginning to end, the others come and go."""

    def __init__(self, load, options):
        self.load, self.o = load, options
        self.long = options.sessions * 2 // 3
        self.random = random.Random(options.seed * 31)
        self.lock = threading.Lock()
        self.next_number = 0
        self.live = 0
        self.most_live = 0
        self.uses = [0] * options.groups  # of short sessions
        self.threads = []

    def start(self):
        for i in range(self.o.sessions):
            work = self.run_long if i < self.long else self.run_short
            self.threads.append(threading.Thread(target=self.guard, args=(work, i)))
            self.threads[-1].start()

    def join(self):
        for thread in self.threads:
            thread.join()

    def guard(self, work, i):
        try:
            work(i)
        except (Refused, RuntimeError, OSError, ValueError, KeyError) as error:
            self.load.ledger.fail(f'session thread {i}: {error!r}')

    def run_one(self, form, groups, flags, ends_at):
        with self.lock:
            self.next_number += 1
            number = self.next_number
        session = Session(self.load, number, form, groups, flags)
        session.enable()
        with self.lock:
            self.live += 1
            self.most_live = max(self.most_live, self.live)
        try:
            session.live_until(ends_at)
        finally:
            with self.lock:
                self.live -= 1
        session.end()

    def safe_groups(self, form, groups):
        """Accounts by the chunk need writers that close: not those who are killed."""
        if not form.chunks:
            return groups
        free = list(range(self.o.mortal_groups, self.o.groups))
        return sorted({free[g % len(free)] for g in groups})

    def run_long(self, i):
        form = FORMS[i % len(FORMS)]
        groups = self.safe_groups(form, [(3 * i + k) % self.o.groups for k in range(3)])
        self.run_one(form, groups, NESTED if i // len(FORMS) % 2 else 0, self.load.ends_at)

    def take_groups(self):
        with self.lock:
            free = [g for g in range(self.o.groups) if self.uses[g] < 2]
            groups = self.random.sample(free, min(2, len(free)))
            for group in groups:
                self.uses[group] += 1
            return groups

    def run_short(self, i):
        rng = random.Random(self.o.seed * 101 + i)
        turn = i
        while time.monotonic() < self.load.ends_at:
            form = SHORT_FORMS[turn % len(SHORT_FORMS)]
            turn += 1
            ends_at = min(time.monotonic() + rng.uniform(1, self.o.seconds / 40 + 10),
                          self.load.ends_at)
            groups = self.take_groups()
            try:
                self.run_one(form, self.safe_groups(form, groups), rng.choice([0, NESTED]), ends_at)
            finally:
                with self.lock:
                    for group in groups:
                        self.uses[group] -= 1
