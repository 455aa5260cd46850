#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every kernel event of a trace, one line each, by an independent reader: shares no code with perfleet.

  ftrace_events.py TRACE                  prints: time cpu thread event field=value...
  ftrace_events.py TRACE --expect FILE    exit 1 if that differs from FILE
  ftrace_events.py TRACE --kernel FILE    exit 1 if the kernel's own text of the same ring buffer
                                          (per_cpu/cpuN/trace) has other events, times, threads or values

Compact scheduling is expanded (who wakes or leaves is who ran last on that CPU, `?` before the first switch),
generic events by their descriptors, functions by the interned names.
"""
import difflib
import re
import sys

from trace_check import fields, varint

# FtraceEvent's field: the event's name and its fields' names, as far as the recording has them.
EVENTS = {
    3: ('print', {2: 'buf'}),
    4: ('sched_switch', {1: 'prev_comm', 2: 'prev_pid', 3: 'prev_prio', 4: 'prev_state', 5: 'next_comm',
                         6: 'next_pid', 7: 'next_prio'}),
    20: ('sched_waking', {1: 'comm', 2: 'pid', 3: 'prio', 4: 'success', 5: 'target_cpu'}),
    24: ('softirq_entry', {1: 'vec'}),
    58: ('workqueue_execute_start', {1: 'work', 2: 'function'}),
    235: ('task_newtask', {1: 'pid', 2: 'comm', 3: 'clone_flags', 4: 'oom_score_adj'}),
    236: ('task_rename', {1: 'pid', 2: 'oldcomm', 3: 'newcomm', 4: 'oom_score_adj'}),
    237: ('sched_process_exec', {1: 'filename', 2: 'pid', 3: 'old_pid'}),
    238: ('sched_process_exit', {1: 'comm', 2: 'pid', 3: 'tgid', 4: 'prio'}),
    313: ('rss_stat', {1: 'member', 2: 'size', 3: 'curr', 4: 'mm_id'}),
    325: ('signal_generate', {1: 'code', 2: 'comm', 3: 'grp', 4: 'pid', 5: 'res', 6: 'sig'}),
    329: ('sys_enter', {1: 'NR', 2: 'arg'}),
    330: ('sys_exit', {1: 'NR', 2: 'ret'}),
    437: ('funcgraph_entry', {1: 'depth', 2: 'func'}),
    438: ('funcgraph_exit', {1: 'calltime', 2: 'depth', 3: 'func', 4: 'overrun', 5: 'rettime'}),
    542: ('kprobe_event', {1: 'name', 2: 'type'}),
    551: ('hrtimer_start', {1: 'hrtimer', 2: 'function', 3: 'expires', 4: 'softexpires', 5: 'mode'}),
}
NO_PID = '?'
FTRACE, GENERIC, DENSE = 1, 327, 65536


def signed(value):
    return value - (1 << 64) if isinstance(value, int) and value >> 63 else value


def numbers(data, span):
    at, end = span
    while at < end:
        value, at = varint(data, at, end)
        yield signed(value)


class Reader:
    def __init__(self, path):
        with open(path, 'rb') as file:
            self.data = file.read()
        self.events = []     # (ns, cpu, thread, name, [(field, value)])
        self.running = {}    # by cpu
        self.names = {}      # by sequence: functions, until its state is cleared
        self.unnamed = {}    # events that EVENTS does not have
        for number, packet in fields(self.data, 0, len(self.data)):
            if number == 1:
                self.read_packet(packet)
        self.events.sort(key=lambda event: event[:2])

    def text(self, span):
        return self.data[span[0]:span[1]].decode('utf-8', 'replace')

    def read_packet(self, packet):
        parts = list(fields(self.data, *packet))
        sequence = next((value for number, value in parts if number == 10), 0)
        if any(number == 13 and value & 1 for number, value in parts):
            self.names.pop(sequence, None)
        names = self.names.setdefault(sequence, {})
        for number, value in parts:
            for inner, entry in fields(self.data, *value) if number == 12 else ():
                if inner == 26:
                    pair = dict(fields(self.data, *entry))
                    names[pair[1]] = self.text(pair[2])
        for number, value in parts:
            if number == FTRACE:
                self.read_bundle(value, names)

    def read_bundle(self, bundle, names):
        parts = list(fields(self.data, *bundle))
        cpu = next(value for number, value in parts if number == 1)
        described = {}
        rows = []
        for number, value in parts:
            if number == 11:
                entry = dict(fields(self.data, *value))
                described[entry[1]] = self.read_descriptor(entry[2])
            elif number == 2:
                rows.append(self.read_event(cpu, value, described, names))
            elif number == 4:
                rows += self.read_compact(cpu, value)
            elif number == 8:
                rows.append((0, cpu, NO_PID, 'ERROR', list(fields(self.data, *value))))
        rows.sort(key=lambda row: row[0])
        for row in rows:  # who runs is known only in the order of time
            thread = row[2] if row[2] is not None else self.running.get(cpu, NO_PID)
            if row[3] == 'sched_switch':
                self.running[cpu] = dict(row[4])['next_pid']
            self.events.append(row[:2] + (thread,) + row[3:])

    def read_descriptor(self, span):
        name, known = '', {}
        for number, value in fields(self.data, *span):
            if number == 1:
                name = self.text(value)
            elif number == 2:
                field = dict(fields(self.data, *value))
                known[field[3]] = self.text(field[1])
        return name, known

    def read_event(self, cpu, span, described, names):
        when = thread = name = None
        values = []
        for number, value in fields(self.data, *span):
            if number == 1:
                when = value
            elif number == 2:
                thread = value
            elif number == GENERIC:
                name, values = self.read_generic(value, names)
            else:
                name, known = described.get(number) or EVENTS.get(number) or (f'event {number}', {})
                for field, inner in fields(self.data, *value):
                    inner = self.text(inner) if isinstance(inner, tuple) else signed(inner)
                    values.append((known.get(field, field), names.get(inner, inner)))
        return when, cpu, thread, name, values

    def read_generic(self, span, names):
        name, values = '', []
        for number, value in fields(self.data, *span):
            if number == 1:
                name = self.text(value)
            elif number == 2:
                field = dict(fields(self.data, *value))
                inner = self.text(field[3]) if 3 in field else signed(field.get(4, field.get(5)))
                values.append((self.text(field[1]), names.get(inner, inner)))
        return name, values

    def read_compact(self, cpu, span):
        table, columns = [], {}
        for number, value in fields(self.data, *span):
            if number == 5:
                table.append(self.text(value))
            else:
                columns[number] = list(numbers(self.data, value))
        rows = []
        for first, name in ((1, 'sched_switch'), (7, 'sched_waking')):
            when = 0
            for i, delta in enumerate(columns.get(first, ())):
                when += delta
                at = lambda column: columns[column][i]
                if first == 1:
                    values = [('prev_state', at(2)), ('next_comm', table[at(6)]), ('next_pid', at(3)),
                              ('next_prio', at(4))]
                else:
                    values = [('comm', table[at(11)]), ('pid', at(8)), ('prio', at(10)), ('target_cpu', at(9))]
                rows.append((when, cpu, None, name, values))
        return rows

    def lines(self):
        return [f'{when} {cpu} {thread} {name} ' + ' '.join(f'{key}={str(value).strip()}' for key, value in values)
                for when, cpu, thread, name, values in self.events]


KERNEL = re.compile(r'^(.*)-(\d+) +\[(\d+)\] \S+ +(\d+)\.(\d{6}): (\w+): ?(.*)$')
SAID_OTHER_WAY = ('prev_state', 'clone_flags', 'hrtimer')  # letters, hexadecimal
SAID_OTHERWISE = {'tracing_mark_write': 'print'}


def kernel_events(path):
    """(microseconds, cpu, thread, name, text) of each line."""
    with open(path, encoding='utf-8', errors='replace') as file:
        for line in file:
            match = KERNEL.match(line.rstrip('\n'))
            if match:
                _, thread, cpu, seconds, micros, name, text = match.groups()
                yield int(seconds) * 1000000 + int(micros), int(cpu), int(thread), SAID_OTHERWISE.get(name, name), text


def kernel_values(name, text):
    values = dict(re.findall(r'(\w+)=(\S+)', text))
    if name == 'sys_enter':
        call = re.match(r'NR (\d+) \(', text)
        values = {'NR': call.group(1)}
    elif name == 'sys_exit':
        values = dict(zip(('NR', 'ret'), re.match(r'NR (-?\d+) = (-?\d+)', text).groups()))
    elif name == 'print':
        values = {'buf': text}
    for key in SAID_OTHER_WAY:
        values.pop(key, None)
    return values


def compare_with_kernel(reader, path):
    wrong, compared = [], 0
    theirs = list(kernel_events(path))
    if len(theirs) != len(reader.events):
        wrong.append(f'{len(reader.events)} events, the kernel has {len(theirs)}')
    for ours, line in zip(reader.events, theirs):
        when, cpu, thread, name, values = ours
        micros, kernel_cpu, kernel_thread, kernel_name, text = line
        if ((when + 500) // 1000, cpu, name) != (micros, kernel_cpu, kernel_name) or \
                thread not in (NO_PID, kernel_thread):
            wrong.append(f'{ours} is {line}')
            continue
        said = kernel_values(name, text)
        for key, value in values:
            other = said.get(str(key))
            if other is None or not re.fullmatch(r'-?\d+', other) and isinstance(value, int):
                continue
            compared += 1
            if isinstance(value, int):
                other = str(int(other))
            if str(value).strip() != other and not str(value).startswith(other + ' '):
                wrong.append(f'{key} of {ours} is {other}')
    print(f'{len(reader.events)} events, {compared} values as the kernel says them')
    print('\n'.join(wrong[:20]))
    return 1 if wrong or compared < len(theirs) // 2 else 0


def main(arguments):
    reader = Reader(arguments[0])
    if arguments[1:2] == ['--kernel']:
        return compare_with_kernel(reader, arguments[2])
    if arguments[1:2] == ['--expect']:
        with open(arguments[2], encoding='utf-8') as file:
            diff = list(difflib.unified_diff(file.read().splitlines(), reader.lines(), 'expected', 'is', '', '', 1))
        print('\n'.join(diff[:40]))
        return 1 if diff else 0
    print('\n'.join(reader.lines()))
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
