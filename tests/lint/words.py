#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a word that a reader has to guess (docs/style.md section 8), in documents, comments,
messages and scripts. C has some words more: phrases.py has those for documents. Names in backticks,
a log event's old name (`was=NAME`), blocks of code, fixtures, docs/lab (history) and docs/style.md,
which quotes the words, are exempt.
Files that are not yet clean are in tests/lint/baseline/words.txt.

Usage: words.py | --lower | --self-test
"""
import re
import sys

import baseline
import csource

BANNED = {
    "told": "say who reports, sends or names what",
    "anew": "again",
    "doors?": "listener, socket or port",
    "mill(s|ed)?": "output pipeline",
    "lanes?": "worker",
    "errands?": "forwarded request",
    "askers?": "audit context, or who makes the request",
    "(over)?(hears?|heard)": "receive",
    "to be had": "available",
    "finds? no (room|place)": "does not fit",
    "in vain": "without effect",
    "mend(s|ed|ing)?": "fix",
    "thither|whither|whence|hitherto|hereby|thereby|thereof|therein|wherein": "say it plainly",
}
BANNED_IN_C = {
    "legs?": "HTTP/2 stream or connection",
    "wish(es|ed)?": "request, choice or option",
    "stor(y|ies)": "say which packets or events",
    "whoever|somebody|anybody": "name the party",
    "he|him|his|himself": "name the party: 'the operator', 'its'",
    "(is|are|was|were) (had|let in|let go)": "is available, admitted, closed or freed",
    "(goes|go|went|gone) on": "continues",
    "gives? way": "is closed, or replaced",
    "as ever|all the same": "say it plainly",
}
WORDS = {re.compile(rf"\b({word})\b", re.I): better for word, better in BANNED.items()}
WORDS_IN_C = {**WORDS, **{re.compile(rf"\b({word})\b", re.I): better for word, better in BANNED_IN_C.items()}}
FENCED = re.compile(r"^[ \t]*```.*?^[ \t]*```", re.M | re.S)
EXEMPT = re.compile(r"docs/lab/|docs/style\.md$|tests/fixtures/|tests/fuzz/(corpus|results)/|tests/lint/((words|phrases)\.py$|baseline/)")
SUFFIXES = (".md", ".c", ".h", ".proto", ".py", ".sh", ".txt", ".cmake", ".html", ".yaml",
            ".service", ".conf", "/run")


def empty(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def speech(name, text):
    """What a person reads of a file, line numbers kept."""
    if name.endswith(".md"):
        return re.sub(r"`[^`\n]*`", empty, FENCED.sub(empty, text))
    if name.endswith((".c", ".h", ".proto")):
        out, pos = [], 0
        for match in csource.TOKEN.finditer(text):
            out += [re.sub(r"[^\n]", " ", text[pos:match.start()]), match.group(0)]
            pos = match.end()
        return re.sub(r"`[^`\n]*`|\bwas=[a-z-]+", empty, "".join(out))
    return text


def check(name, text):
    words = WORDS_IN_C if name.endswith((".c", ".h")) else WORDS
    for number, line in enumerate(speech(name, text).split("\n"), 1):
        for word, better in words.items():
            for match in word.finditer(line):
                yield f"{name}:{number}: {match.group(1)}: {better}"


def self_test():
    bad = [("a.md", "He is told."), ("a.c", "/* a\n door */"), ("a.c", 'say("the mill");'),
           ("a.sh", "echo anew"), ("a.md", "It is to be had."), ("a.md", "Told twice."),
           ("a.c", 'log("manager-not-told", "errno");'), ("a.h", "/* his leg */"), ("a.c", 'say("it goes on");')]
    good = [("a.md", "`door` and\n```c\ndoor\n```"), ("a.c", "int door = mill(lane);"),
            ("a.c", "/* pfl_mill_free, millimetres, retold */"), ("a.md", "recommend amends"),
            ("a.h", "/* `told` is ours; legal, history */"), ("a.c", 'log("x", "was=x-not-told a=%d");'),
            ("a.sh", "# it goes on")]
    wrong = [t for n, t in bad if not list(check(n, t))] + [t for n, t in good if list(check(n, t))]
    old, count = baseline.self_test()
    for w in wrong + old:
        print(f"words self-test: judged wrongly: {w!r}")
    print(f"words self-test: {len(bad) + len(good) + count} cases, {len(wrong) + len(old)} wrong")
    return 1 if wrong or old else 0


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    NAMES = [n for n in csource.files(*SUFFIXES) if not EXEMPT.match(n)]
    baseline.run("words", lambda n: check(n, csource.read(n)), NAMES)
