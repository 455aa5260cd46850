# SPDX-License-Identifier: Apache-2.0
"""Shared memory: what it costs the service, and what kills it."""
import ctypes
import fcntl
import os
import time

from world import Client, Consumer, Failed, Producer, World, field, fields

ATTACKS = ["untouched_pages", "huge_pages"]
PAGE, SMB = 4096, 32 << 20
SEALS = 0x0001 | 0x0002 | 0x0004


def config(source, flush=True):
    return (field(1, field(1, 1024)) + field(2, field(1, field(1, source)))
            + (field(13, 200) if flush else b""))


class Lazy(Producer):
    """A producer of the largest memory that registers a writer and writes nothing."""

    def __init__(self, path, source):
        Client.__init__(self, path, "ProducerPort")
        self.told, self.owed, self.holds, self.instances, self.is_refused = [], [], set(), {}, False
        self.call("InitializeConnection", field(1, PAGE) + field(2, SMB) + field(3, "lazy") + field(4, 1))
        self.invoke("GetAsyncCommand", b"", self.on_command)
        self.call("RegisterDataSource", field(1, field(1, source)))

    def on_setup(self, setup):
        self.buffer = dict(fields(setup[2])).get(2, 0)
        super().on_setup(setup)


def be_lazy(ready, path, count):
    producers = [Lazy(path, "lazy") for _ in range(count)]
    commits = None  # of what was never written
    for producer in producers:
        if not producer.wait_for("start "):
            raise TimeoutError("not started")
        producer.call("RegisterTraceWriter", field(1, 1) + field(2, producer.buffer))
        commits = commits or [b"".join(
            field(1, field(1, p) + field(2, 0) + field(3, producer.buffer))
            for p in range(page, page + 512)) for page in range(0, SMB // PAGE, 512)]
        for commit in commits:
            producer.invoke("CommitData", commit, lambda *_: None)
        producer.call("Sync")
    ready()


def untouched_pages(build):
    """10 producers of 32 MiB that write nothing cost the service no memory"""
    with World(build) as world:
        consumer = Consumer(world.consumer)
        why = consumer.enable(config("lazy"))
        if why:
            raise Failed(why)
        before = world.memory_kb()
        said = world.attack("stranger", be_lazy, world.producer, 10).wait_ready()
        if said != "ready":
            raise Failed(said)
        consumer.call("Flush", field(1, 5000))
        consumer.call("DisableTracing")
        time.sleep(0.5)
        grown = world.memory_kb() - before
        if grown > 4096:
            raise Failed("the service's shared memory grew by %d KiB" % grown)
        return "the service's shared memory grew by %d KiB" % grown


def offer_huge_pages(ready, path):
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.memfd_create(b"huge", 0x0002 | 0x0004)
    if fd < 0:
        ready("SKIP no huge pages")
        return
    os.ftruncate(fd, 2 << 20)
    fcntl.fcntl(fd, 1033, SEALS)
    client = Client(path, "ProducerPort")
    answer = client.call("InitializeConnection", field(1, PAGE) + field(2, 2 << 20) + field(
        3, "huge") + field(6, 1), fd)
    if answer is None or dict(fields(answer[1])).get(1, 0):
        raise AssertionError("the memory was taken")
    ready()


def huge_pages(build):
    """memory of huge pages, which may fault, is refused"""
    with World(build) as world:
        said = world.attack("stranger", offer_huge_pages, world.producer).wait_ready()
        if said.startswith("SKIP"):
            return said
        if said != "ready":
            raise Failed(said)
        if not world.is_alive():
            raise Failed("the service died")
        return None
