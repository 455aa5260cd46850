# SPDX-License-Identifier: Apache-2.0
"""A host that lies: everything goes through to a real service, but a read-out never ends. The first
reply of ReadBuffers that is not the last one is sent again and again; or, with MAX_MIB 0, ten times
a second one that is not the last and brings nothing; or, with MAX_MIB -1, each 0.3 s one that is not
the last and brings a packet of 20 KiB.

Usage: endless_host.py SOCKET SERVICE_SOCKET MAX_MIB      prints "listening"; stops after MAX_MIB"""
import socket
import struct
import sys
import threading
import time

from service_peers import field, fields

FRAME_REPLY = 6  # of IPCFrame
REPLY_HAS_MORE, REPLY_PROTO = 2, 3
READ_SLICES, READ_RUNS = 2, 50001


def is_data(frame, is_last_good=False):
    for number, value in fields(frame):
        if number == FRAME_REPLY:
            reply = dict(fields(value))
            return (is_last_good or reply.get(REPLY_HAS_MORE) == 1) and any(
                n in (READ_SLICES, READ_RUNS) for n, _ in fields(reply.get(REPLY_PROTO, b"")))
    return False


def pump_up(client, service):
    while data := client.recv(1 << 16):
        service.sendall(data)
    service.shutdown(socket.SHUT_WR)


def nothing_for_ever(client, frame):
    """The same frame, with two empty slices."""
    request = dict(fields(frame[4:]))[2]
    body = field(2, request) + field(FRAME_REPLY, field(1, 1) + field(REPLY_HAS_MORE, 1) + field(
        REPLY_PROTO, 2 * field(READ_SLICES, b"")))
    while True:
        client.sendall(struct.pack("<I", len(body)) + body)
        time.sleep(0.1)


def little_for_ever(client, frame):
    """A packet of a sequence, some 66 KiB a second."""
    request = dict(fields(frame[4:]))[2]
    packet = field(10, 2) + field(900, bytes(20 << 10))
    piece = field(1, packet) + field(2, 1)
    body = field(2, request) + field(FRAME_REPLY, field(1, 1) + field(REPLY_HAS_MORE, 1) + field(
        REPLY_PROTO, field(READ_SLICES, piece)))
    while True:
        client.sendall(struct.pack("<I", len(body)) + body)
        time.sleep(0.3)


def pump_down(client, service, max_bytes):
    pending, sent = b"", 0
    while data := service.recv(1 << 16):
        pending += data
        while len(pending) >= 4 and len(pending) - 4 >= struct.unpack("<I", pending[:4])[0]:
            size = 4 + struct.unpack("<I", pending[:4])[0]
            frame, pending = pending[:size], pending[size:]
            if max_bytes < 0 and is_data(frame[4:], True):
                little_for_ever(client, frame)
            if max_bytes == 0 and is_data(frame[4:], True):
                nothing_for_ever(client, frame)
            client.sendall(frame)
            while is_data(frame[4:]) and sent < max_bytes:
                client.sendall(frame)
                sent += len(frame)


def serve(client, path, max_bytes):
    service = socket.socket(socket.AF_UNIX)
    service.connect(path)
    threading.Thread(target=pump_up, args=(client, service), daemon=True).start()
    try:
        pump_down(client, service, max_bytes)
    except OSError:
        pass
    client.close()
    service.close()


def main(path, service_path, max_mib):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    print("listening", flush=True)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client, service_path, int(max_mib) << 20), daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
