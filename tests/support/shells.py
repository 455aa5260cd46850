#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Tab makes of a line in a real shell, at a terminal of its own.

  tests/support/shells.py SHELL COMPLETION-DIR < CASES

SHELL is bash, zsh or fish. A case is three lines: the claim, what is typed before Tab, and what stands in the line then;
its last blank is an underscore. The shell reads the files of COMPLETION-DIR as its packages would. Prints lines of TAP
without numbers.
"""
import os
import pathlib
import pty
import select
import shutil
import sys
import tempfile
import time

LIMIT_S = 30
START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"],
             "bind 'set bell-style none'; for f in {dir}/*.bash; do . $f; done; "
             "dump() {{ printf %s \"$READLINE_LINE\" >{out}.new; mv {out}.new {out}; }}; bind -x '\"\\C-g\": dump'\n"),
    "zsh": (["zsh", "-f", "-i"],
            "unsetopt beep; fpath=({tmp} $fpath); autoload -Uz compinit; compinit -D -u; "
            "dump() {{ print -rn -- $BUFFER >{out}.new; mv {out}.new {out} }}; zle -N dump; bindkey '^G' dump\n"),
    "fish": (["fish", "--no-config", "-i"],
             "for f in {dir}/*.fish; source $f; end; "
             "function dump; commandline >{out}.new; mv {out}.new {out}; end; bind \\cg dump\n"),
}


class Shell:
    def __init__(self, name, completions, tmp):
        self.out = tmp / "line"
        for file, copy in (("_perfleet", "_perfleet"), ("_daemon", "_perfleet-host")):
            shutil.copy(completions / file, tmp / copy)
        argv, setup = START[name]
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm", HISTFILE="", COLUMNS="400", XDG_CONFIG_HOME=str(tmp), XDG_DATA_HOME=str(tmp))
            os.execvp(argv[0], argv)
        self.seen = b""
        self.type(setup.format(dir=completions, tmp=tmp, out=self.out))
        self.line()

    def type(self, text):
        os.write(self.fd, text.encode())

    def read(self, seconds):
        """Takes what the shell prints; a shell that asks which terminal this is gets an answer."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return
        new = os.read(self.fd, 65536)
        self.seen = (self.seen + new)[-4000:]
        if b"\033[c" in new or b"\033[0c" in new:
            self.type("\033[?62;c")

    def line(self):
        """What stands in the line; the line is empty then."""
        self.out.unlink(missing_ok=True)
        self.type("\x07")
        end = time.monotonic() + LIMIT_S
        while not self.out.exists():
            if time.monotonic() > end:
                raise TimeoutError(self.seen.decode(errors="replace"))
            self.read(0.02)
        self.type("\x15")
        return self.out.read_text().removesuffix("\n")

    def complete(self, typed):
        self.type(typed + "\t")
        return self.line()

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def main():
    name, completions = sys.argv[1], pathlib.Path(sys.argv[2])
    lines = sys.stdin.read().splitlines()
    with tempfile.TemporaryDirectory() as tmp:
        shell = Shell(name, completions, pathlib.Path(tmp))
        for claim, typed, expected in zip(lines[::3], lines[1::3], lines[2::3]):
            if expected.endswith("_"):
                expected = expected[:-1] + " "
            got = shell.complete(typed)
            print(f"{'ok' if got == expected else 'not ok'} - {name} completes {claim}", flush=True)
            if got != expected:
                print(f"#   typed:    {typed!r}\n#   expected: {expected!r}\n#   got:      {got!r}", flush=True)
        shell.close()


if __name__ == "__main__":
    main()
