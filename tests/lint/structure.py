#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the figures of a checkout's structure, to compare two of them. It judges nothing.

Usage: structure.py [FOLDER] | --self-test        FOLDER: the root of a checkout; without it this one

An arrow is a folder whose files include headers of another one. An upward arrow is one that remains
against the order of folders with the fewest of them, so it is there in every order. A ring of files
is a set of which each calls, at last, each other; a file is a .c file with its header. The product is
all C that is not below tests.
"""
import collections
import itertools
import os
import re
import sys

import csource
import fields
import sizes
import tags

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)
EXPORTED = re.compile(r"\b(?:pfl|perfleet)_\w+")
STRUCT = re.compile(r"\bstruct(?:\s+(\w+))?\s*\{")
BOOLS = re.compile(r"\bbool\s+([^;()]+);")
MANY_BOOLS = 6
BRUTE_FORCE = 8  # so many folders of one ring are tried in each order


def shares(values):
    values = sorted(values) or [0]
    return f"median {values[len(values) // 2]}, 90 % {values[len(values) * 9 // 10]}, longest {values[-1]}"


def rings(graph):
    """Sets of nodes of which each reaches each other (Tarjan), those of more than one, largest first."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            ring = set()
            while node not in ring:
                ring.add(stack.pop())
            if len(ring) > 1:
                found.append(sorted(ring))

    sys.setrecursionlimit(10000)
    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(found, key=lambda ring: (-len(ring), ring))


def against(order, graph):
    """The arrows from a folder to one that stands above it in the order."""
    place = {node: i for i, node in enumerate(order)}
    return [(a, b) for a in order for b in graph.get(a, ()) if b in place and place[b] < place[a]]


def upward(ring, graph):
    if len(ring) <= BRUTE_FORCE:
        orders = itertools.permutations(ring)
    else:  # those that use most of the others first, as a start; then each where it stands best
        order = sorted(ring, key=lambda n: sum(n in graph.get(m, ()) for m in ring)
                       - len(set(graph.get(n, ())) & set(ring)))
        for node in list(order) * 2:
            rest = [n for n in order if n != node]
            order = min((rest[:i] + [node] + rest[i:] for i in range(len(order))),
                        key=lambda o: len(against(o, graph)))
        orders = [order]
    return min((against(order, graph) for order in orders), key=len)


def folder_arrows(texts):
    """Folder to the folders whose headers it includes, with the number of its files that do."""
    arrows = collections.defaultdict(collections.Counter)
    for name, text in texts.items():
        folder = os.path.dirname(name)
        others = {os.path.dirname(target) for target in INCLUDE.findall(csource.comments_out(text))
                  if target in texts}
        for other in others - {folder}:
            arrows[folder][other] += 1
    return arrows


def call_graph(texts):
    """File (without suffix) to the files whose exported functions it names."""
    home = {}
    for name, text in texts.items():
        if name.endswith(".c"):
            for function, *_ in sizes.functions(text):
                if EXPORTED.fullmatch(function):
                    home[function] = name[:-2]
    graph = collections.defaultdict(set)
    for name, text in texts.items():
        here = os.path.splitext(name)[0]
        if name.endswith(".c"):
            graph[here] |= {home[w] for w in EXPORTED.findall(csource.code_only(text)) if w in home} - {here}
    return graph


def structs_with_bools(texts):
    """Number of bools, and `name tag`, of each struct with many; those of structs inside it count."""
    for name, text in texts.items():
        code = csource.code_only(text)
        for match in STRUCT.finditer(code):
            depth, end = 1, match.end()
            while depth and end < len(code):
                depth += {"{": 1, "}": -1}.get(code[end], 0)
                end += 1
            bools = sum(b.count(",") + 1 for b in BOOLS.findall(code[match.end():end]))
            if bools >= MANY_BOOLS:
                yield bools, f"{name} {match.group(1) or '(no tag)'}"


def code_figures(texts):
    folders = collections.Counter(os.path.dirname(name) for name in texts)
    yield "files per folder", [f"{count:4} {folder}" for folder, count in sorted(folders.items())]
    arrows = folder_arrows(texts)
    folder_rings = rings(arrows)
    up = [(a, b) for ring in folder_rings for a, b in upward(ring, arrows)]
    yield f"arrows between folders: {sum(map(len, arrows.values()))}, upward {len(up)}", [
        f"{a} -> {b} ({arrows[a][b]} files)" for a, b in sorted(up)]
    yield f"rings of folders: {len(folder_rings)}", [" ".join(ring) for ring in folder_rings]
    file_rings = [ring for ring in rings(call_graph(texts)) if len(ring) > 2]
    yield f"rings of calls between more than two files: {len(file_rings)}", [
        f"{len(ring)} files: {' '.join(ring)}" for ring in file_rings]
    lengths = [text.count("\n") for text in texts.values()]
    yield f"files: {len(lengths)}, lines {sum(lengths)}, {shares(lengths)}", []
    lengths = [length for text in texts.values() for _, _, length, _, _ in sizes.functions(text)]
    yield f"functions: {len(lengths)}, {shares(lengths)}", []
    twice = {tag: places for tag, places in sorted(tags.definitions(texts).items()) if len(places) > 1}
    yield f"tags defined twice: {len(twice)}", [f"{t}: {' '.join(p)}" for t, p in twice.items()]
    many = sorted(structs_with_bools(texts), reverse=True)
    yield f"structs with {MANY_BOOLS} or more bools: {len(many)}", [f"{count:4} {what}" for count, what in many]
    counts = [(len(list(fields.check(name, text))), name) for name, text in texts.items()]
    counts = sorted((count for count in counts if count[0]), reverse=True)
    yield f"numeric field literals: {sum(c for c, _ in counts)} in {len(counts)} files", [
        f"{count:4} {name}" for count, name in counts]


def document_figures(texts):
    folders = collections.Counter()
    for name, text in texts.items():
        folders[os.path.dirname(name) or "."] += text.count("\n")
    yield f"documents: {len(texts)}, lines {sum(folders.values())}", [
        f"{count:5} {folder}" for folder, count in sorted(folders.items())]
    for width in (100, 200):
        long = sum(len(line) > width for text in texts.values() for line in text.split("\n"))
        yield f"lines of documents over {width} columns: {long}", []


def self_test():
    texts = {"a/x.c": '#include "a/x.h"\n#include "b/y.h"\nvoid pfl_x_f(void)\n{\n    pfl_y_f();\n}\n',
             "a/x.h": "struct pfl_x {\n};\n",
             "b/y.h": "struct pfl_x { bool a, b; bool c; int d; struct { bool e; bool f[2]; bool g; } h;\n};\n",
             "b/y.c": '#include "a/x.h"\nvoid pfl_y_f(void)\n{\n    pfl_z_f();\n}\n',
             "b/z.c": "void pfl_z_f(void)\n{\n    pfl_x_f(); struct pfl_field f; if (f.id == 3) return;\n"
                      "    pfl_writer_field_varint(w, 4, 5); pfl_writer_field_varint(w, NAME, 5);\n}\n"}
    heads = [head for head, _ in code_figures(texts)]
    want = ["files per folder", "arrows between folders: 2, upward 1", "rings of folders: 1",
            "rings of calls between more than two files: 1",
            "files: 5, lines 20, median 5, 90 % 6, longest 6", "functions: 3, median 3, 90 % 4, longest 4",
            "tags defined twice: 1", "structs with 6 or more bools: 1", "numeric field literals: 2 in 1 files"]
    wrong = [f"{h!r}, not {w!r}" for h, w in zip(heads, want) if h != w]
    many = {str(i): [str((i + 1) % 10)] for i in range(10)}
    wrong += [] if len(upward(rings(many)[0], many)) == 1 else ["a ring of ten"]
    heads = [head for head, _ in document_figures({"README.md": "x" * 101 + "\ny\n"})]
    wrong += [] if heads == ["documents: 1, lines 2", "lines of documents over 100 columns: 1",
                             "lines of documents over 200 columns: 0"] else heads
    for w in wrong:
        print(f"structure self-test: {w}")
    print(f"structure self-test: {len(want) + 2} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    if len(sys.argv) > 1:
        csource.ROOT = os.path.abspath(sys.argv[1])
    DOCUMENTS = {n: csource.read(n) for n in csource.files(".md") if not n.startswith("tests/fixtures/")}
    for head, rows in itertools.chain(code_figures(tags.product()), document_figures(DOCUMENTS)):
        print(head)
        for row in rows:
            print(f"    {row}")
