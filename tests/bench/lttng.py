# SPDX-License-Identifier: Apache-2.0
"""An LTTng session of its own: session daemon, channel and output in a directory of its own."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time


def is_there(program):
    return program.exists() and shutil.which('lttng') and shutil.which('lttng-sessiond')


class Lttng:
    """For `with`: traces perfleet_bench:* of programs started with `env`. Buffers as libperfleet's:
    records that do not fit are dropped."""

    def __init__(self, smb_kb):
        self.dir = tempfile.mkdtemp(prefix='pfl-lttng-')
        self.env = dict(os.environ, LTTNG_HOME=self.dir, LTTNG_UST_REGISTER_TIMEOUT='-1')
        self.kb = smb_kb
        # As root the daemon's sockets are the system's, unless it runs as somebody's.
        self.daemon = subprocess.Popen(
            ['lttng-sessiond', '--no-kernel', '--quiet'], env=self.env,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def lttng(self, *args):
        subprocess.run(['lttng', '--no-sessiond', *args], env=self.env, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        deadline = time.monotonic() + 20
        while True:
            try:
                self.lttng('create', 'bench', f'--output={self.dir}/out')
                break
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        self.lttng('enable-channel', '-u', '--discard', f'--subbuf-size={self.kb // 8}k',
                   '--num-subbuf=8', 'bench')
        self.lttng('enable-event', '-u', '-c', 'bench', 'perfleet_bench:*')
        return self

    def start(self):
        self.lttng('start')

    def __exit__(self, *_):
        subprocess.run(['lttng', '--no-sessiond', 'destroy', '-a'], env=self.env,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        self.daemon.terminate()
        self.daemon.wait(timeout=20)
        shutil.rmtree(self.dir, ignore_errors=True)
        assert not pathlib.Path(self.dir).exists()
