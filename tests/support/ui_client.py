#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the Perfetto UI's recording page does, with a WebSocket library that is not ours (websockets).

Usage: ui_client.py query URL ORIGIN             prints the service's version
       ui_client.py record URL ORIGIN MS OUT     records com.example.load, writes the trace
       ui_client.py crowd URL ORIGIN N           N connections at a time: how many came in
       ui_client.py status PORT PATH HOST ORIGIN [UID]  the status of an opening request by hand, as
                                                 that user; HOST or ORIGIN "-": without
       ui_client.py halves PORT N [UID]          N connections that never finish their request, as that
                                                 user; "ready"; whichever is ended comes again
       ui_client.py half PORT                    one of them: exits 0 when it is ended
       ui_client.py abuse PORT                   what is no WebSocket: exits 0 when it is ended"""
import os
import select
import socket
import sys

from service_peers import Consumer, dict_of_lists, field, fields

KEY = "dGhlIHNhbXBsZSBub25jZQ=="


class WebSocket:
    """As much of a socket as a Consumer needs, over binary messages."""

    def __init__(self, url, origin):
        import asyncio
        import websockets
        self.loop = asyncio.new_event_loop()
        self.wait = lambda step: self.loop.run_until_complete(asyncio.wait_for(step, 60))
        self.lost = websockets.ConnectionClosed

        async def connect():
            return await websockets.connect(url, origin=origin, max_size=None)
        self.socket = self.wait(connect())
        self.ready, writer = os.pipe()  # readable for ever: recv waits by itself
        os.write(writer, b"x")

    def sendall(self, data):
        self.wait(self.socket.send(data))

    def recvmsg(self, _size, _anc):
        try:
            return self.wait(self.socket.recv()), [], 0, None
        except self.lost:
            return b"", [], 0, None

    def fileno(self):
        return self.ready

    def close(self):
        self.wait(self.socket.close())


def query(consumer):
    answer = consumer.call("QueryServiceState", b"")
    state = dict_of_lists(dict(fields(answer[1]))[1])
    print("version=" + state[5][0].decode())


def record(consumer, ms, out):
    source = field(1, field(1, "com.example.load"))
    why = consumer.enable(field(1, field(1, 65536)) + field(2, source) + field(3, ms))
    if why:
        sys.exit(why)
    while not consumer.said:
        if not consumer.dispatch():
            sys.exit("closed")
    with open(out, "wb") as file:
        for packet in consumer.packets():
            file.write(field(1, packet))


def status(port, path, host, origin):
    lines = ["GET %s HTTP/1.1" % path, "Upgrade: websocket", "Connection: Upgrade",
             "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + KEY]
    lines += ["Host: " + host] if host != "-" else []
    lines += ["Origin: " + origin] if origin != "-" else []
    sock = socket.create_connection(("127.0.0.1", port), timeout=60)
    sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    print((sock.recv(4096).split() + [b"", b"closed"])[1].decode())


def abuse(port):
    for data in (b"\x16\x03\x01" * 50, b"GET /traced HTTP/1.1\r\n" + b"X: " + b"y" * 100000 + b"\r\n\r\n",
                 b"A" * 70000, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"):
        sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        try:
            sock.sendall(data)
            while sock.recv(4096):
                pass
        except ConnectionError:
            pass


def begin_request(port):
    sock = socket.create_connection(("127.0.0.1", port), timeout=60)
    try:
        sock.sendall(b"GET /traced HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    except ConnectionError:
        pass  # ended by now
    return sock


def is_ended(sock):
    try:
        return not sock.recv(4096)
    except ConnectionError:
        return True


def halves(port, count):
    inside = {}
    poll = select.poll()
    is_said = False
    while True:
        while len(inside) < count:
            sock = begin_request(port)
            inside[sock.fileno()] = sock
            poll.register(sock, select.POLLIN)
        if not is_said:
            print("ready", flush=True)
        is_said = True
        for fd, _ in poll.poll():
            if is_ended(inside[fd]):
                poll.unregister(fd)
                inside.pop(fd).close()


def crowd(url, origin, count):
    inside = []
    for _ in range(count):
        try:
            inside.append(WebSocket(url, origin))
        except Exception:  # the library's, for a status that is not 101
            break
    print("inside=%d" % len(inside))
    for one in inside:
        one.close()


def main():
    mode = sys.argv[1]
    if mode == "status":
        if len(sys.argv) > 6:
            os.setresuid(*[int(sys.argv[6])] * 3)
        status(int(sys.argv[2]), *sys.argv[3:6])
        return
    if mode == "halves":
        if len(sys.argv) > 4:
            os.setresuid(*[int(sys.argv[4])] * 3)
        halves(int(sys.argv[2]), int(sys.argv[3]))
    if mode == "half":
        sock = begin_request(int(sys.argv[2]))
        sock.settimeout(8)
        sys.exit(0 if is_ended(sock) else 1)
    if mode == "abuse":
        abuse(int(sys.argv[2]))
        return
    if mode == "crowd":
        crowd(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return
    consumer = Consumer(WebSocket(*sys.argv[2:4]))
    if mode == "query":
        query(consumer)
    else:
        record(consumer, int(sys.argv[4]), sys.argv[5])
    consumer.close()


main()
