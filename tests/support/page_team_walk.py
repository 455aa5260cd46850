#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Signs a person in at the proxy before `perfleet ui`, in a headless Chromium, and prints a line of TAP for each claim.

Usage: page_team_walk.py ORIGIN FOLDER FLAG..."""
import os
import sys

from browser_pipe import Browser

ORIGIN, FOLDER = sys.argv[1:3]
FAILED = []


def claim(text, holds, shown=""):
    print(("ok - " if holds else "not ok - ") + text, flush=True)
    if not holds:
        FAILED.append(text)
        print("#   " + str(shown)[:2000].replace("\n", "\n#   "), flush=True)


def main():
    browser = Browser([*sys.argv[3:], "--ignore-certificate-errors"], os.path.join(FOLDER, "profile"))
    try:
        session = browser.open(ORIGIN + "/fleet")
        claim("a browser that is not signed in gets the sign-in page", browser.wait(
            session, "document.title == 'Sign in' && location.pathname == '/sign-in/'"))
        browser.said.clear()
        browser.run(session, "location.href = '/sign-in/as?bob'; true")
        claim("who signs in gets the pages of his role", browser.wait(
            session, "location.pathname == '/hosts' && document.querySelectorAll('#list tbody tr').length == 1 && "
                     "document.querySelector('#list tbody th').innerText == 'web1'"),
            browser.run(session, "document.body.innerText"))
        browser.run(session, "document.querySelector('input[name=q]').focus()")
        browser.call("Input.insertText", session, text="nothing")
        claim("with their script and search", browser.wait(
            session, "/None of 1 hosts matches/.test(document.body.innerText)"))
        browser.click(session, "header nav a[href='/fleet']")
        claim("and their other pages", browser.wait(
            session, "location.pathname == '/fleet' && /Losses by cause/.test(document.body.innerText)"))
        claim("perfleet ui sets no cookie", browser.run(session, "document.cookie") == "" and [
            c["name"] for c in browser.call("Network.getCookies", session, urls=[ORIGIN])["cookies"]] == ["session"])
        foreign = [u for _, u in browser.requests if not u.startswith(ORIGIN + "/") and u != "about:blank"]
        claim("no request went to another origin", not foreign, foreign)
        claim("the console has no error", not browser.said, browser.said)
    finally:
        browser.close()
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
