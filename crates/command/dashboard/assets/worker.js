// One stream for all tabs of this browser: it allows six connections to an origin. Tabs with different tokens have
// streams of their own.
import { merge, openStream } from './stream.js';

// Without a visible tab for this long, the server has no viewer.
const HIDDEN_MS = 300_000;

/** Token to `{ stream, known, state, tabs, idle }`. */
const streams = new Map();

function open(shared, url, token) {
  clearTimeout(shared.idle);
  shared.idle = null;
  if (shared.stream) return shared.stream.retry();
  const tell = (message) => shared.tabs.forEach((_, port) => port.postMessage(message));
  shared.stream = openStream(url, token, (event, data) => {
    shared.known = merge(shared.known, data, event === 'snapshot');
    tell({ event, data });
  }, (state) => {
    shared.state = state;
    tell({ state });
  });
}

function close(shared) {
  shared.stream?.close();
  shared.stream = null;
  shared.known = null;
  shared.state = { kind: 'connecting' };
}

onconnect = ({ ports: [port] }) => {
  let shared;
  let at;
  // A tab that opens hidden begins no stream.
  const show = (visible) => {
    shared.tabs.set(port, visible);
    if (visible) open(shared, ...at);
    else if (![...shared.tabs.values()].includes(true)) shared.idle ??= setTimeout(close, HIDDEN_MS, shared);
  };
  port.onmessage = ({ data: { kind, url, token, visible } }) => {
    if (kind === 'join') {
      at = [url, token];
      shared = streams.get(token) ?? { tabs: new Map(), state: { kind: 'connecting' } };
      streams.set(token, shared);
      if (shared.known) port.postMessage({ event: 'snapshot', data: { ...shared.known, rows: [...shared.known.rows.values()] } });
      port.postMessage({ state: shared.state });
      show(visible);
    } else if (shared && kind === 'bye') {
      shared.tabs.delete(port);
      if (!shared.tabs.size) {
        close(shared);
        streams.delete(at[1]);
      }
      shared = null;
    } else if (shared && kind === 'retry') {
      shared.stream?.retry();
    } else if (shared && kind === 'visible') {
      show(visible);
    }
  };
};
