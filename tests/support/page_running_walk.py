#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Walks the Running page of `perfleet ui` in a headless Chromium, and prints a line of TAP for each claim.

Usage: page_running_walk.py LINK GUEST FOLDER AXE HANDLES FLAG...
The hosts db1 and web1 have a flight recorder, db1 another one whose name is a script, and both record for the order cpu of
me, db1 for the order theirs of other.
GUEST is the link of an operator who may ask, and change nothing. HANDLES: see page_kit.ask; raise, kill-collector."""
import html
import http.client
import os
import re
import sys
import time
import urllib.parse

from page_kit import Walk, ask

STATE = "document.querySelector('#progress .whole strong')?.innerText"
ROW = "[...document.querySelectorAll('tbody tr')].find(r => r.querySelector('th').innerText == %r)?.innerText"
ROW_OF = ("[...document.querySelectorAll('[aria-label=%s] tbody tr')].find(r => r.querySelector('th').innerText == %r)"
          "?.innerText")
EVIL = "<script>alert(1)</script>"


def walk_snapshot(w):
    w.go("/running")
    w.claim("sessions of one name are a row, with their hosts", w.wait(
        "/flight\\s+STARTED\\s+2: db1, web1/.test(document.querySelector('tbody').innerText)"), w.text())
    w.claim("it says that the operator made it", w.run(f"/you \\(\\d+\\)/.test({ROW % 'flight'})"), w.text())
    w.claim("a session's name that is a script is text", w.run(
        "document.querySelector('tbody').innerText.includes('<script>alert(1)</script>') && document.scripts.length == 1"), w.text())
    w.click("button[aria-label='Snapshot now: flight']")
    w.claim("a flight recorder is copied now", w.wait("location.pathname == '/recording'") and
            w.wait(f"/^done/.test({STATE})"), w.text())  # a busy machine's producers may lose packets
    w.claim("of all its hosts", w.run("/host db1: .*packets/.test(document.querySelector('#summary').innerText) && "
            "/host web1: .*packets/.test(document.querySelector('#summary').innerText)"), w.text())
    w.claim("and can be opened, too", w.run("!!document.querySelector('button[formtarget=_blank]')"), w.text())
    w.claim("the command is that of a snapshot", w.run("document.querySelector('#command').innerText").startswith(
        "perfleet snapshot flight --relay"), w.text())
    w.go("/running")
    w.claim("it continues", w.wait("/flight\\s+STARTED/.test(document.querySelector('tbody').innerText)"), w.text())


def walk_stop(w):
    w.go("/running")
    w.click("button[aria-label='Stop…: flight']")
    w.claim("a stop asks first", w.wait(
        "document.querySelector('h1')?.innerText == 'Stop flight on 2 hosts?' && document.readyState == 'complete'"), w.text())
    w.claim("with the command that does the same", re.match(
        "perfleet stop flight --relay .* --host db1 --host web1$", w.run("document.querySelector('#command').innerText")), w.text())
    w.judge("stop", 360)
    w.click("main form button")
    w.claim("then it is done on all its hosts, and said", w.wait(
        "document.querySelector('.notice')?.innerText == 'flight was stopped on 2 hosts.'"), w.text())
    w.claim("the session waits to be read", "DISABLED" in w.run(ROW % "flight"), w.text())
    w.click("button[aria-label='Read: flight']")
    w.claim("it is read", w.wait("location.pathname == '/recording'") and w.wait(f"/^done/.test({STATE})"), w.text())
    w.claim("as the command reads it, which keeps it", w.run("document.querySelector('#command').innerText").startswith(
        "perfleet read flight --keep --relay"), w.text())
    number = w.run("new URLSearchParams(location.search).get('id')")
    with open(os.path.join(w.folder, "read.pftrace"), "wb") as file:
        file.write(w.request("GET", f"/recording/trace?id={number}", Cookie=w.cookie())[1])
    w.go("/running")
    w.claim("it is still there", "DISABLED" in (w.run(ROW % "flight") or ""), w.text())


def walk_discard(w):
    w.click("button[aria-label='Discard…: flight']")
    w.claim("to discard asks first, too", w.wait("document.querySelector('h1')?.innerText == 'Discard flight on 2 hosts?'"), w.text())
    w.run("[...document.querySelectorAll('main form a')].find(a => a.innerText == 'Back').click(); true")
    w.claim("who goes back has changed nothing", w.wait("location.pathname == '/running'") and
            w.wait(f"/DISABLED/.test({ROW % 'flight'})"), w.text())
    w.click("button[aria-label='Discard…: flight']")
    w.wait("document.querySelector('h1')?.innerText == 'Discard flight on 2 hosts?' && document.querySelector('main form button')")
    w.click("main form button")
    w.claim("who does not has discarded it", w.wait(
        "document.querySelector('.notice')?.innerText == 'flight was discarded on 2 hosts.'"), w.text())
    w.claim("so it is not there any more", w.run(ROW % "flight") is None, w.text())


def walk_without_script(w):
    form = {"session": EVIL, "do": "kill"}
    token = w.token_in(w.get("/running")[1])
    w.claim("a change needs the form's token", w.submit("/running/session", form, "0" * 32)[0] == 403)
    w.claim("and the origin", w.submit("/running/session", form, token, Origin=None)[0] == 403)
    w.claim("and the cookie", w.submit("/running/session", form, token, Cookie=None)[0] == 403)
    status, page, _ = w.submit("/running/session", form, token)
    w.claim("without script a session is a text, too", status == 200 and html.escape(EVIL) in page and EVIL not in page, page)
    with open(os.path.join(w.folder, "command"), "w", encoding="utf-8") as file:
        file.write(html.unescape(re.search(r'<code id="command">([^<]*)', page).group(1)) + "\n")
    for action in ("snapshot", "read", "stop", "kill"):
        status, _, where = w.submit("/running/session", {"session": "none", "do": action, "sure": "1"}, token)
        w.claim(f"a session that is not there is said: {action}", status == 303 and
                "No host that answered has this session any more." in w.get(where)[1])
    w.claim("what is no action is refused", w.submit("/running/session", {"session": "a", "do": "sow"}, token)[0] == 400)
    w.claim("what is no name is, too", w.submit("/running/session", {"session": "a" * 200, "do": "stop"}, token)[0] == 400)


def walk_orders(w):
    row = ROW % "cpu"
    w.go("/running")
    w.claim("an order is a row, with who ordered it and its hosts", w.wait(
        f"/cpu\\s+me\\s+continuous\\s+running\\s+2\\s+2\\s+0\\s+0/.test({row})"), w.text())
    w.claim("another's order is there, too, without buttons", w.run(
        "(r => r.innerText.includes('other') && !r.querySelector('button'))([...document.querySelectorAll('tbody tr')]"
        ".find(r => r.querySelector('th').innerText == 'theirs'))"), w.text())
    w.run("[...document.querySelectorAll('tbody th a')].find(a => a.innerText == 'cpu').click(); true")
    w.claim("it has a page with its hosts", w.wait("location.pathname == '/running/order'") and w.wait(
        "/db1\\s+running/.test(document.querySelector('tbody').innerText) && /web1\\s+running/.test(document.querySelector('tbody')"
        ".innerText)"), w.text())
    w.claim("whose command is that which shows it", w.run("document.querySelector('#command').innerText").startswith(
        "perfleet order show --relay") and w.run("document.querySelector('#command').innerText").endswith(" me/cpu"), w.text())
    w.judge("order", 420)
    w.click("button[aria-label='Pause…: cpu']")
    w.claim("a pause asks first", w.wait(
        "document.querySelector('h1')?.innerText == 'Pause order cpu?' && document.readyState == 'complete'"), w.text())
    w.claim("with the command that does the same", re.match(
        "perfleet order pause --relay .* cpu$", w.run("document.querySelector('#command').innerText")), w.text())
    w.click("main form button")
    w.claim("then it is done, and said", w.wait("document.querySelector('.notice')?.innerText == 'Order cpu was paused.'"), w.text())
    w.claim("and seen", w.run(f"/continuous\\s+paused/.test({row})"), w.text())
    w.click("button[aria-label='Resume…: cpu']")
    w.wait("document.querySelector('h1')?.innerText == 'Resume order cpu?' && document.querySelector('main form button')")
    w.click("main form button")
    w.claim("it is resumed likewise", w.wait("document.querySelector('.notice')?.innerText == 'Order cpu was resumed.'"), w.text())
    w.claim("and runs again", any(w.go("/running") and w.run(f"/continuous\\s+running/.test({row})") for _ in range(60)), w.text())
    token = w.token_in(w.get("/running")[1])
    form = {"order": "cpu", "do": "rm", "sure": "1"}
    w.claim("an order is changed with the form's token alone", w.submit("/running/order", form, "0" * 32)[0] == 403)
    w.claim("and with the cookie", w.submit("/running/order", form, token, Cookie=None)[0] == 403)
    status, _, where = w.submit("/running/order", {**form, "order": "none"}, token)
    w.claim("an order that is not there is said", status == 303 and "Order none was not removed: " in w.get(where)[1])
    w.claim("what is no order's name is refused", w.submit("/running/order", {**form, "order": EVIL}, token)[0] == 400)


def walk_alarms(w, handles):
    row = ROW_OF % ("Alarms", "flight")
    w.go("/running")
    w.claim("an alarm is a row, with its triggers and hosts", w.wait(
        f"/flight\\s+boom, bang\\s+armed\\s+2: (db1, web1|web1, db1)/.test({row})"), w.text())
    w.claim("with the command that lists them, as orders have theirs", w.run(
        "['order list', 'alarms'].every(c => [...document.querySelectorAll('main p code')].some("
        "e => e.innerText.startsWith(`perfleet ${c} --relay`)))"), w.text())
    ask(handles, "raise")
    w.claim("a trigger that was raised is seen, and the copy", any(w.go("/running") and w.run(
        f"/flight\\s+boom, bang\\s+copied\\s+2: (db1, web1|web1, db1)\\s+boom at db1/.test({row})") for _ in range(60)), w.text())
    copy = "flight.triggered"
    w.claim("which is a session that can be read and discarded", w.run(
        f"!!document.querySelector(\"button[aria-label='Read and discard: {copy}']\")"), w.text())
    w.judge("running", 900)
    w.click(f"button[aria-label='Read and discard: {copy}']")
    w.claim("it is read", w.wait("location.pathname == '/recording'") and w.wait(f"/^done/.test({STATE})"), w.text())
    w.claim("as the command reads it", w.run("document.querySelector('#command').innerText").startswith(
        f"perfleet read {copy} --relay"), w.text())
    w.go("/running")
    w.claim("and is not there any more", f"Read and discard: {copy}" not in w.get("/running")[1], w.text())
    w.click("button[aria-label='Disarm…: flight']")
    w.claim("to disarm asks first", w.wait(
        "document.querySelector('h1')?.innerText == 'Disarm flight on 2 hosts?' && document.readyState == 'complete'"), w.text())
    w.claim("with the command that does the same", re.match(
        "perfleet disarm flight --relay .* --host db1 --host web1$", w.run("document.querySelector('#command').innerText")), w.text())
    w.click("main form button")
    w.claim("then it is done, and said", w.wait(
        "document.querySelector('.notice')?.innerText == 'flight was disarmed on 2 hosts.'"), w.text())
    w.claim("and seen", "You have no alarms on these hosts." in w.text(), w.text())
    token = w.token_in(w.get("/running")[1])
    w.claim("an alarm is removed with the form's token alone", w.submit("/running/disarm", {"session": "flight"}, "0" * 32)[0] == 403)
    status, _, where = w.submit("/running/disarm", {"session": "flight", "sure": "1"}, token)
    w.claim("an alarm that is not there is said", status == 303 and
            "No host that answered has your alarm for flight any more." in w.get(where)[1])


def walk_collector(w, handles):
    token = w.token_in(w.get("/running")[1])
    status, _, where = w.submit("/running/order", {"order": "cpu", "do": "rm", "sure": "1"}, token)
    w.claim("without script an order is removed", status == 303 and "Order cpu was removed." in w.get(where)[1], where)
    ask(handles, "kill-collector")
    page = ""
    for _ in range(60):
        page = w.get("/running")[1]
        if "No collector is connected" in page:
            break
        time.sleep(0.5)
    w.claim("without a collector the page says so", "No collector is connected to the relay, and orders need one." in page, page)
    w.claim("and shows the alarms", "You have no alarms on these hosts." in page, page)
    w.claim("and the sessions", html.escape(EVIL) in page, page)


class Guest:
    """Another operator's pages, without a browser."""

    def __init__(self, link):
        self.here = urllib.parse.urlsplit(link)
        self.cookie = self.ask("GET", f"{self.here.path}?{self.here.query}").getheader("Set-Cookie").split(";")[0]

    def ask(self, method, path, body=None, **fields):
        connection = http.client.HTTPConnection(self.here.netloc, timeout=120)
        connection.request(method, path, body, fields)
        return connection.getresponse()

    def get(self, path):
        return self.ask("GET", path, Cookie=self.cookie).read().decode()

    def submit(self, path, form):
        """The page that a change leads to."""
        token = re.search(r'name="change" value="([0-9a-f]+)"', self.get("/running")).group(1)
        fields = {"Cookie": self.cookie, "Origin": f"http://{self.here.netloc}", "Content-Type": "application/x-www-form-urlencoded"}
        answer = self.ask("POST", path, urllib.parse.urlencode({**form, "change": token}), **fields)
        page = answer.read().decode()
        return page if answer.status == 200 else self.get(answer.getheader("Location"))


def walk_guest(w, guest):
    page = guest.get("/running")
    w.claim("an operator who may only look sees what runs", ">flight<" in page, page)
    w.claim("of which nothing is of that operator", ">you (" not in page, page)
    page = guest.submit("/running/session", {"session": "flight", "do": "kill", "sure": "1"})
    w.claim("and discards nothing", "flight was discarded on 0 of 2 hosts. db1: " in html.unescape(page), page)
    page = guest.submit("/running/session", {"session": "flight", "do": "stop", "sure": "1"})
    w.claim("nor stops", "flight was stopped on 0 of 2 hosts. db1: " in html.unescape(page), page)
    w.claim("and no alarms of others", "You have no alarms on these hosts." in page, page)
    w.claim("sees why there are no orders", "No orders: " in page and ">cpu<" not in page, page)
    page = guest.submit("/running/order", {"order": "cpu", "do": "rm", "sure": "1"})
    w.claim("nor does the collector remove it", "Order cpu was not removed: " in html.unescape(page), page)


def main():
    link, guest, folder, axe, handles = sys.argv[1:6]
    w = Walk(link, folder, axe, sys.argv[6:])
    try:
        w.wait("location.pathname == '/hosts'")
        walk_snapshot(w)
        walk_guest(w, Guest(guest))
        walk_orders(w)
        walk_alarms(w, handles)
        walk_stop(w)
        walk_discard(w)
        walk_without_script(w)
        walk_collector(w, handles)
        w.end()
    finally:
        w.browser.close()
    return 1 if w.failed else 0


if __name__ == "__main__":
    sys.exit(main())
