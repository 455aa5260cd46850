# SPDX-License-Identifier: Apache-2.0
"""A host with a slow link: everything goes through to a real service, and what comes back passes at a
rate, in pieces of a hundredth of a second.

Usage: slow_host.py SOCKET SERVICE_SOCKET KB_PER_S      prints "listening" """
import socket
import sys
import threading
import time

TURN_S = 0.01


def pump(source, sink, bytes_per_s):
    """All that comes; with a rate no faster than that, whatever was late before."""
    size = max(1, int(bytes_per_s * TURN_S)) if bytes_per_s else 1 << 16
    try:
        while data := source.recv(size):
            sink.sendall(data)
            if bytes_per_s:
                time.sleep(len(data) / bytes_per_s)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def serve(client, path, bytes_per_s):
    service = socket.socket(socket.AF_UNIX)
    service.connect(path)
    up = threading.Thread(target=pump, args=(client, service, 0), daemon=True)
    up.start()
    pump(service, client, bytes_per_s)
    up.join()
    client.close()
    service.close()


def main(path, service_path, kb_per_s):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    print("listening", flush=True)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client, service_path, 1000 * int(kb_per_s)), daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
