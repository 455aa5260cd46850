# SPDX-License-Identifier: Apache-2.0
"""Drives a headless Chromium by its protocol, over a pair of pipes: pages, scripts, clicks, and
what was requested and logged meanwhile."""
import json
import os
import select
import signal
import subprocess
import time


class Browser:
    """`flags` are Chromium's. Its processes end with close()."""

    def __init__(self, flags, profile, env=None):
        to_read, self.to = os.pipe()
        self.come, to_write = os.pipe()

        def place():  # where Chromium expects them
            os.dup2(to_read, 10)
            os.dup2(to_write, 11)
            os.dup2(10, 3)
            os.dup2(11, 4)
            os.setsid()

        self.log = open(os.path.join(profile + ".log"), "wb")
        self.process = subprocess.Popen(
            ["chromium", *flags, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=place, close_fds=False, env=env, stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=self.log)
        os.close(to_read)
        os.close(to_write)
        self.bytes = b""
        self.number = 0
        self.requests = []  # (method, url)
        self.said = []      # the console's lines, and uncaught errors
        self.events = []

    def read(self, timeout):
        """One message, or None."""
        end = time.monotonic() + timeout
        while b"\0" not in self.bytes:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.come], [], [], left)[0]:
                return None
            part = os.read(self.come, 1 << 20)
            if not part:
                raise EOFError("the browser ended")
            self.bytes += part
        line, self.bytes = self.bytes.split(b"\0", 1)
        return json.loads(line)

    def note(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append((params["request"]["method"], params["request"]["url"]))
        elif method == "Runtime.consoleAPICalled":
            self.said.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.said.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.said.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method is not None:
            self.events.append(message)

    def call(self, method, session=None, timeout=60, **params):
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            answer = self.read(end - time.monotonic())
            if answer is None:
                break
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer)
        raise TimeoutError(method)

    def attach(self, target):
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable", session)
        return session

    def open(self, url):
        """A new tab: its session."""
        session = self.attach(self.call("Target.createTarget", url="about:blank")["targetId"])
        self.call("Page.navigate", session, url=url)
        return session

    def targets(self):
        return [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]

    def run(self, session, script):
        """A script's value; as if a person had clicked."""
        result = self.call("Runtime.evaluate", session, expression=script, returnByValue=True,
                           awaitPromise=True, userGesture=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"]))
        return result["result"].get("value")

    def click(self, session, selector):
        box = self.run(session, f"(r => [r.x + r.width / 2, r.y + r.height / 2])"
                                f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", session, type=kind, x=box[0], y=box[1], button="left",
                      clickCount=1)

    def wait(self, session, script, timeout=60):
        """Until the script's value is true: the value, True for an object; else None."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            try:
                value = self.run(session, script)
            except RuntimeError:  # between two pages
                value = None
            if value or isinstance(value, (dict, list)):  # an element is {} here
                return value or True
            time.sleep(0.1)
        return None

    def close(self):
        try:
            self.call("Browser.close", timeout=10)
        except (EOFError, OSError, TimeoutError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
