# SPDX-License-Identifier: Apache-2.0
"""The accounts of the load test: what writers wrote, what traces hold, what was reported as lost.

For each writer of each session:  written = delivered + dropped + lost
- written, dropped, chunks: the writer's own account, kept by itself in a file (load_packet.h);
- delivered: packets in the trace, each with the right checksum, session, writer and order;
- lost: what is missing and was not dropped. How much of it the service must have reported, and where
  it may lie, depends on the form of the session: see Ledger.check_*.
"""
import bisect
import struct
import threading

SLOT = struct.Struct('<IIQQQQII')  # struct pfl_load_slot
CHUNK = struct.Struct('<IIQ')  # struct pfl_load_chunk
NESTED = 2  # enum pfl_load_flags
CHUNK_PACKETS = 58  # as many of the shortest packets are in a chunk of 4 KiB
EMPTY_SLOTS = 64  # so many in a row: the rest was never used
FAULTS = ['not readable', 'wrong checksum', 'of another session', 'twice or out of order',
          'missing without a word', 'more dropped than missing', 'two sequence ids']
STATS = {'written': 'f2', 'overwritten': 'f3', 'discarded': 'f18', 'relocated': 'f20'}


class Writer:
    """One writer: its own account, and what came of it."""

    def __init__(self, key, slot, is_killed):
        self.key = key
        _, _, self.begun, self.written, self.dropped, self.chunks, self.is_closed, self.flags = slot
        self.is_killed = is_killed
        self.delivered = self.first = self.last = 0
        self.head = self.inside = self.tail = 0  # lost: before, between, after what came
        self.false_alarms = 0
        self.chunk_of_first = 0
        self.marks = []

    def take_line(self, words):
        (self.delivered, self.first, self.last, dropped_at_first, dropped_at_last,
         self.chunk_of_first, _, self.inside, _, self.false_alarms) = words[3:13]
        self.marks = words[13:]
        if self.is_killed:  # the last packet may be whole though its writer could not say so
            self.written = max(self.written, self.last + 1)
        self.head = self.first - dropped_at_first
        dropped_after = self.dropped - dropped_at_last
        self.tail = self.written - self.last - 1 - dropped_after

    def settle(self):
        if self.delivered == 0:
            self.tail = self.written - self.dropped

    def lost(self):
        return self.head + self.inside + self.tail

    def adds_up(self):
        return (min(self.head, self.inside, self.tail) >= 0 and
                (self.is_killed or self.begun == self.written) and
                self.written == self.delivered + self.dropped + self.lost())


class Ledger:
    def __init__(self, load):
        self.load = load
        self.lock = threading.Lock()
        self.failures = {}  # claim: why not
        self.forms = {}  # form: totals
        self.false_alarms = 0
        self.chunks_checked = 0
        self.clones = self.clones_unflushed = self.clone_stalls = 0

    def fail(self, claim, why=''):
        with self.lock:
            self.failures.setdefault(claim, []).append(why)

    def has_failed(self):
        return bool(self.failures)

    # --- one session

    def lives_of(self, groups):
        producers = self.load.producers
        for i, lives in enumerate(producers.lives):
            if i % self.load.o.groups in groups:
                for life in range(1, lives + 1):
                    yield i, life

    def read_slots(self, session):
        """Every writer that wrote for this session."""
        writers = {}
        for producer, life in self.lives_of(session.groups):
            try:
                data = open(f'{self.load.log_prefix(producer, life)}.slots', 'rb')
            except FileNotFoundError:
                continue  # it has only just been started
            is_killed = (producer, life) in self.load.producers.killed
            empty = slot = 0
            with data:
                while empty < EMPTY_SLOTS:
                    block = data.read(SLOT.size * 256)
                    if not block:
                        break
                    for fields in SLOT.iter_unpack(block):
                        empty = 0 if fields[0] else empty + 1
                        if fields[0] == session.number:
                            key = (producer, life, slot)
                            writers[key] = Writer(key, fields, is_killed)
                        slot += 1
        return writers

    def read_report(self, session, path, writers):
        for line in path.read_text().splitlines():
            words = [int(w) for w in line.split()]
            writer = writers.get(tuple(words[:3]))
            if writer is None:
                self.fail('every packet has a writer that knows of it', f'{session.number}: {line}')
                continue
            writer.take_line(words)

    def close_session(self, session, report):
        writers = self.read_slots(session)
        self.read_report(session, report, writers)
        for writer in writers.values():
            writer.settle()
            if not writer.adds_up():
                self.fail('written = delivered + dropped + lost, for every writer',
                          f'{session.form.name} {session.number} {vars(writer)}')
        for i, name in enumerate(FAULTS):
            if session.faults[f'fault{i}']:
                self.fail(f'no packet is {name}',
                          f'{session.form.name} {session.number}: {session.faults[f"fault{i}"]}')
        live = [w for w in writers.values() if not w.is_killed]
        killed = [w for w in writers.values() if w.is_killed]
        self.check_killed(session, killed)
        self.check_losses(session, live)
        if session.form.chunks:
            self.check_chunks(session, writers)
        for number in range(len(session.clones)):
            self.check_clone(session, writers, number)
        self.add_up(session, live, killed)

    def stat(self, session, name):
        return session.stats[STATS[name]]

    def check_losses(self, session, live):
        """Nothing is lost behind what came; what is lost before or between it, the service reported."""
        form, number = session.form, session.number
        overwritten, discarded = self.stat(session, 'overwritten'), self.stat(session, 'discarded')
        for w in live:
            where = f'{form.name} {number} overwritten={overwritten} discarded={discarded} {vars(w)}'
            if (w.head or w.inside) and not overwritten:
                self.fail('lost before what came: the service overwrote chunks', where)
            if w.tail and not discarded and (w.delivered or not overwritten):
                self.fail('lost after what came: the service discarded chunks', where)

    def check_killed(self, session, killed):
        """Whole packets without patches are scraped when their producer dies."""
        for w in killed:
            if w.tail and w.delivered and not w.flags & 2 and not self.stat(session, 'discarded'):
                self.fail('what a killed producer had finished is in the trace',
                          f'{session.form.name} {session.number} {vars(w)}')

    def chunk_log(self, writers):
        """For each writer: how many packets were over when it got chunk 0, 1, ..."""
        starts = {key: [] for key in writers}
        for producer, life in {key[:2] for key in writers}:
            data = open(f'{self.load.log_prefix(producer, life)}.chunks', 'rb').read()
            data = data[:len(data) // CHUNK.size * CHUNK.size]
            for slot, _, ended in CHUNK.iter_unpack(data):
                if (producer, life, slot) in starts:
                    starts[producer, life, slot].append(ended)
        return starts

    def check_chunks(self, session, writers):
        """The chunks that the service counts as lost are those that the writers miss."""
        starts = self.chunk_log(writers)
        lost = open_ = 0
        for key, w in writers.items():
            if len(starts[key]) != w.chunks:
                self.fail('the chunk log is whole', f'{key} {len(starts[key])} {w.chunks}')
                return
            if session.form.policy == 2:
                # The chunk in which the last packet ended is the last one that was stored.
                stored = bisect.bisect_left(starts[key], w.last + 1) if w.delivered else 0
                lost += w.chunks - stored
            elif w.delivered:
                lost += w.chunk_of_first
            else:
                # A last chunk that holds nothing but a packet's end may have survived.
                lost += w.chunks
                open_ += w.chunks > 1 and starts[key][-1] == w.written - 1
        reported = self.stat(session, 'discarded' if session.form.policy == 2 else 'overwritten')
        if not lost - open_ <= reported <= lost:
            self.fail('chunks missing = chunks that the service counts as lost',
                      f'{session.form.name} {session.number}: {lost} ({open_} open), reported {reported}')
        made = sum(w.chunks for w in writers.values())
        taken = (self.stat(session, 'written') - self.stat(session, 'relocated') +
                 self.stat(session, 'discarded'))
        if made != taken:
            self.fail('chunks written = chunks stored + chunks discarded',
                      f'{session.form.name} {session.number}: {made}, reported {taken}')
        with self.lock:
            self.chunks_checked += made

    def check_clone(self, session, writers, number):
        """A clone has every packet that was over when it was asked for, and nothing but packets of
        the original. A packet is surely over when the next one begins. When a producer did not
        answer the clone's flush in time, which the clone says, its last packets may be missing.
        With nested messages a sequence may end a chunk earlier: a packet that ends in a chunk that
        waits for the patch of a later packet is not read before that patch is there."""
        _, path, is_flushed = session.clones[number]
        if self.stat(session, 'overwritten'):
            return
        got = {}
        for line in path.read_text().splitlines():
            words = [int(w) for w in line.split()]
            got[tuple(words[:3])] = words
        for key, w in writers.items():
            surely = w.marks[number] - 1 if w.marks and is_flushed else 0
            words = got.pop(key, None)
            have = words[3] if words else 0
            if w.flags & NESTED and 0 < surely - have <= CHUNK_PACKETS:
                with self.lock:
                    self.clone_stalls += 1
            elif have < surely or have > w.delivered or (words and words[10]):
                self.fail('a clone has what was written before it, and nothing else',
                          f'{session.number} clone {number}: {have} of {surely}: {vars(w)}')
        if got:
            self.fail('a clone has what was written before it, and nothing else', str(got))
        with self.lock:
            self.clones += 1
            self.clones_unflushed += not is_flushed

    # --- all of them

    def add_up(self, session, live, killed):
        with self.lock:
            total = self.forms.setdefault(session.form.name, dict.fromkeys(
                ['sessions', 'writers', 'written', 'delivered', 'dropped', 'lost', 'killed_writers',
                 'killed_lost', 'chunks_overwritten', 'chunks_discarded'], 0))
            total['sessions'] += 1
            total['writers'] += len(live) + len(killed)
            total['killed_writers'] += len(killed)
            total['chunks_overwritten'] += self.stat(session, 'overwritten')
            total['chunks_discarded'] += self.stat(session, 'discarded')
            for w in live + killed:
                total['written'] += w.written
                total['delivered'] += w.delivered
                total['dropped'] += w.dropped
                total['killed_lost' if w.is_killed else 'lost'] += w.lost()
                self.false_alarms += w.false_alarms

    def claims(self):
        always = ['written = delivered + dropped + lost, for every writer',
                  'every packet has a writer that knows of it',
                  'lost before what came: the service overwrote chunks',
                  'lost after what came: the service discarded chunks',
                  'chunks missing = chunks that the service counts as lost',
                  'chunks written = chunks stored + chunks discarded',
                  'a clone has what was written before it, and nothing else',
                  'what a killed producer had finished is in the trace']
        always += [f'no packet is {name}' for name in FAULTS]
        names = always + [name for name in self.failures if name not in always]
        return [(name, name not in self.failures,
                 '\n#   '.join([str(len(self.failures.get(name, [])))] +
                              self.failures.get(name, [])[:5])) for name in names]

    def summary(self, load):
        samples = load.service.samples
        return {'forms': self.forms, 'clones': self.clones, 'clones_unflushed': self.clones_unflushed,
                'clone_stalls': self.clone_stalls, 'chunks_checked': self.chunks_checked,
                'false_alarms': self.false_alarms, 'most_sessions': load.plan.most_live,
                'killed': len(load.producers.killed), 'left': load.producers.left,
                'service_cpu_s': samples[-1]['cpu_s'] if samples else 0}

    def table(self, summary):
        names = ['sessions', 'writers', 'written', 'delivered', 'dropped', 'lost', 'killed_writers',
                 'killed_lost', 'chunks_overwritten', 'chunks_discarded']
        yield ' | '.join(['form'] + names)
        rows = dict(self.forms)
        rows['all'] = {n: sum(row[n] for row in self.forms.values()) for n in names}
        for form, row in rows.items():
            yield ' | '.join([form] + [str(row[n]) for n in names])
        yield ' '.join(f'{k}={v}' for k, v in summary.items() if k != 'forms')
