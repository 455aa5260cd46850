// SPDX-License-Identifier: Apache-2.0
// Hands traces to a Perfetto UI of another origin: opens it in a tab, sends PING until PONG comes,
// then posts the trace.
'use strict';

const PING_MS = 100;
const state = document.getElementById('state');

function say(text) {
  state.textContent = text;
}

// Resolves when the UI in the tab answers; rejects when the tab is closed.
function waitForPong(tab, origin) {
  return new Promise((resolve, reject) => {
    const timer = setInterval(() => {
      if (tab.closed) {
        end();
        reject(new Error('the tab was closed'));
      } else {
        tab.postMessage('PING', origin);
      }
    }, PING_MS);
    const onMessage = (event) => {
      if (event.source !== tab || event.origin !== origin || event.data !== 'PONG') return;
      end();
      resolve();
    };
    function end() {
      clearInterval(timer);
      window.removeEventListener('message', onMessage);
    }
    window.addEventListener('message', onMessage);
  });
}

async function fetchTrace(trace) {
  const response = await fetch(trace.path, {cache: 'no-store'});
  if (!response.ok) throw new Error(`it answers ${response.status}: run perfleet open again`);
  const buffer = await response.arrayBuffer();
  if (buffer.byteLength !== trace.bytes) {
    throw new Error(`the file has ${buffer.byteLength} bytes, it had ${trace.bytes}`);
  }
  return buffer;
}

async function handOver(ui, trace, button) {
  const tab = window.open(ui.url, '_blank');
  if (tab === null) {
    say('The browser blocked the new tab: allow pop-ups of this page, then try again.');
    return;
  }
  button.disabled = true;
  say(`${trace.title}: waiting for ${ui.origin}`);
  try {
    await waitForPong(tab, ui.origin);
    const buffer = await fetchTrace(trace);
    tab.postMessage({perfetto: {buffer, title: trace.title, fileName: trace.title}}, ui.origin,
                    [buffer]);
    say(`${trace.title}: handed over`);
  } catch (error) {
    say(`${trace.title}: ${error.message}`);
    button.disabled = false;
  }
}

async function main() {
  const response = await fetch('traces.json', {cache: 'no-store'});
  if (!response.ok) throw new Error(`${response.status}`);
  const ui = await response.json();
  for (const trace of ui.traces) {
    const item = document.createElement('li');
    const button = document.createElement('button');
    button.textContent = `${trace.title} (${(trace.bytes / 1e6).toFixed(1)} MB)`;
    button.addEventListener('click', () => handOver(ui, trace, button));
    item.append(button);
    document.getElementById('traces').append(item);
  }
  document.querySelector('button').focus();
}

main().catch((error) => say(`perfleet does not answer any more (${error.message}): run perfleet open --live again.`));
