# SPDX-License-Identifier: Apache-2.0
"""What the lint scripts share: the list of source files, and C text without comments."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def files(*suffixes):
    """Tracked files with one of the suffixes, relative to the root; all files outside git."""
    try:
        out = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        names = [n for n in out.decode().split("\0") if n]
    except (OSError, subprocess.CalledProcessError):
        names = []
        for folder, subs, found in os.walk(ROOT):
            subs[:] = [s for s in subs if s not in (".git", "build", "out")]
            names += [os.path.relpath(os.path.join(folder, f), ROOT) for f in found]
    return sorted(n for n in names
                  if n.endswith(suffixes) and os.path.exists(os.path.join(ROOT, n)))


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        return f.read()


TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blank(match):
    """The same number of lines and columns, nothing in them; strings keep their quotes."""
    text = match.group(0)
    if text[0] in "\"'":
        return text[0] + " " * (len(text) - 2) + text[0]
    return re.sub(r"[^\n]", " ", text)


def code_only(text):
    """C without comments and without the inside of strings, line numbers kept."""
    return TOKEN.sub(blank, text)


def comments_out(text):
    """C without comments; strings stay (an #include needs its name)."""
    return TOKEN.sub(lambda m: m.group(0) if m.group(0)[0] in "\"'" else blank(m), text)


def finish(gate, problems, seen):
    for p in problems:
        print(p)
    if not seen:
        print(f"{gate}: nothing was checked")
        sys.exit(1)
    print(f"{gate}: {seen} files, {len(problems)} problems")
    sys.exit(1 if problems else 0)
