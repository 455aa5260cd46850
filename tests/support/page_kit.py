# SPDX-License-Identifier: Apache-2.0
"""What walks through the pages of `perfleet ui` share: claims as lines of TAP, requests with the browser's cookie, forms
without script, screenshots, axe-core."""
import base64
import html
import http.client
import os
import re
import time
import urllib.parse

from browser_pipe import Browser


def ask(handles, name):
    """Has the test do `name`: a file in the folder `handles` asks for it, and NAME.done says that it was done."""
    open(os.path.join(handles, name), "w", encoding="utf-8").close()
    for _ in range(600):
        if os.path.exists(os.path.join(handles, name + ".done")):
            return True
        time.sleep(0.1)
    return False


class Walk:
    """`link` is that of perfleet ui, `folder` gets screenshots, `axe` is axe-core's script or "-", `flags` are Chromium's."""

    def __init__(self, link, folder, axe, flags):
        self.link, self.folder, self.axe = link, folder, axe
        self.here = urllib.parse.urlsplit(link)
        self.origin = f"{self.here.scheme}://{self.here.netloc}"
        self.failed = 0
        self.browser = Browser(flags, os.path.join(folder, "profile"))
        self.session = self.browser.open(link)

    # ---- claims

    def claim(self, text, holds, shown=""):
        print(("ok - " if holds else "not ok - ") + text, flush=True)
        if not holds:
            self.failed += 1
            print("#   " + str(shown)[:3000].replace("\n", "\n#   "), flush=True)
        return holds

    # ---- the browser

    def run(self, script):
        return self.browser.run(self.session, script)

    def wait(self, script, timeout=60):
        return self.browser.wait(self.session, script, timeout)

    def text(self):
        return self.run("document.body.innerText")

    def go(self, path, ready="document.readyState == 'complete'"):
        self.run(f"window.isLeft = true; location.href = {path!r}; true")  # its document may stay for a while
        return self.wait(f"!window.isLeft && document.body && location.pathname == {urllib.parse.urlsplit(path).path!r} && ({ready})")

    def fill(self, selector, text):
        """As a person does: what is there is selected and typed over."""
        self.run(f"(e => {{ e.focus(); e.select(); }})(document.querySelector({selector!r})); true")
        if text:
            self.browser.call("Input.insertText", self.session, text=text)
        else:
            self.press("Delete", 46)

    def press(self, key, code):
        for kind in ("rawKeyDown", "keyUp"):
            self.browser.call("Input.dispatchKeyEvent", self.session, type=kind, key=key, code=key, windowsVirtualKeyCode=code)
        if key == "Enter":
            self.browser.call("Input.dispatchKeyEvent", self.session, type="char", key=key, text="\r",
                              windowsVirtualKeyCode=code)

    def click(self, selector):
        self.run(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}}); true")
        self.browser.click(self.session, selector)

    def shoot(self, name, width, height, scheme):
        call = self.browser.call
        call("Emulation.setDeviceMetricsOverride", self.session, width=width, height=height, deviceScaleFactor=1, mobile=False)
        call("Emulation.setEmulatedMedia", self.session, features=[{"name": "prefers-color-scheme", "value": scheme}])
        time.sleep(0.3)
        shot = call("Page.captureScreenshot", self.session, format="png")
        with open(os.path.join(self.folder, name + ".png"), "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def judge(self, name, height=900):
        """Screenshots, the width of a phone, axe-core in both schemes."""
        self.shoot(name + "-light", 1200, height, "light")
        self.shoot(name + "-dark", 1200, height, "dark")
        self.shoot(name + "-phone", 400, 800, "light")
        self.claim(f"nothing of {name} is wider than a phone", self.run("document.documentElement.scrollWidth <= 400"),
                   self.run("[...document.querySelectorAll('*')].filter(e => e.getBoundingClientRect().right > 401)"
                            ".map(e => e.outerHTML.slice(0, 100)).join('\\n')"))
        self.browser.call("Emulation.clearDeviceMetricsOverride", self.session)
        if self.axe == "-":
            return
        with open(self.axe, encoding="utf-8") as file:
            self.run(file.read() + "; true")
        for scheme in ("light", "dark"):
            self.browser.call("Emulation.setEmulatedMedia", self.session,
                              features=[{"name": "prefers-color-scheme", "value": scheme}])
            time.sleep(0.3)
            found = self.run("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})"
                             ".then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' | ')))")
            self.claim(f"axe-core finds nothing on {name}, {scheme}", found == [], found)

    def end(self, others=()):
        """The last claims; `others` are origins that the walk itself went to."""
        allowed = (self.origin + "/", "about:blank", *[o + "/" for o in others])
        foreign = [u for _, u in self.browser.requests if not u.startswith(allowed)]
        self.claim("no request went to another origin", not foreign, foreign)
        self.claim("the console has no error", not self.browser.said, self.browser.said)

    # ---- without the browser

    def cookie(self):
        cookies = self.browser.call("Network.getCookies", self.session, urls=[self.origin])["cookies"]
        mine = [c for c in cookies if c["name"] == f"perfleet-{self.here.port}"]
        return f'{mine[0]["name"]}={mine[0]["value"]}' if mine else ""

    def request(self, method="GET", path="/", body=None, host=None, **fields):
        connection = http.client.HTTPConnection(self.here.hostname, self.here.port, timeout=120)
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host or self.here.netloc)
        for name, value in fields.items():
            connection.putheader(name.replace("_", "-"), value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer

    def get(self, path):
        """With the browser's cookie: status, text."""
        status, body, _ = self.request("GET", path, Cookie=self.cookie())
        return status, body.decode(errors="replace")

    def words_without_script(self, path, awaited):
        """A page as a browser without JavaScript shows it: its words, once `awaited` is among them."""
        session = self.browser.attach(self.browser.call("Target.createTarget", url="about:blank")["targetId"])
        self.browser.call("Emulation.setScriptExecutionDisabled", session, value=True)
        self.browser.call("Page.navigate", session, url=self.origin + path)
        words = []
        for _ in range(300):
            words = self.browser.call("DOMSnapshot.captureSnapshot", session, computedStyles=[])["strings"]
            if awaited in words:
                break
            time.sleep(0.2)
        self.browser.call("Page.bringToFront", self.session)
        return words

    def token_in(self, page):
        found = re.search(r'name="change" value="([0-9a-f]+)"', page)
        return html.unescape(found.group(1)) if found else ""

    def post(self, path, fields, token=None, **more):
        """A form, whose fields are pairs, as a browser without script sends it: status, bytes, answer."""
        form = [*fields, *([("change", token)] if token is not None else [])]
        head = {"Cookie": self.cookie(), "Origin": self.origin, "Content_Type": "application/x-www-form-urlencoded", **more}
        return self.request("POST", path, urllib.parse.urlencode(form).encode(), **{k: v for k, v in head.items() if v})

    def submit(self, path, fields, token=None, **more):
        """A form of one value for each name: status, text, where it leads to."""
        status, body, answer = self.post(path, fields.items(), token, **more)
        return status, body.decode(errors="replace"), answer.getheader("Location", "")
