#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a line of a Markdown document with more than 100 columns. Tables, blocks of code, HTML and
what has no blank to break at (a link, a name in backticks) are exempt. Files that are not yet clean are
in tests/lint/baseline/columns.txt.

Usage: columns.py | --lower | --wrap FILE... | --self-test
--wrap wraps the paragraphs of the documents that have such a line, in place.
"""
import re
import sys

import baseline
import csource

WIDTH = 100
FENCE = re.compile(r"[ \t]*(```|~~~)")
ALONE = re.compile(r"[ \t]*([|<#%]|!\[|\[[^\]]+\]:|---|===|$)|.*(  |\\)$")
DEFINITION = re.compile(r": +")
ITEM = re.compile(r"[ \t]*(> ?)*([-*+]|\d+[.)]|:(?=  ))[ \t]+")
INDENT = re.compile(r"[ \t]*(> ?)*[ \t]*")
# What must stay on one line: code in backticks, and a link's target.
WHOLE = re.compile(r"`[^`]*`|\]\([^)]*\)")
# A word that would begin something else at the start of a line.
BEGINS = re.compile(r"([-+*>=#|:]+|\d+[.)]|<.*)$")


def words_of(text):
    """The words of a paragraph; what must stay whole, and a word that may not begin a line, is one."""
    words = []
    for word in WHOLE.sub(lambda m: m.group(0).replace(" ", "\0"), text).split(" "):
        if words and BEGINS.match(word):
            words[-1] += "\0" + word
        elif word:
            words.append(word)
    return [word.replace("\0", " ") for word in words]


def blocks(text):
    """(first line, lines, whether they may be wrapped), a paragraph or an item each."""
    lines, number, block, fenced = text.split("\n"), 0, None, False
    blank, in_list = True, False
    while number < len(lines):
        line = lines[number]
        fence = FENCE.match(line)
        item = ITEM.match(line)
        in_list = bool(item) or in_list and (not blank or line.startswith(" ") or not line)
        code = not in_list and blank and line.startswith("    ")
        if fence or fenced or code or (ALONE.match(line) and not item):
            if block:
                yield block
            block = None
            fenced = fenced != bool(fence)
            yield number, [line], line.lstrip().startswith("#") and not fenced
        elif item or block is None:
            if block:
                yield block
            block = (number, [line], True)
        else:
            block[1].append(line)
        blank = not line.strip()
        number += 1
    if block:
        yield block


def wrapped(lines):
    item = ITEM.match(lines[0]) or DEFINITION.match(lines[0])
    first = item.group(0) if item else INDENT.match(lines[0]).group(0)
    rest = re.sub(r"[^>\s]", " ", first)
    body = [lines[0][len(first):]] + [line[INDENT.match(line).end():] for line in lines[1:]]
    out, current = [], first
    empty = True
    for word in words_of(" ".join(body)):
        if not empty and len(current) + 1 + len(word) > WIDTH:
            out.append(current)
            current, empty = rest, True
        current += word if empty else " " + word
        empty = False
    return out + [current]


def long_lines(name, text):
    for number, lines, may in blocks(text):
        for i, line in enumerate(lines):
            if may and len(line) > WIDTH and (line.startswith("#") or wrapped([line]) != [line]):
                yield f"{name}:{number + i + 1}: {len(line)} columns, at most {WIDTH}"


def definitions(lines):
    """A term and each of its definitions (`: text`) by itself."""
    begins = [0] + [n for n, line in enumerate(lines) if n and DEFINITION.match(line)]
    return [lines[a:b] for a, b in zip(begins, begins[1:] + [len(lines)])]


def wrap(text):
    out = []
    for _, block, may in blocks(text):
        for lines in definitions(block):
            long = may and not lines[0].startswith("#") and any(len(line) > WIDTH for line in lines)
            out += wrapped(lines) if long else lines
    return "\n".join(out)


def self_test():
    long = "word " * 21 + "end"
    bad = [long, "- " + long, "> " + long, "# " + long, "x\n" + long, "- x\n  " + long,
           "| a |\n\n" + long, "```\nx\n```\n" + long]
    good = ["word " * 19 + "end.", "| " + long + " |", "```text\n" + long + "\n```", "    " + long,
            "`" + long + "`", "[" + "x" * 99 + "](y)", "<img " + long + ">", "[x]: " + long]
    wrong = [t for t in bad if not list(long_lines("x", t))]
    wrong += [t for t in good if list(long_lines("x", t))]
    wraps = {"- " + long: "- " + "word " * 18 + "word\n  word word end",
             "> " + long: "> " + "word " * 18 + "word\n> word word end",
             "a\nb\n\n" + good[1]: "a\nb\n\n" + good[1],
             "word " * 19 + "w - `a b` x": "word " * 19 + "w -\n`a b` x",
             "word " * 20 + "- x": "word " * 18 + "word\nword - x"}
    wrong += [t for t, want in wraps.items() if wrap(t) != want]
    old, count = baseline.self_test()
    for w in wrong + old:
        print(f"columns self-test: judged wrongly: {w!r}")
    print(f"columns self-test: {len(bad) + len(good) + len(wraps) + count} cases, "
          f"{len(wrong) + len(old)} wrong")
    return 1 if wrong or old else 0


def wrap_files(names):
    for name in names:
        with open(name, encoding="utf-8") as file:
            text = file.read()
        with open(name, "w", encoding="utf-8") as file:
            file.write(wrap(text))


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    if sys.argv[1:2] == ["--wrap"]:
        wrap_files(sys.argv[2:])
        sys.exit(0)
    baseline.run("columns", lambda n: long_lines(n, csource.read(n)), csource.files(".md"))
