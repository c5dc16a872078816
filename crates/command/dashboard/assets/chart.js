// Gauges and sparklines.
import { el, setAttribute, setText, svg } from './dom.js';
import { count } from './format.js';

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** 60 points of five seconds, each 0 to 63 of the capacity. */
export function sparkline() {
  const line = svg('path', { class: 'line' });
  const area = svg('path', { class: 'area' });
  const node = svg('svg', { class: 'spark', viewBox: '0 0 120 24', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    svg('path', { class: 'top', d: 'M0 .5H120' }), area, line);
  let drawn;
  return {
    node,
    update(text) {
      if (text === drawn) return;
      drawn = text;
      const points = [...(text ?? '')].map((digit) => DIGITS.indexOf(digit));
      const at = (value, index) => `${index * 2} ${(23 - (value / 63) * 22).toFixed(1)}`;
      const parts = pieces(points.map((value) => (value < 0 ? null : value)));
      setAttribute(line, 'd', parts.map(({ from, values }) => `M${values.map((value, index) => at(value, from + index)).join('L')}${values.length === 1 ? 'h1' : ''}`).join(''));
      setAttribute(area, 'd', parts.map(({ from, values }) => `M${from * 2} 24L${values.map((value, index) => at(value, from + index)).join('L')}V24Z`).join(''));
    },
  };
}

/** The parts of a series without unknown values. */
export function pieces(values) {
  const parts = [];
  values.forEach((value, index) => {
    if (value === null || value === undefined) return;
    const last = parts.at(-1);
    if (last && last.from + last.values.length === index) last.values.push(value);
    else parts.push({ from: index, values: [value] });
  });
  return parts;
}

/** A bar with `used of amount`; a full one is striped and says so. */
export function gauge() {
  const bar = el('span', { class: 'bar' }, el('span', { class: 'fill' }));
  const [used, of, note] = [el('b'), el('span'), el('span', { class: 'note' })];
  const node = el('span', { class: 'gauge' }, bar, el('span', { class: 'figures' }, used, el('span', { class: 'of' }, of), note));
  return {
    node,
    update({ used: now, capacity, amount, stopped, about }) {
      const most = capacity || amount;
      const share = stopped ? 1 : most ? (now ?? 0) / most : 0;
      bar.firstChild.style.setProperty('--share', `${Math.min(100, share * 100).toFixed(1)}%`);
      setAttribute(node, 'data-level', stopped || share >= 1 ? 'full' : share >= 0.8 ? 'near' : 'room');
      setText(used, `${about ? '≈' : ''}${count(now)}`);
      setText(of, ` of ${count(most)}`);
      setText(note, now === undefined || now === null ? '' : stopped ? 'stopped' : share > 1 ? 'over' : share === 1 ? 'full' : `${Math.floor(share * 100)} %`);
    },
  };
}
