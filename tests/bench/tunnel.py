# SPDX-License-Identifier: Apache-2.0
"""TLS servers in front of a UNIX socket, for the relay's benchmark: perfleet-relay, stunnel, socat.

The socket's owner sends bytes as fast as they are taken; a stunnel client, the same for every
server, takes them off TLS for us to count."""
import multiprocessing
import pathlib
import socket
import subprocess
import time

PKI = pathlib.Path(__file__).resolve().parents[2] / 'deploy' / 'pki' / 'perfleet-pki'
BLOCK = 1 << 20


def make_keys(place):
    keys = pathlib.Path(place) / 'pki'
    for args in (['init', keys, '--fleet', 'bench'], ['host', keys, 'h'], ['operator', keys, 'o']):
        subprocess.run([str(PKI), *map(str, args)], check=True, stdout=subprocess.DEVNULL)
    return keys


def send_for_ever(listener):
    block = bytes(BLOCK)
    while True:
        peer, _ = listener.accept()
        try:
            while True:
                peer.sendall(block)
        except OSError:
            peer.close()


def send_when_asked(listener, blocks):
    """So many blocks to each peer that sends a byte, and to others nothing."""
    block = bytes(BLOCK)
    while True:
        peer, _ = listener.accept()
        try:
            for _ in range(blocks if peer.recv(1) else 0):
                peer.sendall(block)
            peer.recv(1)  # its end
        except OSError:
            pass
        peer.close()


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Tunnel:
    blocks = None  # that the source sends when it is asked; None: it sends for ever

    def __init__(self, name, keys, bin_dir):
        self.keys, self.dir = keys, keys.parent
        self.server_port, self.client_port = free_port(), free_port()
        self.path = self.dir / 'source'
        self.path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path))
        listener.listen()
        target, args = (send_for_ever, ()) if self.blocks is None else (send_when_asked, (self.blocks,))
        self.source = multiprocessing.Process(target=target, args=(listener, *args), daemon=True)
        self.source.start()
        listener.close()
        self.log = open(self.dir / 'log', 'w')
        self.server = self.start(self.server_command(name, bin_dir))
        self.client = self.start(['stunnel', self.stunnel_conf('client', self.client_port,
                                                               f'127.0.0.1:{self.server_port}')])
        self.wait_for(self.server_port)
        self.wait_for(self.client_port)

    def start(self, command):
        return subprocess.Popen([str(c) for c in command], stdout=self.log, stderr=self.log)

    def server_command(self, name, bin_dir):
        ca, cert, key = (self.keys / f for f in ('ca.pem', 'host-h.pem', 'host-h.key'))
        if name == 'stunnel':
            return ['stunnel', self.stunnel_conf('server', self.server_port, self.path)]
        if name == 'socat':
            tls = f'cert={cert},key={key},cafile={ca},verify=1,reuseaddr,bind=127.0.0.1,fork'
            return ['socat', '-b', '65536', f'OPENSSL-LISTEN:{self.server_port},{tls}',
                    f'UNIX-CONNECT:{self.path}']
        return [bin_dir / 'perfleet-relay', '--listen', f'127.0.0.1:{self.server_port}', '--ca', ca,
                '--cert', cert, '--key', key, '--consumer-socket', self.path]

    def stunnel_conf(self, role, accept, connect):
        who = 'operator-o' if role == 'client' else 'host-h'
        conf = self.dir / f'{role}.conf'
        conf.write_text(f"""foreground = yes
debug = 3
pid =
[bench]
client = {'yes' if role == 'client' else 'no'}
accept = 127.0.0.1:{accept}
connect = {connect}
cert = {self.keys / (who + '.pem')}
key = {self.keys / (who + '.key')}
CAfile = {self.keys / 'ca.pem'}
verifyChain = yes
""")
        return conf

    @staticmethod
    def wait_for(port):
        for _ in range(300):
            try:
                socket.create_connection(('127.0.0.1', port)).close()
                return
            except OSError:
                time.sleep(0.01)
        raise RuntimeError(f'nothing listens at {port}')

    def server_cpu(self):
        """Of the server and, as socat forks, its children."""
        children = pathlib.Path(f'/proc/{self.server.pid}/task/{self.server.pid}/children')
        pids = [self.server.pid] + children.read_text().split()
        files = [f for pid in pids for f in pathlib.Path(f'/proc/{pid}/task').glob('*/schedstat')]
        return sum(int(f.read_text().split()[0]) for f in files) / 1e9

    def carry(self, megabytes):
        """Seconds and the server's CPU seconds for so many megabytes, after the first few."""
        room = memoryview(bytearray(BLOCK))
        with socket.create_connection(('127.0.0.1', self.client_port)) as s:
            left = 4_000_000
            while left > 0:
                left -= s.recv_into(room) or self.fail()
            cpu, begin, left = self.server_cpu(), time.monotonic(), megabytes * 1_000_000
            while left > 0:
                left -= s.recv_into(room) or self.fail()
            return time.monotonic() - begin, self.server_cpu() - cpu

    def fail(self):
        raise RuntimeError('the tunnel closed: ' + (self.dir / 'log').read_text()[-2000:])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in (self.client, self.server):
            child.terminate()
            child.wait()
        self.source.terminate()
        self.source.join()
        self.log.close()
