// The view and its filters are the query of the address: the back button works, and a link shows the same.

let show = () => {};

/** The values of the address's query. */
export const route = () => Object.fromEntries(new URLSearchParams(location.search));

/** `?page=policy&name=adobe`, without empty values. */
export function link(values) {
  const set = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== '' && value !== null && value !== undefined));
  return set.size ? `?${set}` : './';
}

export function go(parameters, { replace = false } = {}) {
  const query = new URLSearchParams(parameters).toString();
  history[replace ? 'replaceState' : 'pushState'](null, '', query ? `?${query}` : location.pathname);
  show();
}

/** Changes filters of the address without a new view. */
export function keepFilters(values) {
  history.replaceState(null, '', new URL(link({ ...route(), ...values }), document.baseURI));
}

/** Calls `onChange` when the address changes: by a link of the page, and by the back button. */
export function follow(onChange) {
  show = onChange;
  addEventListener('popstate', onChange);
  document.addEventListener('click', (event) => {
    const anchor = event.target.closest('a[href]');
    if (!anchor || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const to = new URL(anchor.href);
    if (to.origin !== location.origin || to.pathname !== location.pathname || to.hash || anchor.target) return;
    event.preventDefault();
    go(to.search.slice(1));
    scrollTo(0, 0);
  });
}
