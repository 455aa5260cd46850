#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Signs a person in at the proxy before `perfleet ui`, in a headless Chromium, and prints a line of TAP for each claim.

Usage: page_team_walk.py ORIGIN FOLDER FLAG..."""
import sys

from page_kit import Walk


def walk(w):
    w.claim("a browser that is not signed in gets the sign-in page", w.wait(
        "document.title == 'Sign in' && location.pathname == '/sign-in/'"))
    w.browser.said.clear()
    w.run("location.href = '/sign-in/as?bob'; true")
    w.claim("who signs in gets the pages of his role", w.wait(
        "location.pathname == '/hosts' && document.querySelectorAll('#list tbody tr').length == 1 && "
        "document.querySelector('#list tbody th').innerText == 'web1'"), w.text())
    w.fill("input[name=q]", "nothing")
    w.claim("with their script and search", w.wait("/None of 1 hosts matches/.test(document.body.innerText)"))
    w.click("header nav a[href='/fleet']")
    w.claim("and their other pages", w.wait(
        "location.pathname == '/fleet' && /Losses by cause/.test(document.body.innerText)"))
    cookies = w.browser.call("Network.getCookies", w.session, urls=[w.origin])["cookies"]
    w.claim("perfleet ui sets no cookie", w.run("document.cookie") == "" and [c["name"] for c in cookies] == ["session"])
    w.end()


def main():
    origin, folder = sys.argv[1:3]
    w = Walk(origin + "/fleet", folder, "-", [*sys.argv[3:], "--ignore-certificate-errors"])
    try:
        walk(w)
    finally:
        w.browser.close()
    return 1 if w.failed else 0


if __name__ == "__main__":
    sys.exit(main())
