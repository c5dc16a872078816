// Pipelines: their stages as a flow, and what an operator changes: pause, resume, concurrency.
import { ask, path } from './ask.js';
import { confirmChange } from './dialog.js';
import { clone, el, keyed, setAttribute, setMarked, setText } from './dom.js';
import { fetched } from './fetched.js';
import { count, counted, full, rate, relative, shortClock, span } from './format.js';
import { endOf } from './limits.js';
import { live } from './live.js';
import { link } from './route.js';
import { changesTable, table, tableRow } from './table.js';

export function show(main, { name }) {
  const view = clone('pipelines-view');
  main.append(view.root);
  setText(view.title, name ?? 'Pipelines');
  view.path.hidden = !name;
  const part = name && fetched(view.more, path`v1/view/pipelines/${name}`, (answer) => showMore(view.more, answer), { every: 5_000, what: 'Details of a pipeline' });

  function update() {
    const all = live.data?.pipelines ?? [];
    const shown = name ? all.filter((pipeline) => pipeline.name === name) : all;
    view.none.hidden = shown.length > 0 || !live.data;
    setText(view.none, name ? `No pipeline is named ${name}.` : 'This process knows no pipeline: the config has none.');
    keyed(view.list, shown, (pipeline) => pipeline.name, (pipeline) => card(pipeline, !name));
  }

  update();
  return { title: name, update, leave: () => part?.stop?.() };
}

async function change(pipeline, what, body, said) {
  await ask(path`v1/pipelines/${pipeline}/${what}`, { method: 'POST', body });
  return said;
}

const running = (stages) => stages.reduce((sum, stage) => sum + stage.running, 0);

function confirmPause(pipeline, stages, stage) {
  const of = stage ? `stage ${stage} of ${pipeline}` : `all stages of ${pipeline}`;
  confirmChange({
    title: `Pause ${of}`,
    body: [`No further job starts until it is resumed, also after a restart. ${counted(running(stages), 'running jobs')} ${running(stages) === 1 ? 'comes to its end' : 'come to their end'}.`],
    action: `Pause ${of}`,
    run: () => change(pipeline, 'pause', { stage: stage ?? null }, `Paused: ${of}.`),
  });
}

function confirmResume(pipeline, stages, stage) {
  const of = stage ? `stage ${stage} of ${pipeline}` : `all stages of ${pipeline}`;
  confirmChange({
    title: `Resume ${of}`,
    body: [`${counted(stages.reduce((sum, { ready }) => sum + ready, 0), 'ready jobs')} may start.`],
    action: `Resume ${of}`,
    run: () => change(pipeline, 'resume', { stage: stage ?? null }, `Resumed: ${of}.`),
  });
}

function confirmConcurrency(pipeline, stage) {
  confirmChange({
    title: `Concurrency of ${stage.name}`,
    body: [`${counted(stage.running, 'jobs')} ${stage.running === 1 ? 'runs' : 'run'} now. A smaller number interrupts no job.`],
    fields: [{ label: 'Jobs at a time', name: 'concurrency', type: 'number', min: 1, required: true, value: stage.concurrency ?? stage.running ?? '' }],
    action: 'Set the concurrency',
    run: ({ concurrency }) => change(pipeline, 'concurrency', { stage: stage.name, concurrency: Number(concurrency) }, `${stage.name} runs up to ${counted(Number(concurrency), 'jobs')} at a time.`),
  });
}

const button = (text, label, onclick) => el('button', { type: 'button', 'aria-label': label, onclick }, text);

function card(first, linked) {
  let pipeline = first;
  const { name } = first;
  const [end, progress, flow] = [el('p', { class: 'what' }), el('p', { class: 'what' }), el('ol', { class: 'flow' })];
  const [pause, resume] = [button('Pause all', `Pause all stages of ${name}`, () => confirmPause(name, pipeline.stages)), button('Resume all', `Resume all stages of ${name}`, () => confirmResume(name, pipeline.stages))];
  const node = el('section', { class: 'pipeline' },
    linked ? el('h2', {}, el('a', { href: link({ page: 'pipelines', name }) }, name)) : el('h2', { class: 'hidden' }, 'Stages'), end,
    el('p', { class: 'actions' }, el('a', { class: 'button', href: link({ page: 'jobs', name }) }, 'Jobs'), ' ',
      el('a', { class: 'button', href: link({ page: 'jobs', name, tab: 'dead' }) }, 'Dead letters'), ' ', pause, ' ', resume), flow, progress);
  return {
    node,
    update(next) {
      pipeline = next;
      setMarked(end, endOf(next));
      setAttribute(end, 'title', next.ends_at ? full(next.ends_at) : null);
      pause.hidden = next.stages.every((stage) => stage.paused);
      resume.hidden = !next.stages.some((stage) => stage.paused);
      keyed(flow, next.stages, (stage) => stage.name, (stage) => stageCard(name, stage));
    },
  };
}

const COUNTS = ['ready', 'running', 'delayed', 'held', 'dead', 'done'];

function stageCard(pipeline, first) {
  let stage = first;
  const numbers = Object.fromEntries(COUNTS.map((state) => [state, el('a', { href: link({ page: 'jobs', name: pipeline, stage: first.name, state }) })]));
  const [speed, ends, paused, bar] = [el('p', { class: 'what' }), el('p', { class: 'what' }), el('p', { class: 'chip stopped' }, 'paused'), el('span', { class: 'bar' }, el('span', { class: 'fill' }))];
  const pause = button('Pause', `Pause stage ${first.name}`, () => confirmPause(pipeline, [stage], stage.name));
  const resume = button('Resume', `Resume stage ${first.name}`, () => confirmResume(pipeline, [stage], stage.name));
  const node = el('li', {}, el('h3', {}, first.name), paused, bar,
    el('dl', { class: 'counts' }, COUNTS.map((state) => el('div', {}, el('dt', {}, state), el('dd', {}, numbers[state])))), speed, ends,
    el('p', { class: 'actions' }, pause, resume, ' ', button('Concurrency', `Concurrency of ${first.name}`, () => confirmConcurrency(pipeline, stage))));
  return {
    node,
    update(next) {
      stage = next;
      const all = COUNTS.reduce((sum, state) => sum + next[state], 0);
      bar.firstChild.style.setProperty('--share', `${all ? ((next.done / all) * 100).toFixed(1) : 0}%`);
      setAttribute(bar, 'title', `${count(next.done)} of ${counted(all, 'jobs')} done`);
      for (const state of COUNTS) setText(numbers[state], count(next[state]));
      setAttribute(numbers.dead, 'data-some', next.dead > 0);
      setText(speed, next.rate_per_minute ? `${rate(next.rate_per_minute)} a minute` : 'none finished in the last minutes');
      setText(ends, next.ends_at ? `done at about ${shortClock(next.ends_at)}, ${relative(next.ends_at)}` : '');
      paused.hidden = !next.paused;
      setAttribute(paused, 'title', next.paused);
      pause.hidden = Boolean(next.paused);
      resume.hidden = !next.paused;
    },
  };
}

/** What only `status` knows: failures, quota, what is unreachable. */
function showMore(node, view) {
  const notes = [];
  if (view.no_eta_because) notes.push(view.no_eta_because);
  for (const stage of view.stages) {
    if (stage.waiting_for_quota_until) notes.push(`${stage.stage} waits for quota until ${shortClock(stage.waiting_for_quota_until)}, ${relative(stage.waiting_for_quota_until)}`);
    if (stage.handler_unreachable) notes.push(`the handler of ${stage.stage} cannot be reached since ${shortClock(stage.handler_unreachable.since)}: ${stage.handler_unreachable.error}`);
  }
  for (const stage of view.not_in_config ?? []) notes.push(`stage ${stage.stage} has jobs, and is not in the config`);
  if (view.eta?.moved) notes.push(`the end has moved by ${span(view.eta.moved.later_by_s * 1_000)} since ${shortClock(view.eta.moved.since)}`);
  const events = view.stages.map((stage) => tableRow(stage.stage, ...['failures', 'crashes', 'rate_limited', 'late_answers', 'duplicates'].map((name) => ['number', count(stage[name])])));
  const quota = (view.quota ?? []).flatMap(({ policy, limits }) => limits.map((limit) => tableRow(
    el('a', { href: link({ page: 'policy', name: policy }) }, policy), limit.limit, ['number', `${count(limit.used)} of ${count(limit.capacity)}`], limit.unit,
    ['number', el('time', { title: full(limit.reset_at) }, relative(limit.reset_at))])));
  node.replaceChildren(
    notes.length ? el('ul', { class: 'notes' }, notes.map((text) => el('li', {}, text))) : '',
    el('h2', {}, 'What did not go well, by stage'), table('Attempts', ['Stage', '#Failures', '#Crashes', '#Refused for the rate', '#Late answers', '#Duplicates'], events),
    ...(quota.length ? [el('h2', {}, 'Quota'), table('Quota', ['Policy', 'Limit', '#Used', 'Unit', '#Resets'], quota)] : []),
    el('h2', {}, 'Changes'), changesTable(view.changes ?? []));
}
