#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a word that codespell knows as misspelt, in any text of the project but fixtures. Words that
are right here, or wrong on purpose, are in tests/lint/spelling.txt. `--self-test` proves that one is
found. Without codespell the gate is skipped (exit code 77).
"""
import os
import re
import shutil
import subprocess
import sys

import csource

IGNORED = os.path.join(csource.ROOT, "tests", "lint", "spelling.txt")
EXEMPT = re.compile(r"tests/fixtures/|tests/fuzz/(corpus|results)/|tests/lint/spelling\.txt$|.*\.svg$")


def words():
    """The ignored words, without the comments of their file."""
    with open(IGNORED, encoding="utf-8") as file:
        return [line.split("#")[0].strip() for line in file if line.split("#")[0].strip()]


def codespell(arguments, text=None):
    """What codespell objects to, one line each."""
    said = subprocess.run(["codespell", "--ignore-words-list", ",".join(words()), *arguments],
                          cwd=csource.ROOT, input=text, check=False, capture_output=True, text=True)
    if said.returncode not in (0, 64, 65):
        sys.exit(f"spelling: codespell: {said.stderr}")
    return [line for line in said.stdout.split("\n") if "==>" in line]


def is_text(name):
    with open(os.path.join(csource.ROOT, name), "rb") as file:
        return b"\0" not in file.read(8192)


def self_test():
    wrong = [] if codespell(["-"], "A sent" + "ense.\n") else ["a misspelt word"]
    wrong += ["a right sentence"] if codespell(["-"], "A sentence.\n") else []
    wrong += [word for word in words() if codespell(["-"], word + "\n")]
    for w in wrong:
        print(f"spelling self-test: judged wrongly: {w!r}")
    print(f"spelling self-test: {len(words()) + 2} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if shutil.which("codespell") is None:
        print("spelling: skipped: codespell is not installed")
        sys.exit(77)
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    NAMES = [n for n in csource.files("") if not EXEMPT.match(n) and is_text(n)]
    csource.finish("spelling", codespell(NAMES), len(NAMES))
