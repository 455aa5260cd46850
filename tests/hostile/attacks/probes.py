# SPDX-License-Identifier: Apache-2.0
"""A local user against perfleet-probes, which reads the files of every process in /proc. While an attack lasts
(some seconds), other programs that look at its processes, such as ps, wait for it."""
import contextlib
import ctypes
import mmap
import os
import pathlib
import platform
import resource
import select
import signal
import subprocess
import threading
import time

from attacks.descriptors import fuse_file
from world import Consumer, Failed, World, field, fields, get_slowness

ATTACKS = ["locked_memory", "locked_folder", "locked_tasks", "locked_descriptors", "hanging_exec", "watched_files"]
FLUSH_S = 10
SLOW_S = 3
POLLS_S = 0.5  # two or three
READY_S = 15
LOCKED_S = 120
PROCESSES = 4
WAITERS = 6 * 18000  # of 5 million that a user may have on a machine of 23 GB
GETDENTS64 = {"x86_64": 217, "aarch64": 61}


def make_libc():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    libc.syscall.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_long]
    return libc


def stay_in(*calls):
    """Each again and again, in a thread of its own, until it does not return."""
    def repeat(call):
        while True:
            call()
            time.sleep(0.02)
    for call in calls:
        threading.Thread(target=repeat, args=(call,), daemon=True).start()


def does_wait(path):
    """Whether a reader of the path waits: it has a moment."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(OSError):
            pathlib.Path(path).read_bytes()
        os._exit(0)
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        if os.waitpid(pid, os.WNOHANG)[0] != 0:
            return False
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    return True


def locked(path):
    """An attack locks the path of its process; this one is not in it, and sees whether it is locked."""
    def wrap(attack):
        def play(ready, *args):
            try:
                file = fuse_file(hold_s=600, size=4096)
            except (PermissionError, FileNotFoundError) as why:
                ready("SKIP %s" % why)
                return
            pid = os.fork()
            if pid == 0:
                signal.alarm(LOCKED_S)  # at the latest: whoever looks at it waits so long
                attack(file, *args)
                signal.pause()
            seen = "/proc/%d/%s" % (pid, path % args)
            end = time.monotonic() + READY_S
            while not does_wait(seen):
                if time.monotonic() > end:
                    ready("SKIP nobody waits at " + seen)
                    return
            ready()
        return play
    return wrap


@locked("cmdline")
def lock_memory(file):
    """A read of a page that never comes holds the lock of this process's memory; a writer waits for it, and
    behind him everybody who reads cmdline or smaps_rollup."""
    libc = make_libc()
    page = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE, file, 0)
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    stay_in(lambda: os.pread(memory, 16, page),
            lambda: libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0))


@locked("%s/nobody")  # a list, or a name that is there, would stay in the kernel's cache
def lock_folder(file, folder):
    """A list of a folder, put into a page that never comes, holds the folder's lock; a writer waits for it, and
    behind him everybody who looks for a name there."""
    libc = make_libc()
    path = "/proc/%d/%s" % (os.getpid(), folder)
    page = libc.mmap(None, 4096, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE, file, 0)
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def write():
        with contextlib.suppress(OSError):
            os.mkdir(path + "/name")
    stay_in(lambda: libc.syscall(GETDENTS64[platform.machine()], opened, page, 4096), write)


@locked("smaps_rollup")
def hang_in_exec(file):
    """An exec closes a file whose server does not answer: until it does, nobody else may look at the memory."""
    os.set_inheritable(file, False)
    os.execv("/bin/sleep", ["sleep", "600"])


def record(world):
    """How long a session of processes and statistics takes to start and to flush, and what it has."""
    stats = field(1, b"linux.process_stats") + field(103, field(2, 1) + field(4, 200) + field(9, 1) + field(10, 1))
    config = field(1, field(1, 4096)) + field(2, field(1, stats)) + field(10, 600000)
    consumer = Consumer(world.consumer)
    begin = time.monotonic()
    why = consumer.enable(config)
    if why:
        raise Failed(why)
    consumer.call("Flush", field(1, 1000 * FLUSH_S))
    time.sleep(POLLS_S)
    consumer.call("Flush", field(1, 1000 * FLUSH_S))
    took = time.monotonic() - begin - POLLS_S
    data = b"".join(consumer.packets())
    for method in ("DisableTracing", "FreeBuffers"):  # nothing is read any more: the kernel remembers what was
        consumer.call(method)
    consumer.sock.close()
    return took, data


@contextlib.contextmanager
def probed_world(build):
    with World(build) as world:
        log = open(world.dir / "probes.log", "w")
        probes = subprocess.Popen([str(build / "bin" / "perfleet-probes"), "--no-ftrace", "--producer-socket",
                                   world.producer, "--service-user", str(61990)], stdout=subprocess.DEVNULL, stderr=log)
        try:
            end = time.monotonic() + 60
            while "probes-started" not in (world.dir / "probes.log").read_text():
                if time.monotonic() > end or probes.poll() is not None:
                    raise Failed("no probes, exit code %s: %s" % (probes.poll(), (world.dir / "probes.log").read_text()))
                time.sleep(0.02)
            time.sleep(0.3)
            world.probes = probes
            yield world
        finally:
            for child in world.children:  # before the probes: they may be held beyond a kill
                child.end()
            world.children.clear()
            log.close()
            probes.kill()
            probes.wait(20)


def kill_probes(world, probes):
    """A thread of theirs may be beyond a kill: the service sees their end all the same."""
    probes.kill()
    end = time.monotonic() + SLOW_S
    consumer = Consumer(world.consumer)
    while True:
        answer = consumer.call("QueryServiceState", field(1, 1))
        if not any(number == 1 for number, _ in fields(dict(fields(answer[1]))[1])):
            return
        if time.monotonic() > end:
            raise Failed("the service does not see that they were killed")
        time.sleep(0.05)


def observe(build, attack, *args):
    own_line = b"--producer-socket"  # of the service's command line
    with probed_world(build) as world:
        quiet, data = record(world)
        if own_line not in data:
            raise Failed("nothing is recorded: " + (world.dir / "probes.log").read_text())
        attackers = [world.attack("stranger", attack, *args) for _ in range(PROCESSES)]
        for attacker in attackers:
            said = attacker.wait_ready(2 * READY_S)
            if said.startswith("SKIP"):
                return said
            if said != "ready":
                raise Failed(said)
        attacked, data = record(world)
        if attacked > quiet + SLOW_S * get_slowness() or own_line not in data:
            raise Failed("flushed in %.1f s, quiet %.1f s; others' command lines: %s" %
                         (attacked, quiet, own_line in data))
        kill_probes(world, world.probes)
        stuck = (world.dir / "probes.log").read_text().count("read-stuck")
        if stuck == 0:
            raise Failed("no read was stuck")
        return "flushed in %.1f s, quiet %.1f s; %d reads are stuck" % (attacked, quiet, stuck)


def locked_memory(build):
    """processes whose memory is locked do not hold perfleet-probes up"""
    return observe(build, lock_memory)


def locked_folder(build):
    """nor do those whose folder in /proc is locked, which no kill ends"""
    return observe(build, lock_folder, "")


def locked_tasks(build):
    """nor those whose list of threads is locked"""
    return observe(build, lock_folder, "task")


def locked_descriptors(build):
    """nor those whose list of open files is locked"""
    return observe(build, lock_folder, "fd")


def hanging_exec(build):
    """nor those whose exec waits for a file system"""
    return observe(build, hang_in_exec)


def wait_for_readers(ready):
    """Any user may watch a file of /proc: who reads it wakes all that wait for that, each in the reader's time."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    libc = ctypes.CDLL(None)
    watch = libc.inotify_init1(0)
    for name in ("status", "stat"):
        for path in pathlib.Path("/proc").glob("[0-9]*/" + name):
            libc.inotify_add_watch(watch, str(path).encode(), 0xfff)  # IN_ALL_EVENTS
    for name in ("stat", "meminfo", "vmstat"):
        libc.inotify_add_watch(watch, b"/proc/" + name.encode(), 0xfff)
    each = min(18000, limit - 100)
    read, write = os.pipe()
    for _ in range(WAITERS // each):
        if os.fork() == 0:
            poll = select.epoll()
            for _ in range(each):
                poll.register(os.dup(watch), select.EPOLLIN)
            os.write(write, b".")
            signal.pause()
    for _ in range(WAITERS // each):
        os.read(read, 1)
    if os.fork() == 0:
        while True:
            os.read(watch, 1 << 16)
    ready()


def watched_files(build):
    """files of /proc that very many watch do not hold perfleet-probes up for long, and the log says so"""
    with probed_world(build) as world:
        quiet, _ = record(world)
        said = world.attack("stranger", wait_for_readers).wait_ready(2 * READY_S)
        if said != "ready":
            raise Failed(said)
        attacked, _ = record(world)
        left_out = "files-left-out: what=" in (world.dir / "probes.log").read_text()
        if attacked > quiet + SLOW_S * get_slowness() or not left_out:
            raise Failed("flushed in %.1f s, quiet %.1f s; files are left out: %s" % (attacked, quiet, left_out))
        return "flushed in %.1f s, quiet %.1f s" % (attacked, quiet)
