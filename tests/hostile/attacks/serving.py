# SPDX-License-Identifier: Apache-2.0
"""Who serves in the service's place: programs speak only to those whom they can trust."""
import ctypes
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import time

from world import CLONE_NEWNS, MS_BIND, MS_PRIVATE, MS_REC, SEATS, Consumer, Failed, field, must, sit_down

ATTACKS = ["squatted_name", "squatted_consumer", "squatted_link", "squatted_before_service",
           "environment_of_another", "program_with_rights"]
LIMIT_S = 20
SECRET = "secret-of-root"


class Squat:
    """A folder like /tmp, in which a stranger runs a service of his own that anybody may reach."""

    def __init__(self, build, seat="stranger", producer="producer"):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="pfl.", dir="/tmp"))
        self.dir.chmod(0o755)
        self.tmp = self.dir / "tmp"
        self.tmp.mkdir()
        self.tmp.chmod(0o1777)
        self.producer, self.consumer = str(self.tmp / producer), str(self.tmp / "consumer")
        shutil.copy(build / "bin" / "perfleetd", self.dir / "perfleetd")
        self.uid = SEATS[seat][0]
        self.children = []
        self.service = self.run("service", str(self.dir / "perfleetd"), "--producer-socket", self.producer,
                                "--consumer-socket", self.consumer, preexec_fn=lambda: sit_down(seat))
        self.wait_for(lambda: os.path.exists(self.consumer))
        for path in (self.producer, self.consumer):
            os.chmod(path, 0o777)

    def run(self, log, *command, **more):
        out = open(self.dir / (log + ".log"), "w")
        child = subprocess.Popen(command, stdout=out, stderr=out, **more)
        self.children.append(child)
        return child

    def log(self, name):
        return (self.dir / (name + ".log")).read_text(errors="replace")

    def wait_for(self, is_so, limit_s=LIMIT_S):
        end = time.monotonic() + limit_s
        while not is_so():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def __enter__(self):
        return self

    def __exit__(self, *why):
        for child in self.children:
            child.terminate()
        for child in self.children:
            child.wait(LIMIT_S)
        shutil.rmtree(self.dir, ignore_errors=True)


def record_processes(path, seconds):
    """What that service's consumer learns of this host's processes."""
    consumer = Consumer(path)
    source = field(1, "linux.process_stats") + field(103, field(2, 1))
    why = consumer.enable(field(1, field(1, 4096)) + field(2, field(1, source)))
    if why:
        raise Failed(why)
    end, has_it = time.monotonic() + seconds, False
    while time.monotonic() < end and not has_it:
        time.sleep(0.2)
        consumer.call("Flush", field(1, 1000))
        has_it = any(SECRET.encode() in packet for packet in consumer.packets())
    consumer.close()
    return has_it


def squatted_name(build):
    """root's probes tell a stranger who serves in the service's place nothing, and say who it is"""
    with Squat(build) as squat:
        squat.run("sleep", "bash", "-c", "exec -a %s sleep 60" % SECRET)
        squat.run("probes", str(build / "bin/perfleet-probes"), "--no-ftrace", "--producer-socket",
                  squat.producer)
        if not squat.wait_for(lambda: "probes-started" in squat.log("probes")):
            raise Failed(squat.log("probes"))
        if record_processes(squat.consumer, 3):
            raise Failed("the stranger has root's command lines")
        said = "is a socket of user %d" % squat.uid
        if not squat.wait_for(lambda: said in squat.log("probes")):
            raise Failed("the probes do not say why: " + squat.log("probes"))
        # The way out that the words name.
        squat.run("named", str(build / "bin/perfleet-probes"), "--no-ftrace", "--producer-socket",
                  squat.producer, "--service-user", str(squat.uid))
        if not record_processes(squat.consumer, LIMIT_S):
            raise Failed("a user who is named is refused: " + squat.log("named"))


def squatted_consumer(build):
    """nor does perfleet give him a config"""
    with Squat(build) as squat:
        out = subprocess.run([str(build / "bin/perfleet"), "record", "-q", "--host", "unix:" + squat.consumer,
                              "--preset", "sched", "--duration", "1s", "-o", str(squat.dir / "out")],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=LIMIT_S)
        text = out.stdout.decode()
        if out.returncode == 0 or "is a socket of user %d" % squat.uid not in text:
            raise Failed("perfleet: %d %s" % (out.returncode, text))
        if "session-enabled" in squat.log("service"):
            raise Failed("the stranger got a config")


def squatted_link(build):
    """a link in the service's place leads nobody to another socket of root's"""
    with Squat(build) as squat:
        server = socket.socket(socket.AF_UNIX)
        other = str(squat.dir / "other")  # of root's, and no tracing service
        server.bind(other)
        server.listen(8)
        link = str(squat.tmp / "link")
        os.symlink(other, link)
        os.lchown(link, squat.uid, squat.uid)
        squat.run("probes", str(build / "bin/perfleet-probes"), "--no-ftrace", "--producer-socket", link)
        if not squat.wait_for(lambda: "is no socket, but a file of user" in squat.log("probes")):
            raise Failed("the probes do not say why: " + squat.log("probes"))
        server.settimeout(1)
        try:
            server.accept()
        except TimeoutError:
            return
        raise Failed("the probes came to another socket")


def squatted_before_service(build):
    """the service does not start beside a stranger who serves at its address, and says who it is"""
    with Squat(build) as squat:
        service = squat.run("second", str(build / "bin/perfleetd"), "--producer-socket", squat.producer,
                            "--consumer-socket", squat.consumer)
        if service.wait(LIMIT_S) == 0:
            raise Failed("it started")
        if "user %d, process %d serves there already" % (squat.uid, squat.service.pid) not in squat.log("second"):
            raise Failed("it does not say who serves: " + squat.log("second"))
        if "socket-place-shared" not in squat.log("service"):
            raise Failed("a service in such a folder does not say so: " + squat.log("service"))


def environment_of_another(build):
    """the environment of who runs a program that has more rights does not choose to whom that connects"""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pfl.", dir="/tmp"))
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(2)
    program, child = folder / "example", None
    try:
        folder.chmod(0o755)
        for mode, is_let in ((0o755, True), (0o4755, False)):  # the second one is root's, whoever runs it
            shutil.copy(build / "bin/perfleet-example", program)
            program.chmod(mode)
            child = subprocess.Popen([program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                     env={"PERFETTO_PRODUCER_SOCK_NAME": "127.0.0.1:%d" % listener.getsockname()[1]},
                                     preexec_fn=lambda: sit_down("stranger"))
            try:
                listener.accept()[0].close()
                has_come = True
            except TimeoutError:
                has_come = False
            child.kill()
            child.wait()
            if has_come != is_let:
                raise Failed("mode %o: %s" % (mode, "it connected" if has_come else "it did not connect"))
    finally:
        if child is not None and child.poll() is None:
            child.kill()
        listener.close()
        shutil.rmtree(folder, ignore_errors=True)


OWN = "/run/own/producer"


def enter_place(folder):
    """From here on this process, of the stranger, sees that folder as /tmp, no /run/perfetto, and the service in a
    folder of the stranger's own, too: OWN."""
    libc = ctypes.CDLL(None, use_errno=True)
    must(libc.unshare(CLONE_NEWNS), "unshare")
    must(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "mount")
    must(libc.mount(str(folder).encode(), b"/tmp", None, MS_BIND, None), "mount")
    must(libc.mount(b"none", b"/run", b"tmpfs", 0, None), "mount")
    os.mkdir(os.path.dirname(OWN))
    os.chown(os.path.dirname(OWN), *SEATS["stranger"][:2])
    pathlib.Path(OWN).touch()
    must(libc.mount(b"/tmp/perfetto-producer", OWN.encode(), None, MS_BIND, None), "mount")
    sit_down("stranger")


def program_with_rights(build):
    """a setgid program, or one with capabilities, connects to no socket of who runs it"""
    net_bind = struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0)
    with Squat(build, producer="perfetto-producer") as squat:
        program, consumer = squat.tmp / "example", Consumer(squat.consumer)

        def is_there():
            return b"perfleet-example" in consumer.call("QueryServiceState")[1]

        for what, mode, capabilities, more in (
                ("plain", 0o755, None, []), ("setgid", 0o2755, None, []), ("capable", 0o755, net_bind, []),
                ("plain-own", 0o755, None, ["--socket", OWN]), ("setgid-own", 0o2755, None, ["--socket", OWN])):
            shutil.copy(build / "bin/perfleet-example", program)
            program.chmod(mode)
            if capabilities:
                os.setxattr(program, "security.capability", capabilities)
            child = squat.run(what, "/tmp/example", *more, env={}, preexec_fn=lambda: enter_place(squat.tmp))
            is_more = capabilities or mode != 0o755
            squat.wait_for(lambda: is_there() or is_more and "waiting" in squat.log(what))
            has_come = is_there()
            child.kill()
            child.wait()
            squat.wait_for(lambda: not is_there())
            program.unlink()
            if has_come != (not is_more):
                raise Failed("%s: %s %s" % (what, "it connected" if has_come else "it did not", squat.log(what)))
