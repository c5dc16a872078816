// Requests to the server, with the token of this tab.
import { token } from './token.js';

/** What a failed request says to a reader. */
export class Problem extends Error {
  constructor(status, body) {
    super(Problem.words(status, body));
    this.status = status;
    this.body = body;
  }

  static words(status, body) {
    if (status === 0) return 'The server does not answer. Is it running?';
    return body.detail ?? body.title ?? `The server answered with status ${status}.`;
  }

  get needsToken() { return this.status === 401 || this.status === 403; }
}

// A number that JavaScript would round stays as it was written: jobs have 64-bit ids in their data.
const exact = (_, value, context) => (typeof value === 'number' && context?.source !== undefined
  && String(value) !== context.source && JSON.rawJSON ? JSON.rawJSON(context.source) : value);

/** JSON of the server, or a Problem. `path` is relative, so that a proxy may add a prefix. */
export async function ask(path, { method = 'GET', body, signal, asWritten = false } = {}) {
  const headers = {};
  if (token()) headers.authorization = `Bearer ${token()}`;
  if (body !== undefined) headers['content-type'] = 'application/json';
  let response;
  try {
    const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
    response = await fetch(path, { method, headers, body: text, signal, cache: 'no-store' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, {});
  }
  const text = await response.text().catch(() => '');
  let answer = null;
  try {
    answer = text ? JSON.parse(text, asWritten ? exact : undefined) : null;
  } catch { /* no JSON: a proxy's page, perhaps */ }
  if (!response.ok) throw new Problem(response.status, answer ?? {});
  return answer;
}

/** A path with encoded parts: path`v1/view/policies/${name}`. */
export const path = (texts, ...parts) => texts.map((text, at) => text + (at < parts.length ? encodeURIComponent(parts[at]) : '')).join('');

/** A query of the values that are set. */
export function query(values) {
  const set = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== ''));
  return set.size ? `?${set}` : '';
}
