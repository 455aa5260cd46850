#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Are the functions that a kernel traced those that were called? TEXT is what ftrace_events.py prints.

  functions_check.py kprobes TEXT KERNEL THREAD FUNCTION CALLS   KERNEL: the trace of another instance with the same events
  functions_check.py graph TEXT THREAD NAMES INNER CALLS         the function of one of these names (a regular
                                                                 expression) calls INNER, which may be inlined
Call and return times are of the kernel's local clock, whatever the buffer's clock is: only their order is judged.
"""
import re
import sys

LINE = re.compile(r"(\d+) (\d+) (\d+) (\S+) (.*)")
KERNEL = re.compile(r"^.*-(\d+) +\[(\d+)\] \S+ +(\d+)\.(\d{6}): (\w+): \((.*)\)$")
AFAR_US = 20000  # two buffers note one event one after the other, on a slow machine


def read(path, *names):
    """(nanoseconds, cpu, thread, event, values) of these events."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            match = LINE.match(line)
            if match and match[4] in names:
                values = dict(pair.partition("=")[::2] for pair in match[5].split())
                yield int(match[1]), int(match[2]), int(match[3]), match[4], values


def kernel_rows(path, function):
    """(microseconds, cpu, thread, type): of a return the kernel says where to, and from which function."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            match = KERNEL.match(line.rstrip("\n"))
            if match and match[5] == function:
                kind = 2 if "<-" in match[6] else 1
                yield int(match[3]) * 1000000 + int(match[4]), int(match[2]), int(match[1]), kind


def judge_kprobes(text, kernel, thread, function, calls):
    ours = list(read(text, "kprobe_event"))
    wrong = [f"of another function: {row}" for row in ours if row[4]["name"] != function]
    kinds = [row[4]["type"] for row in ours if row[2] == int(thread)]
    if kinds != ["1", "2"] * int(calls):
        wrong.append(f"{len(kinds)} events of the thread, in order {''.join(kinds)}")
    theirs = list(kernel_rows(kernel, function))
    begin = theirs[0][0] - AFAR_US if theirs else 0
    both = [row for row in ours if row[0] // 1000 >= begin][:len(theirs)]
    if len(theirs) < 2 * int(calls) or len(both) != len(theirs):
        wrong.append(f"{len(both)} events, the kernel's other instance has {len(theirs)}")
    for (when, cpu, tid, _, values), row in zip(both, theirs):
        if (cpu, tid, int(values["type"])) != row[1:] or abs(when // 1000 - row[0]) > AFAR_US:
            wrong.append(f"{when} {cpu} {tid} {values} is {row}")
    return wrong


def judge_graph(text, thread, names, inner, calls):
    rows = list(read(text, "funcgraph_entry", "funcgraph_exit"))
    is_root = re.compile(names).fullmatch
    wrong = [f"not asked for: {row}" for row in rows if row[4]["func"] != inner and not is_root(row[4]["func"])]
    stack, roots, leaves, since = [], 0, 0, 0
    for when, _, tid, name, values in rows:
        if tid != int(thread):
            continue
        depth = int(values["depth"])
        if name == "funcgraph_entry":
            if depth != len(stack) or bool(is_root(values["func"])) != (depth == 0):
                wrong.append(f"{values} below {stack}")
            stack.append(values["func"])
            continue
        if not stack:
            wrong.append(f"a return without a call: {values}")
            continue
        called = stack.pop()
        begin, end = int(values["calltime"]), int(values["rettime"])
        if called != values["func"] or depth != len(stack) or not begin <= end or end < since:
            wrong.append(f"{when} {values} returns from {called}, after one at {since}")
        since = end
        roots += depth == 0
        leaves += depth == 1
    if stack or roots != int(calls) or leaves not in (0, int(calls)):
        wrong.append(f"{roots} calls with {leaves} inside, {len(stack)} without return")
    print(f"{roots} calls with {leaves} inside")
    return wrong


def main(form, *arguments):
    wrong = {"kprobes": judge_kprobes, "graph": judge_graph}[form](*arguments)
    print("\n".join(wrong[:20]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
