// SPDX-License-Identifier: Apache-2.0
// Hands one view after the other to the same tab of a Perfetto UI: asks perfleet for a view that is
// newer than the tab's (the answer may take seconds), and posts it with keepApiOpen, so that the UI
// takes the next one, too. No timer decides: browsers slow down those of pages in the background.
'use strict';

const PING_MS = 100;
const hold = document.getElementById('hold');
let tab = null;
let isReady = false; // the UI in the tab has answered
let isKnown = false; // perfleet has answered
let have = 0;
let question = new AbortController(); // the one that is asked now; another one has more to say

function say(text) {
  document.getElementById('state').textContent = text;
}

function showCost(now) {
  const view = now.view;
  const show = (bytes) => bytes < 1048576 ? `${(bytes / 1024).toFixed(0)} KiB` :
                                            `${(bytes / 1048576).toFixed(1)} MiB`;
  document.getElementById('host').textContent = ` of ${now.host}`;
  if (view === null) return;
  document.getElementById('cost').textContent =
      `Each view reads ${show(now.read_bytes)} of this host's buffers, in ${(view.took_ms / 1000).toFixed(1)} s, ` +
      `at most every ${now.every_ms / 1000} s; so far ${show(now.total_bytes)}.`;
}

function tabState() {
  if (tab === null) return isKnown ? 'none' : 'new';
  if (tab.closed) return 'closed';
  return isReady ? 'open' : 'none';
}

async function ask() {
  question = new AbortController();
  const query = `have=${have}&tab=${tabState()}&hold=${hold.checked ? 1 : 0}`;
  const response = await fetch(`next?${query}`, {cache: 'no-store', signal: question.signal});
  if (!response.ok) throw new Error(`it answers ${response.status}`);
  return response.json();
}

// As hand-over.js does.
function waitForPong(origin) {
  return new Promise((resolve) => {
    const timer = setInterval(() => {
      if (tab.closed) end();
      else tab.postMessage('PING', origin);
    }, PING_MS);
    const onMessage = (event) => {
      if (event.source !== tab || event.origin !== origin || event.data !== 'PONG') return;
      isReady = true;
      question.abort();
      end();
    };
    function end() {
      clearInterval(timer);
      window.removeEventListener('message', onMessage);
      resolve();
    }
    window.addEventListener('message', onMessage);
  });
}

async function post(now, origin) {
  const response = await fetch(now.view.path, {cache: 'no-store'});
  if (!response.ok) return; // another page has it: the next one comes
  const buffer = await response.arrayBuffer();
  if (buffer.byteLength !== now.view.bytes || tab.closed) return;
  const title = `${now.host}: live view ${now.view.number}`;
  tab.postMessage({perfetto: {buffer, title, fileName: `live-${now.view.number}.pftrace`, keepApiOpen: true}},
                  origin, [buffer]);
  have = now.view.number;
  say(`view ${have} came into the tab at ${new Date().toLocaleTimeString()}`);
}

async function run() {
  for (;;) {
    let now;
    try {
      now = await ask();
    } catch (error) {
      if (error.name === 'AbortError') continue;
      throw error;
    }
    const origin = now.origin || location.origin;
    isKnown = true;
    showCost(now);
    if (now.end !== '') {
      document.getElementById('open').disabled = true;
      say(`The live view ended: ${now.end}.`);
      return;
    }
    if (tab === null) {
      document.getElementById('open').onclick = () => openTab(now.url || '/', origin);
      document.getElementById('open').disabled = false;
    }
    if (now.why !== '') say(`The last copy failed: ${now.why}. perfleet tries again.`);
    if (tabState() === 'open' && !hold.checked && now.view !== null && now.view.path !== null &&
        now.view.number > have) {
      await post(now, origin);
    }
  }
}

function openTab(url, origin) {
  tab = window.open(url, '_blank');
  if (tab === null) {
    say('The browser blocked the new tab: allow pop-ups of this page, then try again.');
    return;
  }
  document.getElementById('open').disabled = true;
  say(`waiting for ${origin}`);
  waitForPong(origin);
}

hold.addEventListener('change', () => question.abort());
run().catch((error) => say(`perfleet does not answer any more (${error.message}): run perfleet open --live again.`));
