# SPDX-License-Identifier: Apache-2.0
"""A consumer socket before a real one that stands still at a request: Gate(path, to, method) passes
everything on until the first connection asks for `method` (BindService included). Then `reached`
is set, and nothing goes on until open() or die(), which ends all connections as a dead service
does."""
import os
import socket
import struct
import threading

from service_peers import fields

BIND, BIND_REPLY, INVOKE = 3, 4, 5
METHODS, METHOD_ID, METHOD_NAME, INVOKED_ID = 3, 1, 2, 2


def first(data, number):
    return next((value for key, value in fields(data) if key == number), None)


class Gate:
    def __init__(self, path, to, method, nth=1):
        self.to, self.method, self.left = to, method, nth
        self.reached, self.gone_on = threading.Event(), threading.Event()
        self.socks = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        os.chmod(path, 0o600)
        self.listener.listen(16)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            service = socket.socket(socket.AF_UNIX)
            service.connect(self.to)
            methods = {} if not self.socks else None  # of the first one only
            self.socks += [client, service]
            for source, sink, look in ((client, service, self.see_request),
                                       (service, client, self.see_reply)):
                threading.Thread(target=self.pump, args=(source, sink, look, methods),
                                 daemon=True).start()

    def see_reply(self, frame, methods):
        for number, value in fields(first(frame, BIND_REPLY) or b""):
            if number == METHODS:
                methods[first(value, METHOD_ID)] = first(value, METHOD_NAME).decode()

    def see_request(self, frame, methods):
        invoked = first(frame, INVOKE)
        name = "BindService" if invoked is None else methods.get(first(invoked, INVOKED_ID))
        if name == self.method:
            self.left -= 1
        if self.left <= 0:
            gone_on = self.gone_on
            self.reached.set()
            gone_on.wait()

    def pump(self, source, sink, look, methods):
        data = b""
        try:
            while got := source.recv(1 << 16):
                data += got
                while len(data) >= 4 and len(data) >= (size := 4 + struct.unpack("<I", data[:4])[0]):
                    if methods is not None:
                        look(data[4:size], methods)
                    sink.sendall(data[:size])
                    data = data[size:]
        except OSError:
            pass
        for sock in (source, sink):
            end(sock)

    def go_on_to(self, method):
        """Passes on what it holds, and stands still again at another request."""
        held, self.gone_on, self.reached = self.gone_on, threading.Event(), threading.Event()
        self.method, self.left = method, 1
        held.set()

    def open(self):
        self.left = 1 << 30
        self.gone_on.set()

    def die(self):
        self.listener.close()
        for sock in list(self.socks):
            end(sock)
        self.open()


def end(sock):
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
