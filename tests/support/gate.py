# SPDX-License-Identifier: Apache-2.0
"""A consumer socket before a real one that stands still at a request: Gate(path, to, method) passes
everything on until the first connection asks for `method` (BindService included). Then `reached`
is set, and nothing goes on until open() or die(), which ends all connections as a dead service
does. What came in one piece is passed on in one. With passes=True the piece with that request is
passed on, and nothing after it, either way: the connection ends while the service does it."""
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
    def __init__(self, path, to, method, nth=1, passes=False):
        self.to, self.method, self.left, self.passes = to, method, nth, passes
        self.reached, self.gone_on = threading.Event(), threading.Event()
        self.is_shut = False
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
        self.left -= name == self.method
        self.is_shut = self.left <= 0

    def pump(self, source, sink, look, methods):
        data = b""
        try:
            while got := source.recv(1 << 16):
                data += got
                end_of_last = 0
                was_shut = self.is_shut
                while len(data) >= end_of_last + 4:
                    size = 4 + struct.unpack_from("<I", data, end_of_last)[0]
                    if len(data) < end_of_last + size:
                        break
                    if methods is not None:
                        look(data[end_of_last + 4:end_of_last + size], methods)
                    end_of_last += size
                if self.holds(look, methods) and (was_shut or not self.passes):
                    self.wait()
                sink.sendall(data[:end_of_last])
                data = data[end_of_last:]
                if self.holds(look, methods):
                    self.wait()
        except OSError:
            pass
        for sock in (source, sink):
            end(sock)

    def holds(self, look, methods):
        return self.is_shut and methods is not None and (self.passes or look == self.see_request)

    def wait(self):
        gone_on = self.gone_on
        self.reached.set()
        gone_on.wait()

    def go_on_to(self, method):
        """Passes on what it holds, and stands still again at another request."""
        held, self.gone_on, self.reached = self.gone_on, threading.Event(), threading.Event()
        self.method, self.left, self.is_shut = method, 1, False
        held.set()

    def open(self):
        self.left = 1 << 30
        self.is_shut = False
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
