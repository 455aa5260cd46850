#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens a link of perfleet open in a headless Chromium, as a person would.

Usage: open_link.py HOME LINK [--map HOST=ADDRESS:PORT] [--click] [--public PORT] [--allow] [--evil URL] [--live N]
--map: that name is at that address, over TLS with any certificate. --click: the page's button.
--public: what is at 127.0.0.1:PORT counts as of the Internet, so that access to this device needs
the user's permission, which --allow gives. --evil URL: a page of another origin, which asks for the
link's trace. --live N: clicks, as for --click; prints a line for each of N titles that the UI's page
has one after the other, then the state of our page; reads a word from standard input, and closes the
UI's tab (tab), our page (page), or nothing.
Prints a line of JSON: the title of the UI's page, requests, and what the console said."""
import argparse
import json
import os
import sys
import time
import urllib.parse

from browser_pipe import Browser

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-dev-shm-usage", "--disable-component-update", "--disable-background-networking",
         "--disable-sync", "--no-default-browser-check", "--ignore-certificate-errors"]


def live(browser, session, count, tab):
    title = ""
    for _ in range(count):
        title = browser.wait(session, "/^(trace|failed) /.test(document.title) && "
                                      f"document.title !== {json.dumps(title)} && document.title", 120)
        print(title, flush=True)
    for name in ("cost", "state"):
        print(browser.run(browser.page, f"document.getElementById('{name}').textContent"), flush=True)
    word = sys.stdin.readline().strip()
    if word == "say":  # what our page says when it says something else
        said = browser.run(browser.page, "document.getElementById('state').textContent")
        print(browser.wait(browser.page, f"document.getElementById('state').textContent !== {json.dumps(said)} && "
                                         "document.getElementById('state').textContent", 120), flush=True)
        word = sys.stdin.readline().strip()
    if word == "tab":
        browser.call("Target.closeTarget", targetId=tab)
        print(browser.wait(browser.page, "/^The live view ended/.test(document.getElementById('state').textContent) && "
                                         "document.getElementById('state').textContent", 60), flush=True)
    elif word == "page":
        browser.call("Page.close", browser.page)
    sys.stdin.readline()
    browser.close()
    print(json.dumps({"requests": [f"{m} {u}" for m, u in browser.requests], "said": browser.said}), flush=True)
    sys.exit(0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("home")
    parser.add_argument("link")
    parser.add_argument("--map", action="append", default=[])
    parser.add_argument("--click", action="store_true")
    parser.add_argument("--public")
    parser.add_argument("--allow", action="store_true")
    parser.add_argument("--evil")
    parser.add_argument("--live", type=int, default=0)
    args = parser.parse_args()
    flags = list(FLAGS)
    maps = ["MAP " + " ".join(text.split("=")) for text in args.map]
    flags.append("--host-resolver-rules=" + ", ".join([*maps, "MAP * ~NOTFOUND", "EXCLUDE 127.0.0.1"]))
    if args.public:
        flags.append(f"--ip-address-space-overrides=127.0.0.1:{args.public}=public")
    os.makedirs(args.home, exist_ok=True)
    browser = Browser(flags, os.path.join(args.home, "profile"), {**os.environ, "HOME": args.home})
    out = {}
    try:
        if args.allow:
            site = urllib.parse.urlsplit(args.link)
            # Chromium 145 and later; before, one permission for both.
            for names in (["loopbackNetwork", "localNetwork"], ["localNetworkAccess"]):
                try:
                    browser.call("Browser.grantPermissions", permissions=names,
                                 origin=f"{site.scheme}://{site.netloc}")
                    break
                except RuntimeError:
                    continue
        session = browser.open(args.evil or args.link)
        if args.evil:
            trace = urllib.parse.parse_qs(args.link.split("?", 1)[1])["url"][0]
            browser.wait(session, "document.readyState === 'complete'")
            out["title"] = browser.run(
                session, f"fetch({json.dumps(trace)}).then(r => 'status ' + r.status, e => 'failed ' + e.message)")
        else:
            if args.click or args.live:
                browser.wait(session, "document.querySelector('button')?.disabled === false")
                browser.click(session, "button")
                ui = None
                for _ in range(600):
                    ui = next((t for t in browser.targets() if t.get("openerId")), None)
                    if ui:
                        break
                    time.sleep(0.1)
                browser.page = session
                session = browser.attach(ui["targetId"])
            if args.live:
                live(browser, session, args.live, ui["targetId"])
            out["title"] = browser.wait(session, "/^(trace|failed) /.test(document.title) && document.title")
            if args.click:
                out["page"] = browser.run(browser.page, "document.getElementById('state').textContent")
        out["requests"] = [f"{method} {url}" for method, url in browser.requests]
        out["said"] = browser.said
    finally:
        browser.close()
    print(json.dumps(out), flush=True)


main()
