// Alarms, and incidents: calls that a vendor refused although they were within the limit.
import { path } from './ask.js';
import { clone, el, keyed } from './dom.js';
import { fetched } from './fetched.js';
import { count, counted, full, millis, relative, span } from './format.js';
import { alarmItem } from './limits.js';
import { live } from './live.js';
import { link } from './route.js';
import { table, tableRow } from './table.js';

export function show(main, { id }) {
  const view = clone('incidents-view');
  main.append(view.root);
  view.one.hidden = !id;
  const parts = [fetched(view.list, 'v1/view/incidents', (answer) => showList(view.list, answer.incidents ?? answer, id), { every: 10_000, what: 'Incidents' })];
  if (id) parts.push(fetched(view.incident, path`v1/view/incidents/${id}`, (incident) => showIncident(view.incident, incident), { what: 'The evidence of an incident' }));

  function update() {
    const alarms = (live.data?.alarms ?? []).toSorted((a, b) => (a.cleared ? 1 : 0) - (b.cleared ? 1 : 0) || b.since - a.since);
    view.noAlarms.hidden = !live.data || alarms.length > 0;
    keyed(view.alarms, alarms, (alarm) => alarm.id, alarmItem);
  }

  update();
  return { title: id ? `Incident ${id.slice(0, 8)}` : undefined, update, leave: () => parts.forEach((part) => part.stop()) };
}

function showList(node, incidents, current) {
  if (!incidents.length) {
    node.replaceChildren(el('p', { class: 'empty' }, 'No vendor has refused a call that was within its limit.'));
    return;
  }
  const row = (incident) => {
    const cells = tableRow(el('a', { href: link({ page: 'incidents', id: incident.id }) }, incident.id.slice(0, 8)),
      el('time', { title: full(incident.at) }, relative(incident.at)), incident.policy, incident.subject || '–', ['words', incident.said || '–']);
    if (incident.id === current) cells.setAttribute('aria-current', 'true');
    return cells;
  };
  node.replaceChildren(table('Incidents, the newest first', ['Incident', 'When', 'Policy', 'Subject', 'The vendor said'], incidents.map(row)));
}

function showIncident(node, incident) {
  const at = millis(incident.at);
  const facts = [
    ['Incident', incident.id], ['Time', `${full(at)}, ${relative(at)}`], ['Policy', incident.policy], ['Subject', incident.subject || 'none'],
    ['The vendor said', incident.said || 'none'], ['In flight', `${counted(incident.in_flight, 'calls')} of the process ${incident.process}`],
    ['Granted', incident.degraded ? 'without the store: it was unavailable' : 'by the store'],
  ];
  const limits = (incident.limits ?? []).map((limit) => tableRow(limit.name, ['number', `${count(limit.used)} of ${count(limit.capacity ?? limit.amount)}`], limit.unit,
    el('time', { title: full(limit.resets_at) }, relative(limit.resets_at))));
  const recent = (incident.recent ?? []).map((take) => tableRow(['number', `${span(at - millis(take.due_at))} before`], take.subject || '–',
    Object.entries(take.cost ?? {}).map(([unit, amount]) => counted(amount, unit)).join(', ')));
  node.replaceChildren(
    el('dl', { class: 'facts' }, facts.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)])),
    el('h3', {}, 'Meters right after'), limits.length ? table('Meters', ['Limit', '#Used', 'Unit', 'Resets'], limits) : el('p', { class: 'empty' }, 'None: the store did not answer.'),
    el('h3', {}, 'Last takes of the process'), recent.length ? table('Takes', ['#When', 'Subject', 'Cost'], recent) : el('p', { class: 'empty' }, 'None: they are kept for policies of apis.'));
}

