# SPDX-License-Identifier: Apache-2.0
"""Shared memory: what it costs the service, what holds it up, and what kills it."""
import ctypes
import fcntl
import os
import struct
import threading
import time

from world import Client, Consumer, Failed, Producer, World, field, fields, get_slowness

ATTACKS = ["untouched_pages", "brought", "ends", "holes", "huge_pages", "swapped_out"]
PAGE, SMB = 4096, 32 << 20
MAPPINGS = 3000  # to unmap a few MiB of all of them takes seconds
HOLDERS, HELD = 8, 60000  # processes, and mappings of each: the kernel allows 65,530
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
    """Its chunk is taken out of the memory: it is free then."""
    fd = make_full()
    producer = Offering(path, "lazy", fd, SMB)
    if not producer.wait_for("start "):
        raise TimeoutError("not started")
    producer.call("CommitData", field(1, field(1, 7) + field(2, 0) + field(3, producer.buffer)))
    state = struct.unpack("<I", os.pread(fd, 4, 7 * PAGE))[0] & 3
    ready("%s, %d descriptors, state %d" % ("taken" if producer.is_taken else "refused", len(producer.fds), state))


def brought(build):
    """memory that an unprivileged user's program brings is taken, and read by a process of that user's"""
    with World(build) as world:
        consumer = Consumer(world.consumer)
        why = consumer.enable(config("lazy"))
        if why:
            raise Failed(why)
        said = world.attack("stranger", bring, world.producer).wait_ready()
        if said != "taken, 0 descriptors, state 0" or not world.is_alive():
            raise Failed(said)
        return said


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


def map_often(fd, count, size, protection):
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    return libc, [libc.mmap(None, ctypes.c_size_t(size), protection, 1, fd, ctypes.c_long(0)) for _ in range(count)]


def make_holes(fd):
    """Whoever maps, unmaps or reads the memory waits until all these mappings have lost their pages."""
    most, page = 4 << 20, b"\1" * (1 << 20)
    libc, mappings = map_often(fd, MAPPINGS, SMB, 1)
    while True:
        for mapped in mappings:
            libc.madvise(ctypes.c_void_p(mapped), ctypes.c_size_t(most), 22)  # MADV_POPULATE_READ
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


def be_holey(ready, path, brings):
    """In the service's memory, or in its own."""
    if brings:
        fd = make_full()
        producer = Offering(path, "lazy", fd, SMB)
        if not producer.wait_for("start "):
            raise TimeoutError("not started")
    else:
        producer = begin(path)
        fd = producer.fds[0]
        fill(fd)
    producer.call("RegisterTraceWriter", field(1, 1) + field(2, producer.buffer))
    may = ctypes.CDLL(None).fallocate(fd, 3, ctypes.c_long(SMB - PAGE), ctypes.c_long(PAGE)) == 0
    if os.fork() == 0:
        make_holes(fd)
        os._exit(0)
    threading.Thread(target=commit_all_the_time, args=(producer,), daemon=True).start()
    ready("holes" if may else "none")


def holes(build):
    """holes in the memory that the service made, and in memory that a producer brought, delay nobody else"""
    with World(build) as world:
        consumer = Consumer(world.consumer)
        why = consumer.enable(config("lazy"))
        if why:
            raise Failed(why)
        victim = world.victim()
        time.sleep(2)
        quiet = victim.worst_s()
        victim.forget()
        said = [world.attack("stranger", be_holey, world.producer, False).wait_ready(),
                world.attack("neighbour", be_holey, world.producer, True).wait_ready()]
        time.sleep(10)
        worst = victim.worst_s()
        if said != ["holes", "holes"]:
            raise Failed("%s; the memory should be as good as any other" % said)
        if worst > max(0.2, 3 * quiet) * get_slowness() or victim.failed or not world.is_alive():
            raise Failed("the victim waited %.3f s, %.3f quiet %s" % (worst, quiet, victim.failed or ""))
        return "the victim waited %.3f s at most, %.3f quiet" % (worst, quiet)


def make_huge(fd):
    """The kernel locks the pages of a range of 2 MiB until all these mappings have lost them."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    size, count = 2 << 20, MAPPINGS
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


def page_out(fd, first, step):
    """The kernel locks a page until it has looked for it in all mappings: those who first touch it wait."""
    libc, (mapped,) = map_often(fd, 1, SMB, 1)
    while True:
        for at in range(first * 16 * PAGE, SMB, step * 16 * PAGE):
            began = time.monotonic()
            while True:
                ctypes.string_at(mapped + at, 1)
                libc.madvise(ctypes.c_void_p(mapped + at), ctypes.c_size_t(PAGE), 21)  # MADV_PAGEOUT
                if time.monotonic() - began < 0.001:
                    break  # others have mapped it
                began = time.monotonic()


def hold(fd, number, done):
    map_often(fd, HELD, SMB, 1)
    os.write(done, b"%d" % number)
    time.sleep(600)


def commit_page_by_page(producer):
    """Each is the first of 16: none was mapped together with another."""
    for page in range(0, SMB // PAGE, 16):
        if producer.is_closed:
            return
        producer.call("CommitData", field(1, field(1, page) + field(2, 0) + field(3, producer.buffer)))
        time.sleep(0.005)


def be_swapped_out(ready, path):
    producer = begin(path)
    fd = producer.fds[0]
    fill(fd)
    producer.call("RegisterTraceWriter", field(1, 1) + field(2, producer.buffer))
    producer.call("CommitData", field(1, field(1, SMB // PAGE - 1) + field(2, 0) + field(3, producer.buffer)))
    said, done = os.pipe()
    for number in range(HOLDERS):
        if os.fork() == 0:
            hold(fd, number, done)
    for _ in range(HOLDERS):
        os.read(said, 1)
    for number in range(2):
        if os.fork() == 0:
            page_out(fd, number, 2)
    threading.Thread(target=commit_page_by_page, args=(producer,), daemon=True).start()
    ready()


def swapped_out(build):
    """pages that are swapped out of memory that is mapped 480,000 times delay nobody else"""
    with World(build) as world:
        consumer = Consumer(world.consumer)
        why = consumer.enable(config("lazy", flush=False))
        if why:
            raise Failed(why)
        victim = world.victim()
        time.sleep(2)
        quiet = victim.worst_s()
        said = world.attack("stranger", be_swapped_out, world.producer).wait_ready()
        victim.forget()  # that maps it so often costs its own user's time
        time.sleep(8)
        worst = victim.worst_s()
        if said != "ready" or victim.failed or not world.is_alive():
            raise Failed("%s %s" % (said, victim.failed))
        if worst > max(0.2, 3 * quiet) * get_slowness():
            raise Failed("the victim waited %.3f s, %.3f quiet" % (worst, quiet))
        return "the victim waited %.3f s at most, %.3f quiet" % (worst, quiet)
