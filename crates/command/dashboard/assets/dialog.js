// The one dialog for changes: what happens, with its number, then the answer of the server in words.
import { ask } from './ask.js';
import { el, setText } from './dom.js';
import { connect } from './live.js';
import { go } from './route.js';
import { setToken, token } from './token.js';

const dialog = document.getElementById('dialog');
const form = dialog.querySelector('form');
const part = (name) => form.querySelector(`[data-part=${name}]`);
let act = null;

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const button = part('action');
  button.disabled = true;
  setText(part('error'), '');
  try {
    const said = await act(Object.fromEntries(new FormData(form)));
    dialog.close();
    if (said) announce(said);
  } catch (error) {
    setText(part('error'), error.message);
    if (error.needsToken) part('error').append(' ', el('button', { type: 'button', class: 'link', onclick: () => askForToken() }, 'Use another token'));
  } finally {
    button.disabled = false;
  }
});
part('cancel').addEventListener('click', () => dialog.close());

/**
 * Asks before a change. `body` are nodes or texts, `fields` inputs with a `name`; `run(values)` makes the change and returns
 * what to say. The browser gives the focus back to the button that opened it.
 */
export async function confirmChange(change) {
  const { right } = await ask('v1/view/me').catch((error) => ({ right: error.needsToken ? 'nothing' : 'write' }));
  if (right === 'write') open(change);
  else askForToken(right === 'read' ? 'The token of this tab may read, but not change anything.' : 'Changes need a token that may write.');
}

function open({ title, body = [], fields = [], action, danger = false, run }) {
  act = run;
  setText(part('title'), title);
  part('body').replaceChildren(...body.map((text) => (typeof text === 'string' ? el('p', {}, text) : text)));
  part('fields').replaceChildren(...fields.map(({ label, hint, ...input }) => {
    const { rows, value = '', ...attributes } = input;
    const control = el(rows ? 'textarea' : 'input', { ...attributes, rows, spellcheck: 'false', autocomplete: 'off' });
    control.value = value;
    return el('label', {}, el('span', {}, label), control, hint ? el('small', {}, hint) : null);
  }));
  setText(part('error'), '');
  setText(part('action'), action);
  part('action').classList.toggle('danger', danger);
  if (!dialog.open) dialog.showModal();
  (part('fields').querySelector('input, textarea') ?? part('cancel')).focus();
}

/** Says what has happened, where a screen reader hears it. */
export function announce(text) {
  const node = document.getElementById('said');
  setText(node, text);
  node.classList.add('shown');
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => node.classList.remove('shown'), 8_000);
}

/** Asks for a token; `why` says what for. */
export function askForToken(why = '') {
  open({
    title: 'Token of this tab',
    body: [...(why ? [why] : []), document.getElementById('token-help').content.cloneNode(true)],
    fields: [{ label: 'Token', name: 'token', type: 'password', hint: token() ? 'Empty: forget the one in use.' : null }],
    action: 'Use it',
    run: async ({ token: given }) => {
      const before = token();
      setToken(given.trim());
      const me = await ask('v1/view/me').catch((error) => {
        if (error.needsToken) setToken(before);
        throw error;
      });
      connect();
      go(new URLSearchParams(location.search), { replace: true });
      return given ? `The token may ${me.right === 'write' ? 'read and change things' : 'read'}. It is kept until this tab is closed.` : 'The token is forgotten.';
    },
  });
}
