// What the server sends: the newest snapshot, and whether it still comes.
import { setServerTime } from './format.js';
import { merge, openStream } from './stream.js';
import { token } from './token.js';

/** `data` is the snapshot with rows by id; `state` is `live`, `connecting` or `away`; `heardAt` is of this clock. */
export const live = { data: null, state: { kind: 'connecting' }, heardAt: null, awaySince: null };

const listeners = new Set();
let source;

export function onLive(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const tell = () => listeners.forEach((listener) => listener());

function heard(event, data) {
  live.data = merge(live.data, data, event === 'snapshot');
  live.heardAt = Date.now();
  setServerTime(live.data.at);
  tell();
}

function changed(state) {
  live.state = state;
  live.awaySince = state.kind === 'away' ? live.awaySince ?? Date.now() : null;
  tell();
}

/** A stream in a SharedWorker, else one of this tab that ends while the tab is hidden. */
export function connect() {
  source?.close();
  const url = new URL('v1/live', document.baseURI).href;
  source = throughWorker(url) ?? ofThisTab(url);
}

export const retry = () => source.retry();

function throughWorker(url) {
  if (!window.SharedWorker) return null;
  let port;
  try {
    // The name has the build: after an update, an old worker of another tab is not joined.
    const name = document.querySelector('meta[name=tollway-build]').content;
    const worker = new SharedWorker(new URL('worker.js', import.meta.url), { type: 'module', name });
    // Browsers without module workers say so only here.
    worker.onerror = () => { source = ofThisTab(url); };
    port = worker.port;
  } catch {
    return null;
  }
  const join = () => port.postMessage({ kind: 'join', url, token: token(), visible: !document.hidden });
  port.onmessage = ({ data: { event, data, state } }) => (event ? heard(event, data) : changed(state));
  const events = new AbortController();
  const on = (target, name, listener) => target.addEventListener(name, listener, { signal: events.signal });
  on(document, 'visibilitychange', () => port.postMessage({ kind: 'visible', visible: !document.hidden }));
  on(window, 'pagehide', () => port.postMessage({ kind: 'bye' }));
  on(window, 'pageshow', (event) => event.persisted && join());
  join();
  return {
    retry: () => port.postMessage({ kind: 'retry' }),
    close() {
      events.abort();
      port.postMessage({ kind: 'bye' });
      port.close();
    },
  };
}

function ofThisTab(url) {
  let stream;
  const follow = () => {
    stream?.close();
    stream = document.hidden ? null : openStream(url, token(), heard, changed);
  };
  document.addEventListener('visibilitychange', follow);
  follow();
  return {
    retry: () => stream?.retry(),
    close() {
      document.removeEventListener('visibilitychange', follow);
      stream?.close();
    },
  };
}
