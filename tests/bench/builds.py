# SPDX-License-Identifier: Apache-2.0
"""Builds of perfleet side by side, each with its own programs and library, in the root of another release where that
is named: what the library, a TLS handshake and the relay cost. docs/benchmarks.md says what the figures mean."""
import pathlib
import resource
import shutil
import socket
import ssl
import sys
import tempfile
import time

import tunnel

HERE = pathlib.Path(__file__).resolve().parent
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


def measure(bench):
    measure_library(bench)
    measure_relay(bench)
