// The table of limits: one row for each, kept in place while someone points at it.
import { gauge, sparkline } from './chart.js';
import { el, keyed, setAttribute, setText } from './dom.js';
import { clock, count, counted, full, now, span } from './format.js';
import { link } from './route.js';

// How long the order stays, so that rows can be read.
const ORDER_MS = 2_000;

const MODES = {
  shadow: 'evaluated and reported, never denies',
  stopped: 'set to 0: grants nothing until it is set again',
  degraded: 'the store does not answer: decided without it',
  held: 'the vendor holds calls back',
};

export const is = (row, mode) => row.modes?.includes(mode);

/** How full a limit is: 0 to 1, more where callers wait or nothing is granted. */
export function fullness(row) {
  if (row.waiting > 0) return 3;
  if (is(row, 'stopped') || is(row, 'held')) return 2;
  return (row.used ?? 0) / (row.capacity || row.amount || 1);
}

/** A number of a row; narrow screens leave out those that say nothing. */
function setFigure(cell, text) {
  setText(cell, text ?? '–');
  setAttribute(cell, 'data-none', text === null);
}

export function modeChips(modes) {
  return (modes ?? []).map((mode) => el('span', { class: `chip ${mode}`, title: MODES[mode] }, mode === 'held' ? 'held by the vendor' : mode));
}

const subjectsOf = ({ subjects }) => (!subjects ? '' : subjects.seen_5m === undefined ? ' · the fullest subject'
  : ` · the fullest of ${counted(subjects.seen_5m, 'subjects')}`);

/** One row of the first screen; on the page of its policy, the row is named for its limit. */
export const limitRow = (row) => makeRow(el('a', { href: link({ page: 'policy', name: row.policy }) }, row.policy));
export const limitRowOfPolicy = (row) => makeRow(el('b', {}, row.limit));

function makeRow(title) {
  const limit = el('span', { class: 'what' });
  const [used, spark] = [gauge(), sparkline()];
  // Narrow screens show a row as a grid: the roles keep it a row of a table.
  const cell = (kind, ...content) => el('td', { class: kind, role: 'cell' }, content);
  const [resets, waiting, wait, denied] = ['resets', 'waiting', 'wait', 'denied'].map((kind) => cell(`number ${kind}`));
  const chips = el('span', { class: 'chips' });
  const name = el('th', { scope: 'row', role: 'rowheader' }, title, ' ', chips, limit);
  const [usedCell, history] = [cell('used', used.node), cell('history', spark.node)];
  const node = el('tr', { role: 'row' }, name, usedCell, resets, history, waiting, wait, denied);
  let modes;
  return {
    node,
    update(next) {
      setText(limit, next.text + subjectsOf(next));
      setAttribute(name, 'title', `${next.policy}.${next.limit}`);
      used.update({ ...next, stopped: is(next, 'stopped'), about: next.seen_by === 'process' });
      setAttribute(usedCell, 'title', `${count(next.used)} of ${count(next.capacity)} ${next.unit}, ${next.seen_by === 'process' ? 'as seen by this process' : 'as the store has it'}`);
      setFigure(resets, next.resets_at > now() && next.used > 0 ? span(next.resets_at - now()) : null);
      setAttribute(resets, 'title', next.resets_at ? full(next.resets_at) : null);
      spark.update(next.spark);
      setFigure(waiting, next.waiting ? count(next.waiting) : null);
      setFigure(wait, next.held_until > now() ? span(next.held_until - now()) : next.wait_ms ? span(next.wait_ms) : null);
      setAttribute(wait, 'title', next.held_until ? `held by the vendor until ${full(next.held_until)}` : 'what a new caller would wait');
      setFigure(denied, next.denied_5m ? count(next.denied_5m) : null);
      setAttribute(denied, 'title', `in five minutes: ${count(next.granted_5m ?? 0)} granted, ${count(next.denied_5m ?? 0)} denied`);
      setAttribute(denied, 'data-some', next.denied_5m > 0);
      const shown = `${next.modes}${next.as_of}`;
      if (shown !== modes) {
        modes = shown;
        chips.replaceChildren(...modeChips(next.modes), ...(next.as_of ? [el('span', { class: 'chip aged', title: full(next.as_of) }, `of ${clock(next.as_of)}`)] : []));
      }
    },
  };
}

/** Rows in an order that changes at most every two seconds, and not while the pointer or the focus is on them. */
export function limitTable(body) {
  let order = new Map();
  let orderedAt = 0;
  const isHeld = () => body.matches(':hover') || (body.contains(document.activeElement) && document.activeElement.matches(':focus-visible'));

  function arrange(rows) {
    const at = Date.now();
    // Steps of 5 %: small changes do not reorder rows.
    const rank = (row) => Math.round(fullness(row) * 20);
    const place = (row) => order.get(row.id) ?? Infinity;
    const stays = at - orderedAt < ORDER_MS || isHeld();
    const sorted = rows.sort(stays
      ? (a, b) => place(a) - place(b) || rank(b) - rank(a)
      : (a, b) => rank(b) - rank(a) || (b.waiting ?? 0) - (a.waiting ?? 0) || place(a) - place(b) || a.id.localeCompare(b.id));
    if (!stays) orderedAt = at;
    order = new Map(sorted.map((row, index) => [row.id, index]));
    return sorted;
  }

  return { update: (rows) => keyed(body, arrange([...rows]), (row) => row.id, limitRow) };
}
