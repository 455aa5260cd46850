#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands that the documents show. A block of them is a fence of the kind `sh`; the words after
it are the machines on which integration.docs runs it, in the order of the page. A block without a machine
has a row in tests/lint/doc_commands.tsv: page, how its first command begins, why it is not run there.

    doc_commands.py extract DIR PAGE...     DIR/001.sh ..., prints `001 PAGE:LINE MACHINE...` for each
    doc_commands.py show PAGE BEGINNING     the block that begins so
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ELSEWHERE = "tests/lint/doc_commands.tsv"
KINDS = {"sh", "text", "conf", "yaml", "c", "json", "promql"}
FENCE = re.compile(r"^```(.*)$")


class Block:
    def __init__(self, page, line, info):
        self.page, self.line, self.lines = page, line, []
        words = info.split()
        self.kind, self.machines = (words[0] if words else ""), words[1:]

    def first(self):
        for line in self.lines:
            if line.strip() and not line.startswith("#"):
                return line.strip()
        return ""

    def text(self):
        return "\n".join(self.lines) + "\n"


def blocks(page, text):
    """The blocks of a page, and what is a block of no kind as (line, problem)."""
    found, problems, block, before = [], [], None, ""
    for number, line in enumerate(text.split("\n"), 1):
        fence = FENCE.match(line)
        if fence and block is None:
            block = Block(page, number, fence.group(1))
        elif fence:
            found.append(block)
            block = None
        elif block is not None:
            block.lines.append(line)
        elif line.startswith("    ") and before == "":
            problems.append((number, "an indented block: fence it, and say of what kind it is"))
        before = line.strip() if block is None else "x"
    if block is not None:
        problems.append((block.line, "a fence without an end"))
    return found, problems


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        return f.read()


def pages():
    """README, CONTRIBUTING, docs and deploy, but not the protocol reference and the decisions, which
    show no commands."""
    names = ["README.md", "CONTRIBUTING.md"]
    for top in ("docs", "deploy"):
        for folder, _, files in os.walk(os.path.join(ROOT, top)):
            inside = os.path.relpath(folder, ROOT)
            if not re.match(r"docs/(abi|adr)(/|$)", inside):
                names += [os.path.join(inside, f) for f in files if f.endswith(".md")]
    return sorted(names)


def elsewhere():
    """Rows (page, beginning of the first command, reason)."""
    return [tuple(line.split("\t")) for line in read(ELSEWHERE).split("\n") if line and not line.startswith("#")]


def extract(folder, names):
    number = 0
    os.makedirs(folder, exist_ok=True)
    for page in names:
        for block in blocks(page, read(page))[0]:
            if block.kind != "sh" or not block.machines:
                continue
            number += 1
            with open(os.path.join(folder, "%03d.sh" % number), "w", encoding="utf-8") as f:
                f.write(block.text())
            print("%03d %s:%d %s" % (number, page, block.line, " ".join(block.machines)))


def show(page, beginning):
    found = [b for b in blocks(page, read(page))[0] if b.kind == "sh" and b.first().startswith(beginning)]
    if len(found) != 1:
        sys.exit("%s: %d blocks begin with: %s" % (page, len(found), beginning))
    sys.stdout.write(found[0].text())


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1] not in ("extract", "show"):
        sys.exit(__doc__)
    if sys.argv[1] == "show":
        show(sys.argv[2], sys.argv[3])
    else:
        extract(sys.argv[2], sys.argv[3:])
