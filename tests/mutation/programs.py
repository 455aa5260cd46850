# SPDX-License-Identifier: Apache-2.0
"""A copy of the tree, what it builds, and the unit tests and corpora that a mutated object is linked into.

The copy is built once and stays as it is. A mutant is one object; it is named on the linker's command line
and comes before the library that has the same object, whose own is then not wanted.
"""
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time

LEAST_LIMIT_S = 30  # of a test that has the mutant; or ten times as long as without it
TIMES_LONGER = 10
# Soft limits: tests set some of their own.
MOST_MEMORY = 16 << 30  # of address space
MOST_FILE = 4 << 30
GLOBAL = "BCDGRSTVW"  # nm's letters; symbols that are hidden outside a library are local in a program
# In namespaces of its own (root only) what a test leaves in /tmp or starts ends with it. Tests name abstract
# sockets by their process's number, which all have there: so the network is their own, too.
INSIDE = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
          'mount --bind "$0" /tmp && ip link set lo up && "$@"; exit $?']
TEST = re.compile(r"^add_test\(\[=*\[((?:unit|fuzz)\.[^\]]+)\]=*\] (.*)\)$", re.M)


class Failed(Exception):
    """The tree without a mutant does not build, or a test of it fails."""


def quietly(command, **more):
    return subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **more)


def must(command, **more):
    done = quietly(command, **more)
    if done.returncode != 0:
        raise Failed("%s\n%s" % (command if isinstance(command, str) else shlex.join(map(str, command)),
                                 done.stdout.decode(errors="replace")[-4000:]))
    return done.stdout.decode()


def copy_tree(root, names, copy):
    """Returns what the files say, as a hash; documents are no part of it."""
    said = hashlib.sha256()
    for name in sorted(names):
        source, target = root / name, copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
        if not name.endswith(".md") and source.is_file():
            said.update(name.encode() + b"\0" + hashlib.sha256(source.read_bytes()).digest())
    return said.hexdigest()[:12]


class Test:
    """A unit test or a corpus, as ctest runs it."""

    def __init__(self, name, command, build):
        self.name, self.command = name, command
        self.program = os.path.relpath(command[0], build)
        self.link = self.symbols = None
        self.lock = threading.Lock()


class Programs:
    def __init__(self, copy, jobs):
        self.copy, self.jobs = copy, jobs
        self.build = copy / "build" / "dev"
        self.environment = dict(os.environ)
        if shutil.which("ccache"):
            self.environment.update(CMAKE_C_COMPILER_LAUNCHER="ccache", CCACHE_BASEDIR=str(copy), CCACHE_NOHASHDIR="1")
        self.lock = threading.Lock()
        self.running = set()
        self.objects = {}
        self.stopped = False
        (copy / "tmp").mkdir()
        apart = os.geteuid() == 0 and quietly([*INSIDE, str(copy / "tmp"), "true"]).returncode == 0
        self.inside = INSIDE if apart else []

    def read(self, name):
        return (self.copy / name).read_text(encoding="utf-8")

    def configure(self):
        must(["cmake", "--preset", "dev", "-DPFL_BENCH=OFF"], cwd=self.copy, env=self.environment)
        # ctest itself has no command for a program that is not built yet.
        listed = "\n".join(f.read_text() for f in sorted(self.build.rglob("CTestTestfile.cmake")))
        self.tests = [Test(name, shlex.split(command), self.build) for name, command in TEST.findall(listed)]
        commands = json.loads((self.build / "compile_commands.json").read_text())
        self.compilers = {}  # file: command, object; its own folder's, libperfleet compiles two files of base again
        for command in commands:
            name = os.path.relpath(command["file"], self.copy)
            words = [w for w in shlex.split(command["command"]) if not w.endswith("ccache") and w != "-MD"]
            target = words[words.index("-o") + 1]
            for option in ("-MT", "-MF"):
                if option in words:
                    del words[words.index(option):words.index(option) + 2]
            if target.startswith(os.path.dirname(name).split("/")[0] + "/"):
                self.compilers[name] = (words, target)
        self.read_graph()
        self.parts = {t.name: self.leads_to(t.program) for t in self.tests}

    def read_graph(self):
        self.inputs = {}
        text = (self.build / "build.ninja").read_text().replace("$\n", "")
        for outputs, inputs in re.findall(r"^build ([^:\n]+): \S+ ([^\n]*)", text, re.M):
            for output in re.split(r"[ |]+", outputs):
                self.inputs.setdefault(output, set()).update(re.split(r"[ |]+", inputs.split("||")[0]))

    def leads_to(self, target):
        """Every file that the target is made of."""
        seen, waiting = set(), [target]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += self.inputs.get(name, ())
        return seen

    def near(self, name):
        """The tests whose libraries have the file's object."""
        target = self.compilers[name][1]
        return [t for t in self.tests if target in self.parts[t.name]]

    def make(self, tests):
        with self.lock:
            names = sorted({t.program for t in tests if not (self.build / t.program).exists()})
            if names:
                must(["ninja", "-C", str(self.build), "-j", str(self.jobs), *names], env=self.environment)
            fresh = [t for t in tests if t.symbols is None]
            if fresh:
                found = self.symbols([t.program for t in fresh], GLOBAL + GLOBAL.lower())
                links = must(["ninja", "-C", str(self.build), "-t", "commands", "-s",
                              *[t.program for t in fresh]]).splitlines()
                for test in fresh:
                    test.symbols = found[test.program]
                    test.link = next(c.strip() for c in links if " -o %s " % test.program in c)

    def symbols(self, paths, kinds):
        """For each file, relative to the build's folder, those that it defines."""
        found = {path: set() for path in paths}
        out = must(["nm", "--defined-only", "--format=posix", "--print-file-name", *paths], cwd=self.build)
        for path, symbol, kind in re.findall(r"^(.*): (\S+) (\w)\b", out, re.M):
            if kind in kinds:
                found[path].add(symbol)
        return found

    def linked(self, name):
        """The tests that have the object: those of the file's name first, then those of its folder."""
        target = self.compilers[name][1]
        mine = self.symbols([target], GLOBAL)[target]
        stem, folder = os.path.basename(name)[:-2], os.path.dirname(name)
        found = [t for t in self.near(name) if mine & t.symbols]
        return sorted(found, key=lambda t: (stem not in t.name, not self.is_of(t, folder), t.name))

    def is_of(self, test, folder):
        """Unit tests mirror the tree."""
        return any(part.startswith("tests/unit/%s/" % folder) for part in self.parts[test.name])

    def measure(self, test):
        """For how long the test runs now without a mutant. It must hold in one of three runs."""
        with test.lock:
            folder = self.copy / "plain" / test.name
            folder.mkdir(parents=True, exist_ok=True)
            program = folder / os.path.basename(test.program)
            if not program.exists():
                os.link(self.build / test.program, program)  # not where it was built, as with a mutant
            for _ in range(3):
                begin = time.monotonic()
                if self.run(test, program, 600) == 0:
                    return time.monotonic() - begin
            raise Failed("%s fails without a mutant" % test.name)

    def compile(self, name, source, target, *options):
        """None if the text does not compile, else the object's bytes."""
        words = list(self.compilers[name][0])
        words[words.index("-o") + 1] = str(target)
        words[words.index("-c") + 1] = str(source)
        # A mutant stands in another folder than its text was written for; assertions name the file.
        words += ["-w", "-g0", "-iquote", str((self.copy / name).parent),
                  "-fmacro-prefix-map=%s/=" % source.parent, *options]
        if quietly(words, cwd=self.build).returncode != 0:
            return None
        return target.read_bytes()

    def plain(self, name, *options):
        """The object's bytes without a mutant."""
        with self.lock:
            known = self.objects.get((name, options))
        if known is None:
            folder = pathlib.Path(tempfile.mkdtemp(dir=self.copy / "tmp"))
            shutil.copy2(self.copy / name, folder)
            known = self.compile(name, folder / os.path.basename(name), folder / "plain.o", *options)
            shutil.rmtree(folder)
            with self.lock:
                self.objects[name, options] = known
        return known

    def link(self, test, name, target, program):
        mine = self.compilers[name][1]
        head, tail = test.link.split(" -o %s " % test.program)
        command = "%s -Wl,--strip-debug %s -o %s %s" % (head, target, program, tail)
        command = command.replace(" %s " % mine, " ")
        if quietly(["sh", "-c", command], cwd=self.build).returncode != 0:
            raise Failed("%s does not link with %s" % (test.name, name))

    def survives(self, test, name, target, folder):
        """'alive', 'killed' or 'timeout'. A test that fails fails twice, so that noise kills nothing. The second
        time has ten times as long as the test without the mutant needs between the two: other load kills nothing."""
        if self.stopped:
            raise Failed("interrupted")
        program = folder / os.path.basename(test.program)
        self.link(test, name, target, program)
        code = self.run(test, program, LEAST_LIMIT_S)
        if code != 0:
            code = self.run(test, program, max(LEAST_LIMIT_S, TIMES_LONGER * self.measure(test)))
        program.unlink()
        return "timeout" if code is None else "killed" if code != 0 else "alive"

    def run(self, test, program, limit_s):
        """The exit code, or None after that time."""
        tmp = program.parent / "tmp"
        tmp.mkdir()
        tmp.chmod(0o1777)
        command = ["prlimit", "--core=0", "--as=%d:" % MOST_MEMORY, "--fsize=%d:" % MOST_FILE, str(program),
                   *test.command[1:]]
        if self.inside:
            command = [*self.inside, str(tmp), *command]
        process = subprocess.Popen(command, cwd=self.copy, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        self.running.add(process)
        try:
            if self.stopped:
                limit_s = 0
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.end(process)
            self.running.discard(process)
            shutil.rmtree(tmp, ignore_errors=True)

    @staticmethod
    def end(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def stop(self):
        self.stopped = True
        for process in list(self.running):
            self.end(process)
