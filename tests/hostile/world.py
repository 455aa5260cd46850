# SPDX-License-Identifier: Apache-2.0
"""The host under attack: one perfleetd, a victim who uses it all the time, and seats for attackers."""
import contextlib
import ctypes
import fcntl
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

"".encode("idna")  # loaded now: a seat may not read where it lies

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from service_peers import (  # noqa: E402,F401
    Client, Consumer, Producer, dict_of_lists, field, fields)

LIMIT_S = 60
GUARDRAILS_HASTE = 10
CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWPID = 0x10000000, 0x00020000, 0x40000000, 0x20000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
IN_CONTAINER = "/run/producer"  # all that a container has of the host

# A seat is who plays: user, group, further groups. The numbers belong to nobody on any system.
SERVICE_USER = 61990
GROUP = 61980  # whose members may open the consumer socket, where an attack asks for that
SEATS = {
    "stranger": (61991, 61991, []),   # a local user without rights
    "member": (61992, 61992, [GROUP]),  # of the consumers' group
    "neighbour": (61993, 61993, []),  # another local user
    "container": (61994, 61994, []),  # in user, mount and network namespaces of its own
}


class Failed(Exception):
    pass


def get_slowness():
    """How many times as long as its CPU time anything takes here now: others want the CPU, and so may the host of
    a virtual machine. Limits on waiting are those of a machine that is not slowed."""
    slowest = 1.0
    for _ in range(3):
        begin, cpu = time.monotonic(), time.thread_time()
        while time.thread_time() - cpu < 0.03:
            pass
        slowest = max(slowest, (time.monotonic() - begin) / 0.03)
    return min(slowest, 10.0)


def must(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def enter_container(producer):
    """Root of a user, process, mount and network namespace, in a file system of its own in which there is
    the producers' socket and nothing else."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    must(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID), "no user namespaces")
    for name, text in (("setgroups", "deny"), ("uid_map", "0 %d 1" % user), ("gid_map", "0 %d 1" % group)):
        pathlib.Path("/proc/self", name).write_text(text)
    must(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "mount")
    must(libc.mount(b"none", b"/mnt", b"tmpfs", 0, None), "mount")
    if producer is not None:
        pathlib.Path("/mnt" + IN_CONTAINER).parent.mkdir()
        pathlib.Path("/mnt" + IN_CONTAINER).touch()
        must(libc.mount(producer.encode(), b"/mnt" + IN_CONTAINER.encode(), None, MS_BIND, None), "mount")
    os.chroot("/mnt")
    os.chdir("/")
    with socket.socket() as sock:  # its own loopback goes up
        fcntl.ioctl(sock, 0x8914, struct.pack("16sH14x", b"lo", 1))
    pid = os.fork()  # its process 1
    if pid != 0:
        os.waitpid(pid, 0)
        os._exit(0)


def sit_down(seat, producer=None):
    """This process becomes that user, for good."""
    user, group, groups = SEATS[seat]
    os.setgroups(groups)
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE: /proc/self is this user's
    if seat == "container":
        enter_container(producer)


class Child:
    """A function in a process of its own, in a seat. Says `ready` when it has done its worst."""

    def __init__(self, seat, function, *args, producer=None):
        self.ready, write = os.pipe()
        self.stay, stay = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.close(self.ready)
                os.close(stay)
                os.setpgid(0, 0)
                if seat is not None:
                    sit_down(seat, producer)

                def say_ready(text="ready"):
                    os.write(write, text.encode())
                    os.read(self.stay, 1)  # until the parent has seen enough
                function(say_ready, *args)
                code = 0
            except BaseException as why:  # noqa: BLE001
                os.write(write, ("failed: %r" % why).encode())
            finally:
                os._exit(code)
        os.close(write)
        os.close(self.stay)
        self.stay_end = stay

    def wait_ready(self, limit_s=LIMIT_S):
        import select
        if not select.select([self.ready], [], [], limit_s)[0]:
            return "late"
        return os.read(self.ready, 4000).decode() or "gone"

    def end(self):
        with contextlib.suppress(OSError):
            os.close(self.stay_end)
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.ready)


class Victim(threading.Thread):
    """Root's consumer, and a producer: asks all the time, notes the longest answer."""

    def __init__(self, world):
        super().__init__(daemon=True)
        self.consumer = Consumer(world.consumer)
        self.longest_s = 0.0
        self.answers = 0
        self.failed = None
        self.is_ending = False
        self.since = time.monotonic()

    def run(self):
        try:
            while not self.is_ending:
                self.since = time.monotonic()
                if self.consumer.call("QueryCapabilities") is None:
                    raise Failed("the service closed the victim's connection")
                self.longest_s = max(self.longest_s, time.monotonic() - self.since)
                self.answers += 1
                time.sleep(0.005)
        except Exception as why:  # noqa: BLE001
            if not self.is_ending:
                self.failed = repr(why)

    def worst_s(self):
        """With the question that is not answered yet."""
        return max(self.longest_s, time.monotonic() - self.since if not self.is_ending else 0)

    def forget(self):
        self.longest_s = 0.0


def use_service(consumer):
    """What another user does all day: connects, asks, starts a session, stops it, and leaves."""
    client = Consumer(consumer)
    client.call("QueryServiceState", field(1, 1))
    why = client.enable(field(1, field(1, 64)))
    if why:
        raise Failed("the victim is refused: " + why)
    for method in ("DisableTracing", "FreeBuffers"):
        client.call(method)
    client.sock.close()


class Latency:
    """How long another user waits, quiet and under attack: of each world, as it is made and attacked."""

    QUIET, LEAST, PAUSE_S = 200, 50, 0.005

    def __init__(self):
        self.quiet, self.attacked = [], []
        self.thread = None
        self.failed = None

    def start(self, into, least):
        self.is_ending = False
        self.thread = threading.Thread(target=self.run, args=(into, least), daemon=True)
        self.thread.start()

    def run(self, into, least):
        try:
            least += len(into)
            while not self.is_ending or len(into) < least:
                begin = time.monotonic()
                self.use()
                into.append(time.monotonic() - begin)
                time.sleep(self.PAUSE_S)
        except Exception as why:  # noqa: BLE001
            self.failed = why

    def begin(self, use):
        self.use = use
        self.start(self.quiet, self.QUIET)
        self.end()

    def begin_attack(self):
        if self.thread is None:
            self.start(self.attacked, self.LEAST)

    def end(self):
        """The attackers stay until enough is seen."""
        if self.thread is None:
            return
        self.is_ending = True
        self.thread.join(LIMIT_S)
        self.thread = None

    def row(self):
        """Median and 95th percentile in ms, quiet and under attack, and how the medians compare."""
        def at(times, share):
            return 1000 * sorted(times)[int(share * (len(times) - 1))]
        if not self.quiet or not self.attacked or self.failed:
            return None if not self.failed else "failed: %r" % self.failed
        quiet, attacked = (at(times, 0.5) for times in (self.quiet, self.attacked))
        return "%.1f (%.1f) | %.1f (%.1f) | %.2f" % (quiet, at(self.quiet, 0.95), attacked,
                                                     at(self.attacked, 0.95), attacked / quiet)


LATENCY = None  # a Latency: worlds measure


def measure_latency(is_wanted):
    global LATENCY
    LATENCY = Latency() if is_wanted else None
    return LATENCY


class World:
    def __init__(self, build, options=(), consumer_group=None, producer_mode=0o666,
                 as_root=False, env=None, prepare=None, subuid=None, haste=1):
        """haste: what the service waits for by timers comes this many times as soon."""
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="pfl.", dir="/tmp"))
        self.dir.chmod(0o755)
        self.sockets = self.dir / "sockets"
        self.sockets.mkdir()
        os.chown(self.sockets, SERVICE_USER, SERVICE_USER)
        self.producer = str(self.sockets / "producer")
        self.consumer = str(self.sockets / "consumer")
        self.log = self.dir / "log"
        shutil.copy(build / "bin" / "perfleetd", self.dir / "perfleetd")  # its user may read it there
        (self.dir / "perfleetd").chmod(0o755)
        if haste != 1:
            shutil.copy(build / "tests" / "libhaste_shim.so", self.dir)
            env = {**(env or {}), "LD_PRELOAD": str(self.dir / "libhaste_shim.so"), "PFL_HASTE": str(haste)}
        command = [str(self.dir / "perfleetd"), "--producer-socket", self.producer,
                   "--consumer-socket", self.consumer, *options]
        groups = None if as_root else [GROUP]
        seat = {} if as_root else {"user": SERVICE_USER, "group": SERVICE_USER, "extra_groups": groups}
        if subuid is not None:
            command = self.with_subuid(subuid) + command
            seat = {}
        with open(self.log, "w") as log:
            self.service = subprocess.Popen(
                command, stdout=log, stderr=log, env=dict(os.environ, **(env or {})),
                preexec_fn=prepare, **seat)
        self.children = []
        end = time.monotonic() + LIMIT_S
        while not os.path.exists(self.consumer) or "ready" not in self.log.read_text():
            if self.service.poll() is not None or time.monotonic() > end:
                if os.path.exists(self.consumer) and self.service.poll() is None:
                    break
                raise Failed("perfleetd does not start: " + self.log.read_text())
            time.sleep(0.02)
            if os.path.exists(self.consumer):
                break
        time.sleep(0.1)
        os.chmod(self.producer, producer_mode)
        if consumer_group is None:
            os.chmod(self.consumer, 0o666)
        else:
            os.chown(self.consumer, -1, consumer_group)
            os.chmod(self.consumer, 0o660)
        if LATENCY is not None:
            LATENCY.begin(lambda: use_service(self.consumer))

    def with_subuid(self, text):
        """The command in front of the service's: this is its /etc/subuid, and nobody else's."""
        (self.dir / "subuid").write_text(text)
        return ["unshare", "--mount", "sh", "-c",
                'mount --bind "$0" /etc/subuid && exec setpriv --reuid %d --regid %d --groups %d "$@"' %
                (SERVICE_USER, SERVICE_USER, GROUP), str(self.dir / "subuid")]

    def victim(self):
        victim = Victim(self)
        victim.start()
        while victim.answers < 20 and victim.failed is None:
            time.sleep(0.01)
        victim.forget()
        return victim

    def attack(self, seat, function, *args):
        if seat == "container":
            args = [IN_CONTAINER if arg == self.producer else arg for arg in args]
        if LATENCY is not None:
            LATENCY.begin_attack()
        child = Child(seat, function, *args, producer=self.producer)
        self.children.append(child)
        return child

    def is_alive(self):
        return self.service.poll() is None

    def outlive_guardrails(self):
        """The service, GUARDRAILS_HASTE quicker, lives as long as they take to end one that is too large."""
        end = time.monotonic() + 95 / GUARDRAILS_HASTE  # two looks at the memory, 30 s apart, and the next
        while self.is_alive() and time.monotonic() < end:
            time.sleep(0.5)
        if not self.is_alive():
            raise Failed("it ended itself: " + "; ".join(line for line in self.log_lines() if "guardrail" in line))

    def memory_kb(self, what="RssShmem"):
        for line in pathlib.Path("/proc/%d/status" % self.service.pid).read_text().splitlines():
            if line.startswith(what + ":"):
                return int(line.split()[1])
        raise Failed("no " + what)

    def cpu_s(self):
        stat = pathlib.Path("/proc/%d/stat" % self.service.pid).read_text().rsplit(")", 1)[1].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def loop_ns(self):
        """CPU time of the service's loop, to the nanosecond."""
        path = "/proc/%d/task/%d/schedstat" % (self.service.pid, self.service.pid)
        return int(pathlib.Path(path).read_text().split()[0])

    def fds(self):
        return len(os.listdir("/proc/%d/fd" % self.service.pid))

    def log_lines(self):
        return self.log.read_text(errors="replace").splitlines()

    def close(self):
        if LATENCY is not None:
            LATENCY.end()
        for child in self.children:
            child.end()
        if self.service.poll() is None:
            self.service.terminate()
            try:
                self.service.wait(20)
            except subprocess.TimeoutExpired:
                self.service.kill()
                self.service.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.close()
