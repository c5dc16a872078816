// Numbers, lengths of time and moments, as the command writes them.

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 });

/** `1,204`; an unknown number is `–`. */
export const count = (number) => (number === null || number === undefined ? '–' : whole.format(number));

/** `12.5`, `1,204`; small rates keep a digit. */
export const rate = (number) => (number === null || number === undefined ? '–'
  : Math.abs(number) < 100 ? tenths.format(number) : whole.format(number));

/** `1 job`, `1,204 jobs`. */
export const counted = (number, things) => `${count(number)} ${number === 1 ? things.replace(/(e?)s$/, '$1') : things}`;

const UNITS = [['d', 86_400_000], ['h', 3_600_000], ['min', 60_000], ['s', 1_000]];

/** `0.4 s`, `12 s`, `1 min 5 s`, `2 h 5 min`, `3 d 4 h`. */
export function span(ms) {
  if (ms === null || ms === undefined) return '–';
  if (ms < 1_000) return ms <= 0 ? '0 s' : `${(Math.ceil(ms / 100) / 10).toFixed(1)} s`;
  const rounded = ms < 3_600_000 ? Math.ceil(ms / 1_000) * 1_000 : ms;
  const first = UNITS.findIndex(([, size]) => rounded >= size);
  const [unit, size] = UNITS[first];
  const [small, smallSize] = UNITS[first + 1] ?? [];
  const rest = smallSize ? Math.floor((rounded % size) / smallSize) : 0;
  return `${Math.floor(rounded / size)} ${unit}${rest ? ` ${rest} ${small}` : ''}`;
}

const clockFormat = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const shortFormat = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const fullFormat = new Intl.DateTimeFormat('sv-SE', {
  year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short',
});

/** Milliseconds since 1970, from a number or an ISO text. */
export const millis = (at) => (typeof at === 'string' ? Date.parse(at) : at);
/** `14:32:05`. */
export const clock = (at) => clockFormat.format(millis(at));
/** `14:32`. */
export const shortClock = (at) => shortFormat.format(millis(at));
/** `2026-11-19 14:32:05 UTC`, for hovering. */
export const full = (at) => fullFormat.format(millis(at));

// The server's clock counts: the difference is known since the last event.
let ahead = 0;
export const setServerTime = (at) => { ahead = at - Date.now(); };
export const now = () => Date.now() + ahead;

/** `12 s ago`, `3 min ago`, or `in 1 min 12 s`: what is past needs no exact length. */
export function relative(at) {
  const past = now() - millis(at);
  if (past < 0) return `in ${span(-past)}`;
  const [, size] = UNITS.find(([, unit]) => past >= unit) ?? UNITS.at(-1);
  return `${span(Math.floor(past / size) * size)} ago`;
}
