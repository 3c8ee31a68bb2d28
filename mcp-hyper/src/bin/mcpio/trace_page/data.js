"use strict";
// A trace of MCP as a page: its data. trace_page.rs writes them: an index with the columns of all rows, and the payloads in
// parts that are inflated when somebody looks at them. A row is a record of the trace. page.js follows in the same script.
//
// Texts of peers become text nodes, by `make`, with the characters that nobody sees spelled out.

const $ = (id) => document.getElementById(id);

// Texts.

/** Control characters but tab and line feed, those that turn or join text, and those without a width. */
const HIDDEN = /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff\ud800-\udfff\u{e0000}-\u{e0fff}]/u;

function spelledOut(character) {
  return "\\u" + character.codePointAt(0).toString(16).padStart(4, "0");
}

/** A text as nodes: hidden characters are spelled out, and what `pattern` finds is marked. */
function nodesOf(text, pattern) {
  const marks = pattern ? `|${pattern}` : "";
  const special = new RegExp(`(${HIDDEN.source})${marks}`, "giu");
  const nodes = [];
  let from = 0;
  for (const found of text.matchAll(special)) {
    if (!found[0]) continue;
    nodes.push(text.slice(from, found.index));
    const element = document.createElement(found[1] ? "span" : "mark");
    if (found[1]) element.className = "hidden-character";
    element.textContent = found[1] ? spelledOut(found[1]) : found[0];
    nodes.push(element);
    from = found.index + found[0].length;
  }
  nodes.push(text.slice(from));
  return nodes;
}

/** An element with attributes, listeners and [children](fill). */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, value);
  }
  fill(element, ...children);
  return element;
}

/** Replaces the children of an element. Strings become text nodes; what is false or undefined is left out. */
function fill(element, ...children) {
  const nodes = (child) => (HIDDEN.test(child) ? nodesOf(child) : child);
  const shown = children.filter((child) => child !== false && child !== undefined);
  element.replaceChildren(...shown.flatMap((child) => (typeof child === "string" ? nodes(child) : child)));
}

const span = (name, ...children) => make("span", { class: name }, ...children);

/** A text of attributes, which cannot have elements in it. */
function plain(text) {
  return text.replace(new RegExp(HIDDEN, "gu"), spelledOut);
}

function duration(micros) {
  if (micros < 1000) return `${micros} µs`;
  if (micros < 1e6) return `${+(micros / 1e3).toPrecision(3)} ms`;
  if (micros < 120e6) return `${+(micros / 1e6).toPrecision(3)} s`;
  return `${Math.floor(micros / 60e6)} min ${Math.round(micros / 1e6) % 60} s`;
}

/** A time since the beginning of the trace. */
const seconds = (micros) => `${(micros / 1e6).toFixed(micros < 1000e6 ? 3 : 1)} s`;
const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

// The data.

async function inflate(base64) {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let place = 0; place < bytes.length; place++) bytes[place] = binary.charCodeAt(place);
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(inflated).text();
}

const REQUEST = 0, ANSWER = 1, NOTIFICATION = 2, HTTP = 3, STDERR = 4, TEXT = 5, CONNECTION = 6;
const KINDS = ["request", "answer", "notification", "http", "stderr", "text", "connection"];
const KIND_NAMES = ["requests", "answers", "notifications", "HTTP", "standard error", "other text", "connections"];
const OUTCOMES = ["answered", "tool failed", "input required", "error", "cancelled", "no answer"];
const FAILED = new Set([1, 3, 5]);
const SENDERS = ["client", "server"];
const NOBODY = 2;

/** The trace of this page, and the payloads of its rows: `start` sets them. */
let trace, payloads;

/** The columns of the rows and of the requests, and what connects them. */
class Trace {
  constructor(index) {
    Object.assign(this, index);
    this.size = this.kind.length;
    this.at = Float64Array.from(this.at);
    for (let row = 1; row < this.size; row++) this.at[row] += this.at[row - 1];
    this.end = this.at.reduce((latest, at) => Math.max(latest, at), 1);
    this.requestOf = new Int32Array(this.size).fill(-1);
    this.requests.last.forEach((row, request) => row >= 0 && (this.requestOf[row] = request));
    this.requests.first.forEach((row, request) => (this.requestOf[row] = request));
    this.findingsOf = new Map();
    for (const finding of this.findings) {
      const known = this.findingsOf.get(finding.row);
      known ? known.push(finding) : this.findingsOf.set(finding.row, [finding]);
    }
  }

  /** The method of a row, as an index of its text; −1 if it has none. */
  methodOf(row) {
    const request = this.requestOf[row];
    if (request >= 0) return this.requests.method[request];
    return this.kind[row] === NOTIFICATION ? this.text[row] : -1;
  }

  textOf(row) {
    return this.texts[this.text[row]];
  }

  requestName(request) {
    const { method, name } = this.requests;
    return this.texts[method[request]] + (name[request] < 0 ? "" : ` ${this.texts[name[request]]}`);
  }

  /** How long a request took, if it has an end. */
  took(request) {
    const { first, last } = this.requests;
    return last[request] < 0 ? undefined : this.at[last[request]] - this.at[first[request]];
  }

  outcome(request) {
    const { outcome, error } = this.requests;
    return error[request] < 0 ? OUTCOMES[outcome[request]] : this.texts[error[request]];
  }

  hasFailed(row) {
    const request = this.requestOf[row];
    return request >= 0 && FAILED.has(this.requests.outcome[request]);
  }

  /** What a row says, in a line: what matters, and what is besides that. */
  caption(row) {
    const request = this.requestOf[row];
    if (this.kind[row] === REQUEST && request >= 0) return [this.requestName(request), ""];
    if (this.kind[row] === ANSWER && request >= 0) {
      return [this.outcome(request), `${this.requestName(request)} · ${duration(this.took(request))}`];
    }
    return [this.textOf(row), ""];
  }
}

/** The payloads of the rows: each part has a line of JSON for each of its rows. */
class Payloads {
  constructor(firstRows) {
    this.firstRows = firstRows;
    this.recent = new Map();
    this.arrived = new Promise((resolve) => {
      if (document.readyState !== "loading") resolve();
      else document.addEventListener("DOMContentLoaded", resolve);
    });
  }

  /** The lines of a part. The last few parts that were read are kept. */
  async lines(part) {
    if (!this.recent.has(part)) {
      await this.arrived;
      const element = document.getElementsByClassName("payload")[part];
      this.recent.set(part, inflate(element.textContent).then((text) => text.trimEnd().split("\n")));
    }
    if (this.recent.size > 8) this.recent.delete(this.recent.keys().next().value);
    return this.recent.get(part);
  }

  async of(row) {
    const part = this.firstRows.findLastIndex((first) => first <= row);
    const lines = await this.lines(part);
    return JSON.parse(lines[row - this.firstRows[part]]);
  }
}

/** The pattern of a search; in payloads, where quotes and controls are escaped, or in texts as they are. */
function searchPattern(query, isEscaped) {
  const text = isEscaped ? JSON.stringify(query).slice(1, -1) : query;
  return text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
}

/** Searches all rows. Returns a flag for each, or nothing if `isCurrent` says that nobody waits for it any more. */
async function search(query, isCurrent, progress) {
  const inPayload = new RegExp(searchPattern(query, true), "iu");
  const inText = new RegExp(searchPattern(query, false), "iu");
  const textMatches = trace.texts.map((text) => inText.test(text));
  const found = new Uint8Array(trace.size);
  const { firstRows } = payloads;
  for (let part = 0; part < firstRows.length; part++) {
    const lines = await payloads.lines(part);
    if (!isCurrent()) return;
    lines.forEach((line, place) => {
      const row = firstRows[part] + place;
      const method = trace.methodOf(row);
      found[row] = inPayload.test(line) || textMatches[trace.text[row]] || (method >= 0 && textMatches[method]);
    });
    progress((part + 1) / firstRows.length);
  }
  return found;
}
