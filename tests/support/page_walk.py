#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Walks the pages of `perfleet ui` in a headless Chromium, and prints a line of TAP for each claim.

Usage: page_walk.py LINK RELAY_PID FOLDER AXE FLAG...
The fleet has the hosts web1 and db1, and a process and a session whose names are scripts. AXE is axe-core's script, or
"-". FOLDER gets screenshots. The relay is killed at the end."""
import base64
import http.client
import os
import signal
import sys
import time
import urllib.parse

from browser_pipe import Browser

LINK, RELAY, FOLDER, AXE = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
HERE = urllib.parse.urlsplit(LINK)
ORIGIN = f"http://{HERE.netloc}"
FAILED = []


def claim(text, holds, shown=""):
    print(("ok - " if holds else "not ok - ") + text, flush=True)
    if not holds:
        FAILED.append(text)
        print("#   " + str(shown)[:1500].replace("\n", "\n#   "), flush=True)


def request(method="GET", path="/hosts", host=HERE.netloc, body=None, **fields):
    connection = http.client.HTTPConnection(HERE.hostname, HERE.port, timeout=30)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host)
    for name, value in fields.items():
        connection.putheader(name.replace("_", "-"), value)
    if body is not None:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.getheaders()


def is_refused(text, **what):
    status, body, _ = request(**what)
    claim(text, status == 403 and "<table" not in body, f"{status}\n{body}")


def shoot(browser, session, name, width, height, scheme):
    browser.call("Emulation.setDeviceMetricsOverride", session, width=width, height=height, deviceScaleFactor=1,
                 mobile=False)
    browser.call("Emulation.setEmulatedMedia", session, features=[{"name": "prefers-color-scheme", "value": scheme}])
    time.sleep(0.3)
    shot = browser.call("Page.captureScreenshot", session, format="png")
    with open(os.path.join(FOLDER, name + ".png"), "wb") as file:
        file.write(base64.b64decode(shot["data"]))


def judge_access(browser, session, name):
    if AXE == "-":
        return
    with open(AXE, encoding="utf-8") as file:
        browser.run(session, file.read() + "; true")
    for scheme in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia", session,
                     features=[{"name": "prefers-color-scheme", "value": scheme}])
        time.sleep(0.3)
        found = browser.run(session, "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', "
                                     "'best-practice']}).then(r => r.violations.map("
                                     "v => v.id + ': ' + v.nodes.map(n => n.html).join(' | ')))")
        claim(f"axe-core finds nothing on {name}, {scheme}", found == [], found)


def go(browser, session, path, ready):
    browser.run(session, f"window.isLeft = true; location.href = {path!r}; true")  # its document may stay for a while
    return browser.wait(
        session, f"!window.isLeft && document.body && location.pathname == {urllib.parse.urlsplit(path).path!r} && ({ready})")


def first_bytes_ms(browser, session, path):
    """From the request to the first painted content, as the browser measured it."""
    go(browser, session, path, "document.readyState == 'complete'")
    return browser.wait(session, "(e => e && e.startTime)(performance.getEntriesByName('first-contentful-paint')[0])")


def walk_hosts(browser, session):
    claim("the link leads to the list of hosts", browser.wait(session, "location.pathname == '/hosts' && "
          "document.querySelectorAll('#list tbody tr').length == 2"), browser.run(session, "document.body.outerHTML"))
    claim("which is by name", browser.run(session, "document.querySelector('#list tbody th').innerText") == "db1")
    claim("and says what their services say", browser.wait(
        session, "document.querySelector('#list').innerText.match(/perfleetd/g)?.length == 2"))
    claim("the page shows the command that does the same", browser.run(
        session, "document.querySelector('#command').innerText").startswith("perfleet hosts --relay 127.0.0.1:"))
    browser.run(session, "document.querySelector('input[name=q]').focus()")
    browser.call("Input.insertText", session, text="role=web")
    claim("what is typed is searched", browser.wait(
        session, "document.querySelectorAll('#list tbody tr').length == 1 && "
                 "document.querySelector('#list tbody th').innerText == 'web1'"))
    claim("and kept in the page's own address", browser.wait(session, "location.search == '?q=role%3Dweb'"))
    browser.call("Input.insertText", session, text=" nothing")
    claim("no match says so", browser.wait(session, "/None of 2 hosts matches/.test(document.body.innerText)"))
    paint = first_bytes_ms(browser, session, "/hosts")
    print(f"# first paint after {paint} ms", flush=True)
    claim("a link is reached and followed by keyboard", follow_by_keyboard(browser, session))


def press(browser, session, key, code):
    for kind in ("rawKeyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", session, type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                     **({"text": "\r"} if key == "Enter" and kind == "rawKeyDown" else {}))
    if key == "Enter":
        browser.call("Input.dispatchKeyEvent", session, type="char", key=key, text="\r", windowsVirtualKeyCode=code)


def follow_by_keyboard(browser, session):
    for _ in range(browser.run(session, "document.querySelectorAll('a, button, input, select, summary').length") + 1):
        press(browser, session, "Tab", 9)
        if browser.run(session, "document.activeElement.innerText") == "web1":
            press(browser, session, "Enter", 13)
            return browser.wait(session, "location.pathname == '/host'")
    return False


def walk_host(browser, session):
    claim("a host's page has its session, producer, data source and traces", browser.wait(
        session, "['Sessions', 'Producers', 'Data sources', 'Traces'].every("
                 "t => [...document.querySelectorAll('h2')].some(h => h.innerText.startsWith(t) && "
                 "!h.innerText.endsWith(' 0')))"), browser.run(session, "document.body.innerText"))
    claim("with a bar of their time", browser.run(session, "document.querySelectorAll('.bar rect').length") > 0)
    text = browser.run(session, "document.querySelector('main').innerText")
    claim("names that are scripts are text", "<script>alert(1)</script>" in text and text.count("<img src=x onerror=alert(1)>") == 2, text)
    claim("and nothing else", browser.run(session, "document.scripts.length == 1 && !document.querySelector('img')"))
    claim("a host that is not there is said", "There is no such host" in request(
        path="/host?name=none", Cookie=cookie_of(browser, session))[1])


def cookie_of(browser, session):
    cookies = browser.call("Network.getCookies", session, urls=[ORIGIN])["cookies"]
    mine = [c for c in cookies if c["name"] == f"perfleet-{HERE.port}"]
    claim_once("the cookie is for this site and not for scripts",
               len(mine) == 1 and mine[0]["httpOnly"] and mine[0].get("sameSite") == "Strict", cookies)
    return f'{mine[0]["name"]}={mine[0]["value"]}'


SAID = set()


def claim_once(text, holds, shown):
    if text not in SAID:
        SAID.add(text)
        claim(text, holds, shown)


def walk_refusals(cookie):
    status, body, fields = request(Cookie=cookie)
    claim("a program of the operator's with the cookie reads the page", status == 200 and "db1" in body, body)
    policy = dict(fields).get("Content-Security-Policy", "")
    claim("the content policy allows this origin alone", policy.startswith("default-src 'none'; script-src 'self'") and
          "http" not in policy and "unsafe" not in policy, policy)
    is_refused("the link's token is good once", path=f"{HERE.path}?{HERE.query}")
    is_refused("so is no other token", path=f"{HERE.path}?token={'0' * 32}")
    is_refused("without the cookie there is no page")
    is_refused("nor with a wrong one", Cookie=cookie[:-1] + ("0" if cookie[-1] != "0" else "1"))
    is_refused("nor by a name that was made to resolve to this machine", host=f"evil.example:{HERE.port}",
               Cookie=cookie)
    is_refused("nor for another origin", Cookie=cookie, Origin="https://evil.example")
    is_refused("nor for a page of another port", Cookie=cookie, Sec_Fetch_Site="same-site")
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    is_refused("a change without the form's token is refused", method="POST", path="/stop", Cookie=cookie,
               Origin=ORIGIN, body=b"a=b", **form)
    is_refused("and one without an origin", method="POST", path="/stop", Cookie=cookie, body=b"a=b", **form)
    status, body, _ = request(path="/none", Cookie=cookie)
    claim("a page that is not there is 404", status == 404, body)


def choose(browser, session, action, count=1):
    """Chooses the first traces of the list, and what to do with them: their ids."""
    ids = browser.run(session, f"[...document.querySelectorAll('input[name=id]')].slice(0, {count}).map("
                               "e => (e.checked = true, e.value))")
    browser.run(session, f"document.querySelector('button[value={action}]').scrollIntoView({{block: 'center'}}); true")
    browser.click(session, f"button[value={action}]")
    return ids


def confirm(browser, session, action):
    browser.wait(session, "document.querySelector('form[action=\"/traces/change\"]')")
    browser.click(session, f"button[value={action}]")
    return browser.wait(session, "location.search.includes('done=') && document.querySelector('.notice')?.innerText")


def walk_traces(browser, session, cookie):
    paint = first_bytes_ms(browser, session, "/traces")
    print(f"# first paint of the traces after {paint} ms", flush=True)
    claim("the traces have a map of both hosts", browser.wait(
        session, "document.querySelectorAll('table.heatmap tbody tr').length == 2 && "
                 "document.querySelectorAll('table.heatmap rect').length >= 2"), browser.run(session, "document.body.innerText"))
    claim("which says in words where there are none", browser.run(
        session, "/none \\d\\d:\\d\\d/.test(document.querySelector('table.heatmap td[data-label=Notes]').innerText)"))
    claim("and the command that lists them", browser.run(session, "document.querySelector('#command').innerText").startswith(
        "perfleet traces list --relay 127.0.0.1:"), browser.run(session, "document.querySelector('#command').innerText"))
    past = time.strftime("since=1h&until=%Y-%m-%dT%H:%M:%SZ", time.gmtime())  # whose list stays
    go(browser, session, "/traces?" + past, "document.querySelector('table.heatmap')")
    browser.run(session, "document.querySelector('input[name=host]').focus()")
    browser.call("Input.insertText", session, text="web*")
    press(browser, session, "Enter", 13)
    claim("a filter that is typed holds for list and map", browser.wait(
        session, "location.search.includes('host=web*') && document.querySelectorAll('table.heatmap tbody tr').length == 1 && "
                 "[...document.querySelectorAll('td[data-label=Host]')].every(e => e.innerText == 'web1')"),
        browser.run(session, "document.body.innerText"))
    pinned = choose(browser, session, "pin")
    claim("a pin is asked about", browser.wait(session, "document.querySelector('h1')?.innerText == 'Pin 1 trace?'"))
    browser.run(session, "document.querySelector('input[name=reason]').focus()")
    browser.call("Input.insertText", session, text="<script>alert(2)</script>")
    notice = confirm(browser, session, "pin")
    claim("and done, which the page says", notice == "1 trace pinned.", notice)
    claim("with its reason as text, and the filter kept", browser.run(
        session, "document.body.innerText.includes('me: <script>alert(2)</script>, until') && "
                 "document.querySelector('input[name=host]').value == 'web*'"), browser.run(session, "document.body.innerText"))
    go(browser, session, "/traces?host=web1&" + past, f"document.querySelector('input[value=\"{pinned[0]}\"]')")
    browser.run(session, f"document.querySelector('input[value=\"{pinned[0]}\"]').checked = true")
    browser.click(session, "button[value=rm]")
    notice = confirm(browser, session, "rm")
    claim("what is pinned is not deleted, and it says why", notice and "are pinned" in notice, notice)
    browser.run(session, f"document.querySelector('input[value=\"{pinned[0]}\"]').checked = true")
    browser.click(session, "button[value=unpin]")
    notice = confirm(browser, session, "unpin")
    claim("it is unpinned", notice == "1 trace unpinned.", notice)
    browser.run(session, f"document.querySelector('input[value=\"{pinned[0]}\"]').checked = true")
    browser.click(session, "button[value=rm]")
    notice = confirm(browser, session, "rm")
    claim("and deleted", notice == "1 trace deleted." and browser.run(
        session, f"!document.querySelector('input[value=\"{pinned[0]}\"]')"), notice)
    go(browser, session, "/traces?since=never", "document.readyState == 'complete'")
    claim("a time that is none is said", "Times: give one such as 14:03" in browser.run(session, "document.body.innerText"))
    go(browser, session, "/traces?since=1h&group=role", "document.querySelectorAll('table.heatmap tbody tr').length == 2")
    claim("rows may be a label's values", browser.run(
        session, "[...document.querySelectorAll('table.heatmap tbody th')].map(e => e.innerText).join()") == "db,web")
    walk_download(browser, session, cookie)


def walk_open(browser, session, ids, length):
    for i in ids:
        browser.run(session, f"document.querySelector('input[value=\"{i}\"]').checked = true")
    before = {t["targetId"] for t in browser.targets()}
    browser.click(session, "button[value=open]")
    title = ""
    for _ in range(300):
        fresh = [t for t in browser.targets() if t["targetId"] not in before]
        title = fresh[0]["title"] if fresh else ""
        if title.startswith("trace "):
            break
        time.sleep(0.2)
    claim("one click opens them as one in the UI", title.startswith("trace ") and
          abs(int(title.split()[1]) - length) < length / 10, (title, length))
    for tab in fresh:
        browser.call("Target.closeTarget", targetId=tab["targetId"])
    browser.call("Page.bringToFront", session)


def walk_download(browser, session, cookie):
    go(browser, session, "/traces?since=1h", "document.querySelectorAll('input[name=id]').length >= 2")
    ids = browser.run(session, "[...document.querySelectorAll('input[name=id]')].slice(0, 2).map(e => e.value)")
    token = browser.run(session, "document.querySelector('input[name=change]').value")
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    body = "act=get&" + "&".join("id=" + i for i in ids)
    is_refused("a download without the form's token is refused", method="POST", path="/traces/choose", Cookie=cookie,
               Origin=ORIGIN, body=body.encode(), **form)
    connection = http.client.HTTPConnection(HERE.hostname, HERE.port, timeout=120)
    connection.request("POST", "/traces/choose", body=body + "&change=" + token, headers={
        "Cookie": cookie, "Origin": ORIGIN, "Content-Type": "application/x-www-form-urlencoded"})
    answer = connection.getresponse()
    trace = answer.read()
    claim("chosen traces are one file", answer.status == 200 and len(trace) > 1000 and trace[0] == 10 and
          'filename="traces.pftrace"' in answer.getheader("Content-Disposition", ""), (answer.status, trace[:300]))
    with open(os.path.join(FOLDER, "download.pftrace"), "wb") as file:
        file.write(trace)
    walk_open(browser, session, ids, len(trace))
    connection.request("POST", "/traces/choose", body=f"act=get&id={'0' * 26}&change={token}", headers={
        "Cookie": cookie, "Origin": ORIGIN, "Content-Type": "application/x-www-form-urlencoded"})
    answer = connection.getresponse()
    page = answer.read().decode()
    claim("traces that are not there are said", answer.status == 502 and "no trace is selected" in page, page)


def walk_without_script(browser, cookie):
    body = request(path="/traces", Cookie=cookie)[1]
    claim("the map needs no script", body.count("<rect") >= 2 and "</html>" in body, body)
    session = browser.attach(browser.call("Target.createTarget", url="about:blank")["targetId"])
    browser.call("Emulation.setScriptExecutionDisabled", session, value=True)
    browser.call("Page.navigate", session, url=ORIGIN + "/hosts?q=role%3Dweb&state=up")
    tree = []
    for _ in range(300):
        tree = browser.call("DOMSnapshot.captureSnapshot", session, computedStyles=[])["strings"]
        if "web1" in tree:
            break
        time.sleep(0.2)
    claim("without script the list reads", "web1" in tree and "db1" not in tree and "perfleetd 0.1.0" in tree, tree)
    claim("and the search is kept in its form", "role=web" in tree)
    body = request(path="/hosts", Cookie=cookie)[1]
    claim("it reloads by itself", '<noscript><meta http-equiv="refresh" content="5">' in body.replace("\n", ""), body)


def main():
    browser = Browser(sys.argv[5:], os.path.join(FOLDER, "profile"))
    try:
        session = browser.open(LINK)
        walk_hosts(browser, session)
        walk_host(browser, session)
        cookie = cookie_of(browser, session)
        walk_refusals(cookie)
        walk_traces(browser, session, cookie)
        for name, path, height in (("hosts", "/hosts", 360), ("host", "/host?name=web1", 900), ("traces", "/traces?since=10m", 1240)):
            go(browser, session, path, "document.readyState == 'complete'")
            browser.wait(session, "document.querySelector('footer')")
            shoot(browser, session, name + "-light", 1200, height, "light")
            shoot(browser, session, name + "-dark", 1200, height, "dark")
            shoot(browser, session, name + "-phone", 400, 800, "light")
            claim(f"nothing of {name} is wider than a phone", browser.run(
                session, "document.documentElement.scrollWidth <= 400"))
            browser.call("Emulation.clearDeviceMetricsOverride", session)
            judge_access(browser, session, name)
        walk_without_script(browser, cookie)
        browser.call("Page.bringToFront", session)
        go(browser, session, "/hosts", "document.readyState == 'complete'")
        os.kill(RELAY, signal.SIGKILL)
        claim("the page says that the relay is away", browser.wait(
            session, "/The relay is away/.test(document.body.innerText)", 90),
            browser.run(session, "document.body.innerText"))
        claim("and still shows what was known", browser.run(
            session, "document.querySelectorAll('#list tbody tr').length") == 2)
        foreign = [u for _, u in browser.requests if not u.startswith(ORIGIN + "/") and u != "about:blank"]
        claim("no request went to another origin", not foreign, foreign)
        claim("the console has no error", not browser.said, browser.said)
    finally:
        browser.close()
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
