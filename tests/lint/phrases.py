#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on an inversion, or on another turn of phrase that has to be read twice, in a document
(docs/style.md section 8). Names in backticks, blocks of code, messages of mistakes.md, decisions and history
are exempt. words.py has single words, and reads sources, too.

Usage: phrases.py | --self-test
"""
import re
import sys

import csource

BANNED = {
    r"so (is|are|does|do|has|have|was|were)\b": "name the subject: 'X is, too'",
    r"(nor|neither) (is|are|does|do|has|have|was|were)\b": "name the subject: 'X is not, either'",
    r"that alone\b": "only that",
    r"(is|are|was|were) (had|told|let in)\b": "say who gets, reports or admits what",
    r"whoever\b": "name the party",
    r"who (is|are|was) (told|let|late|refused|revoked|asked)\b": "name the party: 'a refused client'",
    r"(he|him|his)\b": "name the party: 'the operator', 'its'",
    r"goes on\b": "continues",
    r"as ever\b": "as before",
    r"not any more\b": "no longer",
    r"all the same\b": "still, or leave it out",
    r"(is|are) let go\b": "is closed, is freed",
    r"by (himself|themselves)\b": "alone",
}
PHRASES = {re.compile(rf"(?<![-\w])({phrase})".replace(" ", r"\s+"), re.I): better
           for phrase, better in BANNED.items()}
FENCED = re.compile(r"^[ \t]*```.*?^[ \t]*```", re.M | re.S)
EXEMPT = re.compile(r"docs/(lab|adr|abi)/|docs/(mistakes|style)\.md$|CHANGELOG\.md$|tests/|.*/fixtures/")


def empty(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def check(name, text):
    """A phrase may be broken by the end of a line."""
    text = re.sub(r"`[^`]*`", empty, FENCED.sub(empty, text))
    for phrase, better in PHRASES.items():
        for match in phrase.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{name}:{line}: {' '.join(match.group(1).split())}: {better}"


def self_test():
    bad = ["X ends. So does Y.", "That alone is kept.", "The operator is\ntold.", "Whoever comes first has it.",
           "It is his.", "The session goes on.", "as ever", "He waits."]
    good = ["so isolated", "`so is` and\n```text\nhis\n```", "This history is for the host.", "the relay hears",
            "whose data this is", "as every user"]
    wrong = [t for t in bad if not list(check("x.md", t))] + [t for t in good if list(check("x.md", t))]
    for w in wrong:
        print(f"phrases self-test: judged wrongly: {w!r}")
    print(f"phrases self-test: {len(bad) + len(good)} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    NAMES = [n for n in csource.files(".md") if not EXEMPT.match(n)]
    csource.finish("phrases", [p for n in NAMES for p in check(n, csource.read(n))], len(NAMES))
