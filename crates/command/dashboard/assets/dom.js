// Elements. Text from the server becomes text nodes only, never markup.

const SVG = 'http://www.w3.org/2000/svg';

/** An element with attributes (`on...` are listeners; null and false are left out) and children. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined).map((child) => (child.nodeType ? child : visible(child))));
  return node;
}

// Characters that are not seen, or that turn the text after them around, as `\u202e`.
const UNSEEN = /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const visible = (text) => String(text).replace(UNSEEN, (unseen) => `\\u${unseen.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Sets a text only if it differs: an unchanged one keeps its selection, and screen readers stay silent. */
export function setText(node, text) {
  const value = visible(text ?? '');
  if (node.textContent !== value) node.textContent = value;
}

export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/** A copy of a `<template>`: its one element as `root`, and each `data-part` by name. */
export function clone(name) {
  const root = document.getElementById(name).content.firstElementChild.cloneNode(true);
  const parts = { root };
  for (const node of root.querySelectorAll('[data-part]')) parts[node.dataset.part] = node;
  return parts;
}

/** The rows by key of each parent that `keyed` fills. */
const rowsOf = new WeakMap();

/**
 * Makes the children of `parent` those of `items`, in this order, and keeps the nodes of known keys.
 * `create(item)` returns an object with `node` and perhaps `update(item)`.
 */
export function keyed(parent, items, key, create) {
  const known = rowsOf.get(parent) ?? new Map();
  const next = new Map();
  for (const item of items) {
    const name = key(item);
    const row = known.get(name) ?? create(item);
    row.update?.(item);
    next.set(name, row);
  }
  for (const [name, row] of known) if (!next.has(name)) row.node.remove();
  let at = parent.firstElementChild;
  for (const { node } of next.values()) {
    if (node === at) at = at.nextElementSibling;
    else parent.insertBefore(node, at);
  }
  rowsOf.set(parent, next);
}

/** Shows text with `code` in backticks. */
export function setMarked(node, text) {
  if (node.dataset.text === text) return;
  node.dataset.text = text;
  node.replaceChildren(...text.split('`').map((part, index) => el(index % 2 ? 'code' : 'span', {}, part)));
}
