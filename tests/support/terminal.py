#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command on a terminal of its own and says what its lines came to.

    terminal.py COLUMNS[,COLUMNS...] COMMAND...

Standard input, output and error are the terminal. With several numbers of columns the terminal changes its size,
half a second apart. Fails when a line of progress ("recording...") would have wrapped at the widest of them, when
the last one does not fit the last size, and when there was none. The command's exit code must be 0, 3 or 6.
"""
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

STEP_S = 0.5


def resize(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def main():
    sizes = [int(text) for text in sys.argv[1].split(",")]
    pid, terminal = pty.fork()
    if pid == 0:
        time.sleep(0.2)  # until the terminal has its size
        os.execvp(sys.argv[2], sys.argv[2:])
    resize(terminal, sizes[0])
    begin, at, text = time.monotonic(), 0, b""
    while True:
        if at + 1 < len(sizes) and time.monotonic() - begin > STEP_S * (at + 2):
            at += 1
            resize(terminal, sizes[at])
        ready = select.select([terminal], [], [], 0.1)[0]
        try:
            data = os.read(terminal, 65536) if ready else b""
        except OSError:
            break
        if ready and not data:
            break
        text += data
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    drawn = re.findall(rb"\r\x1b\[K(recording[^\r\n]*)", text)
    print("exit code %d, %d lines of progress, the last: %r" % (code, len(drawn), drawn[-1:]))
    wide = [line for line in drawn if len(line) >= max(sizes)]
    if code not in (0, 3, 6) or not drawn or wide:
        sys.exit("wrapped: %r\n%s" % (wide, text.decode(errors="replace")))
    if len(sizes) > 1 and len(drawn[-1]) >= sizes[-1]:
        sys.exit("not drawn for the last size: %r" % drawn[-1])


main()
