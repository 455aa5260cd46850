// SPDX-License-Identifier: Apache-2.0
// Takes traces as the Perfetto UI v58 does, by its sources (ui/src/frontend/index.ts,
// trace_url_handler.ts, post_message_handler.ts, ui/src/core/trace_stream.ts): its content policy;
// a probe for Trace Processor on 127.0.0.1:9001; then ?url= of the fragment is fetched as a stream,
// or PING is answered with PONG and {perfetto: {buffer, title}} is taken, once without keepApiOpen;
// of another machine's page it would ask the user first. The result is the
// document's title: "trace BYTES SHA-256 TITLE", or "failed REASON".
'use strict';

const policy = {
  'default-src': ["'self'"],
  'script-src': ["'self'", "'unsafe-eval'"],
  'object-src': ["'none'"],
  'connect-src': ["'self'", 'ws://127.0.0.1:8037', 'http://localhost:8080', 'https:', 'blob:', 'data:',
                  'http://127.0.0.1:9001', 'ws://127.0.0.1:9001', 'ws://127.0.0.1:9167'],
  'img-src': ["'self'", 'data:', 'blob:'],
  'style-src': ["'self'", "'unsafe-inline'"],
};
const meta = document.createElement('meta');
meta.httpEquiv = 'Content-Security-Policy';
meta.content = Object.entries(policy).map(([key, list]) => `${key} ${list.join(' ')}; `).join('');
document.head.append(meta);

async function show(bytes, title) {
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  const hex = [...hash].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  document.title = `trace ${bytes.byteLength} ${hex} ${title}`;
}

async function probe() {
  try {
    const answer = await fetch('http://127.0.0.1:9001/status', {method: 'post', cache: 'no-cache'});
    return answer.status === 200;
  } catch {
    return false;
  }
}

async function load(url) {
  if (await probe()) throw new Error('a Trace Processor answers');
  const answer = await fetch(url);
  if (answer.status !== 200) throw new Error(`HTTP ${answer.status}`);
  const total = Number.parseInt(answer.headers.get('Content-Length') ?? '0', 10);
  const reader = answer.body.getReader();
  const parts = [];
  for (;;) {
    const {value, done} = await reader.read();
    if (done) break;
    parts.push(value);
  }
  const blob = new Blob(parts);
  if (total !== blob.size) throw new Error(`${blob.size} of ${total} bytes`);
  await show(await blob.arrayBuffer(), url.split('/').pop());
}

function onMessage(event) {
  if (event.source === null || event.source !== window.opener) return;
  if (event.data === 'PING') {
    event.source.postMessage('PONG', '*');
  } else if (event.data.perfetto?.buffer instanceof ArrayBuffer) {
    if (!event.data.perfetto.keepApiOpen) window.removeEventListener('message', onMessage);
    const host = new URL(event.origin).hostname;
    if (event.origin === window.origin || ['localhost', '127.0.0.1', '[::1]'].includes(host)) {
      show(event.data.perfetto.buffer, event.data.perfetto.title);
    } else {
      document.title = `failed asks whether to trust ${event.origin}`;
    }
  }
}
window.addEventListener('message', onMessage);

const url = new URLSearchParams(location.hash.replace(/^#!\/\?/, '')).get('url');
if (url !== null) load(url).catch((error) => document.title = `failed ${error.message}`);
