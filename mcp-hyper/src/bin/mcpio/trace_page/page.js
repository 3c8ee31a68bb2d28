
// A trace of MCP as a page: what is on the screen. data.js comes before it in the same script.
//
// The state of the page is what is chosen; the lists follow from it.

// Filters.

const state = {
  query: "", found: null, connection: -1, method: -1, outcome: -1, sender: -1, kinds: new Set(),
  from: 0, to: 1, row: -1, view: "sequence", sort: "at",
};

/** Whether a row is what the filters ask for, whenever and by whomever it was sent. */
function matches(row) {
  const { found, connection, method, outcome } = state;
  if (found && !found[row]) return false;
  if (connection >= 0 && trace.connection[row] !== connection) return false;
  if (method >= 0 && trace.methodOf(row) !== method) return false;
  if (outcome === -1) return true;
  const request = trace.requestOf[row];
  if (request < 0) return false;
  return outcome === -2 ? FAILED.has(trace.requests.outcome[request]) : trace.requests.outcome[request] === outcome;
}

const isSender = (row) => state.sender < 0 || trace.from[row] === state.sender;
const isWithin = (from, to) => from <= state.to && to >= state.from;
const isShown = (row) => isWithin(trace.at[row], trace.at[row]) && isSender(row) && matches(row);

/** A search finds a request by its answer too. */
function isRequestShown(request) {
  const first = trace.requests.first[request], last = trace.requests.last[request];
  const end = last < 0 ? trace.end : trace.at[last];
  if (!isWithin(trace.at[first], end) || !isSender(first)) return false;
  return matches(first) || (state.found !== null && last >= 0 && matches(last));
}

function select(name, options) {
  $(name).replaceChildren(...options.map(([value, text]) => make("option", { value }, text)));
  $(name).addEventListener("change", () => {
    state[name] = Number($(name).value);
    refresh();
  });
}

/** The methods of requests and notifications, the most frequent first. */
function methodOptions() {
  const counts = new Map();
  const count = (method) => method >= 0 && counts.set(method, (counts.get(method) ?? 0) + 1);
  trace.requests.method.forEach(count);
  for (let row = 0; row < trace.size; row++) if (trace.kind[row] === NOTIFICATION) count(trace.text[row]);
  const sorted = [...counts].sort((one, other) => other[1] - one[1]).slice(0, 500);
  return sorted.map(([method, times]) => [method, `${trace.texts[method]} (${times})`]);
}

const connectionName = ({ number, server }) => `${number} · ${server || "a server"}`;

function startFilters() {
  const all = [[-1, "all"]];
  select("connection", all.concat(trace.connections.map((it, place) => [place, connectionName(it)])));
  select("method", all.concat(methodOptions()));
  select("outcome", all.concat([[-2, "failed or unanswered"]], OUTCOMES.map((name, place) => [place, name])));
  select("sender", all.concat(SENDERS.map((name, place) => [place, name])));
  KINDS.forEach((kind, place) => {
    if (!trace.kind.includes(place)) return;
    const box = make("input", { type: "checkbox", value: kind, checked: true, change: () => toggleKind(place, box) });
    state.kinds.add(place);
    $("kinds").append(make("label", {}, box, KIND_NAMES[place]));
  });
  let waiting;
  $("search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(startSearch, 150);
  });
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("filters").addEventListener("reset", () => setTimeout(resetFilters));
}

function toggleKind(kind, box) {
  if (box.checked) state.kinds.add(kind);
  else state.kinds.delete(kind);
  refresh();
}

function resetFilters() {
  for (const name of ["connection", "method", "outcome", "sender"]) state[name] = -1;
  state.kinds = new Set(KINDS.keys());
  [state.from, state.to] = [0, trace.end];
  startSearch();
}

async function startSearch() {
  const query = (state.query = $("search").value);
  if (query) {
    const found = await search(query, () => state.query === query, (part) => {
      $("count").textContent = `searching: ${Math.round(part * 100)} %`;
    });
    if (!found) return;
    state.found = found;
  } else state.found = null;
  refresh();
  showDetails();
}

// Lists, of which only the rows on the screen exist.

class List {
  /** `draw` makes the row of an item; `rowOf` is the record that is chosen with it. */
  constructor(id, height, draw, rowOf) {
    this.scroller = document.querySelector(`#${id} .scroller`);
    this.rows = this.scroller.querySelector(".rows");
    Object.assign(this, { id, height, draw, rowOf, items: [] });
    this.scroller.addEventListener("scroll", () => this.render());
    this.scroller.addEventListener("keydown", (event) => this.press(event));
    this.rows.addEventListener("click", ({ target }) => {
      const row = target.closest(".row");
      if (row && !target.closest("a")) choose(Number(row.dataset.row));
    });
  }

  show(items) {
    this.items = items;
    this.rows.style.height = `${items.length * this.height}px`;
    this.render();
  }

  render() {
    const { scrollTop, clientHeight } = this.scroller;
    const first = Math.max(0, Math.floor(scrollTop / this.height) - 5);
    const last = Math.min(this.items.length, Math.ceil((scrollTop + clientHeight) / this.height) + 5);
    const drawn = [];
    for (let place = first; place < last; place++) drawn.push(this.element(place));
    if (!this.items.length) drawn.push(make("p", { class: "empty" }, "Nothing to show."));
    const fixed = this.rows.querySelectorAll(":scope > .lifeline");
    this.rows.replaceChildren(...fixed, ...drawn);
    this.scroller.setAttribute("aria-activedescendant", `${this.id}-${state.row}`);
  }

  element(place) {
    const row = this.rowOf(this.items[place]);
    const element = this.draw(this.items[place]);
    element.style.top = `${place * this.height}px`;
    element.style.height = `${this.height}px`;
    element.dataset.row = row;
    element.id = `${this.id}-${row}`;
    element.setAttribute("role", "option");
    element.setAttribute("aria-selected", row === state.row);
    element.setAttribute("aria-posinset", place + 1);
    element.setAttribute("aria-setsize", this.items.length);
    return element;
  }

  place() {
    return this.items.findIndex((item) => this.rowOf(item) === state.row);
  }

  press(event) {
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.height) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (!step || !this.items.length || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const target = this.place() + step;
    choose(this.rowOf(this.items[Math.min(this.items.length - 1, Math.max(0, target))]));
  }

  /** Scrolls to the chosen row. */
  reveal() {
    const place = this.place();
    if (place < 0) return;
    const top = place * this.height, room = this.scroller.clientHeight - this.height * 2 - 48;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top > this.scroller.scrollTop + room) this.scroller.scrollTop = top - room;
  }
}

// The sequence diagram: a lane for each connection, with the lifelines of its client and its server.

const GUTTER = 100, NARROWEST_LANE = 300, MARGIN = 26;

/** The places of the lanes of the connections that are shown. */
let lanes = new Map();

function layLanes() {
  const all = [...trace.connections.keys()];
  const shown = state.connection < 0 ? all : [state.connection];
  const room = lists.sequence.scroller.clientWidth - GUTTER - 12;
  const width = Math.max(NARROWEST_LANE, Math.floor(room / Math.max(1, shown.length)));
  lanes = new Map(shown.map((connection, place) => [connection, { left: GUTTER + place * width, width: width - 12 }]));
  const total = `${GUTTER + shown.length * width}px`;
  const head = document.querySelector("#sequence .head");
  head.style.width = lists.sequence.rows.style.width = total;
  head.replaceChildren(...[...lanes].map(([connection, lane]) => laneHead(trace.connections[connection], lane)));
  lists.sequence.rows.replaceChildren(...[...lanes.values()].flatMap(({ left, width }) =>
    [left + MARGIN, left + width - MARGIN].map((x) => placed(make("div", { class: "lifeline" }), x))));
}

function placed(element, left, width) {
  element.style.left = `${left}px`;
  if (width !== undefined) element.style.width = `${width}px`;
  return element;
}

function laneHead(connection, { left, width }) {
  const { server, number, transport, revision, era, closed } = connection;
  const about = [transport, revision ?? "no known revision", era, !closed && "not closed"].filter(Boolean).join(" · ");
  const head = make("div", { class: `lane ${era ?? ""}`, title: plain(`${connectionName(connection)} · ${about}`) },
    make("b", {}, `${number} `), span("", server || "a server"),
    make("div", { class: "ends" }, span("", "client"), span("", about), span("", "server")));
  return placed(head, left, width);
}

function drawMessage(row) {
  const lane = lanes.get(trace.connection[row]) ?? { left: GUTTER, width: NARROWEST_LANE };
  const [what, besides] = trace.caption(row);
  const kind = trace.kind[row], from = trace.from[row];
  const names = ["row", KINDS[kind], trace.hasFailed(row) && "failed", trace.findingsOf.has(row) && "broken"];
  const attributes = { class: names.filter(Boolean).join(" "), title: plain(`${what}  ${besides}`) };
  const element = make("div", attributes, make("time", {}, seconds(trace.at[row])));
  const left = lane.left + MARGIN, width = lane.width - 2 * MARGIN;
  const text = [span("", what), besides && span("quiet", `  ${besides}`)];
  const note = span("caption note", ...text);
  if (kind === CONNECTION) element.append(placed(note, left, width));
  else if (kind === STDERR) element.append(placed(note, left + width / 3, (width * 2) / 3 + MARGIN));
  else {
    element.append(placed(span("caption", ...text), left, width));
    if (from !== NOBODY) element.append(placed(make("i", { class: `arrow ${from ? "left" : "right"}` }), left, width));
  }
  return element;
}

// The requests as bars on a line of time.

function drawRequest(request) {
  const { first, last, outcome, progress } = trace.requests;
  const row = first[request], took = trace.took(request);
  const bar = make("div", { class: took === undefined ? "bar open" : "bar" });
  const start = part(trace.at[row]), end = last[request] < 0 ? 1 : part(trace.at[last[request]]);
  bar.style.left = `${100 * start}%`;
  bar.style.width = `${100 * (end - start)}%`;
  const names = ["row answer"];
  if (OUTCOMES[outcome[request]] === "cancelled") names.push("cancelled");
  if (FAILED.has(outcome[request])) names.push("failed");
  if (trace.findingsOf.has(row)) names.push("broken");
  const name = trace.requestName(request), arrow = trace.from[row] ? "←" : "→";
  const times = progress[request] ? ` · ${progress[request]}× progress` : "";
  return make("div", { class: names.join(" ") },
    make("time", {}, seconds(trace.at[row])),
    make("span", { class: "method", title: plain(name) }, span("quiet", `${laneNumber(row)}${arrow} `), name),
    span("took", took === undefined ? "" : duration(took)),
    make("span", { class: "outcome", title: plain(trace.outcome(request)) }, trace.outcome(request) + times),
    make("div", { class: "track" }, bar));
}

/** Where a time is in the part of the time that is shown, from 0 to 1. */
const part = (at) => Math.min(1, Math.max(0, (at - state.from) / (state.to - state.from)));

const laneNumber = (row) => (trace.connections.length > 1 ? `${trace.connections[trace.connection[row]].number} ` : "");

function sortRequests(requests) {
  if (state.sort === "at") return requests;
  return requests.sort((one, other) => (trace.took(other) ?? Infinity) - (trace.took(one) ?? Infinity));
}

function showAxis() {
  const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => seconds(state.from + part * (state.to - state.from)));
  document.querySelector("#requests .axis").replaceChildren(...marks.map((text) => span("", text)));
  for (const button of document.querySelectorAll("#requests [data-sort]")) {
    button.setAttribute("aria-pressed", button.dataset.sort === state.sort);
  }
}

// The findings.

function breachText({ row, requirement, page, sender, message, detail }) {
  const link = make("a", { href: page, target: "_blank", rel: "noreferrer noopener" }, page.replace(/^https:\/\//, ""));
  const where = connectionName(trace.connections[trace.connection[row]]);
  return [
    make("div", {}, span("what", `The ${SENDERS[sender]} sent ${message}: `), span("detail", detail)),
    span("place", `${seconds(trace.at[row])} · ${requirement} · `, link, ` · connection ${where}`),
  ];
}

function drawFinding(finding) {
  return make("div", { class: "row" }, ...breachText(finding));
}

// The overview: how many messages there are at each time, and the part of the time that is shown.

const overview = { canvas: $("density"), drag: null };

function colour(name) {
  overview.canvas.style.color = `var(--${name})`;
  return getComputedStyle(overview.canvas).color;
}

function drawOverview() {
  const { canvas } = overview;
  const scale = window.devicePixelRatio, width = (canvas.width = canvas.clientWidth * scale);
  const height = (canvas.height = canvas.clientHeight * scale), step = 3 * scale;
  const columns = Math.max(1, Math.floor(width / step));
  const all = new Float64Array(columns), failed = new Float64Array(columns);
  for (let row = 0; row < trace.size; row++) {
    const column = Math.min(columns - 1, Math.floor((trace.at[row] / trace.end) * columns));
    all[column]++;
    if (trace.findingsOf.has(row) || (trace.kind[row] === ANSWER && trace.hasFailed(row))) failed[column]++;
  }
  const most = all.reduce((most, count) => Math.max(most, count), 1);
  const pen = canvas.getContext("2d");
  const paint = (counts, name) => {
    pen.fillStyle = colour(name);
    counts.forEach((count, column) => {
      // Few among many must be seen too.
      const size = count && Math.max(3 * scale, Math.sqrt(count / most) * (height - 6 * scale));
      pen.fillRect(column * step, height - size, step - scale, size);
    });
  };
  paint(all, "request");
  paint(failed, "error");
  const [left, right] = [state.from, state.to].map((at) => (at / trace.end) * width);
  pen.fillStyle = colour("quiet");
  pen.globalAlpha = 0.3;
  pen.fillRect(0, 0, left, height);
  pen.fillRect(right, 0, width - right, height);
}

function showWindow(from, to) {
  const shortest = Math.max(10, trace.end / 1e6);
  [state.from, state.to] = [Math.max(0, from), Math.min(trace.end, Math.max(to, from + shortest))];
  refresh();
}

function startOverview() {
  const { canvas } = overview;
  const timeAt = (event) => (event.offsetX / canvas.clientWidth) * trace.end;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    overview.drag = timeAt(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (overview.drag === null) return;
    showWindow(Math.min(overview.drag, timeAt(event)), Math.max(overview.drag, timeAt(event)));
  });
  canvas.addEventListener("pointerup", (event) => {
    const isClick = Math.abs(timeAt(event) - overview.drag) < (trace.end * 3) / canvas.clientWidth;
    if (isClick) showWindow(0, trace.end);
    overview.drag = null;
  });
  canvas.addEventListener("keydown", moveWindow);
}

function moveWindow(event) {
  const { from, to } = state, span = to - from;
  const windows = {
    "+": [from + span / 4, to - span / 4], "-": [from - span / 2, to + span / 2], 0: [0, trace.end],
    ArrowLeft: [from - span / 4, from - span / 4 + span], ArrowRight: [to + span / 4 - span, to + span / 4],
  };
  const target = windows[event.key];
  if (!target || (event.key === "ArrowLeft" && from === 0) || (event.key === "ArrowRight" && to === trace.end)) return;
  event.preventDefault();
  showWindow(...target);
}

// The chosen message.

/** JSON in lines, each token as it was sent: [class, text] of each. */
function* formatted(text) {
  let depth = 0, before = "";
  const line = () => "\n" + "  ".repeat(depth);
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  for (let place = 0; place < tokens.length; place++) {
    const token = tokens[place], isOpening = token === "{" || token === "[", isClosing = token === "}" || token === "]";
    if (isClosing) {
      depth--;
      if (before !== "{" && before !== "[") yield ["", line()];
    } else if (before === "{" || before === "[") yield ["", line()];
    if (token === ":") yield ["", ": "];
    else if (token === ",") yield ["", "," + line()];
    else yield [tokenClass(token, tokens[place + 1]), token];
    if (isOpening) depth++;
    before = token;
  }
}

function tokenClass(token, next) {
  if (token[0] === '"') return next === ":" ? "key" : "string";
  if ("{}[]".includes(token)) return "";
  return /[-\d]/.test(token[0]) ? "number" : "word";
}

function isJson(text) {
  try {
    return typeof JSON.parse(text) === "object";
  } catch {
    return false;
  }
}

/** A text as it was sent, or JSON in lines. */
function payloadView(text) {
  const body = text.replace(/^data: ?/, "");
  const pattern = state.query && searchPattern(state.query, false);
  const raw = () => nodesOf(text, pattern);
  const pretty = () => Array.from(formatted(body), ([name, token]) => span(name, ...nodesOf(token, pattern)));
  const pre = make("pre", { tabindex: 0 });
  if (!isJson(body)) {
    pre.append(...raw());
    return [pre];
  }
  pre.append(...pretty());
  const button = make("button", { type: "button", "aria-pressed": "false", click: () => {
    const wasRaw = button.getAttribute("aria-pressed") === "true";
    button.setAttribute("aria-pressed", !wasRaw);
    button.textContent = wasRaw ? "As sent" : "Formatted";
    pre.replaceChildren(...(wasRaw ? pretty() : raw()));
  } }, "As sent");
  return [make("div", { class: "buttons" }, button), pre];
}

/** A frame of the trace: a text, or the beginning or the base64 of one. */
function frameView(title, frame) {
  if (frame === undefined || frame === "") return [];
  if (typeof frame === "string") return [make("h3", {}, title), ...payloadView(frame)];
  const form = frame.base64 ? "as base64" : "its beginning";
  const text = frame.text ?? frame.base64;
  return [make("h3", {}, `${title}, ${frame.length.toLocaleString("en")} bytes, ${form}`), ...payloadView(text)];
}

const termsView = (pairs) => make("dl", {}, ...pairs.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));

function headersView(headers) {
  return headers?.length ? [make("h3", {}, "Headers"), termsView(headers)] : [];
}

function facts(row) {
  const request = trace.requestOf[row];
  const sender = SENDERS[trace.from[row]];
  const time = new Date(trace.started + trace.at[row] / 1000).toISOString();
  const pairs = [
    ["time", `${seconds(trace.at[row])}  (${time})`],
    ["connection", connectionName(trace.connections[trace.connection[row]])],
    ["sender", sender],
    ["request", request >= 0 && trace.requestName(request)],
    ["outcome", request >= 0 && trace.outcome(request)],
    ["took", request >= 0 && trace.took(request) !== undefined && duration(trace.took(request))],
    ["progress", request >= 0 && trace.requests.progress[request] > 0 && plural(trace.requests.progress[request], "report")],
  ];
  return termsView(pairs.filter(([, value]) => value));
}

/** The other end of the request that a row belongs to; −1 if there is none. */
function otherEnd(row) {
  const request = trace.requestOf[row];
  if (request < 0) return -1;
  const { first, last } = trace.requests;
  return row === first[request] ? last[request] : first[request];
}

function otherEndButton(row) {
  const other = otherEnd(row);
  const text = row < other ? "To its end (g)" : "To its beginning (g)";
  return other >= 0 && make("div", { class: "buttons" }, make("button", { type: "button", click: () => choose(other) }, text));
}

async function showDetails() {
  const { row } = state;
  if (row < 0) return;
  const payload = await payloads.of(row);
  if (row !== state.row) return;
  const breaches = (trace.findingsOf.get(row) ?? []).map((it) => make("p", { class: "breach" }, ...breachText(it)));
  const isFrame = typeof payload === "string" || payload.length !== undefined;
  const frame = isFrame ? payload : payload.frame;
  const { method, url } = isFrame ? {} : payload;
  fill($("details"),
    make("h2", {}, trace.caption(row)[0]), facts(row), ...breaches, otherEndButton(row),
    ...(url ? [make("h3", {}, "Over HTTP"), make("p", {}, `${method} ${url}`)] : []),
    ...headersView(isFrame ? [] : payload.headers),
    ...frameView(url ? "Body" : "Text", frame),
  );
}

/** Chooses a row, and shows it everywhere. */
function choose(row) {
  state.row = row;
  const list = lists[state.view];
  list?.reveal();
  list?.render();
  showDetails();
}

// The page as a whole.

let lists;

function refresh() {
  const rows = [];
  for (let row = 0; row < trace.size; row++) if (state.kinds.has(trace.kind[row]) && isShown(row)) rows.push(row);
  const requests = [];
  for (let request = 0; request < trace.requests.first.length; request++) if (isRequestShown(request)) requests.push(request);
  const findings = trace.findings.filter(({ row }) => isShown(row));
  $("count").textContent = `${rows.length.toLocaleString("en")} of ${plural(trace.size, "message")}`;
  $("tab-sequence").textContent = `Sequence ${rows.length.toLocaleString("en")}`;
  $("tab-requests").textContent = `Requests ${requests.length.toLocaleString("en")}`;
  $("tab-findings").textContent = `Findings ${findings.length.toLocaleString("en")}`;
  $("tab-findings").classList.toggle("alarm", findings.length > 0);
  $("window").replaceChildren(...[state.from, state.to].map((at) => span("", seconds(at))));
  state.shown = { sequence: rows, requests: sortRequests(requests), findings };
  showView();
  // The rows are on the screen before it.
  setTimeout(drawOverview);
}

function showView() {
  for (const view of Object.keys(lists)) {
    $(view).hidden = view !== state.view;
    $(`tab-${view}`).setAttribute("aria-selected", view === state.view);
  }
  if (state.view === "sequence") layLanes();
  if (state.view === "requests") showAxis();
  lists[state.view].show(state.shown[state.view]);
}

function openView(view) {
  state.view = view;
  showView();
  lists[view].reveal();
  lists[view].render();
  lists[view].scroller.focus();
}

function nextFinding() {
  const { findings } = state.shown;
  const next = findings.find(({ row }) => row > state.row) ?? findings[0];
  if (next) choose(next.row);
}

function pressKey(event) {
  const isTyping = event.target.matches("input, select") && event.target.type !== "checkbox";
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") $("filters").reset();
  if (isTyping) return;
  const views = Object.keys(lists);
  if (event.key === "/") {
    event.preventDefault();
    $("search").focus();
  } else if (views[event.key - 1]) openView(views[event.key - 1]);
  else if (event.key === "n") nextFinding();
  else if (event.key === "g" && otherEnd(state.row) >= 0) choose(otherEnd(state.row));
}

function startTheme() {
  const themes = ["", "dark", "light"], names = ["Auto", "Dark", "Light"];
  let place = 0;
  $("theme").addEventListener("click", () => {
    place = (place + 1) % themes.length;
    document.documentElement.dataset.theme = themes[place];
    $("theme").textContent = names[place];
    drawOverview();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawOverview);
}

function showAbout() {
  const { program, started, redacted, end, connections, requests, unread } = trace;
  const parts = [
    program, new Date(started).toISOString().slice(0, 19).replace("T", " ") + " UTC", `lasts ${duration(end)}`,
    plural(connections.length, "connection"), plural(requests.first.length, "request"),
    redacted ? "secrets hidden" : "with secrets", unread && plural(unread, "line") + " cannot be read",
  ];
  $("about").replaceChildren(span("", parts.filter(Boolean).join(" · ")));
}

async function start() {
  trace = new Trace(JSON.parse(await inflate($("index").textContent)));
  payloads = new Payloads(trace.parts);
  const same = (row) => row;
  lists = {
    sequence: new List("sequence", 30, drawMessage, same),
    requests: new List("requests", 26, drawRequest, (request) => trace.requests.first[request]),
    findings: new List("findings", 58, drawFinding, (finding) => finding.row),
  };
  [state.from, state.to] = [0, trace.end];
  showAbout();
  startFilters();
  startOverview();
  startTheme();
  refresh();
  for (const view of Object.keys(lists)) $(`tab-${view}`).addEventListener("click", () => openView(view));
  for (const button of document.querySelectorAll("#requests [data-sort]")) {
    button.addEventListener("click", () => ((state.sort = button.dataset.sort), refresh()));
  }
  addEventListener("keydown", pressKey);
  addEventListener("resize", refresh);
  // The rows are on the screen with the next frame: the tests measure this.
  requestAnimationFrame(() => setTimeout(() => performance.mark("rows")));
}

start();
