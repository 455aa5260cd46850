#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a command in a document that nobody runs: each block of commands either names the machine on
which integration.docs runs it, or has a row in doc_commands.tsv that says what shows that it works.
Whether run or not: its shell is well formed, our programs have the commands and options that are shown,
in blocks and in the text, and scripts of this tree are there.

    doc_commands.py BUILD      BUILD/bin has the programs       doc_commands.py --self-test
"""
import os
import re
import shlex
import subprocess
import sys

import csource

sys.path.insert(0, os.path.join(csource.ROOT, "tests", "support"))
import doc_commands as docs  # noqa: E402

MACHINES = {"desk", "meet1", "web1", "web2", "lab1", "box"}
NAMES = r"perfleet(?:d|-(?:agent|relay|probes|example|pki|collector|keep|trigger))?"
PROGRAM = re.compile(r"(?<![\w./-])(?<!-n )(%s)(?![\w.@-])((?: [^`;&|()<>]*)?)" % NAMES)
IN_TREE = re.compile(r"(?<![\w./-])((?:deploy|tests)/[\w./-]+)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
SPAN = re.compile(r"`(%s [^`]*)`" % NAMES)


class Programs:
    """What --help of our programs names."""

    def __init__(self, folder):
        self.folder, self.known = folder, {}

    def options(self, *command):
        if command not in self.known:
            run = subprocess.run([os.path.join(self.folder, command[0]), *command[1:], "--help"], check=False,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30)
            text = run.stdout.decode()
            self.known[command] = set(OPTION.findall(text)) | {"--help", "--version"} if run.returncode == 0 else None
        return self.known[command]

    def problems(self, words):
        """Of a command: its words, the program's name first."""
        command = [words[0]]
        rest = [w for w in words[1:] if w not in ("...", "…")]
        if words[0] == "perfleet" and rest and re.fullmatch(r"[a-z]+", rest[0]):
            command.append(rest[0])
        elif words[0] == "perfleet-agent" and rest[:1] in (["join"], ["renew"]):
            command.append(rest[0])
        options = self.options(*command)
        if options is None:
            yield "there is no %s" % " ".join(command)
            return
        for word in rest:
            for option in OPTION.findall(word) if word.startswith("--") else []:
                if option not in options:
                    yield "%s has no %s" % (" ".join(command), option)


def commands_of(text):
    """Our programs and their words in a piece of shell."""
    text = re.sub(r"\\\n\s*", " ", text)
    for line in text.split("\n"):
        line = re.sub(r"(^|\s)#.*", "", line)
        for name, rest in PROGRAM.findall(line):
            try:
                words = shlex.split(rest)
            except ValueError:  # the other half of a quoted piece
                words = rest.replace('"', "").replace("'", "").split()
            yield [name] + words


def check_scripts(text):
    """Scripts of this tree are there, and read the options that are shown."""
    for line in re.sub(r"\\\n\s*", " ", text).split("\n"):
        for number, name in enumerate(IN_TREE.findall(line)):
            path = os.path.join(csource.ROOT, name.rstrip("/."))
            if not os.path.exists(path):
                yield "no %s in this tree" % name
            elif number == 0 and os.path.isfile(path) and not re.search(NAMES, name):
                script = csource.read(name)
                yield from ("%s has no %s" % (name, o) for o in OPTION.findall(line.split(name)[1]) if o not in script)


def check_block(block, rows, programs):
    where = "%s:%d" % (block.page, block.line)
    if block.kind not in docs.KINDS:
        yield "%s: a block of no kind (%s): %s" % (where, block.kind or "none", ", ".join(sorted(docs.KINDS)))
    if block.kind != "sh":
        return
    for name in block.machines:
        if name not in MACHINES:
            yield "%s: no machine is called %s" % (where, name)
    listed = [row for row in rows if row[0] == block.page and block.first().startswith(row[1])]
    if bool(listed) == bool(block.machines):
        yield "%s: %s" % (where, "runs and is in doc_commands.tsv" if listed else "nobody runs this: " + block.first())
    rows -= set(listed)
    shell = subprocess.run(["bash", "-n"], input=block.text().encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           check=False)
    if shell.returncode != 0 or shell.stdout:
        yield "%s: %s" % (where, shell.stdout.decode().strip())
    yield from ("%s: %s" % (where, p) for p in check_scripts(block.text()))
    if programs is not None:
        for words in commands_of(block.text()):
            yield from ("%s: %s" % (where, p) for p in programs.problems(words))


def check_text(page, text, programs):
    """Commands in the text: what a person reads, he types."""
    for number, line in enumerate(text.split("\n"), 1):
        for span in SPAN.findall(line):
            words = span.replace("*", "").split()
            yield from ("%s:%d: %s" % (page, number, p) for p in programs.problems(words))


def check(page, text, rows, programs):
    blocks, problems = docs.blocks(page, text)
    out = ["%s:%d: %s" % (page, number, why) for number, why in problems]
    for block in blocks:
        out += check_block(block, rows, programs)
    if programs is not None:
        outside = re.sub(r"^```.*?^```$", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.M | re.S)
        out += check_text(page, outside, programs)
    return out


class Played(Programs):
    def __init__(self):
        Programs.__init__(self, "/nowhere")

    def options(self, *command):
        return {("perfleetd",): {"--config"}, ("perfleet", "record"): {"--host"}}.get(command)


def self_test():
    good = ["```sh desk\nperfleetd --config x\n```\n", "```sh\nmake all\n```\n", "text `perfleet record --host x` and\n",
            "```text\nperfleetd --nonsense\n```\n", "```sh desk\nperfleet record \\\n    --host 'a b' # --what\n```\n"]
    bad = ["```sh\nperfleetd\n```\n", "```sh nowhere\nls\n```\n", "```\nls\n```\n", "x\n\n    perfleetd\n", "```sh desk\nif x\n```\n",
           "```sh desk\nperfleetd --confg x\n```\n", "```sh desk\nssh a perfleet recrd x\n```\n", "text `perfleet record --hst x`\n",
           "```sh desk\ntests/no/such x\n```\n", "```sh desk\nmake all\n```\n", "```sh desk\nls\n"]
    rows = {("a.md", "make", "why")}
    wrong = [t for t in bad if not check("a.md", t, set(rows), Played())] + [t for t in good if check("a.md", t, set(rows), Played())]
    for w in wrong:
        print("doc_commands self-test: judged wrongly: %r" % w)
    print("doc_commands self-test: %d cases, %d wrong" % (len(good) + len(bad), len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    BIN = os.path.join(sys.argv[1], "bin")
    PROGRAMS = Programs(BIN) if os.path.exists(os.path.join(BIN, "perfleet")) else None
    ROWS = set(docs.elsewhere())
    PAGES = docs.pages()
    PROBLEMS = [p for page in PAGES for p in check(page, docs.read(page), ROWS, PROGRAMS)]
    PROBLEMS += ["%s: no such block in %s: %s" % (docs.ELSEWHERE, row[0], row[1]) for row in sorted(ROWS)]
    csource.finish("doc_commands", PROBLEMS, len(PAGES))
