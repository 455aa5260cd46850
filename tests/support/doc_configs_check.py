#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs configs, looks into what they record: doc_configs_check.py ENCODER CONFIGS CONSUMER PRODUCER
DIR [no-kernel]

Each config is enabled as it is (tests/fixtures/doc_configs/README.md), runs until what it must have
is there, is stopped and read. A line of TAP a config."""
import os
import re
import subprocess
import sys
import time
import traceback

from service_peers import Consumer, Producer, field, fields

PACKETS = {"kernel": 1, "process_tree": 2, "sys_stats": 7, "process_stats": 9, "events": 11,
           "cpu_info": 67, "trigger": 46}
COMPRESSED = (50, 133)
RUN_S = (0.2, 0.5, 2, 8, 30)  # the longer ones on a machine that is slow


def kinds_of(packets):
    found = set()
    for packet in packets:
        found |= {number for number, _ in fields(packet)}
    return found


class Config:
    def __init__(self, path, encoder):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        self.name = os.path.basename(path)[:-6]
        self.notes = dict(re.findall(r"^# (how|has|lacks): (.*)$", text, re.M))
        done = subprocess.run([encoder], input=text.encode(), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        self.bytes = done.stdout

    def words(self, note):
        return self.notes.get(note, "").split()


def run(config, run_s, consumer_path, producer_path, folder):
    how = config.words("how")
    consumer = Consumer(consumer_path)
    name = os.path.join(folder, config.name)
    fd = os.open(name, os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600) if "file" in how else None
    why = consumer.enable(config.bytes, fd)
    assert why is None, why
    if "detached" in how:
        assert consumer.call("Detach", field(1, "doc"))[0]
        consumer.close()
    time.sleep(run_s)
    if "detached" in how:
        consumer = Consumer(consumer_path)
        assert consumer.call("Attach", field(1, "doc"))[0], "not attached"
    if "trigger" in how:
        wait_for_trigger(consumer, producer_path, how[1])
    elif "snapshot" in how or "clone" in how:
        return clone(consumer, consumer_path, producer_path, config)
    else:
        consumer.call("Flush")
        consumer.call("DisableTracing")
        while not any("DISABLED" == s[3][0].decode() for s in consumer.state()):
            time.sleep(0.01)
    if fd is None:
        packets = consumer.packets()
    else:
        packets = read_file(name, fd)
    consumer.close()
    return packets


def read_file(name, fd):
    """When the service has closed it, its last packet is the statistics."""
    end = time.monotonic() + 60
    packets = []
    while time.monotonic() < end:
        with open(name, "rb") as f:
            data = f.read()
        try:
            packets = [value for number, value in fields(data) if number == 1]
        except IndexError:
            packets = []
        if packets and 35 in kinds_of(packets[-1:]):
            break
        time.sleep(0.02)
    os.close(fd)
    return packets


def wait_for_trigger(consumer, producer_path, name):
    producer = Producer(producer_path, "doc.trigger", [])
    producer.call("ActivateTriggers", field(1, name))
    while not consumer.said:
        consumer.dispatch()
    producer.close()


def clone(consumer, consumer_path, producer_path, config):
    selector = field(1, max(s[1][0] for s in consumer.state()))
    if "snapshot" in config.words("how"):
        hits = []
        consumer.invoke("ObserveEvents", field(1, 4), lambda ok, more, data: hits.append(data))
        producer = Producer(producer_path, "doc.trigger", [])
        producer.call("ActivateTriggers", field(1, "snapshot"))
        while not hits:
            consumer.dispatch()
        producer.close()
    else:
        selector = field(4, "my_snapshot")
    cloner = Consumer(consumer_path)
    reply = dict(fields(cloner.call("CloneSession", selector)[1]))
    assert reply.get(1), reply.get(2)
    packets = cloner.packets()
    cloner.close()
    consumer.close()
    return packets


def run_and_judge(config, has_kernel, *where):
    for run_s in RUN_S:
        packets = run(config, run_s, *where)
        try:
            judge(config, packets, has_kernel)
            return
        except AssertionError:
            if run_s == RUN_S[-1]:
                raise


def judge(config, packets, has_kernel):
    found = kinds_of(packets)
    for what in config.words("has"):
        if what == "compressed":
            assert any(number in found for number in COMPRESSED), found
        elif what != "kernel" or has_kernel:
            assert PACKETS[what] in found, "no %s among %s" % (what, sorted(found))
    for what in config.words("lacks"):
        assert PACKETS[what] not in found, "%s is there" % what
    if "compressed" not in config.words("has"):
        assert {6, 33, 35} <= found, "clocks, config or statistics are missing: %s" % sorted(found)


def main(encoder, configs, consumer_path, producer_path, folder, kernel="kernel"):
    failed = 0
    for name in sorted(os.listdir(configs)):
        if not name.endswith(".pbtxt"):
            continue
        try:
            config = Config(os.path.join(configs, name), encoder)
            run_and_judge(config, kernel == "kernel", consumer_path, producer_path, folder)
            print("ok - %s runs as it is" % config.name, flush=True)
        except Exception:  # whatever it is, it is this config's failure
            failed += 1
            print("not ok - %s runs as it is" % name, flush=True)
            print("".join("#   " + line for line in traceback.format_exc().splitlines(True)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
