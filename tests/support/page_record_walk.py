#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Walks the Record pages of `perfleet ui` in a headless Chromium, and prints a line of TAP for each claim.

Usage: page_record_walk.py LINK FOLDER AXE HANDLES FLAG...
The fleet has the hosts db1 and web1. HANDLES is a folder: a file NAME there asks the test to do that (kill-host,
kill-relay, start-relay), and NAME.done says that it was done."""
import html
import os
import re
import sys
import time

from page_kit import Walk, ask

CONFIG = ('buffers { size_kb: 4096 fill_policy: RING_BUFFER }\n'
          'data_sources { config { name: "com.example.load" } }\n')
STATE = "document.querySelector('#progress .whole strong')?.innerText"


def walk_form(w):
    w.claim("the page has a form", w.go("/record", "document.querySelector('#record form')"), w.text())
    w.claim("which asks for hosts", "choose hosts: * means all 2" in w.text(), w.text())
    w.fill("#select", "role=web")
    w.claim("the count of hosts comes as one types", w.wait("/1 of 2 hosts matches: web1/.test(document.body.innerText)"), w.text())
    w.claim("and so does the command", w.wait("/perfleet record --preset default --relay .* --select role=web -o fleet.pftrace/"
            ".test(document.querySelector('#command').innerText)"), w.text())
    w.fill("#select", "role=web=x,,")
    w.claim("a selector that is none says what to give", w.wait("/give label=value, label!=value/.test(document.body.innerText)"),
            w.text())
    w.fill("#select", "*")
    w.run("document.querySelector('#preset').value = ''; document.querySelector('#preset').dispatchEvent("
          "new Event('input', {bubbles: true})); true")
    w.fill("#config", CONFIG.replace("size_kb: 4096", "size_kb: many"))
    w.claim("a config's error has its place as one types", w.wait("/config:1:20: /.test(document.querySelector('#check').innerText)"),
            w.text())
    w.claim("what was typed stays", w.run("document.querySelector('#config').value").startswith("buffers {"))
    w.fill("#duration", "soon")
    w.claim("so does a duration's", w.wait("/\"soon\" is no duration: 10s/.test(document.querySelector('#check').innerText)"), w.text())
    w.click("button[value=start]")
    w.claim("what is wrong keeps it from starting", w.wait("document.querySelector('#config-why') && "
            "/config:1:20: /.test(document.querySelector('#config-why').innerText)"), w.text())
    w.claim("each error is its field's", w.run("document.querySelector('#config').getAttribute('aria-describedby') == 'config-why' && "
            "document.querySelector('#duration').getAttribute('aria-invalid') == 'true'"), w.text())
    w.fill("#config", CONFIG.replace("com.example.load", "com.example.loat"))
    w.fill("#duration", "3s")
    w.click("button[value=check]")
    w.claim("the check asks the hosts, as the doctor does", w.wait("/What perfleet doctor finds/.test(document.body.innerText) && "
            "/com.example.loat/.test(document.querySelector('.findings').innerText)"), w.text())
    w.judge("record")


def walk_slip(w):
    w.click("button[value=start]")
    w.wait("location.pathname == '/recording'")
    w.claim("a misspelt data source is refused by the recording, with what was meant",
            w.wait("/no host offers .*com.example.loat.*did you mean .*com.example.load/.test(document.body.innerText)"), w.text())
    w.claim("which has no trace then", w.wait(f"{STATE} == 'failed'") and not w.run("document.querySelector('a[download]')"), w.text())


def start(w, duration, config=CONFIG, select="*"):
    w.go("/record")
    w.run("document.querySelector('#preset').value = ''; true")
    w.fill("#select", select)
    w.fill("#config", config)
    w.fill("#duration", duration)
    w.click("button[value=start]")
    return w.wait("location.pathname == '/recording'")


def walk_recording(w):
    w.claim("a recording has a page", start(w, "4s"), w.text())
    w.claim("which says that it records", w.wait(f"{STATE} == 'recording'"), w.text())
    w.claim("with a bar for each host", w.wait("document.querySelectorAll('#progress tbody progress').length == 2"), w.text())
    w.claim("whose values rise without a reload", w.wait("document.querySelector('#progress tbody progress').value > 30") and
            w.run("performance.getEntriesByType('navigation').length") == 1, w.text())
    w.shoot("progress", 1200, 420, "light")
    w.browser.call("Emulation.clearDeviceMetricsOverride", w.session)
    w.claim("and the error of its clock", w.run("/± 0.\\d+ ms/.test(document.querySelector('#progress tbody').innerText)"), w.text())
    w.claim("it ends by itself", w.wait(f"{STATE} == 'done'"), w.text())
    w.claim("with the summary that the command prints", w.run("/host db1: .*packets/.test(document.querySelector('#summary')?.innerText)"),
            w.text())
    w.claim("and says for how long the trace is kept", "It is removed in 59 minutes" in w.text(), w.text())
    w.judge("recorded")
    return int(w.run("new URLSearchParams(location.search).get('id')"))


def walk_trace(w, number):
    status, body, answer = w.request("GET", f"/recording/trace?id={number}", Cookie=w.cookie())
    name = re.search(r'filename="(perfleet-[0-9-]+\.pftrace)"', answer.getheader("Content-Disposition", ""))
    w.claim("the trace is downloaded under its name", status == 200 and name, answer.headers)
    with open(os.path.join(w.folder, "downloaded.pftrace"), "wb") as file:
        file.write(body)
    before = {t["targetId"] for t in w.browser.targets()}
    w.click("button[formtarget=_blank]")
    fresh = []
    for _ in range(300):
        fresh = [t for t in w.browser.targets() if t["targetId"] not in before]
        if fresh and fresh[0]["title"].startswith(("trace ", "failed ")):
            break
        time.sleep(0.1)
    title = fresh[0]["title"] if fresh else ""
    w.claim("one click opens it in the UI, all of it", title.startswith(f"trace {len(body)} "), fresh)
    w.claim("under its name", name and title.endswith(name.group(1)), title)
    for target in fresh:
        w.browser.call("Target.closeTarget", targetId=target["targetId"])
    w.browser.call("Page.bringToFront", w.session)
    return re.match(r"http://127\.0\.0\.1:\d+", fresh[0]["url"]).group(0) if fresh else ""


def walk_deaths(w, handles):
    start(w, "")
    w.claim("without a duration it records until it is stopped", w.wait(f"{STATE} == 'recording'") and
            w.run("!document.querySelector('#progress > progress')"), w.text())
    w.judge("recording", 420)
    ask(handles, "kill-host")
    w.claim("a host that dies is said, with the reason", w.wait("/web1/.test(document.querySelector('#progress .state.bad')"
            "?.closest('tr').innerText)"), w.text())
    w.claim("and the other goes on", w.run("/db1\\s+recording/.test(document.querySelector('#progress tbody').innerText)"), w.text())
    ask(handles, "kill-relay")
    w.claim("a relay that is lost is said", w.wait("/The relay is away for/.test(document.querySelector('#progress').innerText)"),
            w.text())
    w.claim("and does not end the recording", w.run(f"{STATE} == 'recording'"), w.text())
    w.shoot("away", 1200, 500, "light")
    w.browser.call("Emulation.clearDeviceMetricsOverride", w.session)
    ask(handles, "start-relay")
    w.claim("when it is back, all is as before", w.wait("!/The relay is away/.test(document.querySelector('#progress').innerText)"),
            w.text())
    w.click("main form button")
    w.claim("it stops, and keeps what came", w.wait(f"{STATE} == 'done, not complete'"), w.text())
    w.claim("which has the host that lived", w.run("/host db1: .*packets/.test(document.querySelector('#summary').innerText) && "
            "/host web1: FAILED/.test(document.querySelector('#summary').innerText)"), w.text())
    w.claim("and can be opened", w.run("!!document.querySelector('button[formtarget=_blank]')"), w.text())


def walk_without_script(w):
    _, page = w.get("/record?select=role%3Ddb")
    token = w.token_in(page)
    w.claim("a link leads to the form with hosts chosen", 'value="role=db"' in page and "<strong>1 of 2</strong>" in page, page)
    form = {"select": "role=db", "preset": "", "config": CONFIG, "duration": "2s"}
    status, page, _ = w.submit("/record", {**form, "do": "check"}, token)
    w.claim("without script a button counts and checks", status == 200 and "<strong>1 of 2</strong>" in page and
            "Nothing is wrong with the 1 host" in page and "1 data source, 1 buffer, 2.0 s" in page, page)
    status, page, _ = w.submit("/record", {**form, "preset": "default", "do": "start"}, token)
    w.claim("a preset and a config are one too many", status == 200 and "a preset and a config are given" in page, page)
    status, page, _ = w.submit("/record", {**form, "select": "role=none", "do": "start"}, token)
    w.claim("no host that matches is said", "none of the 2 hosts matches" in page, page)
    w.claim("without the form's token nothing starts", w.submit("/record", {**form, "do": "start"}, "0" * 32)[0] == 403)
    w.claim("nor without an origin", w.submit("/record", {**form, "do": "start"}, token, Origin=None)[0] == 403)
    w.claim("nor without the cookie", w.submit("/record", {**form, "do": "start"}, token, Cookie=None)[0] == 403)
    status, page, where = w.submit("/record", {**form, "do": "start"}, token)
    w.claim("it starts, and leads to its page", status == 303 and where.startswith("/recording?id="), where)
    _, page = w.get(where)
    w.claim("which reloads by itself", '<meta http-equiv="refresh" content="2">' in page, page)
    number = where.split("=")[1]
    w.claim("its events need the cookie", w.request("GET", f"/recording/events?id={number}")[0] == 403)
    w.claim("so does its trace", w.request("GET", f"/recording/trace?id={number}")[0] == 403)
    while "Stop" in page:
        time.sleep(0.5)
        _, page = w.get(where)
    w.claim("until it is over", "done" in page and "http-equiv" not in page, page)
    command = re.search(r'<code id="command">([^<]*)', page).group(1)
    with open(os.path.join(w.folder, "command"), "w", encoding="utf-8") as file:
        file.write(html.unescape(command) + "\n")
    status, _, where = w.submit("/recording/remove", {"id": number}, token)
    w.claim("it is removed", status == 303 and w.get(f"/recording?id={number}")[0] == 404)
    w.claim("and said so", f"Recording {number} was removed." in w.get(where)[1])
    w.claim("a recording that is not there is 404", w.get("/recording?id=999")[0] == 404)


def walk_limits(w):
    token = w.token_in(w.get("/record")[1])
    form = {"select": "role=db", "preset": "", "config": CONFIG, "duration": "10m", "do": "start"}
    ids = []
    for _ in range(4):
        status, page, where = w.submit("/record", form, token)
        w.claim("a recording begins", status == 303, page)
        ids.append(where.split("=")[-1])
    status, page, _ = w.submit("/record", form, token)
    w.claim("a fifth at once is refused in words", status == 200 and "4 recordings of this page are running" in page, page)
    for number in ids[1:]:
        w.submit("/recording/stop", {"id": number}, token)
        w.submit("/recording/stop", {"id": number}, token)
    return ids[0]


def main():
    link, folder, axe, handles = sys.argv[1:5]
    w = Walk(link, folder, axe, sys.argv[5:])
    try:
        w.wait("location.pathname == '/hosts'")
        walk_form(w)
        walk_slip(w)
        number = walk_recording(w)
        ui = walk_trace(w, number)
        walk_without_script(w)
        walk_deaths(w, handles)
        walk_limits(w)
        w.go("/record")
        w.claim("the page lists its recordings", w.run("document.querySelectorAll('h2 + .scroll tbody tr').length") > 3, w.text())
        w.end([ui])
    finally:
        w.browser.close()
    return 1 if w.failed else 0


if __name__ == "__main__":
    sys.exit(main())
