#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plays the user's ssh for tests: `ssh ... -L LOCAL:REMOTE ... -- DESTINATION` forwards a local
socket to a socket of this machine, and says what it was called with in FAKE_SSH_LOG. The destination
`refused` is refused."""
import os
import socket
import sys
import threading


def pump(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def main():
    args = sys.argv[1:]
    with open(os.environ["FAKE_SSH_LOG"], "a", encoding="utf-8") as log:
        print(*args, file=log)
    if args[-1] == "refused":
        print("Permission denied (publickey).", file=sys.stderr)
        return 255
    local, remote = args[args.index("-L") + 1].split(":")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(local + ".new")
    listener.listen()
    os.rename(local + ".new", local)  # who sees it may connect
    while True:
        near, _ = listener.accept()
        far = socket.socket(socket.AF_UNIX)
        far.connect(remote)
        for ends in ((near, far), (far, near)):
            threading.Thread(target=pump, args=ends, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
