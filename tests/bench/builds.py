# SPDX-License-Identifier: Apache-2.0
"""Builds of perfleet side by side, each with its own programs and library, in the root of another release where that
is named: what the library, a TLS handshake, the relay and an agent cost. docs/benchmarks.md says what the figures
mean."""
import pathlib
import random
import resource
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time

import tunnel

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'support'))
from fleet import Fleet, cpu_seconds, wait_until  # noqa: E402

IN_ROOT = HERE.parent / 'support' / 'in_root'


def parse(text):
    """NAME=DIR[@ROOT]: the name, the build, and what a command begins with to have that root's libraries."""
    name, _, place = text.partition('=')
    build, _, root = place.partition('@')
    return name, pathlib.Path(build).resolve(), (str(IN_ROOT), root) if root else ()


class Relay(tunnel.Tunnel):
    """A relay of one of the builds in front of a socket that sends as fast as it can."""

    def __init__(self, kind, keys):
        self.inside = kind.inside
        super().__init__(kind.name, keys, kind.build / 'bin')

    def server_command(self, name, bin_dir):
        return [*self.inside, *super().server_command(name, bin_dir)]

    def shake_hands(self, count):
        """Seconds of the relay's CPU, and of ours, for each of so many handshakes in a row."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(self.keys / 'ca.pem')
        context.load_cert_chain(self.keys / 'operator-o.pem', self.keys / 'operator-o.key')
        before, ours = self.server_cpu(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
        for _ in range(count):
            with socket.create_connection(('127.0.0.1', self.server_port)) as raw, \
                    context.wrap_socket(raw) as tls:
                tls.recv(1)  # the first byte comes when the relay's side is done, too
        used = resource.getrusage(resource.RUSAGE_SELF).ru_utime - ours
        return (self.server_cpu() - before) / count, used / count


def measure_library(bench):
    """A packet of the library, at the service of the same build."""
    table = bench.table('a packet of the library, flat out', 'ns', is_more_better=False)
    count = int(2e6 * bench.o.scale)
    for size, policy in ((100, 'drop'), (512, 'drop'), (100, 'stall'), (512, 'stall')):
        for kind in bench.pairs():
            with bench.service(kind) as service:
                reader = service.reader()
                writer = service.program(*kind.inside, kind.build / 'bench' / 'bench_write', '--packets', count,
                                         '--bytes', size, *(['--stall'] if policy == 'stall' else []))
                writer.wait_line('registered')
                time.sleep(0.1)
                service.enable(reader, 64)
                table.add(f'{size} bytes, full: {policy}', kind, writer.wait_line('done')['ns_per_packet'])


def measure_relay(bench):
    if not shutil.which('stunnel'):
        print('builds: the relay needs stunnel', file=sys.stderr)
        return
    shake = bench.table('a handshake with mutual certificates, CPU of the relay', 'ms', is_more_better=False)
    rate = bench.table('one stream through the relay', 'GB/s')
    cpu = bench.table('one stream through the relay, its CPU', 's/GB', is_more_better=False)
    megabytes = max(8, int(2000 * bench.o.scale))
    with tempfile.TemporaryDirectory(prefix='pfl-bench-') as place:
        keys = tunnel.make_keys(place)
        for kind in bench.pairs():
            with Relay(kind, keys) as relay:
                shake.add('one after the other', kind, relay.shake_hands(max(5, int(200 * bench.o.scale)))[0] * 1e3)
                seconds, used = relay.carry(megabytes)
            rate.add('from host to client', kind, megabytes / 1000 / seconds)
            cpu.add('from host to client', kind, used / (megabytes / 1000))


class Host(Fleet):
    """A host behind a relay, with a writer of bytes that do not compress."""
    MEAN_PACKET = 8 + 100 + 3900 // 2  # of chaos_writer

    def begin(self, megabytes):
        self.megabytes, self.packets = megabytes, int(megabytes * 1e6 / self.MEAN_PACKET)
        (self.dir / 'block').write_bytes(random.Random(1).randbytes(4 << 20))
        self.make_hosts(['h'])
        self.start_relay()
        self.start_service('h')
        self.start_agent('h')
        self.start('writer', [self.bin.parent / 'tests' / 'chaos_writer', self.dir / 'h' / 'p', self.dir / 'block', 0,
                              self.packets])
        wait_until(lambda: 'registered' in self.log('writer'), 'no writer')
        wait_until(lambda: '"version"' in self.ask('hosts', '--json').stdout, 'the host is not connected')

    def used(self):
        return [cpu_seconds(self.children[name].pid) for name in ('relay', 'agent-h')]

    def record(self):
        """CPU seconds of relay and agent for a recording of so many megabytes, and its size in GB."""
        config, out = self.dir / 'config.pbtx', self.dir / 'out.pftrace'
        config.write_text(f'buffers {{ size_kb: {int(self.megabytes * 1500) + 1024} fill_policy: DISCARD }}\n'
                          'data_sources { config { name: "com.example.chaos" } }\n')
        before = self.used()
        self.start('record', self.operator('record', '-c', config, '-o', out, '--select', '*'))
        wait_until(lambda: 'recording until' in self.log('record'), 'nothing is recorded')
        wait_until(lambda: 'written' in self.log('writer'), 'the writer has not written')
        child = self.children.pop('record')
        child.send_signal(2)
        if child.wait(60) != 0:
            raise subprocess.CalledProcessError(child.returncode, 'perfleet record')
        return [a - b for a, b in zip(self.used(), before)], out.stat().st_size / 1e9


def measure_agent(bench):
    tables = [bench.table(f'one stream from an agent through its relay, CPU of the {who}', 's/GB', is_more_better=False)
              for who in ('relay', 'agent')]
    with tempfile.TemporaryDirectory(prefix='pfl-bench-') as keys:
        for kind in bench.pairs():
            if kind.inside:
                continue  # a fleet is of this release
            with Host(kind.build, keys=pathlib.Path(keys) / 'pki') as host:
                host.begin(max(2, 400 * bench.o.scale))
                used, gigabytes = host.record()
            for table, seconds in zip(tables, used):
                table.add('bytes that do not compress', kind, seconds / gigabytes)


def measure(bench):
    measure_library(bench)
    measure_relay(bench)
    measure_agent(bench)
