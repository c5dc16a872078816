// APIs of vendors: the rate against its ceiling, holds, and whose each refusal was.
import { path } from './ask.js';
import { clone, el, keyed, setAttribute, setText } from './dom.js';
import { fetched } from './fetched.js';
import { count, full, now, rate, relative, span } from './format.js';
import { live } from './live.js';
import { link } from './route.js';
import { table, tableRow } from './table.js';
import { timeChart } from './time_chart.js';

export function show(main, { name }) {
  const view = clone('apis-view');
  main.append(view.root);
  view.one.hidden = !name;
  const parts = name ? showApi(view, name) : [];

  function update() {
    const apis = live.data?.apis ?? [];
    view.none.hidden = apis.length > 0 || !live.data;
    view.table.hidden = !apis.length;
    keyed(view.rows, apis, (api) => api.api, apiRow);
    for (const row of view.rows.children) setAttribute(row, 'aria-current', name && row.dataset.api === name && 'true');
  }

  update();
  return { title: name ? `API ${name}` : undefined, update, leave: () => parts.forEach((part) => part.stop()) };
}

function apiRow(first) {
  const cells = Array.from({ length: 6 }, (_, index) => el('td', { class: index ? 'number' : null }));
  return {
    node: el('tr', { 'data-api': first.api }, el('th', { scope: 'row' }, el('a', { href: link({ page: 'apis', name: first.api }) }, first.api)), cells),
    update(api) {
      const kinds = Object.entries(api.refused ?? {}).map(([kind, number]) => `${kind.replaceAll('_', ' ')} ${count(number)}`).join(', ');
      const held = api.held_until > now();
      const texts = [api.policy ?? '–', rate(api.rate_per_second), rate(api.ceiling_per_second), held ? span(api.held_until - now()) : '–', count(api.refused_5m ?? 0), count(api.denied_5m ?? 0)];
      texts.forEach((text, index) => setText(cells[index], text));
      setAttribute(cells[3], 'title', held ? full(api.held_until) : null);
      setAttribute(cells[4], 'title', kinds ? `since the start: ${kinds}` : null);
      setAttribute(cells[4], 'data-some', api.refused_5m > 0);
      setAttribute(cells[5], 'data-some', api.denied_5m > 0);
    },
  };
}

const WHOSE = { ours: 'ours', vendor: "the vendor's" };

/** The calls of the last hour, with the ceiling as it was while this page was open; and the last refusals. */
function showApi(view, name) {
  setText(view.name, name);
  const chart = timeChart(`calls a second to ${name}`);
  const ceilings = [];
  const parts = [fetched(view.refusals, path`v1/view/apis/${name}`, (api) => {
    ceilings.push([now(), api.ceiling_per_second ?? null]);
    showRefusals(view.refusals, api.refusals ?? []);
    if (api.policy && parts.length === 1) {
      view.chart.append(chart.node);
      parts.push(fetched(view.chart, path`v1/view/policies/${api.policy}/history`, (history) => draw(chart, ceilings, history), { every: 5_000, inPlace: true }));
    }
  }, { every: 5_000, what: 'The words of refusals' })];
  return parts;
}

function draw(chart, ceilings, { since, step_ms: step, limits }) {
  if (!limits.length) return;
  const [{ granted, denied }] = limits;
  const ceiling = granted.map(() => null);
  for (const [at, value] of ceilings) ceiling[Math.round((at - since) / step)] = value;
  chart.draw({ since, step, series: [
    { name: 'calls a second', kind: 'area', values: granted.map((calls) => (calls === null ? null : calls / (step / 1_000))) },
    ...(ceiling.some((value) => value !== null) ? [{ name: "the vendor's ceiling", kind: 'line', values: ceiling.slice(0, granted.length) }] : []),
    { name: 'denied a second', kind: 'bars', values: denied.map((calls) => (calls === null ? null : calls / (step / 1_000))) },
  ] });
}

function showRefusals(node, refusals) {
  const row = (one) => tableRow(
    el('time', { title: full(one.at) }, relative(one.at)),
    el('span', { class: `chip ${one.whose}` }, WHOSE[one.whose] ?? one.whose),
    one.limit ?? one.policy ?? one.dialect ?? '–', (one.kind ?? '–').replaceAll('_', ' '), ['words', one.words ?? '–'], ['number', span(one.wait_ms)]);
  node.replaceChildren(refusals.length
    ? table('Refusals, the newest first', ['When', 'Whose 429', 'Limit or dialect', 'Kind', 'What it said', '#Wait'], refusals.map(row))
    : el('p', { class: 'empty' }, 'No call was refused since this process started.'));
}
