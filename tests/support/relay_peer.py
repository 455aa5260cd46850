#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Both ends of a relay, for tests: a plain service behind it and TLS clients (OpenSSL's, not ours)
before it. Every command prints what it saw and exits 0 when that is as it should be.

  echo PATH             service: returns what it gets; after the end of input sends BYE and ends
  source PATH BYTES     service: sends that many bytes of a known pattern, then ends; writes how many
                        the kernel took to PATH.sent
  sink PATH             service: reads to the end, writes "BYTES SHA256" to PATH.got
  sha BYTES             prints the SHA-256 of that much of the pattern
  pattern BYTES         prints that much of the pattern
  half-close ADDR TLS   client: sends, says goodbye, and still gets the answer
  slow ADDR TLS PID FILE   client: reads nothing until the relay stops taking, prints the relay's
                        resident size then, and reads the rest
  silent ADDR N PID     client: N connections that say nothing; prints the relay's resident size when
                        all are open, waits for a line on stdin, then until all are ended by the relay
  hold ADDR TLS         client: echoes one line after another from stdin

TLS is CA CERT KEY."""
import hashlib
import os
import socket
import ssl
import sys
import threading
import time

PATTERN = hashlib.sha512(b"perfleet").digest() * 1024 + b"odd"


def pattern(total):
    while total > 0:
        piece = PATTERN[:total]
        yield piece
        total -= len(piece)


def sha_of_pattern(total):
    h = hashlib.sha256()
    for piece in pattern(total):
        h.update(piece)
    return h.hexdigest()


def serve(path, handle):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(128)

    def run(connection):
        try:
            handle(connection)
        except OSError:
            pass
        connection.close()

    while True:
        connection, _ = listener.accept()
        threading.Thread(target=run, args=(connection,), daemon=True).start()


def handle_echo(connection):
    while data := connection.recv(1 << 16):
        connection.sendall(data)
    connection.sendall(b"BYE")


def handle_source(path, total):
    def handle(connection):
        sent = 0
        for piece in pattern(total):
            connection.sendall(piece)
            sent += len(piece)
            if sent % (1 << 20) < len(piece):
                with open(path + ".sent", "w") as f:
                    f.write(str(sent))
    return handle


def handle_sink(path):
    def handle(connection):
        h = hashlib.sha256()
        total = 0
        while data := connection.recv(1 << 16):
            h.update(data)
            total += len(data)
        with open(path + ".new", "w") as f:
            f.write(f"{total} {h.hexdigest()}\n")
        os.rename(path + ".new", path + ".got")
    return handle


def connect(address):
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=60)


def tls_context(ca, cert, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(ca)
    context.load_cert_chain(cert, key)
    return context


def rss_kib(pid):
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def half_close(address, ca, cert, key):
    sock = connect(address)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = tls_context(ca, cert, key).wrap_bio(incoming, outgoing)

    def pump(step):
        while True:
            try:
                result = step()
                sock.sendall(outgoing.read())
                return result
            except ssl.SSLWantReadError:
                sock.sendall(outgoing.read())
                incoming.write(sock.recv(1 << 16) or sys.exit("the relay ended the connection"))

    pump(tls.do_handshake)
    pump(lambda: tls.write(b"question"))
    try:
        tls.unwrap()  # says goodbye, and wants the relay's
    except ssl.SSLWantReadError:
        pass
    sock.sendall(outgoing.read())
    got = b""
    while not got.endswith(b"BYE"):
        got += pump(lambda: tls.read(1 << 16)) or sys.exit(f"ended after {got!r}")
    print(got.decode())
    return got == b"questionBYE"


def slow(address, ca, cert, key, pid, sent_file):
    sock = connect(address)
    tls = tls_context(ca, cert, key).wrap_socket(sock)
    before = -1
    while True:  # until the service behind the relay has been stuck for a second
        try:
            now = int(open(sent_file).read() or 0)
        except (FileNotFoundError, ValueError):
            now = 0
        if now > 0 and now == before:
            break
        before = now
        time.sleep(1)
    print(f"stuck at {now} bytes, relay RSS {rss_kib(pid)} KiB", flush=True)
    h = hashlib.sha256()
    total = 0
    while data := tls.recv(1 << 16):
        h.update(data)
        total += len(data)
    print(f"{total} {h.hexdigest()}")
    return h.hexdigest() == sha_of_pattern(total)


def silent(address, count, pid):
    socks = [connect(address) for _ in range(count)]
    print(f"open {count} RSS {rss_kib(pid)} KiB", flush=True)
    sys.stdin.readline()
    for s in socks:
        try:
            while s.recv(4096):
                pass
        except ConnectionResetError:
            pass
    print("all ended by the relay")
    return True


def hold(address, ca, cert, key):
    tls = tls_context(ca, cert, key).wrap_socket(connect(address))
    for line in sys.stdin:
        tls.sendall(line.encode())
        got = b""
        while not got.endswith(b"\n"):
            got += tls.recv(4096) or sys.exit("the relay ended the connection")
        print(got.decode().strip(), flush=True)
    return True


def main(command, *args):
    if command == "echo":
        serve(args[0], handle_echo)
    elif command == "source":
        serve(args[0], handle_source(args[0], int(args[1])))
    elif command == "sink":
        serve(args[0], handle_sink(args[0]))
    elif command == "sha":
        print(sha_of_pattern(int(args[0])))
        return True
    elif command == "pattern":
        for piece in pattern(int(args[0])):
            sys.stdout.buffer.write(piece)
        return True
    elif command == "half-close":
        return half_close(*args)
    elif command == "slow":
        return slow(*args)
    elif command == "silent":
        return silent(args[0], int(args[1]), args[2])
    elif command == "hold":
        return hold(*args)
    sys.exit(__doc__)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(0 if main(*sys.argv[1:]) else 1)
