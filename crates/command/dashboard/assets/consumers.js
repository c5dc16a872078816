// Consumers of your API: records, the limits of an hour, counters. Records are changed through the API.
import { ask, path } from './ask.js';
import { gauge } from './chart.js';
import { confirmChange } from './dialog.js';
import { clone, el, setText } from './dom.js';
import { fetched } from './fetched.js';
import { count, counted, full, millis, relative } from './format.js';
import { go } from './route.js';
import { table, tableRow } from './table.js';

const PERIODS = ['per_second', 'per_minute', 'per_hour', 'per_day', 'per_week', 'per_month'];
const heads = PERIODS.map((period) => `#${period.replace('_', ' ')}`);
const amounts = (limits) => PERIODS.map((period) => ['number', limits[period] === null ? 'no limit' : count(limits[period])]);

export function show(main, { name = '', hour = '' }) {
  const view = clone('consumers-view');
  main.append(view.root);
  view.search.value = name;
  view.hour.value = hour || new Date().toISOString().slice(0, 13) + ':00';
  view.form.addEventListener('submit', (event) => {
    event.preventDefault();
    go({ page: 'consumers', name: view.search.value.trim() });
  });
  view.one.hidden = true;
  const parts = [fetched(view.status, 'v1/consumers', (answer) => {
    setText(view.status, answer.limiting ? `Consumers are limited; ${answer.store} counts.`
      : answer.enabled ? `Consumers are not limited now: the store (${answer.store}) does not answer.` : 'Consumers are not limited: [consumers] has enabled = false.');
    if (!name) return;
    view.one.hidden = false;
    parts.push(...showConsumer(view, name));
  }, { what: 'Consumers', missing: 'This process knows no consumers: its config has no [consumers], or another process serves them.' })];
  return { title: name ? `Consumer ${name}` : undefined, leave: () => parts.forEach((part) => part.stop()) };
}

function showConsumer(view, name) {
  setText(view.name, name);
  const base = path`v1/consumers/${name}`;
  const usage = fetched(view.usage, `${base}/usage`, (answer) => showUsage(view.usage, answer), { every: 3_000, what: 'The counters of a consumer' });
  const limits = fetched(view.limits, () => path`v1/consumers/${name}/limits/${`${view.hour.value}:00Z`}`, (answer) => {
    view.blocked.hidden = !answer.blocked;
    view.limits.replaceChildren(table('Limits in this hour', heads, [tableRow(...amounts(answer.limits))]),
      el('p', { class: 'note' }, answer.record_ids.length ? `The sum of ${counted(answer.record_ids.length, 'records')}.` : 'No record applies: these are the defaults of the config.'));
  }, { what: 'The limits of a consumer' });
  const records = fetched(view.records, `${base}/records`, (answer) => showRecords(view.records, answer.records), { what: 'The records of a consumer' });
  view.hour.addEventListener('change', () => limits.again());
  view.reset.addEventListener('click', () => confirmChange({
    title: `Reset the counters of ${name}`,
    body: ['All limited periods count from 0 again.'],
    action: 'Reset the counters',
    danger: true,
    run: async () => {
      await ask(`${base}/usage`, { method: 'DELETE' });
      usage.again();
      return `The counters of ${name} are reset.`;
    },
  }));
  return [usage, limits, records];
}

function showUsage(node, { limits }) {
  if (!limits.length) {
    node.replaceChildren(el('p', { class: 'empty' }, 'No period is limited.'));
    return;
  }
  const rows = limits.map((limit) => {
    const bar = gauge();
    bar.update({ ...limit, capacity: limit.amount });
    return tableRow(limit.name.replace('_', ' '), bar.node, ['number', limit.used ? el('time', { title: full(limit.resets_at) }, relative(limit.resets_at)) : '–']);
  });
  node.replaceChildren(table('Counters', ['Period', 'Used', '#Resets'], rows));
}

function showRecords(node, records) {
  if (!records.length) {
    node.replaceChildren(el('p', { class: 'empty' }, 'This consumer has no records: it has the limits of the config.'));
    return;
  }
  const forever = (at) => (millis(at) > 253_402_000_000_000 ? 'without end' : millis(at) <= 0 ? 'always' : at.slice(0, 16).replace('T', ' '));
  const scope = (record) => Object.values(record.scope ?? {}).filter(Boolean).join(', ') || '–';
  const row = (record) => tableRow(el('code', { title: record.id }, record.id.slice(0, 8)), forever(record.from), forever(record.to), ...amounts(record.limits), scope(record));
  node.replaceChildren(table('Records', ['Record', 'From (UTC)', 'To (UTC)', ...heads, 'Scope'], records.map(row)));
}
