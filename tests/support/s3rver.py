# SPDX-License-Identifier: Apache-2.0
"""A server of S3 for Python tests: s3rver of npm (tests/support/s3rver.sh fetches it), over HTTP on loopback. Its keys
are S3RVER and S3RVER, and it keeps the object KEY of a bucket in FOLDER/BUCKET/KEY._S3rver_object."""
import os
import pathlib
import secrets
import socket
import subprocess

BUCKET = "perfleet-test"
SUFFIX = "._S3rver_object"
HERE = pathlib.Path(__file__).resolve().parent


class S3rver:
    """`is_there`: it is installed, or could be; `command` starts it, always on the same port."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.port = 20000 + secrets.randbelow(12000)  # which the kernel does not lend to whoever connects
        self.program = self.find()
        self.is_there = self.program is not None

    def find(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        script = 'WORK=$1; . "$0/s3rver.sh"; s3rver_find && echo "$SERVER"'
        found = subprocess.run(["bash", "-c", script, HERE, self.folder.parent], capture_output=True, text=True, check=False)
        return found.stdout.strip() or None

    def command(self):
        return [self.program, "-d", self.folder, "-a", "127.0.0.1", "-p", self.port, "--configure-bucket", BUCKET]

    @property
    def env(self):
        """Its tokens of lists use a cipher that OpenSSL 3 has put aside. It lacks requests of uploads in parts."""
        return {"NODE_OPTIONS": f"--openssl-legacy-provider --require {HERE}/s3rver_uploads.js",
                "S3RVER_FOLDER": str(self.folder)}

    def uploads(self):
        """The folders of uploads in parts that are not complete."""
        return list((self.folder / BUCKET / "._S3rver_uploads").glob("*"))

    def collector_options(self, prefix, staging):
        return ["--store", f"s3://{BUCKET}/{prefix}", "--s3-endpoint", f"http://127.0.0.1:{self.port}", "--s3-path-style",
                "--s3-staging-dir", staging]

    collector_env = {"AWS_ACCESS_KEY_ID": "S3RVER", "AWS_SECRET_ACCESS_KEY": "S3RVER",
                     "no_proxy": ",".join(filter(None, (os.environ.get("no_proxy"), "127.0.0.1")))}

    def answers(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0
