// One policy: its limits over the last hour or day, who uses most, changes, and their log.
import { ask, path } from './ask.js';
import { confirmChange } from './dialog.js';
import { clone, el, keyed, setText } from './dom.js';
import { fetched } from './fetched.js';
import { count, counted, shortClock } from './format.js';
import { live } from './live.js';
import { link } from './route.js';
import { is, limitRowOfPolicy, modeChips } from './rows.js';
import { changesTable, table, tableRow } from './table.js';
import { timeChart } from './time_chart.js';

export function show(main, { name = '', span = '1h' }) {
  const view = clone('policy-view');
  main.append(view.root);
  setText(view.name, name);
  const base = path`v1/view/policies/${name}`;
  let details = null;

  for (const [anchor, length] of [[view.hour, '1h'], [view.day, '24h']]) {
    anchor.href = link({ page: 'policy', name, span: length === '1h' ? null : length });
    if (length === span) anchor.setAttribute('aria-current', 'true');
  }
  view.reset.addEventListener('click', () => resetUsage(name, rows(), reload));

  const rows = () => {
    const known = live.data ? [...live.data.rows.values()].filter((row) => row.policy === name) : [];
    const ids = new Set(known.map((row) => row.id));
    return [...known, ...(details?.rows ?? []).filter((row) => !ids.has(row.id))];
  };
  const charts = new Map();
  const parts = [
    fetched(view.text, base, (answer) => {
      details = answer;
      setText(view.text, answer.text);
      view.changes.replaceChildren(changesTable(answer.changes ?? []));
      const denied = answer.would_deny_5m ?? 0;
      view.shadow.hidden = !rows().some((row) => is(row, 'shadow'));
      setText(view.shadow, `As a shadow policy it denies nothing. It would have denied ${counted(denied, 'takes')} in the last five minutes.`);
      update();
    }, { every: 5_000, inPlace: true }),
    fetched(view.charts, `${base}/history?span=${span}`, (answer) => showCharts(view, charts, answer), { every: span === '1h' ? 5_000 : 60_000, inPlace: true }),
    fetched(view.subjects, `${base}/subjects`, (answer) => showSubjects(view.subjects, name, answer, reload), { every: 5_000, what: 'The subjects of a policy' }),
  ];
  const reload = () => parts.forEach((part) => part.again());

  function update() {
    const shown = rows();
    keyed(view.rows, shown, (row) => row.id, limitRowOfPolicy);
    keyed(view.actions, shown, (row) => row.id, (row) => limitActions(row, reload));
    view.chips.replaceChildren(...modeChips([...new Set(shown.flatMap((row) => row.modes ?? []))]));
  }

  update();
  return { title: name, update, leave: () => parts.forEach((part) => part.stop()) };
}

/** Change, stop and clear one limit. */
function limitActions(first, reload) {
  let row = first;
  const at = path`v1/policies/${first.policy}/limits/${first.limit}`;
  const set = async (to) => {
    const answer = await ask(at, { method: 'PUT', body: { to } });
    reload();
    return `${row.policy}.${row.limit} is ${answer.stopped ? 'stopped' : answer.limit} now.`;
  };
  const name = `${first.policy}.${first.limit}`;
  const change = el('button', { type: 'button', onclick: () => confirmChange({
    title: `Change ${name}`,
    body: [`In force: ${row.text}. The change holds for all processes that share the store, until it is cleared.`],
    fields: [{ label: 'New limit', name: 'to', value: count(row.amount).replaceAll(',', ''), required: true, hint: 'An amount, or a whole limit, as in 250 requests / minute' }],
    action: 'Change the limit',
    run: ({ to }) => set(to.trim()),
  }) }, 'Change');
  const stop = el('button', { type: 'button', class: 'danger', onclick: () => confirmChange({
    title: `Stop ${row.policy}`,
    body: [`Sets ${name} from ${count(row.amount)} to 0. Every take of ${row.policy} is denied until the limit is set again or cleared.`,
      row.waiting ? `${counted(row.waiting, 'callers')} ${row.waiting === 1 ? 'waits' : 'wait'} now.` : 'No caller of this process waits now.'],
    action: `Stop ${row.policy}`,
    danger: true,
    run: () => set('0'),
  }) }, 'Stop');
  const clear = el('button', { type: 'button', onclick: () => confirmChange({
    title: `Clear what was set for ${name}`,
    body: ['The limit of the config is in force again.'],
    action: 'Clear it',
    run: async () => {
      const answer = await ask(at, { method: 'DELETE' });
      reload();
      return `${name} is ${answer.limit} again.`;
    },
  }) }, 'Back to the config');
  return {
    node: el('li', {}, el('span', {}, first.limit), ' ', change, ' ', stop, ' ', clear),
    update(next) {
      row = next;
      stop.hidden = is(row, 'stopped');
    },
  };
}

function resetUsage(policy, rows, reload, subject = '') {
  const used = rows.map((row) => `${count(row.used)} of ${count(row.capacity)} ${row.unit}`).join(', ');
  confirmChange({
    title: `Reset the usage of ${policy}`,
    body: [subject || rows.some((row) => row.subjects) ? 'What the subject has used counts as 0 from now on.' : `Used now: ${used || 'unknown'}. It counts as 0 from now on.`],
    fields: [{ label: 'Subject', name: 'subject', value: subject, hint: 'Empty: the one account that all callers share' }],
    action: 'Reset the usage',
    danger: true,
    run: async (values) => {
      await ask('v1/reset', { method: 'POST', body: { policy, ...(values.subject ? { subject: values.subject } : {}) } });
      reload();
      return `The usage of ${policy}${values.subject ? ` by ${values.subject}` : ''} is reset.`;
    },
  });
}

// The fewest steps that a chart shows.
const STEPS_MIN = 60;

function showCharts(view, charts, { since, step_ms: step, limits }) {
  if (!limits?.length) {
    charts.clear();
    view.charts.replaceChildren(el('p', { class: 'empty' }, 'No usage is known yet.'));
    return;
  }
  const length = limits[0].used.length;
  const known = Math.min(length, ...limits.map(({ used }) => used.findIndex((value) => value !== null)).filter((index) => index >= 0));
  // What is unknown at the beginning is left out.
  const first = Math.max(0, Math.min(known, length - STEPS_MIN));
  for (const { limit, amount, used, denied } of limits) {
    if (!charts.get(limit)?.node.isConnected) {
      if (!view.charts.querySelector('figure')) view.charts.replaceChildren();
      const chart = timeChart(limit);
      charts.set(limit, chart);
      view.charts.append(el('section', {}, el('h3', {}, limit), chart.node));
    }
    charts.get(limit).draw({ since: since + first * step, step, series: [
      { name: 'used', kind: 'area', values: used.slice(first) },
      { name: 'limit', kind: 'line', values: amount.slice(first) },
      { name: 'denied', kind: 'bars', values: denied.slice(first) },
    ] });
  }
  setText(view.known, known > 0 && known < length ? `Known since ${shortClock(since + known * step)}.` : '');
}

function showSubjects(node, policy, { subjects, since }, reload) {
  if (!subjects.length) {
    node.replaceChildren(el('p', { class: 'empty' }, 'This process has seen no subject in the last five minutes.'));
    return;
  }
  const row = (subject) => tableRow(['words', subject.subject], ['number', subject.used === null || subject.used === undefined ? '–' : `${count(subject.used)} of ${count(subject.amount)}`], ['number', count(subject.granted_5m)],
    ['number', count(subject.denied_5m)], el('button', { type: 'button', 'aria-label': `Reset ${subject.subject}`, onclick: () => resetUsage(policy, [], reload, subject.subject) }, 'Reset'));
  node.replaceChildren(table('Subjects that use most', ['Subject', '#Used', '#Granted 5 min', '#Denied 5 min', ''], subjects.map(row)),
    el('p', { class: 'note' }, `As seen by this process since ${shortClock(since)}.`));
}
