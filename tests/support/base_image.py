#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small Debian root for container images, made of the packages that this machine has installed, with no
network: what is essential, apt, and what is named, each with all that it depends on. dpkg and apt know what is
there, so more can be installed in it.

    base_image.py [PACKAGE...] >root.tar
"""
import os
import re
import sys
import tarfile

MERGED = re.compile(r"^/(bin|sbin|lib|lib32|lib64|libx32)(?=/|$)")
UNWANTED = re.compile(r"^/usr/share/(doc|man|info|locale|lintian)/")
# Not of any package: how apt reaches its archive, and whom it believes.
BESIDES = ["/etc/apt", "/etc/nsswitch.conf", "/etc/ssl/certs", "/usr/share/keyrings", "/usr/share/ca-certificates", "/etc/pam.d", "/etc/ld.so.cache"]
INFO = "/var/lib/dpkg/info"


def installed():
    """Package: its fields, those with a stanza of their own in dpkg's status."""
    found = {}
    with open("/var/lib/dpkg/status", encoding="utf-8") as f:
        for stanza in f.read().split("\n\n"):
            fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", stanza, re.M))
            if fields.get("Status", "").endswith(" installed"):
                fields["stanza"] = stanza
                found[fields["Package"]] = fields
    return found


def names_in(text):
    return [[re.sub(r"[\s:(\[].*", "", choice.strip()) for choice in one.split("|")] for one in text.split(",") if one]


def closure(packages, wanted):
    provided = {}
    for name, fields in packages.items():
        for (other, *_) in names_in(fields.get("Provides", "")):
            provided.setdefault(other, name)
    todo = list(wanted) + [n for n, f in packages.items() if f.get("Essential") == "yes" or f.get("Priority") == "required"]
    seen = set()
    while todo:
        name = todo.pop()
        name = name if name in packages else provided.get(name)
        if name is None or name in seen:
            continue
        seen.add(name)
        for key in ("Depends", "Pre-Depends"):
            for choices in names_in(packages[name].get(key, "")):
                todo += [c for c in choices if c in packages or c in provided][:1]
    return seen


def list_of(name, fields):
    for stem in (name, "%s:%s" % (name, fields["Architecture"])):
        path = "%s/%s.list" % (INFO, stem)
        if os.path.exists(path):
            yield path
            with open(path, encoding="utf-8") as f:
                yield from f.read().split("\n")
            for end in (".conffiles", ".md5sums", ".postinst", ".postrm", ".preinst", ".prerm", ".shlibs", ".symbols", ".triggers"):
                if os.path.exists(path[:-5] + end):
                    yield path[:-5] + end


def below(top):
    yield top
    for folder, folders, files in os.walk(top):
        yield from (os.path.join(folder, n) for n in folders + files)


class Root:
    def __init__(self, out):
        self.tar, self.seen = tarfile.open(fileobj=out, mode="w|", format=tarfile.GNU_FORMAT), set()

    def add(self, path):
        path = MERGED.sub(r"/usr/\1", path).rstrip("/")
        if not path or path in self.seen or UNWANTED.match(path) or not os.path.lexists(path):
            return
        self.seen.add(path)
        self.add(os.path.dirname(path))
        self.tar.add(path, arcname="." + path, recursive=False)

    def add_text(self, path, text, mode=0o644):
        import io
        info = tarfile.TarInfo("." + path)
        info.size, info.mode = len(text.encode()), mode
        self.seen.add(path)
        self.tar.addfile(info, io.BytesIO(text.encode()))

    def add_link(self, path, to):
        info = tarfile.TarInfo("." + path)
        info.type, info.linkname = tarfile.SYMTYPE, to
        self.seen.add(path)
        self.tar.addfile(info)

    def add_folder(self, path, mode):
        info = tarfile.TarInfo("." + path)
        info.type, info.mode = tarfile.DIRTYPE, mode
        self.seen.add(path)
        self.tar.addfile(info)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def main():
    packages = installed()
    chosen = sorted(closure(packages, ["apt", "ca-certificates", "debian-archive-keyring"] + sys.argv[1:]))
    root = Root(sys.stdout.buffer)
    for name in ("bin", "sbin", "lib", "lib64"):
        root.add("/usr/" + name)
        root.add_link("/" + name, "usr/" + name)
    for path, mode in (("/tmp", 0o1777), ("/proc", 0o555), ("/sys", 0o555), ("/dev", 0o755), ("/run", 0o755), ("/root", 0o700)):
        root.add_folder(path, mode)
    users = "/usr/share/base-passwd/"
    root.add("/etc")
    root.add_text("/etc/passwd", read(users + "passwd.master").replace(":*:", ":x:"))
    root.add_text("/etc/group", read(users + "group.master").replace(":*:", ":x:"))
    root.add_text("/etc/shadow", "".join("%s:*:19000:0:99999:7:::\n" % line.split(":")[0]
                                         for line in read(users + "passwd.master").split("\n") if line), 0o640)
    for name in chosen:
        for path in list_of(name, packages[name]):
            root.add(path)
    for top in BESIDES:
        for path in below(top) if os.path.lexists(top) else ():
            root.add(path)
    for name in sorted(os.listdir("/var/lib/dpkg/alternatives")):  # those of what is there
        if MERGED.sub(r"/usr/\1", os.path.realpath("/etc/alternatives/" + name)) in root.seen:
            root.add("/etc/alternatives/" + name)
            root.add(read("/var/lib/dpkg/alternatives/" + name).split("\n")[1])
    for folder in ("/var/lib/dpkg/updates", "/var/lib/dpkg/triggers", "/var/lib/dpkg/alternatives", "/var/lib/apt/lists/partial",
                   "/var/cache/apt/archives/partial", "/var/log/apt"):
        for part in [folder[:n] for n in range(1, len(folder) + 1) if folder[n:n + 1] in ("/", "")]:
            if part not in root.seen:
                root.add_folder(part, 0o755)
    root.add_text("/var/lib/dpkg/status", "\n\n".join(packages[n]["stanza"] for n in chosen) + "\n\n")
    root.add_text("/var/lib/dpkg/available", "")
    for name in ("arch", "diversions", "statoverride"):
        root.add_text("/var/lib/dpkg/" + name, "")
    root.tar.close()


if __name__ == "__main__":
    main()
