# SPDX-License-Identifier: Apache-2.0
"""Descriptors whose close takes long: nobody else waits for it."""
import array
import ctypes
import os
import pathlib
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

from service_peers import Consumer
from world import Child, Failed, Producer, World, field, get_slowness

ATTACKS = ["linger_passed", "linger_too_many", "linger_unread", "linger_out_of_band", "linger_consumer", "linger_signer",
           "fuse_passed", "fuse_locked_position", "many_waiters", "refused_waiters"]
LINGER_S = 6


def lingering_socket(port):
    """A TCP socket with unsent data that waits LINGER_S at its last close."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setblocking(False)
    try:
        while True:
            sock.send(b"x" * 65536)
    except BlockingIOError:
        pass
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_S))
    return sock.detach()


def in_child(function, *args):
    """What a process has open when it ends does not linger there: so the last close is another's."""
    pid = os.fork()
    if pid == 0:
        function(*args)
        os._exit(0)
    os.waitpid(pid, 0)


def make_listener():
    return socket.create_server(("127.0.0.1", 0), backlog=1000)


def send_fds(sock, fds, data=b"x"):
    sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])


def pass_as_memory(ready, path, count):
    listener = make_listener()
    port = listener.getsockname()[1]

    def pass_one(producer):
        request = field(5, field(1, producer.service) + field(2, producer.methods["Sync"]))
        producer.send(request, lingering_socket(port))
        producer.send(request, lingering_socket(port))
        producer.sock.close()
    for _ in range(count):
        producer = Producer(path, "hostile", [])
        in_child(pass_one, producer)
        producer.sock.close()
    ready()


def pass_many(ready, path):
    listener = make_listener()
    port = listener.getsockname()[1]

    def pass_some(sock, count):
        send_fds(sock, ([lingering_socket(port) for _ in range(min(count, 10))] * 26)[:count])
    kept = []
    for count in (2, 5, 40, 253) * 4:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
        in_child(pass_some, sock, count)
        kept.append(sock)
    ready()


def leave_unread(ready, path):
    """The service ends the connection at the first bytes; the descriptors behind them are in its queue."""
    listener = make_listener()
    port = listener.getsockname()[1]

    def pass_late(sock, passed):
        sock.send(b"\x0a" + b"\xff" * 1000)
        for fd in passed:
            send_fds(sock, [fd])
    for _ in range(8):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
        in_child(lambda: pass_late(sock, [lingering_socket(port) for _ in range(3)]))
        sock.close()
    ready()


def pass_out_of_band(ready, path):
    """With a byte out of band, which a reader who does not ask for it passes over."""
    listener = make_listener()
    port = listener.getsockname()[1]

    def pass_one(sock, before):
        sock.send(before)
        sock.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [lingering_socket(port)]))],
                     socket.MSG_OOB)
        sock.send(b"\0")
    kept = []
    for before in (b"\4", b"\4\0") * 2:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
        in_child(pass_one, sock, before)
        kept.append(sock)
    ready()


def play_unread(world, victim, seat, path, attack=leave_unread):
    """While the service stands still, so that all of it is there before the first byte is read, and what is
    passed is nobody else's any more."""
    os.kill(world.service.pid, signal.SIGSTOP)
    try:
        said = world.attack(seat, attack, path).wait_ready()
    finally:
        victim.forget()
        victim.since = time.monotonic()
        os.kill(world.service.pid, signal.SIGCONT)
    if said != "ready":
        raise Failed(said)


def observe(build, seat, attack, *args, seconds=3.0, options=()):
    with World(build, options) as world:
        victim = world.victim()
        child = world.attack(seat, attack, world.producer, *args)
        said = child.wait_ready()
        if said.startswith("failed"):
            raise Failed(said)
        time.sleep(seconds)
        return judge(world, victim, 0)


def judge(world, victim, seconds=3.0):
    time.sleep(seconds)
    worst, failed, is_alive = victim.worst_s(), victim.failed, world.is_alive()
    victim.is_ending = True
    if failed or not is_alive or worst > 1.0 * get_slowness():
        raise Failed("the victim waited %.1f s; alive=%s %s" % (worst, is_alive, failed or ""))
    return "the victim waited %.3f s at most" % worst


def linger_passed(build):
    """a passed TCP socket that lingers holds nobody up"""
    return observe(build, "stranger", pass_as_memory, 3)


def linger_too_many(build):
    """more descriptors in a message than are allowed, of the same kind, hold nobody up"""
    return observe(build, "stranger", pass_many)


def linger_unread(build):
    """descriptors that are unread when the connection ends hold nobody up"""
    with World(build) as world:
        victim = world.victim()
        play_unread(world, victim, "stranger", world.producer)
        return judge(world, victim)


def linger_out_of_band(build):
    """a descriptor that comes with a byte out of band holds nobody up"""
    with World(build) as world:
        victim = world.victim()
        play_unread(world, victim, "stranger", world.producer, pass_out_of_band)
        return judge(world, victim)


def linger_consumer(build):
    """the same at the consumers' socket, by a member of the group"""
    with World(build, consumer_group=None) as world:
        victim = world.victim()
        said = world.attack("member", pass_many, world.consumer).wait_ready()
        if said.startswith("failed"):
            raise Failed(said)
        judge(world, victim)
        victim = world.victim()
        play_unread(world, victim, "member", world.consumer, pass_out_of_band)
        judge(world, victim)
        victim = world.victim()
        play_unread(world, victim, "member", world.consumer)
        return judge(world, victim)


def ask_signer(path):
    """Seconds until the signer has answered a request that makes no sense."""
    begin = time.monotonic()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        sock.connect(path)
        sock.sendall(b"nonsense\n-----END CERTIFICATE REQUEST-----\n")
        while sock.recv(4096):
            pass
    return time.monotonic() - begin


def linger_signer(build):
    """the same at the signer's socket, out of band and not, by who may open it"""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pfl.", dir="/tmp"))
    folder.chmod(0o755)
    path, pki = str(folder / "signer"), [str(build / "bin" / "perfleet"), "pki"]
    subprocess.run([*pki, "init", str(folder / "pki"), "--fleet", "test"], check=True, stdout=subprocess.DEVNULL)
    signer = subprocess.Popen([*pki, "serve", str(folder / "pki"), "--socket", path], stderr=subprocess.PIPE,
                              stdout=subprocess.DEVNULL)
    children = []
    try:
        signer.stderr.readline()  # it says that it listens
        os.chmod(path, 0o666)
        quiet = ask_signer(path)
        for attack in (pass_out_of_band, pass_many):
            signer.send_signal(signal.SIGSTOP)
            children.append(Child("stranger", attack, path))
            said = children[-1].wait_ready()
            signer.send_signal(signal.SIGCONT)
            if said != "ready":
                raise Failed(said)
        attacked = max(ask_signer(path) for _ in range(3))
        if attacked > max(LINGER_S / 2, 3 * quiet):
            raise Failed("who asked waited %.1f s, quiet %.1f s" % (attacked, quiet))
        return "who asked waited %.2f s at most, quiet %.2f s" % (attacked, quiet)
    finally:
        for child in children:
            child.end()
        signer.kill()
        signer.wait()
        shutil.rmtree(folder, ignore_errors=True)


# ---- a file of a FUSE file system whose server does not answer ----

def fuse_file(hold_s=0, size=0):
    """A file of a file system that this process serves, open; FLUSH is never answered, nor READ, but for the
    first, after `hold_s`."""
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(0x10000000 | 0x00020000) != 0:
        raise PermissionError("no user namespaces")
    for name, text in (("setgroups", "deny"), ("uid_map", "0 %d 1" % uid), ("gid_map", "0 %d 1" % gid)):
        with open("/proc/self/" + name, "w") as file:
            file.write(text)
    fd = os.open("/dev/fuse", os.O_RDWR)
    target = "/tmp"
    options = "fd=%d,rootmode=40000,user_id=0,group_id=0" % fd
    if libc.mount(b"fuse", target.encode(), b"fuse", 0, options.encode()) != 0:
        raise PermissionError("no FUSE: " + os.strerror(ctypes.get_errno()))

    def attr(ino, mode):
        return struct.pack("<QQQQQQIIIIIIIIII", ino, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def serve():
        first_read, answer_at = None, 0
        while True:
            if answer_at and time.monotonic() > answer_at:
                os.write(fd, struct.pack("<IiQ", 16, -5, first_read))
                answer_at = 0
            if not select.select([fd], [], [], 0.05)[0]:
                continue
            data = os.read(fd, 1 << 20)
            _, opcode, unique, node = struct.unpack_from("<IIQQ", data)
            body = None
            if opcode == 26:  # INIT
                body = struct.pack("<IIIIHHIIHHIIIIIIII", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)[:64]
            elif opcode == 1:  # LOOKUP
                body = struct.pack("<QQQQII", 2, 0, 0, 0, 0, 0) + attr(2, 0o100666)
            elif opcode == 3:  # GETATTR
                body = struct.pack("<QII", 0, 0, 0) + attr(node, 0o40777 if node == 1 else 0o100666)
            elif opcode in (14, 27):  # OPEN, OPENDIR
                body = struct.pack("<QII", 1, hold_s != 0, 0)  # with hold_s: no cache
            elif opcode == 15:  # READ
                if first_read is None:
                    first_read, answer_at = unique, time.monotonic() + hold_s
                continue
            elif opcode == 16 and hold_s:  # WRITE
                body = struct.pack("<II", struct.unpack_from("<I", data, 56)[0], 0)
            elif opcode == 25:  # FLUSH
                continue
            elif opcode in (2, 36, 42):  # FORGET, INTERRUPT, BATCH_FORGET
                continue
            if body is None:
                os.write(fd, struct.pack("<IiQ", 16, -38, unique))
            else:
                os.write(fd, struct.pack("<IiQ", 16 + len(body), 0, unique) + body)
    if os.fork() == 0:  # its end lets go of everybody
        serve()
    os.close(fd)
    return os.open(target + "/file", os.O_RDWR)


def pass_fuse(ready, path):
    producers = [Producer(path, "hostile", []) for _ in range(8)]
    try:
        fd = fuse_file()
    except (PermissionError, FileNotFoundError) as why:
        ready("SKIP %s" % why)
        return
    for producer in producers:
        for _ in range(2):
            producer.send(field(5, field(1, producer.service) + field(2, producer.methods["Sync"])), fd)
    time.sleep(0.3)
    ready()


def fuse_passed(build):
    """a passed file whose file system does not answer at its close holds nobody up, nor the end"""
    with World(build) as world:
        victim = world.victim()
        child = world.attack("stranger", pass_fuse, world.producer)
        said = child.wait_ready()
        if said.startswith("SKIP"):
            victim.is_ending = True
            return said
        if said.startswith("failed"):
            raise Failed(said)
        time.sleep(2)
        worst, failed, is_alive = victim.worst_s(), victim.failed, world.is_alive()
        victim.is_ending = True
        if failed or not is_alive or worst > 1.0 * get_slowness():
            raise Failed("the victim waited %.1f s; alive=%s %s" % (worst, is_alive, failed or ""))
        return "the victim waited %.3f s at most" % worst


# ---- a file whose position somebody else holds locked ----

def clone_while_locked(ready, path):
    """Readers that wait for a FUSE server hold the position of the session's file; then it is cloned."""
    owner, other = Consumer(path), Consumer(path)
    try:
        fd = fuse_file(hold_s=2.5)
    except (PermissionError, FileNotFoundError) as why:
        ready("SKIP %s" % why)
        return
    why = owner.enable(field(1, field(1, 256)) + field(8, 1) + field(9, 600000), fd)
    if why:
        raise Failed(why)
    time.sleep(0.5)  # for what the session writes at its start
    for _ in range(4):
        if os.fork() == 0:
            try:
                os.read(fd, 10)
            finally:
                os._exit(0)
    time.sleep(0.3)
    other.invoke("CloneSession", field(1, owner.state()[0][1][0]), lambda *_: None, os.memfd_create("clone"))
    ready()
    time.sleep(20)


def fuse_locked_position(build):
    """a session's file whose position another process holds locked holds nobody up"""
    with World(build, consumer_group=None) as world:
        victim = world.victim()
        said = world.attack("member", clone_while_locked, world.consumer).wait_ready()
        if said.startswith("SKIP"):
            return said
        if said.startswith("failed"):
            raise Failed(said)
        time.sleep(3)
        return judge(world, victim)


# ---- a connection for which very many wait at the other end ----

def have_waiters(sock, fds_max):
    for _ in range(10):
        begun, done = os.pipe()
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG
            epoll = select.epoll()
            for _ in range(min(fds_max - 100, 20000)):
                epoll.register(os.dup(sock.fileno()), select.EPOLLIN | select.EPOLLET)
            os.write(done, b"x")
            time.sleep(600)
        os.read(begun, 1)
        os.close(begun)
        os.close(done)


def wait_for_one(ready, path):
    """Whoever sends to this socket, reads or closes it, wakes all that wait for the other end."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    producer = Producer(path, "hostile", [])
    have_waiters(producer.sock, hard)

    def ask():
        while True:
            producer.call("Sync")
    threading.Thread(target=ask, daemon=True).start()
    ready()


def many_waiters(build):
    """200,000 epoll entries at the other end of a producer's socket delay nobody"""
    with World(build) as world:
        victim = world.victim()
        counts = []
        for is_attacked in (False, True):
            if is_attacked:
                said = world.attack("stranger", wait_for_one, world.producer).wait_ready()
                if said != "ready":
                    raise Failed(said)
                time.sleep(1)
            before = victim.answers
            time.sleep(3)
            counts.append(victim.answers - before)
        if counts[1] < counts[0] / 2 or victim.failed or not world.is_alive():
            raise Failed("the victim had %d answers, %d quiet %s" % (counts[1], counts[0], victim.failed or ""))
        return "the victim had %d answers, %d quiet" % (counts[1], counts[0])


def be_refused(ready, path, count):
    """Who connects too often is closed at once."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    costly = [socket.socket(socket.AF_UNIX) for _ in range(count)]
    for sock in costly:
        have_waiters(sock, hard)

    def connect(sock):
        for _ in range(200):
            with socket.socket(socket.AF_UNIX) as other:
                other.connect(path)
        sock.connect(path)
    for _ in range(6):
        connect(socket.socket(socket.AF_UNIX))
    for sock in costly[:2]:  # one is free, and one is noted
        connect(sock)
        time.sleep(0.5)
    ready("noted")
    for sock in costly[2:]:
        connect(sock)
        time.sleep(0.2)
    time.sleep(600)


def refused_waiters(build):
    """nor at that of connections that are refused, from the second one on"""
    with World(build) as world:
        victim = world.victim()
        child = world.attack("stranger", be_refused, world.producer, 6)
        said = child.wait_ready()
        victim.forget()
        os.close(child.stay_end)  # it continues
        child.stay_end = os.open("/dev/null", os.O_RDONLY)
        time.sleep(3)
        worst = victim.worst_s()
        is_noted = any("socket-costly" in line for line in world.log_lines())
        if said != "noted" or not is_noted or victim.failed or not world.is_alive():
            raise Failed("%s, noted: %s %s" % (said, is_noted, victim.failed or ""))
        if worst > 0.1 * get_slowness():
            raise Failed("the victim waited %.3f s" % worst)
        return "the victim waited %.3f s at most" % worst
