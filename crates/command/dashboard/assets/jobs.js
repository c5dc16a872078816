// The jobs of a pipeline: by filter, one in full, and dead letters by their error.
import { ask, path, query } from './ask.js';
import { confirmChange } from './dialog.js';
import { clone, el, setAttribute, setText } from './dom.js';
import { fetched } from './fetched.js';
import { count, counted, full, millis, relative, span } from './format.js';
import { go, link, route } from './route.js';
import { table, tableRow } from './table.js';

export function show(main, values) {
  const { name, tab, job } = values;
  const view = clone('jobs-view');
  main.append(view.root);
  setText(view.pipeline, name);
  view.pipeline.href = link({ page: 'pipelines', name });
  setText(view.title, job ? `Job ${job}` : tab === 'dead' ? 'Dead letters' : 'Jobs');
  view.toJobs.href = link({ page: 'jobs', name });
  view.toDead.href = link({ page: 'jobs', name, tab: 'dead' });
  setAttribute(tab === 'dead' ? view.toDead : view.toJobs, 'aria-current', !job && 'page');
  view.filter.hidden = Boolean(job) || tab === 'dead';
  const base = path`v1/view/pipelines/${name}`;
  const parts = [];
  const reload = () => parts.forEach((part) => part.again());
  if (job) {
    parts.push(fetched(view.shown, `${base}/jobs/${encodeURIComponent(job)}`, ({ jobs }) => view.shown.replaceChildren(...jobs.flatMap((one) => jobInFull(name, one, reload))), { every: 5_000, what: 'Jobs', asWritten: true }));
  } else if (tab === 'dead') {
    parts.push(fetched(view.shown, `${base}/dead`, (answer) => showDead(view.shown, name, answer, reload), { every: 5_000, what: 'Dead letters' }));
  } else {
    const filter = Object.fromEntries(FILTERS.map((key) => [key, values[key] ?? '']));
    for (const key of FILTERS) view.filter.elements[key].value = filter[key];
    view.filter.addEventListener('submit', (event) => {
      event.preventDefault();
      go(new URLSearchParams([...Object.entries({ page: 'jobs', name }), ...new FormData(view.filter)].filter(([, value]) => value)), { replace: true });
    });
    view.filter.elements.state.addEventListener('change', () => view.filter.requestSubmit());
    parts.push(fetched(view.shown, `${base}/jobs${query({ ...filter, from: values.from })}`, (answer) => showJobs(view.shown, name, filter, answer, reload), { every: 5_000, what: 'Jobs' }));
  }
  return { title: job ? `Job ${job} of ${name}` : `${tab === 'dead' ? 'Dead letters' : 'Jobs'} of ${name}`, leave: () => parts.forEach((part) => part.stop()) };
}

const FILTERS = ['stage', 'state', 'group', 'error', 'search'];
const stateChip = (state) => el('span', { class: `chip ${state}` }, state);
const time = (at) => el('time', { title: full(at) }, relative(at));

function showJobs(node, name, filter, { jobs, total, next }, reload) {
  if (!jobs.length) {
    node.replaceChildren(el('p', { class: 'empty' }, 'No job matches.'));
    return;
  }
  const row = (job) => tableRow(['number', el('a', { href: link({ page: 'jobs', name, job: job.id }) }, job.id)], ['words', job.key], job.stage, stateChip(job.state), job.group ?? '–',
    ['number', job.failures + job.crashes ? count(job.failures + job.crashes) : '–'], time(job.changed_at), ['words', job.error || '–']);
  const pager = el('p', { class: 'actions' },
    route().from ? el('a', { class: 'button', href: link({ page: 'jobs', name, ...filter }) }, 'First page') : '', ' ',
    next ? el('a', { class: 'button', href: link({ page: 'jobs', name, ...filter, from: next }) }, 'Next page') : '', ' ',
    filter.state === 'dead' && total && !filter.search ? changeButtons(name, deadFilter(filter), total, reload) : '');
  node.replaceChildren(el('p', { class: 'note' }, `${counted(total, 'jobs')} ${total === 1 ? 'matches' : 'match'}.`), table('Jobs', ['#Job', 'Key', 'Stage', 'State', 'Group', '#Failed', 'Changed', 'Last error'], jobs.map(row)), pager);
}

/** The filter of dead letters, without what is not set. */
const deadFilter = ({ stage, group, error }) => Object.fromEntries(Object.entries({ stage, group, error }).filter(([, value]) => value));

function changeButtons(name, filter, jobs, reload) {
  const label = counted(jobs, 'dead letters');
  return el('span', { class: 'actions' },
    el('button', { type: 'button', 'aria-label': `Redrive ${label}`, onclick: () => confirmRedrive(name, filter, jobs, reload) }, `Redrive ${count(jobs)}`), ' ',
    el('button', { type: 'button', class: 'danger', 'aria-label': `Drop ${label}`, onclick: () => confirmDrop(name, filter, jobs, reload) }, `Drop ${count(jobs)}`));
}

const inWords = (filter) => Object.entries(filter).map(([key, value]) => `${key} ${value}`).join(', ') || 'all of them';

/** More jobs match than were shown: asks again with the new number. */
async function changeMatching(name, what, body, again) {
  try {
    return await ask(path`v1/pipelines/${name}/${what}`, { method: 'POST', body });
  } catch (error) {
    if (error.status === 409 && error.body.jobs) again(error.body.jobs);
    throw error;
  }
}

function confirmRedrive(name, filter, jobs, reload) {
  confirmChange({
    title: `Redrive ${counted(jobs, 'jobs')} of ${name}`,
    body: [`Dead letters: ${inWords(filter)}. Each has all its tries again.`],
    fields: [{ label: 'Jobs a minute', name: 'rate', type: 'number', min: 1, hint: 'Empty: all at once. The quota of their policies holds in any case.' }],
    action: `Redrive ${counted(jobs, 'jobs')}`,
    run: async ({ rate }) => {
      const body = { filter, expected: jobs, per_minute: rate ? Number(rate) : null };
      const answer = await changeMatching(name, 'redrive', body, (grown) => confirmRedrive(name, filter, grown, reload));
      reload();
      return answer.running ? `${counted(answer.jobs, 'jobs')} of ${name} are redriven${rate ? `, ${rate} a minute` : ''}.` : `Redriven: ${counted(answer.jobs, 'jobs')} of ${name}.`;
    },
  });
}

function confirmDrop(name, filter, jobs, reload) {
  confirmChange({
    title: `Drop ${counted(jobs, 'jobs')} of ${name}`,
    body: [`Dead letters: ${inWords(filter)}. They are gone for good; export them first with tollway pipeline dead export.`],
    action: `Drop ${counted(jobs, 'jobs')}`,
    danger: true,
    run: async () => {
      const answer = await changeMatching(name, 'drop', { filter, expected: jobs, per_minute: null }, (grown) => confirmDrop(name, filter, grown, reload));
      reload();
      return `Dropped: ${counted(answer.jobs, 'jobs')} of ${name}.`;
    },
  });
}

function showDead(node, name, answer, reload) {
  const groups = answer.counts ?? answer;
  const all = groups.reduce((sum, group) => sum + group.jobs, answer.others ?? 0);
  if (!all) {
    node.replaceChildren(el('p', { class: 'empty' }, 'No dead letters.'));
    return;
  }
  const row = (group) => tableRow(['number', count(group.jobs)], ['words', el('a', { href: link({ page: 'jobs', name, state: 'dead', error: group.error }) }, group.error || '(no error)')],
    el('a', { href: link({ page: 'jobs', name, job: group.example }) }, `job ${group.example}`), changeButtons(name, group.error ? { error: group.error } : {}, group.jobs, reload));
  node.replaceChildren(table('Dead letters by error', ['#Jobs', 'Last error', 'Example', ''], groups.map(row)),
    el('p', { class: 'actions' }, 'All of them: ', changeButtons(name, {}, all, reload)));
}

/** A job with its life, and what an operator may do. A key may be that of a job in each stage. */
function jobInFull(name, job, reload) {
  const facts = [['Key', job.key], ['Stage', job.stage], ['Group', job.group ?? '–'], ['State', stateChip(job.state)], ['Since', time(job.changed_at)], ['Enqueued', time(job.created_at)],
    ['Attempts', `${counted(job.claims, 'claims')}, ${count(job.failures)} failed, ${count(job.crashes)} crashed, ${count(job.rate_limited)} refused for the rate`],
    ...(job.worker ? [['Runs at', job.worker]] : []), ...(job.due_at ? [['Due', time(job.due_at)]] : []),
    ...(job.error ? [['Last error', job.error]] : []), ['Why', el('ul', { class: 'plain' }, (job.why ?? []).map((text) => el('li', {}, text)))]];
  const text = JSON.stringify(job.data, null, 2) ?? '';
  const attempts = (job.attempts ?? []).map((one) => el('li', {}, el('p', {}, el('b', {}, `${one.number}. ${String(one.cause).replaceAll('_', ' ')}`), ' ',
    time(one.started_at), one.ended_at ? ` after ${span(millis(one.ended_at) - millis(one.started_at))}` : '', one.worker ? `, ${one.worker}` : ''),
  el('p', { class: 'words' }, one.error ?? ''), one.detail ? el('pre', {}, one.detail) : null));
  const only = { id: job.id };
  const edit = () => confirmChange({
    title: `Edit the data of job ${job.id}`,
    fields: [{ label: 'Data (JSON)', name: 'data', rows: 14, value: text }],
    action: 'Save the data',
    run: async ({ data }) => {
      try { JSON.parse(data); } catch (error) { throw new Error(`This is no JSON: ${error.message}`); }
      await ask(path`v1/pipelines/${name}/jobs/${job.id}/data`, { method: 'PUT', body: `{"data": ${data}, "version": "${job.version}"}` });
      reload();
      return `The data of job ${job.id} is saved. Redrive it to try again.`;
    },
  });
  return [
    el('dl', { class: 'facts' }, facts.flatMap(([term, value]) => [el('dt', {}, term), el('dd', {}, value)])),
    job.state === 'dead' ? el('p', { class: 'actions' }, el('button', { type: 'button', onclick: edit }, 'Edit the data'), ' ', changeButtons(name, only, 1, reload)) : '',
    el('h2', {}, 'Attempts that did not finish it'), attempts.length ? el('ol', { class: 'attempts' }, attempts) : el('p', { class: 'empty' }, 'None.'),
    el('h2', {}, 'Data'), el('pre', {}, text),
    ...(job.result !== undefined && job.result !== null ? [el('h2', {}, 'Result'), el('pre', {}, JSON.stringify(job.result, null, 2))] : []),
    ...(job.outputs?.length ? [el('h2', {}, 'Outputs'), el('ul', { class: 'plain' }, job.outputs.map((output) => el('li', {}, el('a', { href: link({ page: 'jobs', name, job: output.id }) }, output.key), ` ${output.state} in ${output.stage}`)))] : []),
  ];
}
