#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Walks the Fleet page of `perfleet ui` in a headless Chromium, and prints a line of TAP for each claim.

Usage: page_fleet_walk.py LINK RELAY_PID FOLDER AXE FLAG...
The fleet has the hosts web1 and db1; web1 has lost chunks of a full buffer. AXE is axe-core's script, or "-". FOLDER gets
screenshots. The relay is killed at the end."""
import os
import signal
import sys

from page_kit import Walk

CONNECTED = "/2 of 2 known are connected/.test(document.querySelector('main').innerText)"


def walk(w):
    w.wait("location.pathname == '/hosts' && document.readyState == 'complete' && document.querySelector('header nav')")
    w.click("header nav a[href='/fleet']")
    w.claim("a tab leads to the fleet's page", w.wait("location.pathname == '/fleet'"))
    w.claim("it has the relay's own figures", w.wait(CONNECTED), w.text())
    w.claim("charts have their figures as text", w.wait(
        "[...document.querySelectorAll('.chart svg')].map(s => s.getAttribute('aria-label').split(':')[0])"
        ".join() == 'To operators,To hosts,Streams,Hosts connected,Processor of the relay'"), w.text())
    w.claim("it becomes fresh by itself, and draws what it learns", w.wait(
        "document.querySelectorAll('.chart polyline').length >= 5"), w.text())
    w.claim("losses are by cause, with the host that has most", w.wait(
        "[...document.querySelectorAll('tbody tr')].some(r => /^discarded/.test(r.innerText) && "
        "r.querySelector('a')?.innerText == 'web1')"), w.text())
    w.claim("certificates have their ends", w.run("/yours[^]*the relay's/.test(document.querySelector('main').innerText)"),
            w.text())
    w.claim("and the host whose one ends soon", w.run(
        "[...document.querySelectorAll('tbody tr')].some(r => /^db1/.test(r.innerText) && /day/.test(r.innerText))"), w.text())
    w.claim("the page shows the command that finds the same", w.run("document.querySelector('#command').innerText").startswith(
        "perfleet doctor --relay 127.0.0.1:"))
    w.claim("it has no script but ours", w.run("document.scripts.length == 1"))


def walk_without_script(w):
    words = w.words_without_script("/fleet", "Losses by cause")
    w.claim("without script it reads", "2 of 2 known are connected" in words and "discarded" in words, words)


def main():
    link, relay, folder, axe = sys.argv[1:5]
    w = Walk(link, folder, axe, sys.argv[5:])
    try:
        walk(w)
        w.judge("fleet")
        walk_without_script(w)
        os.kill(int(relay), signal.SIGKILL)
        w.claim("the page says that the relay is away", w.wait("/The relay is away/.test(document.body.innerText)", 90))
        w.claim("and still shows what was known", w.run(CONNECTED))
        w.end()
    finally:
        w.browser.close()
    return 1 if w.failed else 0


if __name__ == "__main__":
    sys.exit(main())
