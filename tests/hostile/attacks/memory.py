# SPDX-License-Identifier: Apache-2.0
"""Shared memory: what it costs the service, what holds it up, and what kills it."""
import ctypes
import fcntl
import mmap
import os
import struct
import threading
import time

from world import Client, Consumer, Failed, Producer, World, field, fields, get_slowness

ATTACKS = ["untouched_pages", "huge_pages", "ends", "holes"]
PAGE, SMB, HUGE = 4096, 32 << 20, 2 << 20
POOL = 4  # huge pages that the attack has to do with
SEALS = 0x0001 | 0x0002 | 0x0004


def config(source, flush=True):
    return (field(1, field(1, 1024)) + field(2, field(1, field(1, source)))
            + (field(13, 200) if flush else b""))


class Lazy(Producer):
    """A producer of the largest memory that registers a writer and writes nothing."""

    def __init__(self, path, source):
        Client.__init__(self, path, "ProducerPort")
        self.received, self.owed, self.holds, self.instances, self.is_refused = [], [], set(), {}, False
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


def make_memory(libc, flags, size):
    """A sealed memfd, and where this process has it mapped, written to."""
    fd = libc.memfd_create(b"smb", 0x0002 | flags)  # MFD_ALLOW_SEALING
    if fd < 0:
        raise MemoryError("no memfd: " + os.strerror(ctypes.get_errno()))
    os.ftruncate(fd, size)
    mapped = mmap.mmap(fd, size)
    mapped[0:1] = b"\0"
    fcntl.fcntl(fd, 1033, SEALS)
    return fd, mapped


class Offering(Lazy):
    """A producer that brings its memory along: is_taken says whether the service has it."""

    def __init__(self, path, source, fd, size):
        Client.__init__(self, path, "ProducerPort")
        self.received, self.owed, self.holds, self.instances, self.is_refused = [], [], set(), {}, False
        self.fd = fd
        answer = self.call("InitializeConnection", field(1, PAGE) + field(2, size) + field(3, "huge") + field(
            4, 1) + field(6, 1), fd)
        self.is_taken = answer is not None and bool(dict(fields(answer[1])).get(1, 0))
        self.invoke("GetAsyncCommand", b"", self.on_command)
        self.call("RegisterDataSource", field(1, field(1, source)))


def offer_huge_pages(ready, path, ordinary):
    """Memory that the service has taken is made a hole, which no page of the pool can fill."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + [
        ctypes.c_int] * 3 + [ctypes.c_long]
    fd, mapped = make_memory(libc, 0 if ordinary else 0x0004, HUGE)  # MFD_HUGETLB
    producer = Offering(path, "lazy", fd, HUGE)
    if not producer.is_taken:
        ready("refused")
        return
    if not producer.wait_for("start "):
        raise TimeoutError("not started")
    producer.call("RegisterTraceWriter", field(1, 1) + field(2, producer.buffer))
    if not ordinary:
        mapped[0:8] = struct.pack("<II", 0, 1)
        mapped.close()
        if libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(HUGE)) != 0:  # KEEP_SIZE, PUNCH_HOLE
            raise OSError("no hole: " + os.strerror(ctypes.get_errno()))
        for _ in range(POOL):  # what is free in the pool, or was
            at = libc.mmap(None, HUGE, 3, 0x40021 | 0x8000, -1, 0)  # SHARED, ANONYMOUS, HUGETLB, POPULATE
            if at == ctypes.c_void_p(-1).value:
                break
    producer.invoke("CommitData", field(1, field(1, 0) + field(2, 0) + field(3, producer.buffer)), lambda *_: None)
    ready("taken")


def has_pool(pages):
    """The kernel's pool of huge pages, which only root fills."""
    with open("/proc/sys/vm/nr_hugepages", "r+") as file:
        file.write(str(pages))
        file.flush()
        file.seek(0)
        return int(file.read()) >= pages


def huge_pages(build):
    """memory of huge pages is refused: a hole in it, and the pool empty, would be the service's end"""
    with open("/proc/sys/vm/nr_hugepages") as file:
        before = int(file.read())
    try:
        if not has_pool(before + POOL):
            return "SKIP the kernel has no huge pages to give"
        with World(build) as world:
            consumer = Consumer(world.consumer)
            why = consumer.enable(config("lazy"))
            if why:
                raise Failed(why)
            said = {}
            for ordinary in (True, False):
                said[ordinary] = world.attack("stranger", offer_huge_pages, world.producer, ordinary).wait_ready()
                consumer.invoke("Flush", field(1, 2000), lambda *_: None)
                time.sleep(1)
                if not world.is_alive():
                    raise Failed("the service died of it (%s)" % said[ordinary])
            if said != {True: "taken", False: "refused"}:
                raise Failed("ordinary memory was %s, memory of huge pages %s" % (said[True], said[False]))
    finally:
        has_pool(before)


def make_full(libc):
    """A sealed memfd of the largest size, of complete chunks."""
    page = struct.pack("<II", 1 << 28 | 3, 0) + struct.pack("<IHH", 0, 1, 1)
    many = page.ljust(PAGE, b"\0") * 256
    fd = libc.memfd_create(b"smb", 0x0002)
    for _ in range(SMB // len(many)):
        os.write(fd, many)
    fcntl.fcntl(fd, 1033, SEALS)
    return fd


def end_at_once(ready, path, count):
    """Only the service still has the memory then: it is freed where the service closes it."""
    producers = []
    for _ in range(count):
        fd = make_full(ctypes.CDLL(None))
        producers.append(Offering(path, "lazy", fd, SMB))
        os.close(fd)
        if not producers[-1].is_taken:
            raise ValueError("the memory is refused")
    for producer in producers:
        producer.sock.close()
    ready()


def ends(build):
    """the end of 64 producers of 32 MiB that only the service still has delays nobody"""
    with World(build) as world:
        victim = world.victim()
        said = world.attack("stranger", end_at_once, world.producer, 64).wait_ready()
        if said != "ready":
            raise Failed(said)
        time.sleep(1)
        worst = victim.worst_s()
        if worst > 0.15 * get_slowness() or not world.is_alive():
            raise Failed("the victim waited %.3f s" % worst)
        return "the victim waited %.3f s at most" % worst


def make_holes(fd):
    libc = ctypes.CDLL(None)
    while True:
        libc.fallocate(fd, 0, ctypes.c_long(0), ctypes.c_long(SMB))
        libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(SMB))  # KEEP_SIZE, PUNCH_HOLE


def serve(producers):
    """Acknowledges flushes, without which nothing is read."""
    while True:
        for producer in producers:
            if producer.has_input(0.01):
                producer.dispatch()


def be_holey(ready, path, count):
    """Who reads a page where a hole is being made waits for the end of that."""
    producers = []
    for _ in range(count):
        fd = make_full(ctypes.CDLL(None))
        producer = Offering(path, "lazy", fd, SMB)
        if not producer.wait_for("start "):
            raise TimeoutError("not started")
        producer.call("RegisterTraceWriter", field(1, 1) + field(2, producer.buffer))
        for page in range(0, SMB // PAGE, 1024):  # of no chunk: the service looks whether there is a page
            producer.call("CommitData", b"".join(
                field(1, field(1, p) + field(2, 9) + field(3, producer.buffer)) for p in range(page, page + 1024)))
        if os.fork() == 0:
            make_holes(fd)
        producers.append(producer)
    threading.Thread(target=serve, args=(producers,), daemon=True).start()
    ready()


def holes(build):
    """holes that producers make all the time in memory that a flush reads delay nobody"""
    with World(build) as world:
        consumer = Consumer(world.consumer)
        why = consumer.enable(config("lazy"))
        if why:
            raise Failed(why)
        victim = world.victim()
        counts = []
        for is_attacked in (False, True):
            if is_attacked:
                said = world.attack("stranger", be_holey, world.producer, 2).wait_ready()
                if said != "ready":
                    raise Failed(said)
            before = victim.answers
            time.sleep(3)
            counts.append(victim.answers - before)
        if counts[1] < counts[0] / 3 or victim.failed or not world.is_alive():
            raise Failed("the victim had %d answers, %d quiet %s" % (counts[1], counts[0], victim.failed or ""))
        return "the victim had %d answers, %d quiet" % (counts[1], counts[0])
