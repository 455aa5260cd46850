#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a ring of calls between more than two files: each of its files calls, at last, each other.
Two files may be the halves of one object. More are one object only if it is listed here: then all
begin with its name, and include its inner header. `--self-test` proves that each case is found.
"""
import sys

import csource
import structure
import tags

# Objects that are too long for one file: the begin of their files' names, and their inner header.
OBJECTS = {
    "agent/daemon/stream/stream_": "agent/daemon/stream/stream_impl.h",
    "consumer/host/host_recording": "consumer/host/host_recording_impl.h",
}


def is_object(ring, texts, objects):
    return any(all(name.startswith(begin) and f'#include "{inner}"' in texts[name + ".c"]
                   for name in ring) for begin, inner in objects.items())


def check(texts, objects):
    found = [ring for ring in structure.rings(structure.call_graph(texts)) if len(ring) > 2]
    problems = [f"{ring[0]}.c: calls in a ring with {', '.join(ring[1:])}: let the upper one register "
                "what the lower one calls, or move what both need below them"
                for ring in found if not is_object(ring, texts, objects)]
    return problems + [f"tests/lint/rings.py: {begin} is no ring any more: take it out of OBJECTS"
                       for begin in objects
                       if not any(ring[0].startswith(begin) for ring in found)]


def self_test():
    def file(name, calls, include=""):
        return {f"a/{name}.c": f"{include}void pfl_{name}_f(void)\n{{\n    pfl_{calls}_f();\n}}\n"}

    inner = '#include "a/x_impl.h"\n'
    ring = {**file("x_a", "x_b"), **file("x_b", "x_c"), **file("x_c", "x_a")}
    whole = {**file("x_a", "x_b", inner), **file("x_b", "x_c", inner), **file("x_c", "x_a", inner)}
    halves = {**file("x_a", "x_b"), **file("x_b", "x_a"), **file("x_c", "x_a")}
    objects = {"a/x": "a/x_impl.h"}
    bad = [(ring, {}), (ring, objects), (halves, objects), (whole, {"a/x_b": "a/x_impl.h"}), (whole, {})]
    good = [(whole, objects), (halves, {})]
    wrong = [c for c in bad if not check(*c)] + [c for c in good if check(*c)]
    for w in wrong:
        print(f"rings self-test: judged wrongly: {w!r}")
    print(f"rings self-test: {len(bad) + len(good)} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    TEXTS = tags.product()
    csource.finish("rings", check(TEXTS, OBJECTS), len(TEXTS))
