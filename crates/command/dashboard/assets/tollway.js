// The page around the views: which one is shown, whether figures are new, keys, theme and token.
import { el, setAttribute, setText } from './dom.js';
import { clock, count, full, span } from './format.js';
import { connect, live, onLive, retry } from './live.js';
import { follow, go, route } from './route.js';
import { takeTokenOfLink, token } from './token.js';

/** The title of each view; its file has the same name. */
const VIEWS = { limits: 'Limits', policy: 'Policy', apis: 'APIs', pipelines: 'Pipelines', jobs: 'Jobs', consumers: 'Consumers', incidents: 'Incidents' };
// Figures older than this are marked.
const OLD_MS = 3_000;

const main = document.getElementById('main');
const id = (name) => document.getElementById(name);
let shown = null;
let turn = 0;

/** A view is `show(main, route)`; it returns `{ title, update(), leave() }`, of which all are optional. */
async function showView() {
  const values = route();
  const view = Object.hasOwn(VIEWS, values.page ?? '') ? values.page : 'limits';
  const mine = ++turn;
  const module = await import(`./${view}.js`).catch(() => null);
  if (mine !== turn) return;
  shown?.leave?.();
  const isFirst = shown === null;
  main.replaceChildren();
  if (!module) {
    shown = { failed: true };
    main.append(el('p', { class: 'empty' }, 'The server does not answer. This view is loaded when it is back.'));
  } else {
    shown = module.show(main, values) ?? {};
  }
  document.title = `${shown.title ?? VIEWS[view]} – Tollway`;
  const section = { policy: 'limits', jobs: 'pipelines' }[view] ?? view;
  for (const anchor of document.querySelectorAll('nav a')) setAttribute(anchor, 'aria-current', anchor.dataset.page === section && 'page');
  document.querySelector('nav a[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  if (!isFirst) main.focus({ preventScroll: true });
  refresh();
}

function refresh() {
  showConnection();
  if (!live.data) return;
  const { process, totals, alarms, pipelines } = live.data;
  setText(id('process'), [process.command, process.store].filter(Boolean).join(' · '));
  setAttribute(id('process'), 'title', `tollway ${process.version}, process ${process.pid}`);
  badge('incidents', (alarms ?? []).filter((alarm) => !alarm.cleared).length, 'alarms');
  badge('pipelines', (pipelines ?? []).reduce((sum, { dead }) => sum + (dead ?? 0), 0), 'dead letters');
  badge('limits', totals.waiting, 'waiting');
  shown?.update?.();
}

function badge(page, number, things) {
  const node = document.querySelector(`nav a[data-page=${page}] .badge`);
  setText(node, number ? count(number) : '');
  setAttribute(node, 'title', number ? `${count(number)} ${things}` : null);
}

function showConnection() {
  const { state, heardAt, awaySince } = live;
  const age = heardAt ? Date.now() - heardAt : Infinity;
  const old = age > OLD_MS;
  const lost = awaySince !== null || (heardAt !== null && old);
  document.body.classList.toggle('old', heardAt !== null && old);
  setAttribute(id('link'), 'data-state', lost ? 'away' : heardAt ? 'live' : 'connecting');
  setText(id('link'), lost ? (heardAt ? `${span(Math.floor(age / 1_000) * 1_000)} old` : 'no connection') : heardAt ? 'live' : 'connecting');
  setAttribute(id('link'), 'title', heardAt ? `newest figures: ${full(heardAt)}` : null);
  const needsToken = [401, 403].includes(state.refused?.status);
  id('away').hidden = !lost || needsToken;
  id('locked').hidden = !needsToken;
  if (needsToken) {
    setText(id('locked-why'), token() ? 'The server refuses this token.' : 'The server shows its figures only with a token.');
  } else if (lost) {
    setText(id('away-since'), heardAt ? `The server does not answer. These figures are of ${clock(heardAt)}.` : 'The server does not answer.');
    setText(id('away-next'), state.retryAt > Date.now() ? `next try in ${span(Math.ceil((state.retryAt - Date.now()) / 1_000) * 1_000)}` : 'trying');
  }
  const store = live.data?.process.store_away_since;
  id('store-away').hidden = !store;
  const nodes = live.data?.process.store_nodes_away?.join(', ');
  const who = nodes ? `Of the store ${nodes}` : 'The store';
  if (store) setText(id('store-away'), `${who} has not answered since ${clock(store)}: each policy does what its when_store_fails says.`);
}

const theme = () => document.documentElement.dataset.theme;

function changeTheme() {
  const next = { light: 'dark', dark: undefined, undefined: 'light' }[theme()];
  if (next) document.documentElement.dataset.theme = next;
  else delete document.documentElement.dataset.theme;
  try {
    if (next) localStorage.setItem('tollway-theme', next);
    else localStorage.removeItem('tollway-theme');
  } catch { /* storage is off: the theme lasts until the page is left */ }
  showTheme();
}

function showTheme() {
  setText(id('theme'), { light: 'Light', dark: 'Dark' }[theme()] ?? 'Auto');
  setAttribute(id('theme'), 'aria-label', `Theme: ${id('theme').textContent}`);
}

const help = id('help');
const keysAreOn = () => {
  try { return localStorage.getItem('tollway-keys') !== 'off'; } catch { return true; }
};
const KEYS = {
  '/': () => main.querySelector('input[type=search]')?.focus(),
  '?': () => help.showModal(),
  t: changeTheme,
  r: () => { retry(); showView(); },
  l: () => go(''),
  a: () => go('page=apis'),
  p: () => go('page=pipelines'),
  c: () => go('page=consumers'),
  i: () => go('page=incidents'),
};

function onKey(event) {
  const inText = event.target.closest?.('input, textarea, select');
  if (event.key === 'Escape' && inText) return inText.blur();
  if (inText || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  if (!KEYS[event.key] || !keysAreOn()) return;
  event.preventDefault();
  KEYS[event.key]();
}

takeTokenOfLink();
addEventListener('hashchange', () => {
  const before = token();
  takeTokenOfLink();
  if (token() !== before) { connect(); showView(); }
});
document.addEventListener('keydown', onKey);
id('theme').addEventListener('click', changeTheme);
id('keys').addEventListener('click', () => help.showModal());
id('retry').addEventListener('click', retry);
for (const button of document.querySelectorAll('[data-ask-token]')) button.addEventListener('click', async () => (await import('./dialog.js')).askForToken());
id('keys-on').checked = keysAreOn();
id('keys-on').addEventListener('change', ({ target }) => {
  try { localStorage.setItem('tollway-keys', target.checked ? 'on' : 'off'); } catch { /* storage is off */ }
});
showTheme();
follow(showView);
onLive(() => {
  // A browser does not load a module again that it could not load.
  if (shown?.failed && live.state.kind === 'live') location.reload();
  refresh();
});
setInterval(refresh, 1_000);
showView();
connect();
