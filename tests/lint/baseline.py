# SPDX-License-Identifier: Apache-2.0
"""What the gates over old text share: a file of today's counts, tests/lint/baseline/GATE.txt, one line
`COUNT FILE` for each file that is not yet clean. The counts only shrink: a gate fails on a file with
more findings than its line says. `GATE.py --lower` writes the numbers of today; it never raises
one. A line may move to another name: what files that are gone leave is what new files may have.
"""
import os
import sys

import csource


def path_of(gate):
    return os.path.join(csource.ROOT, "tests", "lint", "baseline", gate + ".txt")


def load(gate):
    with open(path_of(gate), encoding="utf-8") as file:
        lines = [line.split(None, 1) for line in file if not line.startswith("#")]
    counts = {}
    for count, name in lines:  # a merge may leave two lines for one file
        counts[name.strip()] = min(int(count), counts.get(name.strip(), int(count)))
    return counts


def judge(gate, found, base):
    """`found`: file to its findings, each a line to print. The problems, worst first."""
    problems = []
    for name in sorted({*found, *base}):
        count, allowed = len(found.get(name, ())), base.get(name, 0)
        if count > allowed:
            problems += found[name]
            problems.append(f"{name}: {count} findings, at most {allowed}: fix the new ones")
    return problems


def lowered(found, base):
    """(the new baseline, the names whose count would have to grow)."""
    counts = {name: len(findings) for name, findings in found.items() if findings}
    left = sum(count for name, count in base.items()
               if not os.path.exists(os.path.join(csource.ROOT, name)))
    grown = []
    for name, count in counts.items():
        if name not in base:
            left -= count
        if count > base.get(name, left + count if left >= 0 else 0):
            grown.append(name)
    counts.update({name: base[name] for name in grown if name in base})
    return {n: c for n, c in counts.items() if n in base or n not in grown}, grown


def lower(gate, found):
    counts, grown = lowered(found, load(gate))
    with open(path_of(gate), encoding="utf-8") as file:
        head = [line for line in file if line.startswith("#")]
    with open(path_of(gate), "w", encoding="utf-8") as file:
        file.writelines(head + [f"{counts[name]} {name}\n" for name in sorted(counts)])
    print(f"{gate}: {sum(counts.values())} findings in {len(counts)} files")
    if grown:
        sys.exit(f"{gate}: more findings than before, fix the new ones: {' '.join(sorted(grown))}")


def self_test():
    """Cases that a gate's own self-test adds: those judged wrongly, and how many there are."""
    here = "tests/lint/baseline.py"
    cases = [(not judge("x", {"a": ["1"]}, {"a": 1}), "as many"), (judge("x", {"a": ["1"]}, {}), "new"),
             (judge("x", {"a": ["1", "2"]}, {"a": 1}), "more"), (not judge("x", {}, {"a": 1}), "fewer"),
             (lowered({here: ["1"]}, {here: 2}) == ({here: 1}, []), "lowered"),
             (lowered({here: ["1"] * 3}, {here: 2}) == ({here: 2}, [here]), "not raised"),
             (lowered({here: ["1"]}, {"gone.c": 1}) == ({here: 1}, []), "moved"),
             (lowered({here: ["1"] * 2}, {"gone.c": 1}) == ({}, [here]), "moved and grown")]
    return [name for holds, name in cases if not holds], len(cases)


def run(gate, found_of, files):
    """The main of a gate: judges, or lowers when asked to."""
    found = {name: findings for name in files if (findings := list(found_of(name)))}
    if "--lower" in sys.argv:
        lower(gate, found)
        return
    csource.finish(gate, judge(gate, found, load(gate)), len(files))
