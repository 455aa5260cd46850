#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up what ran: tally.py RESULT.xml ... STEPS.tap ...
                  tally.py --unsteady RESULT.xml   prints the scripts that should run once more, if any, a line each

In each ctest result (JUnit) a cmocka program counts test by test, a script that speaks TAP counts
line by line, and any other test counts as one. Skipped tests are named. What NAME-again.xml has in
the place of a test of NAME.xml counts; claims that failed the first time are named as unsteady. The
last line is `N passed, N failed, N skipped`; exit code 1 when something failed or nothing ran. Names of
what ran in a root of another release (below debian-NN/) begin with it.
"""
import os
import re
import sys
import xml.etree.ElementTree as ET

CMOCKA_OK = re.compile(r"^\[       OK \] (\S+)", re.M)
CMOCKA_FAILED = re.compile(r"^\[  FAILED  \] (\S+)$", re.M)
CMOCKA_SKIPPED = re.compile(r"^\[  SKIPPED \] (\S+)$", re.M)
COMPLAINT = re.compile(r"Sanitizer|runtime error:|Assertion|not ok .*no sanitizer and no assertion complained|"
                       r"Segmentation fault|Bus error|Aborted|Illegal instruction|stack smashing")
UNSTEADY_MAX = 2
TAP = re.compile(r"^(not ok|ok)\b(?: \d+)?(?: -)? ?(.*)$", re.M)


class Tally:
    def __init__(self):
        self.passed, self.failed, self.skipped, self.unsteady = 0, [], [], []
        self.counted = {}

    def tap(self, text, name=""):
        found = False
        for verdict, claim in TAP.findall(text):
            found = True
            if "# SKIP" in claim:
                self.skipped.append(name + claim)
            elif verdict == "ok":
                self.passed += 1
            else:
                self.failed.append(name + claim)
        return found

    def cmocka(self, name, text):
        ok = len(CMOCKA_OK.findall(text))
        failed = {n for n in CMOCKA_FAILED.findall(text) if not n.startswith("tests:")}
        skipped = {n for n in CMOCKA_SKIPPED.findall(text) if not n.startswith("tests:")}
        self.passed += ok
        self.failed += [f"{name}: {n}" for n in sorted(failed)]
        self.skipped += [f"{name}: {n}" for n in sorted(skipped)]
        return ok + len(failed) + len(skipped) > 0

    def named(self, path):
        """What was added since the last call belongs to the release in the path, if one is there."""
        release = re.search(r"(?:^|/)(debian-\d+)/", path)
        for names in (self.failed, self.skipped, self.unsteady):
            start = self.counted.get(id(names), 0)
            if release:
                names[start:] = [f"{release.group(1)} {name}" for name in names[start:]]
            self.counted[id(names)] = len(names)

    def junit(self, path):
        again = re.sub(r"\.xml$", "-again.xml", path)
        repeated = {c.get("name"): c for c in cases_of(again)} if os.path.exists(again) else {}
        for case in cases_of(path):
            name = case.get("name", "?")
            if name in repeated:
                first = Tally()
                first.tap(case.findtext("system-out") or "", f"{name}: ")
                self.unsteady += first.failed
                case = repeated[name]
            out = case.findtext("system-out") or ""
            failures = len(self.failed)
            counted = self.cmocka(name, out) or self.tap(out, f"{name}: ")
            if case.get("status") == "run":
                self.passed += 0 if counted else 1
            elif case.get("status") in ("notrun", "disabled") and case.find("skipped") is not None:
                self.skipped.append(name)
            elif len(self.failed) == failures:
                self.failed.append(name)  # it died without saying which test failed


def cases_of(path):
    return list(ET.parse(path).getroot().iter("testcase"))


def failed_by_claims(case):
    tally, out = Tally(), case.findtext("system-out") or ""
    tally.tap(out)
    return tally.failed and not COMPLAINT.search(out)


def print_unsteady(path):
    """The one or two tests that failed, by claims of their scripts and nothing worse. 1: it is otherwise."""
    failed = [case for case in cases_of(path) if case.get("status") == "fail"]
    if not 1 <= len(failed) <= UNSTEADY_MAX or not all(failed_by_claims(case) for case in failed):
        return 1
    for case in failed:
        print(case.get("name"))
    return 0


def main(paths):
    tally = Tally()
    for path in paths:
        if path.endswith("-again.xml"):
            continue
        if path.endswith(".xml"):
            tally.junit(path)
        else:
            with open(path, encoding="utf-8") as f:
                tally.tap(f.read())
        tally.named(path)
    for name in tally.skipped:
        print(f"skipped: {name}")
    for name in tally.unsteady:
        print(f"unsteady, held when it ran by itself: {name}")
    for name in tally.failed:
        print(f"failed: {name}")
    print(f"{tally.passed} passed, {len(tally.failed)} failed, {len(tally.skipped)} skipped")
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--unsteady"]:
        sys.exit(print_unsteady(sys.argv[2]))
    sys.exit(main([p for p in sys.argv[1:] if "*" not in p]))
