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
    const TYPING_MS = 40;
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
// The Record page: the count of hosts and the config's check as one types.
(() => {
    const form = document.querySelector("#record form");
    if (!form)
        return;
    const TYPING_MS = 150;
    let timer = 0;
    let running = null;

    const check = async () => {
        const all = new URLSearchParams();
        for (const [name, value] of new FormData(form))
            all.set(name, value);
        all.set("part", "1");
        if (running)
            running.abort();
        const mine = new AbortController();
        running = mine;
        try {
            const answer = await fetch("/record", {
                method: "POST", body: all.toString(), signal: mine.signal,
                headers: {"Content-Type": "application/x-www-form-urlencoded"},
            });
            if (!answer.ok)
                throw new Error("status " + answer.status);
            const page = new DOMParser().parseFromString(await answer.text(), "text/html");
            for (const meta of page.querySelectorAll("meta"))  // as above
                meta.remove();
            for (const id of ["check", "command"]) {
                const fresh = page.getElementById(id);
                const old = document.getElementById(id);
                if (fresh && old)
                    old.replaceWith(fresh);
            }
        } catch (error) {
            if (error.name !== "AbortError")
                document.getElementById("check").textContent = "perfleet ui does not answer: it may have been ended.";
        }
    };
    form.addEventListener("input", () => {
        clearTimeout(timer);
        timer = setTimeout(check, TYPING_MS);
    });
})();
// A recording's page: its progress, as the server sends it.
(() => {
    const first = document.getElementById("progress");
    if (!first || first.dataset.over === "1")
        return;
    const id = new URLSearchParams(location.search).get("id");
    const events = new EventSource("/recording/events?id=" + encodeURIComponent(id));

    events.onmessage = (event) => {
        const page = new DOMParser().parseFromString(event.data, "text/html");
        for (const meta of page.querySelectorAll("meta"))  // as above
            meta.remove();
        const fresh = page.getElementById("progress");
        if (!fresh)
            return;
        if (fresh.dataset.over === "1") {
            events.close();
            location.replace("/recording?id=" + encodeURIComponent(id));
            return;
        }
        document.getElementById("progress").replaceWith(fresh);
    };
    events.onerror = () => {
        if (events.readyState !== EventSource.CLOSED)
            return;
        const p = document.createElement("p");
        p.className = "banner";
        p.textContent = "There is no connection to perfleet ui any more: reload the page, or start perfleet ui again.";
        document.getElementById("progress").prepend(p);
    };
})();
