// Charts over time, drawn as SVG.
import { pieces } from './chart.js';
import { el, setAttribute, setText, svg } from './dom.js';
import { clock, full, rate, shortClock } from './format.js';

const HEIGHT = 150;
// Times of a shorter chart have seconds.
const SHORT_MS = 900_000;
const [LEFT, RIGHT, TOP, BOTTOM] = [56, 8, 8, 20];

/**
 * A chart over time. `draw({ since, step, series })`: a series has `name`, `kind` (`area`, `line` or `bars`) and
 * `values`, null where unknown. The pointer and the arrow keys read single points.
 */
export function timeChart(label) {
  const drawing = svg('svg', { class: 'chart', height: HEIGHT, role: 'img', tabindex: '0' });
  const readout = el('p', { class: 'readout' });
  const legend = el('ul', { class: 'legend' });
  const node = el('figure', {}, el('div', { class: 'plot' }, drawing), el('figcaption', {}, legend, readout));
  const cursor = svg('path', { class: 'cursor' });
  let data;
  let width = 0;
  let point = null;

  const length = () => Math.max(...data.series.map(({ values }) => values.length), 2);
  const x = (index) => LEFT + (index / (length() - 1)) * (width - LEFT - RIGHT);

  function read(index) {
    point = index === null ? null : Math.max(0, Math.min(length() - 1, index));
    setAttribute(cursor, 'd', point === null ? null : `M${x(point)} ${TOP}V${HEIGHT - BOTTOM}`);
    const at = data.since + point * data.step;
    setText(readout, point === null ? '' : `${clock(at)}: ${data.series.map(({ name, values }) => `${name} ${rate(values[point])}`).join(', ')}`);
    setAttribute(readout, 'title', point === null ? null : full(at));
  }

  function paint() {
    if (!data || !width) return;
    const top = niceTop(Math.max(1e-9, ...data.series.flatMap(({ values }) => values.filter((value) => value !== null))));
    const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
    setAttribute(drawing, 'viewBox', `0 0 ${width} ${HEIGHT}`);
    setAttribute(drawing, 'width', width);
    const lines = [0, top / 2, top].map((value) => [
      svg('path', { class: 'grid', d: `M${LEFT} ${y(value)}H${width - RIGHT}` }),
      svg('text', { x: LEFT - 6, y: y(value) + 4, 'text-anchor': 'end' }, rate(value)),
    ]);
    const marks = Math.max(2, Math.min(7, Math.floor(width / 130)));
    const timeOf = length() * data.step < SHORT_MS ? clock : shortClock;
    const times = Array.from({ length: marks }, (_, index) => {
      const at = Math.round((index / (marks - 1)) * (length() - 1));
      const anchor = index === 0 ? 'start' : index === marks - 1 ? 'end' : 'middle';
      return svg('text', { x: x(at), y: HEIGHT - 4, 'text-anchor': anchor }, timeOf(data.since + at * data.step));
    });
    const shapes = data.series.flatMap(({ kind, values }) => (kind === 'area' ? ['area', 'top'] : [kind]).map((shape) => svg('path', { class: shape, d: outline(shape, values, x, y) })));
    drawing.replaceChildren(...lines.flat(), ...times, ...shapes, cursor);
    const summary = data.series.map(({ name, values }) => `${name} at most ${rate(Math.max(0, ...values))}`).join(', ');
    setAttribute(drawing, 'aria-label', `${label}, from ${shortClock(data.since)} on: ${summary}. Arrow keys read single points.`);
    read(point);
  }

  new ResizeObserver(([entry]) => {
    width = Math.floor(entry.contentRect.width);
    paint();
  }).observe(node.firstChild);
  drawing.addEventListener('pointermove', (event) => {
    if (!data) return;
    const share = (event.clientX - drawing.getBoundingClientRect().left - LEFT) / (width - LEFT - RIGHT);
    read(Math.round(share * (length() - 1)));
  });
  for (const name of ['pointerleave', 'blur']) drawing.addEventListener(name, () => data && read(null));
  drawing.addEventListener('keydown', (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: 12, PageDown: -12 }[event.key];
    if (!move || !data) return;
    event.preventDefault();
    readout.setAttribute('aria-live', 'polite');
    read((point ?? length()) + move);
  });
  return {
    node,
    draw(next) {
      data = next;
      legend.replaceChildren(...data.series.map(({ name, kind }) => el('li', { class: kind }, name)));
      paint();
    },
  };
}

function outline(kind, values, x, y) {
  const floor = HEIGHT - BOTTOM;
  if (kind === 'bars') {
    return values.map((value, index) => (value ? `M${x(index)} ${floor}V${Math.min(y(value), floor - 2)}` : '')).join('');
  }
  return pieces(values).map(({ from, values: part }) => {
    const points = part.map((value, index) => `${x(from + index).toFixed(1)} ${y(value).toFixed(1)}`).join('L');
    return kind === 'area' ? `M${x(from)} ${floor}L${points}V${floor}Z` : `M${points}${part.length === 1 ? 'h3' : ''}`;
  }).join('');
}

/** The next of 1, 2, 2.5, 5, 10 times a power of ten. */
function niceTop(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((factor) => factor * power).find((value) => value >= most * 0.999) ?? most;
}
