# SPDX-License-Identifier: Apache-2.0
"""Shared memory: what it costs the service, what holds it up, and what kills it."""
import ctypes
import fcntl
import os
import struct
import threading
import time

from world import Client, Consumer, Failed, Producer, World, field, fields, get_slowness

ATTACKS = ["untouched_pages", "brought", "ends", "holes", "huge_pages"]
PAGE, SMB = 4096, 32 << 20
MAPPINGS = 300  # to unmap all of them takes the most part of a second
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


def bring(ready, path):
    producer = Offering(path, "lazy", make_full(), SMB)
    if not producer.wait_for("start "):
        raise TimeoutError("not started")
    ready("taken" if producer.is_taken else "%d descriptors" % len(producer.fds))


def brought(build):
    """memory that an unprivileged user's program brings is not taken: its owner could make holes in it"""
    with World(build) as world:
        consumer = Consumer(world.consumer)
        why = consumer.enable(config("lazy"))
        if why:
            raise Failed(why)
        said = world.attack("stranger", bring, world.producer).wait_ready()
        if said != "1 descriptors" or not world.is_alive():
            raise Failed("%s; it should get memory of the service's" % said)


def make_full():
    """A sealed memfd of the largest size, of complete chunks."""
    fd = os.memfd_create("smb", 0x0002)
    fill(fd)
    fcntl.fcntl(fd, 1033, SEALS)
    return fd


def fill(fd):
    page = struct.pack("<II", 1 << 28 | 3, 0) + struct.pack("<IHH", 0, 1, 1)
    many = page.ljust(PAGE, b"\0") * 256
    for at in range(0, SMB, len(many)):
        os.pwrite(fd, many, at)


def begin(path):
    producer = Lazy(path, "lazy")
    if not producer.wait_for("start "):
        raise TimeoutError("not started")
    return producer


def end_at_once(ready, path, count):
    """Only the service still has the memory then: it is freed where the service closes it."""
    producers = []
    for _ in range(count):
        producers.append(begin(path))
        fill(producers[-1].fds[0])
        os.close(producers[-1].fds[0])
    for producer in producers:
        producer.sock.close()
    ready()


def ends(build):
    """the end of 64 producers of 32 MiB that only the service still has delays nobody"""
    with World(build) as world:
        consumer = Consumer(world.consumer)
        why = consumer.enable(config("lazy"))
        if why:
            raise Failed(why)
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
    """Whoever maps, unmaps or reads the memory waits until all these mappings have lost their pages."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    most, page = SMB - (4 << 20), b"\1" * (1 << 20)
    at = [ctypes.c_void_p(libc.mmap(None, ctypes.c_size_t(SMB), 3, 1, fd, ctypes.c_long(0))) for _ in range(MAPPINGS)]
    while True:
        for mapped in at:
            libc.madvise(mapped, ctypes.c_size_t(most), 22)  # MADV_POPULATE_READ
        if libc.fallocate(fd, 3, ctypes.c_long(0), ctypes.c_long(most)) != 0:  # KEEP_SIZE, PUNCH_HOLE
            return
        for offset in range(0, most, len(page)):
            os.pwrite(fd, page, offset)


def commit_all_the_time(producer):
    commit = b"".join(field(1, field(1, page) + field(2, 9) + field(3, producer.buffer)) for page in range(256))
    while not producer.is_closed:
        producer.invoke("CommitData", commit, lambda *_: None)
        while producer.has_input(0.002) and producer.dispatch():
            pass


def be_holey(ready, path):
    producer = begin(path)
    fill(producer.fds[0])
    if os.fork() == 0:
        make_holes(producer.fds[0])
        os._exit(0)
    producer.call("CommitData", field(1, field(1, 0) + field(2, 0) + field(3, producer.buffer)))
    may = ctypes.CDLL(None).fallocate(producer.fds[0], 3, ctypes.c_long(0), ctypes.c_long(PAGE)) == 0
    threading.Thread(target=commit_all_the_time, args=(producer,), daemon=True).start()
    ready("holes" if may else "sealed")


def seal_and_leave(ready, path):
    """The service may neither read that memory nor unmap it."""
    count = 0
    producer = begin(path)
    while producer.fds:
        fill(producer.fds[0])
        fcntl.fcntl(producer.fds[0], 1033, 1)
        producer.call("CommitData", field(1, field(1, 0) + field(2, 0) + field(3, producer.buffer)))
        producer.close()
        count += 1
        producer = begin(path)
    ready(str(count))


def holes(build):
    """holes, and seals, in the memory that the service made and a flush reads delay nobody"""
    with World(build) as world:
        consumer = Consumer(world.consumer)
        why = consumer.enable(config("lazy"))
        if why:
            raise Failed(why)
        victim = world.victim()
        time.sleep(2)
        quiet = victim.worst_s()
        victim.forget()
        said = [world.attack("stranger", be_holey, world.producer).wait_ready(),
                world.attack("neighbour", seal_and_leave, world.producer).wait_ready()]
        time.sleep(8)
        worst = victim.worst_s()
        if worst > max(0.2, 3 * quiet) * get_slowness() or victim.failed or not world.is_alive():
            raise Failed("the victim waited %.3f s, %.3f quiet %s" % (worst, quiet, victim.failed or ""))
        if said != ["sealed", "1"] or not any("producer-memory-foreign" in line for line in world.log_lines()):
            raise Failed("%s; who seals memory should get none any more, and be named" % said)
        return "the victim waited %.3f s at most, %.3f quiet" % (worst, quiet)


def make_huge(fd):
    """The kernel locks the pages of a range of 2 MiB until all these mappings have lost them."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    size, count = 2 << 20, 10 * MAPPINGS
    for begin in range(0, SMB, size):
        room = libc.mmap(None, ctypes.c_size_t((count + 1) * size), 0, 0x4022, -1, ctypes.c_long(0))
        first = (room + size - 1) // size * size
        for at in range(first, first + count * size, size):
            libc.mmap(ctypes.c_void_p(at), ctypes.c_size_t(size), 1, 0x11, fd, ctypes.c_long(begin))  # MAP_FIXED
            libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(size), 22)
        libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(size), 25)  # MADV_COLLAPSE
        libc.munmap(ctypes.c_void_p(room), ctypes.c_size_t((count + 1) * size))


def be_huge(ready, path):
    producer = begin(path)
    fill(producer.fds[0])
    producer.call("RegisterTraceWriter", field(1, 1) + field(2, producer.buffer))
    for page in range(0, SMB // PAGE, 512):
        producer.call("CommitData", b"".join(
            field(1, field(1, page + i) + field(2, 9) + field(3, producer.buffer)) for i in range(512)))
    for _ in range(2):
        if os.fork() == 0:
            make_huge(producer.fds[0])
            os._exit(0)
    threading.Thread(target=commit_all_the_time, args=(producer,), daemon=True).start()
    ready()


def huge_pages(build):
    """huge pages, made of memory that is mapped 3000 times, delay nobody"""
    with World(build) as world:
        consumer = Consumer(world.consumer)
        why = consumer.enable(config("lazy"))
        if why:
            raise Failed(why)
        victim = world.victim()
        time.sleep(2)
        quiet = victim.worst_s()
        victim.forget()
        said = world.attack("stranger", be_huge, world.producer).wait_ready()
        time.sleep(8)
        worst = victim.worst_s()
        if said != "ready" or victim.failed or not world.is_alive():
            raise Failed("%s %s" % (said, victim.failed))
        if worst > max(0.2, 3 * quiet) * get_slowness():
            raise Failed("the victim waited %.3f s, %.3f quiet" % (worst, quiet))
        return "the victim waited %.3f s at most, %.3f quiet" % (worst, quiet)
