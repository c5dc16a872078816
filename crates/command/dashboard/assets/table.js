// Tables of few rows.
import { el } from './dom.js';
import { full, relative } from './format.js';

/** A row of a table; a cell is a text, a node, or `[class, ...children]`. */
export function tableRow(...cells) {
  const cell = (content) => (Array.isArray(content) ? el('td', { class: content[0] }, ...content.slice(1)) : el('td', {}, content));
  return el('tr', {}, cells.map(cell));
}

/** A table; a heading with `#` is one of numbers. */
export function table(caption, headings, rows) {
  const heading = (text) => (!text ? el('td') : text.startsWith('#')
    ? el('th', { scope: 'col', class: 'number' }, text.slice(1)) : el('th', { scope: 'col' }, text));
  return el('div', { class: 'scroll', role: 'region', 'aria-label': caption, tabindex: '0' }, el('table', {}, el('caption', { class: 'hidden' }, caption),
    el('thead', {}, el('tr', {}, headings.map(heading))), el('tbody', {}, rows)));
}

/** What was changed through this process: when, by whom, from what to what. */
export function changesTable(changes) {
  if (!changes.length) return el('p', { class: 'empty' }, 'Nothing was changed since this process started.');
  return table('Changes', ['When', 'Who', 'What', 'From', 'To'], changes.map(({ at, who, what, from, to }) => tableRow(
    el('time', { title: full(at) }, relative(at)), who, ['words', what], from || '–', to || '–')));
}
