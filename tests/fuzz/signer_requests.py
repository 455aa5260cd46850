#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests to the signer from somebody who has a token and damages what he signs. Of each the signer
says `refused:` and keeps the token, or makes a certificate of the token's name and of the request's key.

  tests/fuzz/signer_requests.py [--seed N] [--count N | --seconds N]

perfleet-pki is a script around openssl, so libFuzzer cannot drive it: the damage is random here, by the
seed. Prints one line; exit code 1 with the request in hex when the signer does anything else."""
import argparse
import base64
import hashlib
import hmac
import pathlib
import random
import subprocess
import sys
import tempfile
import time

PKI = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "pki" / "perfleet-pki"
LIMIT_S = 60


def run(*command, data=b""):
    return subprocess.run([str(c) for c in command], input=data, capture_output=True, timeout=LIMIT_S, check=False)


def damage(dice, der):
    der = bytearray(der)
    kind = dice.randrange(6)
    at = dice.randrange(len(der))
    if kind == 0:
        der[at] ^= 1 << dice.randrange(8)
    elif kind == 1:
        der[at] = dice.choice((0, 1, 0x7f, 0x80, 0x84, 0xff))
    elif kind == 2:
        del der[at:]
    elif kind == 3:
        del der[at:at + dice.randrange(1, 9)]
    elif kind == 4:
        der[at:at] = dice.randbytes(dice.randrange(1, 200))
    else:
        der += dice.randbytes(dice.randrange(1, 2000))
    return bytes(der)


def make_pem(dice, der):
    text = base64.b64encode(der)
    width = dice.choice((64, 64, 64, 1, 1000, 100000))
    lines = [text[i:i + width] for i in range(0, len(text), width)]
    end = dice.choice((b"\n", b"\n", b"\n", b"\r\n", b"\0\n"))
    head = dice.choice((b"", b"", b"", b"-----BEGIN PRIVATE KEY-----\n", b"junk\n", b"\xff\xfe"))
    return (head + b"-----BEGIN CERTIFICATE REQUEST-----" + end + end.join(lines) + end
            + b"-----END CERTIFICATE REQUEST-----" + end)


class Signer:
    def __init__(self, folder):
        self.dir = folder / "pki"
        self.key, self.other = folder / "key.pem", folder / "new.pub"
        run(PKI, "init", self.dir, "--fleet", "test")
        run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.key)
        self.der = run("openssl", "req", "-new", "-key", self.key, "-subj", "/CN=new", "-outform", "DER").stdout
        self.token = None

    def request(self, csr):
        if self.token is None:
            self.token = run(PKI, "join-token", self.dir, "new").stdout.decode().strip()
        _, _, _, number, secret, _ = self.token.split(":")
        proof = hmac.new(bytes.fromhex(secret), csr, hashlib.sha256).hexdigest()
        return b"perfleet-join 1\n%s\n%s\n%s" % (number.encode(), proof.encode(), csr)

    def is_token_good(self):
        return (self.dir / "tokens" / self.token.split(":")[3]).exists()

    def key_of(self, kind, text):
        return run("openssl", kind, "-noout", "-pubkey", data=text).stdout

    def judge(self, csr):
        """What is wrong, or None; whether a certificate was made."""
        said = run(PKI, "sign", self.dir, data=self.request(csr)).stdout
        if said.startswith(b"refused:"):
            return (None if self.is_token_good() else "the token is burnt"), False
        if not said.startswith(b"ok\n"):
            return "the signer says %r" % said[:200], False
        names = run("openssl", "x509", "-noout", "-subject", "-ext", "subjectAltName", data=said[3:]).stdout
        self.token = None
        if b"URI:perfleet://test/host/new\n" not in names or b"CN = new\n" not in names.replace(b"CN=new", b"CN = new"):
            return "the certificate is of %r" % names, True
        if self.key_of("x509", said[3:]) != self.key_of("req", csr):
            return "the certificate is of another key", True
        return None, True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0)
    args = parser.parse_args()
    dice = random.Random(args.seed)
    begin = time.monotonic()
    tried = made = 0
    with tempfile.TemporaryDirectory(prefix="pfl.", dir="/tmp") as folder:
        signer = Signer(pathlib.Path(folder))
        while tried < args.count if not args.seconds else time.monotonic() - begin < args.seconds:
            csr = make_pem(dice, damage(dice, signer.der) if tried % 8 else signer.der)
            wrong, is_made = signer.judge(csr)
            tried, made = tried + 1, made + is_made
            if wrong:
                print("request %d of seed %d: %s\n%s" % (tried, args.seed, wrong, csr.hex()))
                return 1
    print("%d requests, %d certificates" % (tried, made))
    return 0 if made and made < tried else 1


if __name__ == "__main__":
    sys.exit(main())
