// Reads /v1/live: server-sent events over `fetch`, because an EventSource cannot send a token.

const RETRY_FIRST_MS = 500;
const RETRY_MAX_MS = 5_000;
// A refused token counts as wrong at the server: rarely.
const REFUSED_MS = 60_000;
// The server sends an event a second; after this long without one the connection counts as lost.
const SILENT_MAX_MS = 8_000;

/** Adds an event to what is known. Rows are kept by id. */
export function merge(known, { rows, gone, ...rest }, isWhole) {
  const next = { ...(isWhole ? {} : known), ...rest };
  next.rows = isWhole ? new Map() : known.rows;
  for (const id of gone ?? []) next.rows.delete(id);
  for (const row of rows ?? []) next.rows.set(row.id, row);
  return next;
}

/** Opens the stream, and again with backoff until `close()`. Calls `onEvent(name, data)` and `onState(state)`. */
export function openStream(url, token, onEvent, onState) {
  let closed = false;
  let failures = 0;
  let timer;
  let request;

  async function connect() {
    clearTimeout(timer);
    const current = new AbortController();
    request = current;
    let silence = setTimeout(() => current.abort(), SILENT_MAX_MS);
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => current.abort(), SILENT_MAX_MS);
    };
    let refused = null;
    try {
      const headers = token ? { authorization: `Bearer ${token}` } : {};
      const response = await fetch(url, { headers, signal: current.signal, cache: 'no-store' });
      if (!response.ok) {
        const problem = await response.json().catch(() => ({}));
        refused = { status: response.status, detail: problem.detail ?? problem.title ?? response.statusText };
        throw new Error(refused.detail);
      }
      await readEvents(response.body, heard, (name, data) => {
        if (closed || request !== current) return;
        if (failures !== -1) onState({ kind: 'live' });
        failures = -1;
        onEvent(name, data);
      });
    } catch { /* lost or refused: said below */ } finally {
      clearTimeout(silence);
      current.abort();
    }
    if (closed || request !== current) return;
    failures = Math.max(failures, 0) + 1;
    // Half of it is random, so that many pages do not come back to a restarted server at once.
    const most = Math.min(RETRY_MAX_MS, RETRY_FIRST_MS * 2 ** Math.min(failures, 10));
    const wait = refused?.status === 401 || refused?.status === 403 ? REFUSED_MS : most * (0.5 + Math.random() / 2);
    onState({ kind: 'away', refused, retryAt: Date.now() + wait });
    timer = setTimeout(connect, wait);
  }

  connect();
  return {
    retry() { if (!closed && failures > 0) connect(); },
    close() {
      closed = true;
      clearTimeout(timer);
      request.abort();
    },
  };
}

async function readEvents(body, heard, onEvent) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    const events = (rest + value).split('\n\n');
    rest = events.pop();
    for (const event of events) {
      let name = 'message';
      let data = '';
      for (const line of event.split('\n')) {
        if (line.startsWith('event:')) name = line.slice(6).trim();
        else if (line.startsWith('data:')) data += line.slice(5);
      }
      if (data) onEvent(name, JSON.parse(data));
    }
  }
}
