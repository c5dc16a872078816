// A part of a view that is asked for by `fetch`, while someone looks.
import { ask } from './ask.js';
import { askForToken } from './dialog.js';
import { clone, el, setText } from './dom.js';

/**
 * Calls `render(answer)` now and each `every` ms while the tab is visible. What goes wrong is said in `node`. `inPlace`:
 * `render` changes texts and shapes, and replaces no nodes. `missing`: what a path says that is not there.
 */
export function fetched(node, path, render, { every = 0, what = 'This', asWritten = false, inPlace = false, missing } = {}) {
  let request;
  let timer;

  // New figures replace nodes: not while someone points at them or is about to press one.
  const isInUse = () => !inPlace && (node.matches(':hover') || node.contains(document.activeElement));

  async function load(again = true) {
    clearTimeout(timer);
    request?.abort();
    request = new AbortController();
    const { signal } = request;
    let refused = false;
    try {
      if (again || !(document.hidden || isInUse())) {
        const answer = await ask(typeof path === 'function' ? path() : path, { signal, asWritten });
        if (!signal.aborted) render(answer);
      }
    } catch (error) {
      if (signal.aborted) return;
      refused = error.needsToken;
      // What is shown stays while the server is away: the page says so at its top.
      if (error.status || !node.hasChildNodes()) node.replaceChildren(error.needsToken ? needsToken(what, error) : missing && error.status === 404 ? el('p', { class: 'empty' }, missing) : said(error));
      if (error.status === undefined) throw error;
    }
    if (every && !signal.aborted && !refused) timer = setTimeout(load, every, false);
  }

  load();
  return {
    again: () => load(),
    stop() {
      clearTimeout(timer);
      request?.abort();
    },
  };
}

const said = (error) => el('p', { class: 'error' }, error.message);

/** What needs a token, and the line of the config that makes one. */
export function needsToken(what, error) {
  const view = clone('needs-token');
  setText(view.what, error.status === 403 ? error.message : `${what} need a token.`);
  view.use.addEventListener('click', () => askForToken());
  return view.root;
}
