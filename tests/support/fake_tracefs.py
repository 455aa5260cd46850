#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the folder of fake_tracefs.c: fake_tracefs.py FOLDER [no_graph_in_instances] [no_graph] [hist]

A kernel with functions, kprobes and the function graph, of which every CPU's buffer has the same pages, made by
hand: calls of the functions, a minute from now, so that whoever reads them is surely recording already. Formats
are the fixtures' (a kernel's own). Prints the two functions' names.
"""
import os
import struct
import sys
import time

FIXTURES = os.path.join(os.path.dirname(__file__), '..', 'fixtures', 'ftrace', 'replay')
PROBES = {'perfetto_kprobes': 1800, 'perfetto_kretprobes': 1900}
STATS = ('entries: 0\noverrun: 0\ncommit overrun: 0\nbytes: 0\noldest event ts:     0.000000\n'
         'now ts:   100.000000\ndropped events: 0\nread events: 8\n')


def functions():
    """Two of the kernel's, with their addresses, if this user may see them."""
    names = {'vfs_read': 0xffffffff81000100, 'vfs_write': 0xffffffff81000200}
    try:
        with open('/proc/kallsyms', encoding='ascii') as file:
            for line in file:
                address, _, name = line.split()[:3]
                if name in names and int(address, 16):
                    names[name] = int(address, 16)
    except OSError:
        pass
    return names


def format_of(name, number, is_return):
    fields = ['unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;',
              'unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;',
              'unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;',
              'int common_pid;\toffset:4;\tsize:4;\tsigned:1;', '']
    if is_return:
        fields += ['unsigned long __probe_func;\toffset:8;\tsize:8;\tsigned:0;',
                   'unsigned long __probe_ret_ip;\toffset:16;\tsize:8;\tsigned:0;']
    else:
        fields.append('unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;')
    return (f'name: {name}\nID: {number}\nformat:\n' +
            ''.join(f'\tfield:{field}\n' if field else '\n' for field in fields) + '\nprint fmt: "(%lx)", 0\n')


def put(path, text, mode='w'):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, mode) as file:
        file.write(text)


def fixture(name):
    with open(os.path.join(FIXTURES, name), encoding='ascii') as file:
        return file.read()


def number_of(text):
    return int(text.split('ID:')[1].split()[0])


def page(records):
    """One of 4096 bytes; records are (ns since the page's begin, bytes)."""
    start = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 60 * 10**9
    body = b''
    before = 0
    for at, record in records:
        record += bytes(-len(record) % 4)
        body += struct.pack('<I', (at - before) << 5 | len(record) // 4) + record
        before = at
    return (struct.pack('<QQ', start, len(body)) + body).ljust(4096, b'\0')


def records(names):
    read, write = names['vfs_read'], names['vfs_write']
    entry, leave = (number_of(fixture(f'ftrace.funcgraph_{name}.format')) for name in ('entry', 'exit'))

    def head(number, pid=4321):
        return struct.pack('<HBBi', number, 0, 0, pid)

    def probe(group, name, function):
        is_return = group == 'perfetto_kretprobes'
        return (head(PROBES[group] + (name == 'vfs_write')) + struct.pack('<Q', function) +
                (struct.pack('<Q', function + 64) if is_return else b''))
    return [
        (1000, probe('perfetto_kprobes', 'vfs_read', read)),
        (2000, head(entry) + struct.pack('<QI', read, 0) + bytes(4)),
        (3000, head(entry) + struct.pack('<QI', write, 1) + bytes(4)),
        (4000, probe('perfetto_kprobes', 'vfs_write', write)),
        (5000, head(leave) + struct.pack('<QIIQQ', write, 1, 0, 3000, 5000)),
        (6000, head(leave) + struct.pack('<QIIQQ', read, 0, 0, 2000, 6000)),
        (7000, probe('perfetto_kretprobes', 'vfs_write', write)),
        (8000, probe('perfetto_kretprobes', 'vfs_read', read)),
    ]


def fill(folder, tracers, names):
    put(f'{folder}/available_tracers', tracers + '\n')
    put(f'{folder}/current_tracer', 'nop\n')
    put(f'{folder}/tracing_on', '1\n')
    put(f'{folder}/trace_clock', 'local global [boot] mono_raw\n')
    put(f'{folder}/buffer_size_kb', '1408\n')
    put(f'{folder}/buffer_percent', '50\n')
    put(f'{folder}/tracing_cpumask', '3\n')
    for name in ('trace', 'set_event', 'set_event_pid', 'set_ftrace_filter', 'trace_marker', 'trace_options'):
        put(f'{folder}/{name}', '')
    put(f'{folder}/options/overwrite', '1\n')
    put(f'{folder}/options/copy_trace_marker', '0\n')
    put(f'{folder}/events/header_page', fixture('header_page'))
    put(f'{folder}/events/enable', '0\n')
    for name in os.listdir(FIXTURES):
        if not name.endswith('.format'):
            continue
        group, event = name.split('.')[:2]
        text = fixture(name)
        put(f'{folder}/events/{group}/{event}/format', text)
        put(f'{folder}/events/{group}/{event}/id', f'{number_of(text)}\n')
        if group != 'ftrace':
            for file, value in (('enable', '0\n'), ('filter', 'none\n'), ('trigger', '')):
                put(f'{folder}/events/{group}/{event}/{file}', value)
    for cpu in range(os.sysconf('SC_NPROCESSORS_CONF')):
        pages = page(records(names)) if cpu == 0 else b''
        put(f'{folder}/per_cpu/cpu{cpu}/trace_pipe_raw', pages, 'wb')
        put(f'{folder}/per_cpu/cpu{cpu}/stats', STATS)
        put(f'{folder}/per_cpu/cpu{cpu}/trace', '')


def main(folder, options):
    names = functions()
    graph = '' if 'no_graph' in options else 'function_graph '
    fill(folder, graph + 'function nop', names)
    fill(folder + '.instance', ('' if 'no_graph_in_instances' in options else graph) + 'function nop', names)
    os.makedirs(f'{folder}/instances')
    events = [name.split('.')[:2] for name in os.listdir(FIXTURES) if name.endswith('.format')]
    if 'hist' in options:
        put(f'{folder}/hist', '')
        text = fixture('kmem.rss_stat.format').replace('name: rss_stat', 'name: rss_stat_throttled').replace(
            f'ID: {number_of(fixture("kmem.rss_stat.format"))}', 'ID: 1700')
        for place in (folder, folder + '.instance'):
            for file, value in (('format', text), ('enable', '0\n'), ('id', '1700\n'), ('filter', 'none\n')):
                put(f'{place}/events/synthetic/rss_stat_throttled/{file}', value)
        events.append(['synthetic', 'rss_stat_throttled'])
    put(f'{folder}/available_events',
        ''.join(f'{group}:{event}\n' for group, event in sorted(events) if group != 'ftrace'))
    put(f'{folder}/available_filter_functions', ''.join(f'{name}\n' for name in names) + 'schedule\n')
    put(f'{folder}/set_graph_function', 'schedule\n')
    put(f'{folder}/max_graph_depth', '7\n')
    put(f'{folder}/kprobe_events', '')
    put(f'{folder}/kprobe_profile', '  vfs_read   11   2\n  vfs_write  4  0\n')
    put(f'{folder}/printk_formats', '')
    for group, number in PROBES.items():
        for offset, name in enumerate(names):
            text = format_of(name, number + offset, group == 'perfetto_kretprobes')
            for file, value in (('format', text), ('enable', '0\n'), ('id', f'{number + offset}\n'),
                                ('filter', 'none\n')):
                put(f'{folder}.kprobes/{group}/{name}/{file}', value)


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2:])
