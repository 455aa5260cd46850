# SPDX-License-Identifier: Apache-2.0
"""What the fault tests share: a service that is watched from outside, sessions on it, claims.

Every fault happens beside a steady producer and is followed by three questions: did the steady one
lose anything, does the service answer at once, and has it back the descriptors it had?"""
import os
import re
import select
import time
import traceback

import config_text
from service_peers import LIMIT_S, Consumer, field, fields
from smb_producer import SmbProducer

# Nobody waits for the dead. Who did would wait FOREVER, so that even an overloaded machine, which
# makes everything slow, is distinguished from a service that waits.
PROMPT_S = 60
FOREVER_MS = 3 * PROMPT_S * 1000
PATIENT = "flush_timeout_ms: %d data_source_stop_timeout_ms: %d " % (FOREVER_MS, FOREVER_MS)
CONFIG = PATIENT + """buffers { size_kb: 512 experimental_mode: TRACE_BUFFER_V2 } %s
data_sources { config { name: "dying" } } data_sources { config { name: "steady" } }"""


def tags_of(packets):
    out = []
    for data in packets:
        parts = dict(fields(data))
        if 900 in parts:
            out.append(dict(fields(parts[900])).get(1, b"").decode("utf-8", "replace"))
    return out


def fills_its_pipe(end):
    """Is the pipe whose reading end this is so full that its writer hangs? Bytes do not tell: what does not fit into
    the rest of a page begins the next one."""
    fd = os.open("/proc/self/fd/%d" % end, os.O_WRONLY | os.O_NONBLOCK)
    try:
        return not select.select([], [fd], [], 0)[1]
    finally:
        os.close(fd)


def eventually(question, limit_s=LIMIT_S):
    end = time.monotonic() + limit_s
    while True:
        answer = question()
        if answer or time.monotonic() > end:
            return answer
        time.sleep(0.005)


class World:
    def __init__(self, consumer_path, producer_path, pid, folder):
        self.consumer_path = consumer_path
        self.producer_path = producer_path
        self.pid = int(pid)
        self.folder = folder
        self.steady = None
        self.clients = []

    # --- from outside ---

    def descriptors(self):
        """The service is not dumpable: only root sees them; 0 without."""
        try:
            return len(os.listdir("/proc/%d/fd" % self.pid))
        except PermissionError:
            return 0

    def rss_kb(self):
        with open("/proc/%d/status" % self.pid, encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s*(\d+)", status.read()).group(1))

    def producers(self):
        """The names of those that are connected."""
        consumer = self.consumer()
        _, data = consumer.call("QueryServiceState")
        state = dict(fields(data))[1]
        names = [dict(fields(v)).get(2, b"").decode() for n, v in fields(state) if n == 1]
        consumer.close()
        return names

    def sessions(self):
        consumer = self.consumer()
        found = consumer.state()
        consumer.close()
        return len(found)

    # --- inside ---

    def consumer(self):
        self.clients.append(Consumer(self.consumer_path))
        return self.clients[-1]

    def close(self):
        """Ends what a claim, as it may have failed, left open."""
        for client in self.clients:
            client.close()
        if self.steady is not None:
            self.steady.close()
        self.clients, self.steady = [], None

    def start(self, more="", config=CONFIG, fd=None):
        consumer = self.consumer()
        why = consumer.enable(config_text.encode(config % more if "%s" in config else config), fd)
        assert why is None, why
        return consumer

    def join_steady(self):
        self.steady = SmbProducer(self.producer_path, "steady").join()
        return self.steady

    def flush(self, consumer, timeout_ms=FOREVER_MS):
        """(success, seconds)"""
        begin = time.monotonic()
        consumer.friends = [self.steady] if self.steady else []
        answer = consumer.call("Flush", field(1, timeout_ms))
        consumer.friends = []
        assert answer is not None, "disconnected"
        return answer[0], time.monotonic() - begin

    def end(self, consumer):
        """Stops, and returns (seconds, tags of all packets, statistics of the buffer)."""
        begin = time.monotonic()
        consumer.call("DisableTracing")
        while not consumer.said:
            assert consumer.dispatch(), "disconnected"
        took = time.monotonic() - begin
        packets = consumer.packets()
        stats = dict(fields(dict(fields(consumer.call("GetTraceStats")[1]))[1]).copy())
        stats = {number: value for number, value in fields(stats[1])}
        consumer.call("FreeBuffers")
        return took, tags_of(packets), stats


def run_claims(world, claims):
    """A line of TAP each; all of them leave the service as they found it."""
    failed = 0
    if world.descriptors() == 0:
        print("ok - each gives back its descriptors # SKIP no root to count them", flush=True)
    for claim in claims:
        name = claim.__name__.replace("_", " ")
        try:
            before = world.descriptors()
            claim(world)
            world.close()
            assert eventually(lambda: world.descriptors() <= before), "descriptors: %d, were %d" % (
                world.descriptors(), before)
            assert eventually(lambda: world.sessions() == 0), "a session is left"
            print("ok -", name, flush=True)
        except Exception:  # whatever it is, it is this claim's failure
            failed += 1
            print("not ok -", name, flush=True)
            print("".join("#   " + line for line in traceback.format_exc().splitlines(True)), flush=True)
            world.close()
            eventually(lambda: world.sessions() == 0)
    return failed
