#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Walks the Fleet page of `perfleet ui` in a headless Chromium, and prints a line of TAP for each claim.

Usage: page_fleet_walk.py LINK RELAY_PID FOLDER AXE FLAG...
The fleet has the hosts web1 and db1; web1 has lost chunks of a full buffer. AXE is axe-core's script, or "-". FOLDER gets
screenshots. The relay is killed at the end."""
import base64
import os
import signal
import sys
import time
import urllib.parse

from browser_pipe import Browser

LINK, RELAY, FOLDER, AXE = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
ORIGIN = f"http://{urllib.parse.urlsplit(LINK).netloc}"
FAILED = []


def claim(text, holds, shown=""):
    print(("ok - " if holds else "not ok - ") + text, flush=True)
    if not holds:
        FAILED.append(text)
        print("#   " + str(shown)[:3000].replace("\n", "\n#   "), flush=True)


def set_scheme(browser, session, scheme):
    browser.call("Emulation.setEmulatedMedia", session, features=[{"name": "prefers-color-scheme", "value": scheme}])
    time.sleep(0.3)


def shoot(browser, session, name, width, height, scheme):
    browser.call("Emulation.setDeviceMetricsOverride", session, width=width, height=height, deviceScaleFactor=1,
                 mobile=False)
    set_scheme(browser, session, scheme)
    shot = browser.call("Page.captureScreenshot", session, format="png")
    with open(os.path.join(FOLDER, name + ".png"), "wb") as file:
        file.write(base64.b64decode(shot["data"]))


def judge_access(browser, session):
    if AXE == "-":
        return
    with open(AXE, encoding="utf-8") as file:
        browser.run(session, file.read() + "; true")
    for scheme in ("light", "dark"):
        set_scheme(browser, session, scheme)
        found = browser.run(session, "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', "
                                     "'best-practice']}).then(r => r.violations.map("
                                     "v => v.id + ': ' + v.nodes.map(n => n.html).join(' | ')))")
        claim(f"axe-core finds nothing on the fleet's page, {scheme}", found == [], found)


def walk(browser, session):
    def text():
        return browser.run(session, "document.querySelector('main').innerText")

    browser.wait(session, "location.pathname == '/hosts' && document.readyState == 'complete' && document.querySelector('header nav')")
    browser.click(session, "header nav a[href='/fleet']")
    claim("a tab leads to the fleet's page", browser.wait(session, "location.pathname == '/fleet'"))
    claim("it has the relay's own figures", browser.wait(
        session, "/2 of 2 known are connected/.test(document.querySelector('main').innerText)"), text())
    claim("charts have their figures as text", browser.wait(
        session, "[...document.querySelectorAll('.chart svg')].map(s => s.getAttribute('aria-label').split(':')[0])"
                 ".join() == 'To operators,To hosts,Streams,Hosts connected,Processor of the relay'"), text())
    claim("it becomes fresh by itself, and draws what it learns", browser.wait(
        session, "document.querySelectorAll('.chart polyline').length >= 5", 60), text())
    claim("losses are by cause, with the host that has most", browser.wait(
        session, "[...document.querySelectorAll('tbody tr')].some(r => /^discarded/.test(r.innerText) && "
                 "r.querySelector('a')?.innerText == 'web1')"), text())
    claim("certificates have their ends", browser.run(
        session, "/yours[^]*the relay's/.test(document.querySelector('main').innerText)"), text())
    claim("and the host whose one ends soon", browser.run(
        session, "[...document.querySelectorAll('tbody tr')].some(r => /^db1/.test(r.innerText) && "
                 "/day/.test(r.innerText))"), text())
    claim("the page shows the command that finds the same", browser.run(
        session, "document.querySelector('#command').innerText").startswith("perfleet doctor --relay 127.0.0.1:"))
    claim("it has no script but ours", browser.run(session, "document.scripts.length == 1"))


def walk_without_script(browser):
    session = browser.attach(browser.call("Target.createTarget", url="about:blank")["targetId"])
    browser.call("Emulation.setScriptExecutionDisabled", session, value=True)
    browser.call("Page.navigate", session, url=ORIGIN + "/fleet")
    words = []
    for _ in range(300):
        words = browser.call("DOMSnapshot.captureSnapshot", session, computedStyles=[])["strings"]
        if "Losses by cause" in words:
            break
        time.sleep(0.2)
    claim("without script it reads", "2 of 2 known are connected" in words and "discarded" in words, words)


def main():
    browser = Browser(sys.argv[5:], os.path.join(FOLDER, "profile"))
    try:
        session = browser.open(LINK)
        walk(browser, session)
        shoot(browser, session, "fleet-light", 1200, 900, "light")
        shoot(browser, session, "fleet-dark", 1200, 900, "dark")
        shoot(browser, session, "fleet-phone", 400, 800, "light")
        claim("nothing is wider than a phone", browser.run(session, "document.documentElement.scrollWidth <= 400"))
        browser.call("Emulation.clearDeviceMetricsOverride", session)
        judge_access(browser, session)
        walk_without_script(browser)
        browser.call("Page.bringToFront", session)
        os.kill(RELAY, signal.SIGKILL)
        claim("the page says that the relay is away", browser.wait(
            session, "/The relay is away/.test(document.body.innerText)", 90))
        claim("and still shows what was known", browser.run(
            session, "/2 of 2 known are connected/.test(document.querySelector('main').innerText)"))
        foreign = [u for _, u in browser.requests if not u.startswith(ORIGIN + "/") and u != "about:blank"]
        claim("no request went to another origin", not foreign, foreign)
        claim("the console has no error", not browser.said, browser.said)
    finally:
        browser.close()
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
