// The token of this tab: kept in its sessionStorage, sent in `Authorization` only.

const KEY = 'tollway-token';
let kept = null;

/** Takes the token of a printed link (`#t=...`) out of the address bar at once. */
export function takeTokenOfLink() {
  const given = new URLSearchParams(location.hash.slice(1)).get('t');
  if (location.hash) history.replaceState(null, '', location.pathname + location.search);
  if (given) setToken(given);
}

export function token() {
  try {
    return kept ?? sessionStorage.getItem(KEY) ?? '';
  } catch {
    return kept ?? '';
  }
}

export function setToken(text) {
  kept = text;
  try {
    if (text) sessionStorage.setItem(KEY, text);
    else sessionStorage.removeItem(KEY);
  } catch { /* storage is off: the token lasts until the page is left */ }
}
