// The first screen: one sentence, the limits, and apis, pipelines and alarms at a glance.
import { clone, el, keyed, setAttribute, setMarked, setText } from './dom.js';
import { count, counted, full, now, rate, relative, shortClock } from './format.js';
import { live } from './live.js';
import { keepFilters, link } from './route.js';
import { is, limitTable } from './rows.js';

// A screen reader hears the sentence when more than its numbers changed.
const wording = (text) => text.replace(/[\d.,:]+/g, '#');

const SHOWN = {
  '': () => true,
  full: (row) => row.used >= row.capacity || is(row, 'stopped') || is(row, 'held'),
  waiting: (row) => row.waiting > 0,
  denied: (row) => row.denied_5m > 0,
};

export function show(main, { q = '', only = '' }) {
  const view = clone('limits-view');
  main.append(view.root);
  const limits = limitTable(view.rows);
  let found = null;
  let heard;
  view.search.value = q;
  view.only.value = only in SHOWN ? only : '';

  const search = () => {
    keepFilters({ q: view.search.value, only: view.only.value });
    found = null;
    update();
    clearTimeout(search.timer);
    if (view.search.value) search.timer = setTimeout(askForMore, 250);
  };
  // Limits beyond those of the stream are found by the server.
  const askForMore = async () => {
    if (!live.data || live.data.totals.policies <= live.data.rows.size) return;
    const text = view.search.value;
    const { ask, query } = await import('./ask.js');
    const answer = await ask(`v1/view/policies${query({ search: text })}`).catch(() => null);
    if (answer && text === view.search.value) { found = answer.rows; update(); }
  };
  view.search.addEventListener('input', search);
  view.only.addEventListener('change', search);
  if (q) search.timer = setTimeout(askForMore, 500);

  function update() {
    const { data } = live;
    if (!data) return;
    showSentence(data.sentence);
    showTotals(data);
    const text = view.search.value.toLowerCase();
    const known = [...data.rows.values(), ...(found ?? []).filter((row) => !data.rows.has(row.id))];
    const rows = known.filter((row) => SHOWN[view.only.value](row) && (!text || `${row.policy} ${row.limit} ${row.text}`.toLowerCase().includes(text)));
    limits.update(rows);
    view.table.hidden = !rows.length;
    view.none.hidden = rows.length > 0;
    setMarked(view.none, known.length ? 'No limit matches. Clear the filter to see all.'
      : data.totals.policies ? 'No limit has been used yet. Try `tollway take NAME` in a shell, and watch it here.' : 'The config has no policies. `tollway init` writes one.');
    const approximate = rows.some((row) => row.seen_by === 'process');
    view.approximate.hidden = !approximate;
    setText(view.more, data.rows.size < data.totals.rows
      ? `The ${count(data.rows.size)} fullest of ${counted(data.totals.rows, 'limits')} in use; the search finds the others.` : '');
    showApis(view, data.apis ?? []);
    showPipelines(view, data.pipelines ?? []);
    showAlarms(view, data);
  }

  function showSentence({ text, level }) {
    setMarked(view.sentence, text);
    setAttribute(view.sentence.parentNode, 'data-level', level);
    setText(view.level, { ok: 'all well', attention: 'attention', trouble: 'trouble' }[level] ?? level);
    if (wording(text) !== heard) {
      heard = wording(text);
      setText(view.spoken, text.replaceAll('`', ''));
    }
  }

  function showTotals({ totals, since }) {
    for (const name of ['granted_per_second', 'denied_per_second', 'waiting', 'policies_used', 'policies']) setText(view[name], rate(totals[name]));
    setText(view.since, shortClock(since));
    setAttribute(view.since, 'title', `${full(since)}, ${relative(since)}`);
  }

  update();
  return { update, leave: () => clearTimeout(search.timer) };
}

/** The most of each list on the first screen. */
const GLANCE = 8;

function showApis(view, apis) {
  view.apis.hidden = !apis.length;
  const trouble = (api) => (api.held_until > now()) * 2 + (api.refused_5m > 0);
  const shown = [...apis].sort((a, b) => trouble(b) - trouble(a) || a.api.localeCompare(b.api)).slice(0, GLANCE);
  keyed(view.apiRows, shown, (api) => api.api, (api) => {
    const [calls, refused] = [el('td', { class: 'number' }), el('td', { class: 'number' })];
    const node = el('tr', {}, el('th', { scope: 'row' }, el('a', { href: link({ page: 'apis', name: api.api }) }, api.api)), calls, refused);
    return {
      node,
      update(next) {
        setText(calls, next.ceiling_per_second ? `${rate(next.rate_per_second)} of ${rate(next.ceiling_per_second)}` : rate(next.rate_per_second));
        setText(refused, next.held_until > now() ? `held ${relative(next.held_until).replace('in', 'for')}` : next.refused_5m ? count(next.refused_5m) : '–');
        setAttribute(refused, 'data-some', next.refused_5m > 0 || next.held_until > now());
      },
    };
  });
}

/** When a pipeline ends, in words. */
export function endOf({ ends_at: at, why_no_end: why, engine_away_since: away, stages }) {
  if (away) return `its jobs cannot be reached since ${shortClock(away)}`;
  const left = stages.reduce((sum, stage) => sum + stage.ready + stage.running + stage.delayed + stage.held, 0);
  if (!left) return stages.some((stage) => stage.dead) ? 'done, but for dead letters' : 'done';
  const done = stages.reduce((sum, stage) => sum + stage.done, 0);
  return `${count(done)} of ${counted(done + left, 'steps')} done; ${at ? `all at about ${shortClock(at)}, ${relative(at)}` : why ?? 'no end is known yet'}`;
}

function showPipelines(view, pipelines) {
  view.pipelines.hidden = !pipelines.length;
  keyed(view.pipelineList, pipelines.slice(0, GLANCE), (pipeline) => pipeline.name, (first) => {
    const [end, stages, dead] = [el('span', { class: 'what' }), el('tbody'), el('a', { class: 'chip dead', href: link({ page: 'jobs', name: first.name, tab: 'dead' }) })];
    const heads = ['Stage', 'Run', 'Ready', 'Wait', 'Done'].map((text, index) => el('th', { scope: 'col', class: index ? 'number' : null }, text));
    const node = el('li', {}, el('p', {}, el('a', { href: link({ page: 'pipelines', name: first.name }) }, first.name), ' ', dead, end),
      el('table', {}, el('caption', { class: 'hidden' }, `Stages of ${first.name}`), el('thead', {}, el('tr', {}, heads)), stages));
    return {
      node,
      update(next) {
        setMarked(end, endOf(next));
        setText(dead, next.dead ? counted(next.dead, 'dead letters') : '');
        dead.hidden = !next.dead;
        keyed(stages, next.stages, (stage) => stage.name, () => {
          const cells = [el('th', { scope: 'row' }), ...Array.from({ length: 4 }, () => el('td', { class: 'number' }))];
          return {
            node: el('tr', {}, cells),
            update(stage) {
              const texts = [stage.name, count(stage.running), count(stage.ready), count(stage.delayed + stage.held), count(stage.done)];
              texts.forEach((text, index) => setText(cells[index], index || !stage.paused ? text : `${text} (paused)`));
            },
          };
        });
      },
    };
  });
}

function showAlarms(view, { alarms = [], incidents }) {
  const shown = alarms.toSorted((a, b) => (a.cleared ? 1 : 0) - (b.cleared ? 1 : 0) || b.since - a.since).slice(0, GLANCE);
  view.noAlarms.hidden = shown.length > 0;
  keyed(view.alarmList, shown, (alarm) => alarm.id, (alarm) => alarmItem(alarm));
  view.incidents.hidden = !incidents?.count;
  setText(view.incidents, incidents?.count ? `${counted(incidents.count, 'incidents')}, the last ${relative(incidents.last)}` : '');
}

/** An alarm: what, since when, and whether it has cleared. */
export function alarmItem(alarm) {
  const [state, text, when] = [el('span', { class: 'chip' }), el('span'), el('time', { class: 'what' })];
  return {
    node: el('li', {}, state, ' ', text, when),
    update(next) {
      setText(state, next.cleared ? 'cleared' : 'alarm');
      setAttribute(state, 'class', next.cleared ? 'chip' : 'chip dead');
      setText(text, next.text);
      setText(when, next.cleared ? `cleared ${relative(next.cleared)}` : `since ${shortClock(next.since)}, ${relative(next.since)}`);
      setAttribute(when, 'title', next.cleared ? `${full(next.since)} to ${full(next.cleared)}` : full(next.since));
    },
  };
}
