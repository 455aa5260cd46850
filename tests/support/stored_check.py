#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a collector has stored: each object has the SHA-256 that its description says, no number of a
run is missing or there twice, and the keys of live segments in the index are those of the store.

Usage: stored_check.py FOLDER SUFFIX HOST[,HOST]... <KEYS
SUFFIX: what the store's file names have behind the key ("" or "._S3rver_object"). KEYS: object keys
of the index, one a line.
"""
import collections
import hashlib
import json
import pathlib
import sys


def main():
    folder, suffix, hosts = pathlib.Path(sys.argv[1]), sys.argv[2], set(sys.argv[3].split(","))
    runs = collections.defaultdict(list)
    described = set()
    for path in folder.glob(f"v1/**/*.json{suffix}"):
        segment = json.loads(path.read_text())["trace"]["segment"]
        key = (segment["host"], segment["order"], segment["incarnation"])
        runs[key] += range(segment["number"], segment.get("gap", {}).get("last", segment["number"]) + 1)
        if "gap" in segment:
            continue
        key = str(path.relative_to(folder)).removesuffix(f".json{suffix}") + ".pftrace"
        described.add(key)
        data = (folder / (key + suffix)).read_bytes()
        assert hashlib.sha256(data).hexdigest() == segment["sha256"], path
        assert path.parent.name == segment["host"], path
    for key, numbers in runs.items():
        assert sorted(numbers) == list(range(1, len(numbers) + 1)), (key, sorted(numbers))
    assert {key[0] for key in runs} == hosts, runs.keys()
    stored = {str(path.relative_to(folder)).removesuffix(suffix) for path in folder.glob(f"v1/**/*.pftrace{suffix}")}
    assert stored == described, stored ^ described
    keys = set(sys.stdin.read().split())
    assert stored == keys, stored ^ keys
    print(f"{len(runs)} runs, {len(stored)} objects")


main()
