# SPDX-License-Identifier: Apache-2.0
"""A host whose service compresses copies of compressed sessions, as Perfetto's does: everything goes
through to a perfleetd, and each CloneSession asks for packets as its session's config has them.

Usage: compressing_host.py SOCKET SERVICE_SOCKET       prints "listening"

Also makes such a session, and leaves it running:

Usage: compressing_host.py --session NAME CODEC SOURCE SERVICE_SOCKET     CODEC: zstd or deflate"""
import socket
import struct
import sys
import threading

from service_peers import Consumer, field, fields

BIND_REPLY, INVOKE, REPLY = 4, 5, 6  # of IPCFrame
METHOD_ID, ARGS = 2, 3  # of IPCFrame.InvokeMethod
PERFLEET_COMPRESSED = 50001  # of CloneSessionRequest
COMPRESSION = {"deflate": field(24, 1), "zstd": field(47, field(2, b""))}  # of TraceConfig


def frames(source, pending=b""):
    while data := source.recv(1 << 16):
        pending += data
        while len(pending) >= 4 and len(pending) - 4 >= struct.unpack("<I", pending[:4])[0]:
            size = 4 + struct.unpack("<I", pending[:4])[0]
            yield pending[4:size]
            pending = pending[size:]


def send(to, body):
    to.sendall(struct.pack("<I", len(body)) + body)


def asking_for_compressed(frame, clone_id):
    """The frame, or what it becomes."""
    top = fields(frame)
    call = dict(top).get(INVOKE)
    if call is None or dict(fields(call)).get(METHOD_ID) != clone_id:
        return frame
    args = dict(fields(call)).get(ARGS, b"") + field(PERFLEET_COMPRESSED, 1)
    call = b"".join(field(n, v) for n, v in fields(call) if n != ARGS) + field(ARGS, args)
    return b"".join(field(n, v) for n, v in top if n != INVOKE) + field(INVOKE, call)


def pump_up(client, service, methods):
    for frame in frames(client):
        send(service, asking_for_compressed(frame, methods.get("CloneSession", -1)))
    service.shutdown(socket.SHUT_WR)


def pump_down(client, service, methods):
    for frame in frames(service):
        for number, value in fields(dict(fields(frame)).get(BIND_REPLY, b"")):
            if number == 3:
                method = dict(fields(value))
                methods[method[2].decode()] = method[1]
        send(client, frame)


def serve(client, path):
    methods = {}
    with client, socket.socket(socket.AF_UNIX) as service:
        service.connect(path)
        threading.Thread(target=pump_up, args=(client, service, methods), daemon=True).start()
        try:
            pump_down(client, service, methods)
        except OSError:
            pass


def listen(path, service_path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    print("listening", flush=True)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client, service_path), daemon=True).start()


def leave_session(name, codec, source, service_path):
    consumer = Consumer(service_path)
    why = consumer.enable(field(1, field(1, 16384)) + field(2, field(1, field(1, source))) +
                          field(22, name) + COMPRESSION[codec])
    if why is not None:
        sys.exit(why)
    if not consumer.call("Detach", field(1, name))[0]:
        sys.exit("not detached")


if __name__ == "__main__":
    if sys.argv[1] == "--session":
        leave_session(*sys.argv[2:])
    else:
        listen(*sys.argv[1:])
