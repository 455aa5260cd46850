#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Walks the pages of `perfleet ui` in a headless Chromium, and prints a line of TAP for each claim.

Usage: page_walk.py LINK RELAY_PID FOLDER AXE FLAG...
The fleet has the hosts web1 and db1, and a process and a session whose names are scripts. AXE is axe-core's script, or
"-". FOLDER gets screenshots. The relay is killed at the end."""
import os
import signal
import sys
import time

from page_kit import Walk

FORM = {"Content_Type": "application/x-www-form-urlencoded"}


def is_refused(w, text, path="/hosts", **what):
    status, body, _ = w.request(path=path, **what)
    w.claim(text, status == 403 and b"<table" not in body, f"{status}\n{body}")


def first_bytes_ms(w, path):
    """From the request to the first painted content, as the browser measured it."""
    w.go(path)
    return w.wait("(e => e && e.startTime)(performance.getEntriesByName('first-contentful-paint')[0])")


def walk_hosts(w):
    w.claim("the link leads to the list of hosts", w.wait(
        "location.pathname == '/hosts' && document.querySelectorAll('#list tbody tr').length == 2"),
            w.run("document.body.outerHTML"))
    w.claim("which is by name", w.run("document.querySelector('#list tbody th').innerText") == "db1")
    w.claim("and says what their services say", w.wait("document.querySelector('#list').innerText.match(/perfleetd/g)?.length == 2"))
    w.claim("the page shows the command that does the same", w.run("document.querySelector('#command').innerText").startswith(
        "perfleet hosts --relay 127.0.0.1:"))
    w.run("document.querySelector('input[name=q]').focus()")
    w.browser.call("Input.insertText", w.session, text="role=web")
    w.claim("what is typed is searched", w.wait(
        "document.querySelectorAll('#list tbody tr').length == 1 && "
        "document.querySelector('#list tbody th').innerText == 'web1'"))
    w.claim("and kept in the page's own address", w.wait("location.search == '?q=role%3Dweb'"))
    w.browser.call("Input.insertText", w.session, text=" nothing")
    w.claim("no match says so", w.wait("/None of 2 hosts matches/.test(document.body.innerText)"))
    paint = first_bytes_ms(w, "/hosts")
    print(f"# first paint after {paint} ms", flush=True)
    w.claim("a link is reached and followed by keyboard", follow_by_keyboard(w))


def follow_by_keyboard(w):
    for _ in range(w.run("document.querySelectorAll('a, button, input, select, summary').length") + 1):
        w.press("Tab", 9)
        if w.run("document.activeElement.innerText") == "web1":
            w.press("Enter", 13)
            return w.wait("location.pathname == '/host'")
    return False


def walk_host(w):
    w.claim("a host's page has its session, producer, data source and traces", w.wait(
        "['Sessions', 'Producers', 'Data sources', 'Traces'].every("
        "t => [...document.querySelectorAll('h2')].some(h => h.innerText.startsWith(t) && "
        "!h.innerText.endsWith(' 0')))"), w.text())
    w.claim("with a bar of their time", w.run("document.querySelectorAll('.bar rect').length") > 0)
    text = w.run("document.querySelector('main').innerText")
    w.claim("names that are scripts are text", "<script>alert(1)</script>" in text and
            text.count("<img src=x onerror=alert(1)>") == 2, text)
    w.claim("and nothing else", w.run("document.scripts.length == 1 && !document.querySelector('img')"))
    w.claim("a host that is not there is said", "There is no such host" in w.get("/host?name=none")[1])


def checked_cookie(w):
    cookies = w.browser.call("Network.getCookies", w.session, urls=[w.origin])["cookies"]
    mine = [c for c in cookies if c["name"] == f"perfleet-{w.here.port}"]
    w.claim("the cookie is for this site and not for scripts",
            len(mine) == 1 and mine[0]["httpOnly"] and mine[0].get("sameSite") == "Strict", cookies)
    return w.cookie()


def walk_refusals(w):
    cookie = checked_cookie(w)
    status, page, answer = w.request(path="/hosts", Cookie=cookie)
    w.claim("a program of the operator's with the cookie reads the page", status == 200 and b"db1" in page, page)
    policy = answer.getheader("Content-Security-Policy", "")
    w.claim("the content policy allows this origin alone", policy.startswith("default-src 'none'; script-src 'self'") and
            "http" not in policy and "unsafe" not in policy, policy)
    is_refused(w, "the link's token is good once", path=f"{w.here.path}?{w.here.query}")
    is_refused(w, "so is no other token", path=f"{w.here.path}?token={'0' * 32}")
    is_refused(w, "without the cookie there is no page")
    is_refused(w, "nor with a wrong one", Cookie=cookie[:-1] + ("0" if cookie[-1] != "0" else "1"))
    is_refused(w, "nor by a name that was made to resolve to this machine", host=f"evil.example:{w.here.port}",
               Cookie=cookie)
    is_refused(w, "nor for another origin", Cookie=cookie, Origin="https://evil.example")
    is_refused(w, "nor for a page of another port", Cookie=cookie, Sec_Fetch_Site="same-site")
    is_refused(w, "a change without the form's token is refused", method="POST", path="/stop", Cookie=cookie,
               Origin=w.origin, body=b"a=b", **FORM)
    is_refused(w, "and one without an origin", method="POST", path="/stop", Cookie=cookie, body=b"a=b", **FORM)
    status, page = w.get("/none")
    w.claim("a page that is not there is 404", status == 404, page)


def choose(w, action, count=1):
    """Chooses the first traces of the list, and what to do with them: their ids."""
    ids = w.run(f"[...document.querySelectorAll('input[name=id]')].slice(0, {count}).map("
                "e => (e.checked = true, e.value))")
    w.click(f"button[value={action}]")
    return ids


def confirm(w, action):
    w.wait("document.querySelector('form[action=\"/traces/change\"]')")
    w.click(f"button[value={action}]")
    return w.wait("location.search.includes('done=') && document.querySelector('.notice')?.innerText")


def walk_traces(w):
    paint = first_bytes_ms(w, "/traces")
    print(f"# first paint of the traces after {paint} ms", flush=True)
    w.claim("the traces have a map of both hosts", w.wait(
        "document.querySelectorAll('table.heatmap tbody tr').length == 2 && "
        "document.querySelectorAll('table.heatmap rect').length >= 2"), w.text())
    w.claim("which says in words where there are none", w.run(
        "/none \\d\\d:\\d\\d/.test(document.querySelector('table.heatmap td[data-label=Notes]').innerText)"))
    w.claim("and the command that lists them", w.run("document.querySelector('#command').innerText").startswith(
        "perfleet traces list --relay 127.0.0.1:"), w.run("document.querySelector('#command').innerText"))
    past = time.strftime("since=1h&until=%Y-%m-%dT%H:%M:%SZ", time.gmtime())  # whose list stays
    w.go("/traces?" + past, "document.querySelector('table.heatmap')")
    w.run("document.querySelector('input[name=host]').focus()")
    w.browser.call("Input.insertText", w.session, text="web*")
    w.press("Enter", 13)
    w.claim("a filter that is typed holds for list and map", w.wait(
        "location.search.includes('host=web*') && document.querySelectorAll('table.heatmap tbody tr').length == 1 && "
        "[...document.querySelectorAll('td[data-label=Host]')].every(e => e.innerText == 'web1')"), w.text())
    pinned = choose(w, "pin")
    w.claim("a pin is asked about", w.wait("document.querySelector('h1')?.innerText == 'Pin 1 trace?'"))
    w.run("document.querySelector('input[name=reason]').focus()")
    w.browser.call("Input.insertText", w.session, text="<script>alert(2)</script>")
    notice = confirm(w, "pin")
    w.claim("and done, which the page says", notice == "1 trace pinned.", notice)
    w.claim("with its reason as text, and the filter kept", w.run(
        "document.body.innerText.includes('me: <script>alert(2)</script>, until') && "
        "document.querySelector('input[name=host]').value == 'web*'"), w.text())
    w.go("/traces?host=web1&" + past, f"document.querySelector('input[value=\"{pinned[0]}\"]')")
    w.run(f"document.querySelector('input[value=\"{pinned[0]}\"]').checked = true")
    w.click("button[value=rm]")
    notice = confirm(w, "rm")
    w.claim("what is pinned is not deleted, and it says why", notice and "are pinned" in notice, notice)
    w.run(f"document.querySelector('input[value=\"{pinned[0]}\"]').checked = true")
    w.click("button[value=unpin]")
    notice = confirm(w, "unpin")
    w.claim("it is unpinned", notice == "1 trace unpinned.", notice)
    w.run(f"document.querySelector('input[value=\"{pinned[0]}\"]').checked = true")
    w.click("button[value=rm]")
    notice = confirm(w, "rm")
    w.claim("and deleted", notice == "1 trace deleted." and w.run(
        f"!document.querySelector('input[value=\"{pinned[0]}\"]')"), notice)
    w.go("/traces?since=never")
    w.claim("a time that is none is said", "Times: give one such as 14:03" in w.text())
    w.go("/traces?since=1h&group=role", "document.querySelectorAll('table.heatmap tbody tr').length == 2")
    w.claim("rows may be a label's values", w.run(
        "[...document.querySelectorAll('table.heatmap tbody th')].map(e => e.innerText).join()") == "db,web")
    walk_download(w)


def walk_open(w, ids, length):
    for i in ids:
        w.run(f"document.querySelector('input[value=\"{i}\"]').checked = true")
    before = {t["targetId"] for t in w.browser.targets()}
    w.click("button[value=open]")
    title = ""
    for _ in range(300):
        fresh = [t for t in w.browser.targets() if t["targetId"] not in before]
        title = fresh[0]["title"] if fresh else ""
        if title.startswith("trace "):
            break
        time.sleep(0.2)
    w.claim("one click opens them as one in the UI", title.startswith("trace ") and
            abs(int(title.split()[1]) - length) < length / 10, (title, length))
    for tab in fresh:
        w.browser.call("Target.closeTarget", targetId=tab["targetId"])
    w.browser.call("Page.bringToFront", w.session)


def walk_download(w):
    w.go("/traces?since=1h", "document.querySelectorAll('input[name=id]').length >= 2")
    ids = w.run("[...document.querySelectorAll('input[name=id]')].slice(0, 2).map(e => e.value)")
    token = w.token_in(w.get("/traces")[1])
    form = [("act", "get"), *[("id", i) for i in ids]]
    status, page, _ = w.post("/traces/choose", form)
    w.claim("a download without the form's token is refused", status == 403 and b"<table" not in page, page)
    status, trace, answer = w.post("/traces/choose", form, token)
    w.claim("chosen traces are one file", status == 200 and len(trace) > 1000 and trace[0] == 10 and
            'filename="traces.pftrace"' in answer.getheader("Content-Disposition", ""), (status, trace[:300]))
    with open(os.path.join(w.folder, "download.pftrace"), "wb") as file:
        file.write(trace)
    walk_open(w, ids, len(trace))
    status, page, _ = w.post("/traces/choose", [("act", "get"), ("id", "0" * 26)], token)
    w.claim("traces that are not there are said", status == 502 and b"no trace is selected" in page, page)


def walk_without_script(w):
    page = w.get("/traces")[1]
    w.claim("the map needs no script", page.count("<rect") >= 2 and "</html>" in page, page)
    words = w.words_without_script("/hosts?q=role%3Dweb&state=up", "web1")
    w.claim("without script the list reads", "web1" in words and "db1" not in words and "perfleetd 0.1.0" in words, words)
    w.claim("and the search is kept in its form", "role=web" in words)
    page = w.get("/hosts")[1]
    w.claim("it reloads by itself", '<noscript><meta http-equiv="refresh" content="5">' in page.replace("\n", ""), page)


def main():
    link, relay, folder, axe = sys.argv[1:5]
    w = Walk(link, folder, axe, sys.argv[5:])
    try:
        walk_hosts(w)
        walk_host(w)
        walk_refusals(w)
        walk_traces(w)
        for name, path, height in (("hosts", "/hosts", 360), ("host", "/host?name=web1", 900), ("traces", "/traces?since=10m", 1240)):
            w.go(path, "document.readyState == 'complete' && document.querySelector('footer')")
            w.judge(name, height)
        walk_without_script(w)
        w.go("/hosts")
        os.kill(int(relay), signal.SIGKILL)
        w.claim("the page says that the relay is away", w.wait("/The relay is away/.test(document.body.innerText)", 90), w.text())
        w.claim("and still shows what was known", w.run("document.querySelectorAll('#list tbody tr').length") == 2)
        w.end()
    finally:
        w.browser.close()
    return 1 if w.failed else 0


if __name__ == "__main__":
    sys.exit(main())
