#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two traces of one kernel at one time, by two recorders, compared by Trace Processor's tables.

  probes_judge.py work                       the workload, which marks its begin and end by renames
  probes_judge.py compare TP OURS THEIRS     TP is trace_processor_shell; exit 3: THEIRS lost events

Compared: what lies between the marks. Each recorder has a ring buffer and time stamps of its own, so
orders and contents must be equal, times need not; at the marks themselves other CPUs may be an event
or two apart. Known differences are in EXPECTED.
"""
import collections
import csv
import io
import os
import subprocess
import sys
import tempfile
import threading
import time

BEGIN, END = 'judge-begin', 'judge-end'
EDGE_ROWS = 4  # of a CPU's schedule, at either mark
HIDDEN = ('function', 'work', 'ptr', 'call_site', 'caller', 'workqueue')  # numbers instead of addresses
# Names are looked up when a thread is met: of one that renames itself either name is right.
NAME = "iif(t.is_main_thread = 1, 'main', iif(t.name glob 'judge-*', 'judge', t.name))"
# What upstream does not fill in on x86.
CPU_COLUMNS = 'ucpu, cpu, cluster_id, capacity'
LOSSES = "severity in ('error', 'data_loss') and value > 0"


def rename(name):
    with open('/proc/thread-self/comm', 'w') as comm:
        comm.write(name)


def sleeper(number):
    rename(f'judge-t{number}')
    for _ in range(40):
        time.sleep(0.002)


def work():
    rename('judge-main')
    time.sleep(0.6)  # several samples of every counter
    rename(BEGIN)
    for text in ('I|1|judge says this', 'I|1|and not that', 'I|1|judge again'):
        with open('/sys/kernel/tracing/trace_marker', 'w') as marker:
            marker.write(text + '\n')
    terminal, other_end = os.openpty()
    os.write(terminal, b'work for a kernel worker\n')
    os.read(other_end, 100)
    threads = [threading.Thread(target=sleeper, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        subprocess.run(['/bin/true'], check=True)
    for thread in threads:
        thread.join()
    rename(END)
    time.sleep(0.1)


HIDDEN_LIST = ', '.join(f"'{key}'" for key in HIDDEN)
IN_WINDOW = 'ts between (select begin_ts from window) and (select end_ts from window)'
# The workload's own process, by names that no child inherits: of its short-lived children either side may come
# too late to read /proc.
IS_JUDGE = "upid in (select upid from thread where name glob 'judge-t*' or name = 'judge-end')"
PREPARE = f"""
create table window as select
  min(e.ts) filter (where a.display_value = '{BEGIN}') begin_ts,
  min(e.ts) filter (where a.display_value = '{END}') end_ts
  from ftrace_event e join args a using (arg_set_id)
  where e.name = 'task_rename' and a.flat_key = 'newcomm'"""
# Claim, query. All run in one load of the trace.
QUERIES = {
    'window': 'select begin_ts, end_ts from window',
    'losses': f'select name, idx, value from stats where {LOSSES}',
    'counts': f'select name, count(*) from ftrace_event where {IN_WINDOW} group by 1',
    'sched': f'select s.ucpu, t.tid, {NAME}, s.end_state, s.priority from sched s join thread t '
             f'using (utid) where s.{IN_WINDOW} order by s.ucpu, s.ts',
}
TYPES = 'args: names and types'
SAME = {
    'stats of the setup': "select name, value from stats where name glob 'ftrace_setup*'",
    'cpu': f'select {CPU_COLUMNS} from cpu order by 1',
    'ftrace_event and args of the workload':
        "select t.tid, e.name, (select group_concat(flat_key || '=' || display_value, ' ') from "
        '(select flat_key, display_value from args a where a.arg_set_id = e.arg_set_id and '
        f'flat_key not in ({HIDDEN_LIST}) order by flat_key)) from ftrace_event e '
        f'join thread t using (utid) where t.{IS_JUDGE} and e.{IN_WINDOW} and '
        "e.name in ('task_newtask', 'task_rename', 'sys_enter', 'sys_exit', 'sched_process_exit') "
        'order by t.tid, e.ts',
    'print, as filtered':
        "select t.tid, a.display_value from ftrace_event e join args a using (arg_set_id) join thread t "
        f"using (utid) where e.name = 'print' and e.{IN_WINDOW} order by e.ts",
    'functions of the kernel':
        'select distinct e.name, a.display_value from ftrace_event e join args a using (arg_set_id) where '
        f"e.name glob 'workqueue_*' and a.flat_key = 'function' and e.{IN_WINDOW} order by 1, 2",
    'slice: system calls of the workload':
        'select t.tid, s.name from slice s join thread_track k on s.track_id = k.id join thread t '
        f"using (utid) where t.{IS_JUDGE} and s.{IN_WINDOW} and s.name glob 'sys_*' order by t.tid, s.ts",
    TYPES:
        'select distinct e.name, a.flat_key, a.value_type from ftrace_event e join args a '
        'using (arg_set_id) where e.name in (select name from ftrace_event group by 1 '
        f'having count(*) > 50) and e.{IN_WINDOW} order by 1, 2',
    'thread': f'select distinct tid, {NAME}, is_main_thread from thread t where {IS_JUDGE} order by 1',
    'process': 'select p.pid, p.name, p.uid, p.cmdline, q.pid from process p left join process q on '
               f'p.parent_upid = q.upid where p.{IS_JUDGE} or p.pid < 50 order by 1',
    'counter, its tracks': 'select distinct type, name, unit from counter_track where type not glob '
                           "'process_*' and type not glob '*thermal*' order by 1, 2",
    'counter, what does not change': 'select distinct t.name, c.value from counter c join track t on '
                                     "c.track_id = t.id where t.name in ('MemTotal', 'SwapTotal', "
                                     "'VmallocTotal') order by 1",
    'counter, tracks of a process': 'select distinct t.name from process_counter_track t join process p '
                                    'using (upid) where p.pid = 1 order by 1',
}


def load(shell, path):
    """The rows of every query, by claim."""
    queries = {**QUERIES, **SAME}
    script = PREPARE + ';\n' + ''.join(
        f"select 'MARK {number}' as mark;\n{sql};\n" for number, sql in enumerate(queries.values()))
    with tempfile.NamedTemporaryFile('w', suffix='.sql') as file:
        file.write(script)
        file.flush()
        done = subprocess.run([shell, '-q', file.name, path], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f'{path}: {done.stderr}')
    rows = {claim: [] for claim in queries}
    claims, current = list(queries), None
    for row in csv.reader(io.StringIO(done.stdout)):
        if len(row) == 1 and row[0].startswith('MARK '):
            current = claims[int(row[0].split()[1])]
        elif current is not None and row and row != ['mark']:
            rows[current].append(tuple(row))
    return {claim: table[1:] for claim, table in rows.items()}  # without the header


class Judge:
    def __init__(self, ours, theirs):
        self.ours, self.theirs = ours, theirs
        self.wrong = 0

    def say(self, claim, is_good, detail=''):
        print(f'{"same" if is_good else "DIFFERENT"}: {claim}{"" if is_good else detail}')
        self.wrong += not is_good

    def same(self, claim, a, b):
        counts_a, counts_b = collections.Counter(a), collections.Counter(b)
        only_a, only_b = (sorted((x - y).elements())[:8] for x, y in ((counts_a, counts_b), (counts_b, counts_a)))
        self.say(f'{claim} ({len(a)} rows)', len(a) > 0 and a == b,
                 f': {len(a)} and {len(b)} rows; only ours {only_a}; only theirs {only_b}')

    def same_schedule(self, cpu):
        a, b = ([row for row in side['sched'] if row[0] == cpu] for side in (self.ours, self.theirs))
        for cut_a in range(EDGE_ROWS):
            for cut_b in range(EDGE_ROWS):
                x, y = a[cut_a:], b[cut_b:]
                n = min(len(x), len(y)) - EDGE_ROWS
                if n > 5 and abs(len(x) - len(y)) <= EDGE_ROWS and x[:n] == y[:n]:
                    self.say(f'sched of cpu {cpu} ({n} rows)', True)
                    return
        self.same(f'sched of cpu {cpu}', a, b)

    def same_counts(self):
        a, b = (dict(side['counts']) for side in (self.ours, self.theirs))
        off = {name: (a.get(name, '0'), b.get(name, '0')) for name in sorted(set(a) | set(b))
               if abs(int(a.get(name, 0)) - int(b.get(name, 0))) > 3 + int(b.get(name, 0)) // 200}
        self.say(f'ftrace_event, count by name ({len(a)} names)', not off and len(a) > 5, f': {off}')

    def all(self):
        losses = self.ours['losses']
        self.say('no errors, no losses', not losses, f': {losses}')
        for cpu in sorted({row[0] for row in self.ours['sched']}):
            self.same_schedule(cpu)
        self.same_counts()
        for claim in SAME:
            a, b = self.ours[claim], self.theirs[claim]
            if claim == TYPES:  # of an event near its threshold one side may have too few
                common = {row[0] for row in a} & {row[0] for row in b}
                a, b = ([row for row in rows if row[0] in common] for rows in (a, b))
            self.same(claim, a, b)


def main(arguments):
    if arguments == ['work']:
        work()
        return 0
    if len(arguments) != 4 or arguments[0] != 'compare':
        print(__doc__, file=sys.stderr)
        return 2
    judge = Judge(load(arguments[1], arguments[2]), load(arguments[1], arguments[3]))
    if judge.theirs['losses'] or any('[NULL]' in side['window'][0] for side in (judge.ours, judge.theirs)):
        print(f'no use: {judge.theirs["losses"]} {judge.ours["window"]} {judge.theirs["window"]}')
        return 3
    judge.all()
    return 1 if judge.wrong else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
