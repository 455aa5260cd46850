// SPDX-License-Identifier: Apache-2.0
// Search as one types (a form #search), and fresh contents of #list (each data-refresh ms). Without this script the form
// and a reload do it. The server makes all HTML, in which hosts' strings are escaped.
"use strict";
(() => {
    const list = document.getElementById("list");
    const form = document.getElementById("search");
    if (!list)
        return;
    const PAGE = location.pathname;
    const REFRESH_MS = Number(list.dataset.refresh);
    const TYPING_MS = 80;
    let timer = 0;
    let running = null;

    const parameters = () => {
        const all = new URLSearchParams();
        for (const [name, value] of form ? new FormData(form) : [])
            if (value)
                all.set(name, value);
        return all;
    };
    const say = (text) => {
        const banner = document.getElementById("banner");
        banner.textContent = "";
        const p = document.createElement("p");
        p.className = "banner";
        p.textContent = text;
        banner.append(p);
    };
    const put = (text) => {
        const page = new DOMParser().parseFromString(text, "text/html");
        for (const meta of page.body.querySelectorAll("meta"))  // of a stranger at this port: it would lead away
            meta.remove();
        const inside = document.getElementById("list").contains(document.activeElement);
        const at = inside ? document.activeElement.getAttribute("href") : null;
        for (const id of ["banner", "list", "command"]) {
            const fresh = page.getElementById(id);
            const old = document.getElementById(id);
            if (fresh && old)
                old.replaceWith(fresh);
        }
        if (at)
            for (const a of document.querySelectorAll("#list a"))
                if (a.getAttribute("href") === at)
                    a.focus({preventScroll: true});
    };
    const load = async (page) => {
        const all = parameters();
        if (page)
            all.set("page", page);
        const query = all.toString();
        if (running)
            running.abort();
        const mine = new AbortController();
        running = mine;
        try {
            const answer = await fetch(PAGE + "?part=1" + (query ? "&" + query : ""), {signal: mine.signal});
            if (!answer.ok)
                throw new Error("status " + answer.status);
            put(await answer.text());
            history.replaceState(null, "", PAGE + (query ? "?" + query : ""));
        } catch (error) {
            if (error.name !== "AbortError")
                say("perfleet ui does not answer: it may have been ended. What is below was so before.");
        } finally {
            if (running === mine)
                running = null;
        }
    };
    const current = () => new URLSearchParams(location.search).get("page");
    form?.addEventListener("input", () => {
        clearTimeout(timer);
        timer = setTimeout(load, TYPING_MS, null);
    });
    form?.addEventListener("submit", (event) => {
        event.preventDefault();
        load(null);
    });
    if (REFRESH_MS)
        setInterval(() => {
            if (!document.hidden && !running)
                load(current());
        }, REFRESH_MS);
})();
