#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a C file below tests that CMake does not build, on a test (*_test.c, *_fuzz.c, *_test.sh)
that ctest does not run, on a unit test whose path names no source file, and on a condition in
CMake's lists that would hide a renamed file.

Usage: test_files.py BUILD_DIR | --self-test. A build without benchmarks or with a sanitizer leaves
files out on purpose; it is skipped (exit code 77).
"""
import json
import os
import re
import sys

import csource

# Built only where Debian's liblttng-ust-dev is installed; only under ThreadSanitizer.
OPTIONAL = {"tests/bench/lttng/bench_lttng.c", "tests/support/seen_close.c"}
# Unit tests of more than one source, and why.
OF_SEVERAL = {
    "tests/unit/collector/pull/pull_kill_test.c": "a visit with the store and the index, killed at any step",
    "tests/unit/proto/ipc/rpc_replay_test.c": "recorded conversations, through both sides of a call",
    "tests/unit/service/buffer/smb_test.c": "one shared memory: smb_map, commit and smb_scrape in turns",
    "tests/unit/service/control/service_sweep_test.c": "the service's whole life",
    "tests/unit/weak/order_test.c": "memory orders of abi, base/io and producer",
}
TEST = re.compile(r"_(test|fuzz)\.c$|^tests/integration/\w+_test\.sh$")
HIDES = re.compile(r"\bEXISTS\s+\"?\$\{(?:CMAKE_CURRENT_SOURCE_DIR|CMAKE_SOURCE_DIR|"
                   r"PROJECT_SOURCE_DIR|CMAKE_CURRENT_LIST_DIR)\}", re.M)
TARGET = re.compile(r"/CMakeFiles/([^/]+)\.dir/")


def unrun(names, built, commands):
    """`built`: file to the targets that compile it. `commands`: all words of ctest's commands."""
    programs = {os.path.basename(word) for word in commands}
    for name in names:
        if name.endswith(".c") and not built.get(name):
            if name not in OPTIONAL:
                yield f"{name}: CMake does not build it: name it in a CMakeLists.txt or remove it"
        elif TEST.search(name):
            if name.endswith(".c") and not programs & built[name]:
                yield f"{name}: ctest does not run it: register it with pfl_unit_test or pfl_fuzz"
            if name.endswith(".sh") and os.path.basename(name) not in programs:
                yield f"{name}: ctest does not run it: name it in tests/integration/CMakeLists.txt"


def stray(names, sources, exceptions):
    """A unit test's path is its source's, below tests/unit: SOURCE_test.c or SOURCE_ASPECT_test.c."""
    stems = {os.path.splitext(name)[0] for name in sources}
    tests = {name for name in names if name.startswith("tests/unit/") and name.endswith("_test.c")}
    for name in sorted(tests):
        stem = name[len("tests/unit/"):-len("_test.c")]
        words = os.path.basename(stem).split("_")
        named = [os.path.join(os.path.dirname(stem), "_".join(words[:i])) in stems
                 for i in range(1, len(words) + 1)]
        if any(named) == (name in exceptions):
            yield (f"{name}: needs no exception" if any(named) else
                   f"{name}: its path names no source file: SOURCE_test.c or SOURCE_ASPECT_test.c")
    for name in sorted(set(exceptions) - tests):
        yield f"{name}: is not there"


def hidden(name, text):
    text = re.sub(r"#[^\n]*", "", text)
    for match in HIDES.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield f"{name}:{line}: a renamed file would be left out without a word: no EXISTS here"


def configured(build):
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as file:
        cache = dict(re.findall(r"^(PFL_\w+):\w+=(.*)$", file.read(), re.M))
    for name, want in (("PFL_TESTS", "ON"), ("PFL_BENCH", "ON"), ("PFL_SANITIZE", "")):
        if cache.get(name, want) != want:
            print(f"test_files: skipped: the build has {name}={cache[name]}")
            sys.exit(77)


def built_files(build):
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        commands = json.load(file)
    built = {}
    for command in commands:
        path = os.path.normpath(os.path.join(command["directory"], command["file"]))
        words = command.get("command", "").split()
        target = TARGET.search(words[words.index("-o") + 1])
        built.setdefault(os.path.relpath(path, csource.ROOT), set()).add(target.group(1))
    return built


def test_words(folder):
    """All words of ctest's commands: `ctest --show-only` leaves out programs that are not built yet."""
    with open(os.path.join(folder, "CTestTestfile.cmake"), encoding="utf-8") as file:
        text = file.read()
    words = [word for command in re.findall(r"^add_test\((.*)\)$", text, re.M)
             for word in re.findall(r'"([^"]*)"', command)]
    for sub in re.findall(r'^subdirs\("(.*)"\)$', text, re.M):
        words += test_words(os.path.join(folder, sub))
    return words


def self_test():
    built = {"tests/unit/a/a_test.c": {"new_a_test"}, "tests/fuzz/b_fuzz.c": {"b_fuzz"},
             "tests/support/kit.c": {"kit"}}
    run = ["/b/tests/new_a_test", "/b/fuzz/b_fuzz", "corpus/b_fuzz", "/x/record_test.sh"]
    bad = [(["tests/unit/a/c_test.c"], run), (["tests/support/shim.c"], run),
           (["tests/unit/a/a_test.c"], run[1:]), (["tests/fuzz/b_fuzz.c"], run[:1]),
           (["tests/integration/lost_test.sh"], run)]
    good = [([*built, "tests/integration/record_test.sh"], run), (sorted(OPTIONAL), run),
            (["tests/support/in_root.sh"], run)]
    wrong = [n for n, c in bad if not list(unrun(n, built, c))]
    wrong += [n for n, c in good if list(unrun(n, built, c))]
    lists = {"if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${noun}_test.c)": True,
             "if(TARGET a AND NOT EXISTS\n ${PROJECT_SOURCE_DIR}/a.c)": True,
             "if(EXISTS /etc/debian_version)": False,
             "# if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/x.c)": False}
    wrong += [t for t, finds in lists.items() if bool(list(hidden("x", t))) != finds]
    mirrored = {"tests/unit/a/b_test.c": 0, "tests/unit/a/b_death_test.c": 0, "tests/unit/a/c_test.c": 1,
                "tests/unit/b_test.c": 1, "tests/unit/a/kit.c": 0}
    wrong += [n for n, count in mirrored.items() if len(list(stray([n], ["a/b.c"], ()))) != count]
    several = ["tests/unit/a/c_test.c"]
    wrong += several * bool(list(stray(several, ["a/b.c"], several)))
    wrong += several * (len(list(stray([], ["a/b.c"], several))) != 1)
    wrong += several * (len(list(stray(several, ["a/c.h"], several))) != 1)
    for w in wrong:
        print(f"test_files self-test: judged wrongly: {w}")
    print(f"test_files self-test: {len(bad) + len(good) + len(lists) + len(mirrored) + 3} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    if len(sys.argv) != 2:
        sys.exit("usage: test_files.py BUILD_DIR | --self-test")
    BUILD = os.path.abspath(sys.argv[1])
    configured(BUILD)
    NAMES = [n for n in csource.files(".c", "_test.sh") if n.startswith("tests/")]
    LISTS = [n for n in csource.files("CMakeLists.txt", ".cmake")]
    PROBLEMS = list(unrun(NAMES, built_files(BUILD), test_words(BUILD)))
    PROBLEMS += stray(NAMES, [n for n in csource.files(".c", ".h") if not n.startswith("tests/")], OF_SEVERAL)
    PROBLEMS += [p for n in LISTS for p in hidden(n, csource.read(n))]
    csource.finish("test_files", PROBLEMS, len(NAMES) + len(LISTS))
