// The page of the fleet. It draws what /ui/api/changes sends, one line of JSON at a time, and decides nothing itself.
//
// Pools are drawn cell by cell, so that a change costs only the cells that it touches.

import { ORDER, age, ask, byId, element, follow } from "./session.js";

const SEVERAL = "several nodes";
const ROWS = 100; // of the table of pools, until the user asks for all
const WORDS = {
  Available: "available",
  Allocated: "allocated",
  PartiallyAllocated: "partially allocated",
  Unavailable: "unavailable",
  Unknown: "unknown",
};
const COUNTS = ["available", "allocated", "unavailable", "unknown"];
const COLOURS = { available: "s0", allocated: "s1", unavailable: "s3", unknown: "s4" };
const COLUMNS = ["available", "allocated", "unavailable", "total"];
const DENSE = 150; // above this number of nodes they are drawn smaller
const GROUPS = 12; // of nodes with the same reasons, in an explanation
const NEW = 1500; // ms for which a change is marked

const NOTHING = "There are no devices that you may see. They appear here when a driver publishes a ResourceSlice.";

const map = byId("map");

let states = [];
let pools = new Map(); // by key: {told, cells, groups, rows, stale}
let nodes = new Map(); // by name: {name, row, cells, free, stale}
let order = null; // keys of pools in the order of the table; null when it must be computed again
let past = null;
let showAll = false;
let shown = null; // the cell that #about describes

function take(told) {
  if (told.whole) begin(told);
  for (const [driver, pool] of told.gone ?? []) removePool(key(driver, pool));
  if (!told.whole) for (const pool of told.pools ?? []) putPool(pool, true);
  if (told.pools || told.gone) {
    placeRows();
    later();
  }
  if (told.waiting && !told.whole) drawWaiting(told.waiting);
  if (told.timeline !== undefined) past = told.timeline;
  if (told.points && past) past.points.splice(told.points.from, Infinity, ...told.points.points);
  if (told.timeline !== undefined || told.points) drawPast();
}

// --- the fleet ---

const key = (driver, pool) => JSON.stringify([driver, pool]);

function clear() {
  pools = new Map();
  nodes = new Map();
  order = null;
  hideAbout();
  waits.clear();
  for (const id of ["map", "pools", "waiting", "waiting-more", "past", "numbers"]) byId(id).replaceChildren();
}

function begin(told) {
  const focused = document.activeElement?.device ? cellName(document.activeElement) : null;
  const open = [...waits].filter(([, { box }]) => box.open).map(([id]) => id);
  clear();
  states = told.states;
  drawLegend();
  for (const pool of told.pools) putPool(pool, false);
  placeRows();
  roving(map.querySelector(".cell"));
  if (focused) [...map.querySelectorAll(".cell")].find((cell) => cellName(cell) === focused)?.focus();
  drawWaiting(told.waiting);
  for (const id of open) if (waits.has(id)) waits.get(id).box.open = true;
  requestAnimationFrame(() => setTimeout(() => performance.mark("first-picture")));
}

const cellsOf = (row) => [...row.querySelectorAll(".cell")];
const inOrder = (one, other) => (one.name === SEVERAL) - (other.name === SEVERAL) || ORDER.compare(one.name, other.name);

function nodeOf(name) {
  let node = nodes.get(name);
  if (node) return node;
  const row = element("div", "node");
  row.setAttribute("role", "row");
  const label = element("span", "name", name);
  label.setAttribute("role", "rowheader");
  label.title = name;
  const free = element("span", "free");
  free.setAttribute("role", "presentation");
  const cells = element("div", "cells");
  cells.setAttribute("role", "presentation");
  row.append(label, free, cells);
  node = { name, row, cells, free, stale: true };
  nodes.set(name, node);
  return node;
}

// Puts rows in order; existing rows stay in the page, which keeps focus and scrolling.
function placeRows() {
  if (nodes.size) map.querySelector("p")?.remove();
  else if (!map.firstChild) map.append(element("p", "quiet", NOTHING));
  map.classList.toggle("dense", nodes.size > DENSE);
  if (nodes.size === map.childElementCount) return;
  let at = map.firstChild;
  for (const { row } of [...nodes.values()].sort(inOrder)) {
    if (row === at) at = at.nextSibling;
    else map.insertBefore(row, at);
  }
}

const sameDevices = (one, other) =>
  one.node === other.node &&
  one.devices.length === other.devices.length &&
  one.devices.every((device, at) => device[0] === other.devices[at][0] && (device[2] || "") === (other.devices[at][2] || ""));

function putPool(told, live) {
  const id = key(told.driver, told.pool);
  const known = pools.get(id);
  if (known && sameDevices(known.told, told)) {
    told.devices.forEach((device, at) => {
      if (JSON.stringify(device) !== JSON.stringify(known.told.devices[at])) describe(known.cells[at], told, device, true);
      else known.cells[at].device = { pool: told, device };
    });
    if (known.told.problems.length !== told.problems.length) order = null;
    known.told = told;
    known.stale = true;
    for (const name of known.groups.keys()) nodes.get(name).stale = true;
    return;
  }
  const before = new Map(known?.told.devices.map((device) => [device[0], JSON.stringify(device)]));
  if (known) removePool(id);
  const groups = new Map(); // by node
  const cells = told.devices.map((device) => {
    const cell = document.createElement("div");
    cell.setAttribute("role", "gridcell");
    cell.tabIndex = -1;
    describe(cell, told, device, live && before.get(device[0]) !== JSON.stringify(device));
    const name = device[2] || told.node || SEVERAL;
    if (!groups.has(name)) groups.set(name, groupIn(nodeOf(name), id));
    groups.get(name).append(cell);
    return cell;
  });
  pools.set(id, { told, cells, groups, rows: null, stale: true });
  order = null;
}

// The place for a pool's cells in a node's row; pools come in the order of their names.
function groupIn(node, id) {
  const group = element("div", "group");
  group.setAttribute("role", "presentation");
  group.pool = id;
  node.stale = true;
  node.cells.insertBefore(group, [...node.cells.children].find((other) => ORDER.compare(other.pool, id) > 0) ?? null);
  return group;
}

function removePool(id) {
  const known = pools.get(id);
  if (!known) return;
  if (shown && known.cells.includes(shown)) hideAbout();
  for (const [name, group] of known.groups) {
    const node = nodes.get(name);
    group.remove();
    node.stale = true;
    if (node.cells.childElementCount) continue;
    node.row.remove();
    nodes.delete(name);
  }
  for (const row of known.rows ?? []) row.remove();
  pools.delete(id);
  order = null;
}

function describe(cell, pool, device, live) {
  const [name, state, node, claims = [], message = ""] = device;
  cell.className = `cell s${state}`;
  if (live) mark(cell);
  cell.device = { pool, device };
  const held = claims.length ? `, held by ${claims.join(", ")}` : "";
  cell.setAttribute(
    "aria-label",
    `${name} on ${node || pool.node || SEVERAL}: ${WORDS[states[state]]}${held}${message ? `, ${message}` : ""}`,
  );
  if (cell === shown) tellAbout(cell);
}

function mark(cell) {
  cell.classList.add("new");
  clearTimeout(cell.marked);
  cell.marked = setTimeout(() => cell.classList.remove("new"), NEW);
}

const cellName = (cell) => key(cell.device.pool.driver, cell.device.pool.pool) + cell.device.device[0];

function drawLegend() {
  byId("legend").replaceChildren(
    ...states.map((state, number) => {
      const entry = element("li");
      entry.append(element("i", `cell s${number}`), WORDS[state]);
      return entry;
    }),
  );
}

// --- what depends on pools: drawn once for all simultaneous changes ---

let planned = false;
function later() {
  if (planned) return;
  planned = true;
  setTimeout(() => {
    planned = false;
    drawNumbers();
    drawFree();
    drawTable();
    find();
    if (!map.querySelector('.cell[tabindex="0"]')) roving(map.querySelector(".cell"));
  });
}

let boxes = null; // of the numbers: created once, so that nothing moves when they change

function makeNumbers() {
  const place = byId("numbers");
  boxes = Object.fromEntries(
    COUNTS.map((name) => {
      const box = element("div", COLOURS[name]);
      const words = element("span");
      words.append(element("i", `cell ${COLOURS[name]}`), name);
      box.append(element("b"), words);
      return [name, box];
    }),
  );
  boxes.all = element("div", "all");
  boxes.all.append(element("b"), element("span"));
  boxes.use = element("div", "use");
  place.replaceChildren(boxes.all, ...COUNTS.map((name) => boxes[name]), boxes.use);
}

function drawNumbers() {
  if (!byId("numbers").firstChild) makeNumbers();
  const sums = { total: 0, available: 0, allocated: 0, unavailable: 0, unknown: 0 };
  for (const { told } of pools.values()) for (const name in sums) sums[name] += told.counts[name];
  for (const name of COUNTS) boxes[name].firstChild.textContent = sums[name].toLocaleString();
  boxes.unknown.hidden = !sums.unknown;
  boxes.all.firstChild.textContent = share(sums.allocated, sums.total);
  boxes.all.lastChild.textContent = `of ${sums.total.toLocaleString()} devices in use`;
  drawUse(boxes.use, sums);
}

const share = (part, total) => (total ? `${Math.round((100 * part) / total)} %` : "–");

function drawUse(bar, counts) {
  const parts = ["allocated", "unavailable", "unknown"];
  if (!bar.firstChild) bar.append(...parts.map((name) => element("i", COLOURS[name])));
  parts.forEach((name, at) => (bar.children[at].style.width = `${counts.total ? (100 * counts[name]) / counts.total : 0}%`));
}

function drawFree() {
  for (const node of nodes.values()) {
    if (!node.stale) continue;
    node.stale = false;
    const all = cellsOf(node.row).length;
    const free = freeOn(node);
    node.free.textContent = `${free ?? "?"}/${all}`;
    node.free.title = free === null ? "the number of available devices is unknown" : `${free} of ${all} available`;
  }
  const count = nodes.size - nodes.has(SEVERAL);
  byId("nodes-count").textContent = nodes.size ? `${count.toLocaleString()} ${count === 1 ? "node" : "nodes"}` : "";
}

// The pool of a single node has a count, even if its devices are not shown one by one; null: unknown.
function freeOn(node) {
  let free = 0;
  for (const group of node.cells.children) {
    const { told } = pools.get(group.pool);
    const cells = [...group.children];
    const known = told.node ? told.hidden !== null || !told.counts.unknown : !cells.some((cell) => stateOf(cell) === "Unknown");
    if (!known) return null;
    free += told.node ? told.counts.available : cells.filter((cell) => stateOf(cell) === "Available").length;
  }
  return free;
}

const stateOf = (cell) => states[cell.device.device[1]];

function drawTable() {
  const body = byId("pools");
  order ??= [...pools.keys()].sort((one, other) => {
    const [a, b] = [pools.get(one).told, pools.get(other).told];
    return (b.problems.length > 0) - (a.problems.length > 0) || ORDER.compare(a.driver, b.driver) || ORDER.compare(a.pool, b.pool);
  });
  const ids = order;
  const told = showAll ? ids : ids.slice(0, ROWS);
  const rows = told.flatMap((id) => {
    const pool = pools.get(id);
    if (!pool.rows || (pool.stale && wordsOf(pool.told) !== (pool.rows[1]?.textContent ?? ""))) {
      const fresh = tableRows(pool.told);
      pool.rows = pool.rows ? swapped(pool.rows, fresh) : fresh;
    }
    if (pool.stale) fillRow(pool.rows[0], pool.told);
    pool.stale = false;
    return pool.rows;
  });
  if (rows.length !== body.childElementCount || rows.some((row, at) => body.children[at] !== row)) body.replaceChildren(...rows);
  byId("pools-count").textContent = ids.length.toLocaleString();
  byId("more").hidden = told.length === ids.length;
  byId("more").textContent = `Show all ${ids.length.toLocaleString()}`;
}
// Replaces rows that are on the page, so that the rest of the table stays as it is.
function swapped(old, fresh) {
  if (old[0].isConnected) old[0].before(...fresh);
  for (const row of old) row.remove();
  return fresh;
}

byId("more").addEventListener("click", () => {
  showAll = true;
  drawTable();
});

function tableRows(pool) {
  const row = element("tr");
  for (const text of [pool.pool, pool.driver, pool.node || SEVERAL]) {
    const cell = element("td", "", text);
    cell.title = text;
    row.append(cell);
  }
  const bar = element("td");
  bar.append(element("div", "use"));
  row.append(bar);
  for (const name of COLUMNS) {
    const cell = element("td", "n");
    cell.dataset.name = name;
    row.append(cell);
  }
  const words = wordsOf(pool);
  if (!words) return [row];
  row.className = "wrong";
  const more = element("tr", "more");
  const told = element("td", pool.problems.length ? "told" : "told plain", words);
  told.colSpan = row.childElementCount;
  more.append(told);
  return [row, more];
}

function fillRow(row, { counts, hidden }) {
  drawUse(row.querySelector(".use"), counts);
  for (const cell of row.querySelectorAll(".n")) {
    const { name } = cell.dataset;
    const known = name === "total" || hidden !== null || !counts.unknown;
    const text = known ? String(counts[name]) : "unknown";
    if (cell.textContent !== text) cell.textContent = text;
  }
}

function wordsOf(pool) {
  const hidden = pool.hidden ? [`${pool.hidden} of ${pool.unseen || pool.hidden} held by claims that you may not see`] : [];
  return [...pool.problems, ...hidden].join("; ");
}

let sought = "";

function find() {
  const text = byId("find").value.trim().toLowerCase();
  if (!text && !sought) return;
  sought = text;
  for (const node of nodes.values()) {
    node.row.hidden =
      text !== "" &&
      !node.name.toLowerCase().includes(text) &&
      !cellsOf(node.row).some((cell) => `${cell.getAttribute("aria-label")} ${cell.device.pool.driver}`.toLowerCase().includes(text));
  }
}
byId("find").addEventListener("input", find);

// --- one device ---

const published = new Map(); // attributes and capacity, fetched once

async function about({ pool, device }) {
  const id = key(pool.driver, pool.pool) + device[0];
  if (!published.has(id)) {
    const told = await ask("/ui/api/device", { driver: pool.driver, pool: pool.pool, device: device[0] }).catch(() => ({}));
    if (published.size > 500) published.clear();
    published.set(id, told);
  }
  return published.get(id);
}

function placeOf(pool, own) {
  const node = own || pool.node || SEVERAL;
  return node === pool.pool ? `${pool.driver}, node ${node}` : `${pool.driver}, pool ${pool.pool}, ${node === SEVERAL ? node : `node ${node}`}`;
}

async function tellAbout(cell) {
  shown = cell;
  const { pool, device } = cell.device;
  const [name, state, node, claims = [], message = ""] = device;
  const title = element("h3");
  title.append(element("i", `cell dot s${state}`), `${name}: ${WORDS[states[state]]}`);
  const parts = [title, element("p", "quiet", placeOf(pool, node))];
  if (claims.length) parts.push(element("p", "", `held by ${claims.join(", ")}`));
  if (message) parts.push(element("p", "", message));
  const panel = byId("about");
  panel.replaceChildren(...parts);
  panel.hidden = false;
  putBeside(panel, cell);
  const details = await about(cell.device);
  if (shown !== cell || cell.device.device !== device) return;
  const list = element("dl");
  const entries = [...Object.entries(details.attributes ?? {}), ...Object.entries(details.capacity ?? {})];
  for (const taint of details.taints ?? []) entries.push(["taint", taint]);
  for (const [term, value] of entries) {
    list.append(element("dt", "", term), element("dd", "", Array.isArray(value) ? value.join(", ") : String(value)));
  }
  if (entries.length) panel.append(list);
  putBeside(panel, cell);
}

// Below the cell, or above it if there is no room; never over it. On a phone it has a place of its own.
function putBeside(panel, cell) {
  const at = cell.getBoundingClientRect();
  const { width, height } = panel.getBoundingClientRect();
  const below = at.bottom + 10;
  panel.style.left = `${Math.max(8, Math.min(at.left - 20, document.documentElement.clientWidth - width - 8))}px`;
  panel.style.top = `${below + height < innerHeight ? below : Math.max(8, at.top - height - 10)}px`;
}
map.addEventListener("scroll", () => shown && putBeside(byId("about"), shown), { passive: true });
addEventListener("scroll", () => shown && putBeside(byId("about"), shown), { passive: true });

function hideAbout() {
  shown = null;
  byId("about").hidden = true;
}

map.addEventListener("pointerover", (event) => event.target.device && tellAbout(event.target));
map.addEventListener("pointerleave", () => {
  if (document.activeElement?.device) tellAbout(document.activeElement);
  else hideAbout();
});
map.addEventListener("focusin", (event) => {
  if (!event.target.device) return;
  roving(event.target);
  tellAbout(event.target);
});
map.addEventListener("focusout", hideAbout);
map.addEventListener("click", (event) => event.target.device && event.target.focus());

// Tab reaches one cell of the grid; the arrow keys reach the others from there.
function roving(cell) {
  for (const each of map.querySelectorAll('.cell[tabindex="0"]')) each.tabIndex = -1;
  if (cell) cell.tabIndex = 0;
}

map.addEventListener("keydown", (event) => {
  const cell = event.target;
  if (!cell.device) return;
  if (event.key === "Escape") return cell.blur();
  const target = reached(cell, event.key, event.ctrlKey);
  if (!target) return;
  event.preventDefault();
  target.focus();
  target.scrollIntoView({ block: "nearest" });
});

function reached(cell, pressed, all) {
  const cells = cellsOf(cell.closest(".node"));
  const at = cells.indexOf(cell);
  const row = (steps) => {
    const rows = [...map.querySelectorAll(".node:not([hidden])")];
    const now = rows.indexOf(cell.closest(".node"));
    const there = cellsOf(rows[Math.max(0, Math.min(rows.length - 1, now + steps))]);
    return there[Math.min(at, there.length - 1)];
  };
  switch (pressed) {
    case "ArrowRight": return cells[at + 1];
    case "ArrowLeft": return cells[at - 1];
    case "ArrowDown": return row(1);
    case "ArrowUp": return row(-1);
    case "PageDown": return row(10);
    case "PageUp": return row(-10);
    case "Home": return all ? cellsOf(row(-Infinity).closest(".node"))[0] : cells[0];
    case "End": return all ? cellsOf(row(Infinity).closest(".node")).at(-1) : cells.at(-1);
  }
}

// --- waiting pods ---

const waits = new Map(); // by namespace and name: {pod, row, box, show}; rows stay while their pod waits, open ones open

function drawWaiting(told) {
  byId("waiting-count").textContent = told.count.toLocaleString();
  const now = new Set(told.pods.map((pod) => key(pod.namespace, pod.name)));
  for (const [id, { row }] of waits) {
    if (now.has(id)) continue;
    row.remove();
    waits.delete(id);
  }
  let at = byId("waiting").firstChild;
  for (const pod of told.pods) {
    const id = key(pod.namespace, pod.name);
    if (!waits.has(id)) waits.set(id, waitingRow(pod.namespace, pod.name));
    const wait = waits.get(id);
    if (JSON.stringify(wait.pod) !== JSON.stringify(pod)) wait.show(pod);
    wait.pod = pod;
    if (wait.row === at) at = at.nextSibling;
    else byId("waiting").insertBefore(wait.row, at);
  }
  const more = told.count - told.pods.length;
  byId("waiting-more").textContent = !told.count ? "No pod that you may see waits for a node." : more ? `and ${more.toLocaleString()} more that have waited for a shorter time` : "";
}

// A scheduler says "0/12 nodes: 8 have every gpu in use, 4 are cordoned". The first reason applies to most nodes, so it is the most important.
function reasons(message) {
  const [, nodes, rest] = /^(\d+\/\d+ nodes): (.*)$/s.exec(message) ?? [null, "", message];
  return { nodes, parts: nodes ? rest.split(/, (?=\d+ (?:have|has|are|is|do|does|were|was|for|lack|lacks) )/) : [rest] };
}

function waitingRow(namespace, name) {
  const row = element("li");
  const box = element("details");
  const head = element("div", "head");
  const time = element("time");
  head.append(element("b", "", `${namespace}/${name}`), time);
  const [main, rest, why] = [element("p"), element("p", "rest"), element("div", "why")];
  const summary = element("summary");
  summary.append(head, main, rest);
  box.append(summary, why);
  row.append(box);
  box.addEventListener("toggle", () => (box.open ? explain(why, namespace, name) : why.replaceChildren()));
  const show = (pod) => {
    time.dateTime = pod.since ?? "";
    time.textContent = age(time.dateTime);
    const { nodes, parts } = reasons(pod.message);
    main.replaceChildren(...(nodes ? [element("span", "badge", nodes)] : []), parts[0] || "The scheduler has not tried to place it yet.");
    rest.textContent = parts.slice(1).join(", ");
    if (box.open) explain(why, namespace, name);
  };
  return { pod: null, row, box, show };
}

async function explain(place, namespace, name) {
  const asked = (place.asked = Symbol(name));
  if (!place.firstChild) place.append(element("p", "quiet", "loading …"));
  const told = await ask("/ui/api/pod", { namespace, name }).catch((error) => ({ reason: error.message }));
  if (place.asked === asked && place.parentElement.open) place.replaceChildren(...explanation(told));
}

function list(title, entries) {
  const found = element("ul");
  found.append(...entries);
  return [element("h3", "", title), found];
}

function explanation(told) {
  const parts = [];
  if (told.reason !== told.condition) parts.push(element("p", "", told.reason));
  if (told.hidden) parts.push(element("p", "", hiddenWords(told.hidden)));
  if (told.remedies?.length) parts.push(...list("What would help", told.remedies.map(remedy)));
  else if (told.nodes?.some((group) => group.requests)) parts.push(...list("What would help", [element("li", "", "no single change that was tried")]));
  if (told.searchCut) parts.push(element("p", "quiet", "The search ran out of time; other changes may help too."));
  if (told.nodes?.length) parts.push(...list("Node by node", told.nodes.slice(0, GROUPS).map(nodeGroup)));
  const others = (told.nodes ?? []).slice(GROUPS).reduce((sum, group) => sum + group.nodes.length, 0);
  if (others) parts.push(element("p", "quiet", `and ${others.toLocaleString()} more nodes`));
  for (const problem of told.problems ?? []) parts.push(element("p", "", problem.message));
  for (const note of told.notes ?? []) parts.push(element("p", "quiet", note));
  return parts;
}

function remedy({ words }) {
  const entry = element("li", "help");
  entry.append(...withCode(words));
  return entry;
}

function hiddenWords({ held, of }) {
  const number = held === null ? "How many of" : `${held} of`;
  return `${number} the ${of} devices that no claim you may see holds are held by claims you may not see${held === null ? " is unknown" : ""}.`;
}

function nodeGroup({ nodes: names, reason, requests = [] }) {
  const entry = element("li");
  const more = names.length > 4 ? ` and ${names.length - 3} more` : "";
  entry.append(element("b", "", (more ? names.slice(0, 3) : names).join(", ") + more));
  if (!requests.some((each) => each.fitting < each.needed)) entry.append(element("p", "", reason));
  else entry.append(...requests.flatMap(requestWords));
  return entry;
}

function requestWords(request) {
  const counts = request.reasons.map(({ text, count }) => {
    const line = element("li");
    line.append(element("b", "", String(count)), ...withCode(` ${text}`));
    return line;
  });
  const found = element("ul", "counts");
  found.append(...counts);
  return [element("p", "", `request ${request.request} needs ${request.needed}, ${request.fitting} of ${request.devices} fit`), found];
}

// Expressions are in backquotes.
const withCode = (text) => text.split("`").map((part, at) => (at % 2 ? element("code", "", part) : part));

// --- history ---

const SVG = "http://www.w3.org/2000/svg";

function shape(className, d) {
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("class", className);
  path.setAttribute("d", d);
  return path;
}

function drawPast() {
  const place = byId("past");
  if (!past) return place.replaceChildren(element("p", "quiet", "You may not list and watch resourcepools, which show how much is in use."));
  const { points } = past;
  const known = points.filter(Boolean);
  if (!known.length) return place.replaceChildren(element("p", "quiet", "There are no counts yet, because there are no ResourcePools."));
  const top = Math.max(1, ...known.map(([allocated, available, unavailable]) => allocated + available + unavailable));
  const y = (value) => (100 - (100 * value) / top).toFixed(2);
  let [allocated, unavailable, gaps] = ["", "", ""];
  points.forEach((point, at) => {
    if (!point) return (gaps += `M${at},0h1v100h-1z`);
    allocated += `M${at},100V${y(point[0])}h1V100z`;
    unavailable += `M${at},${y(point[0])}V${y(point[0] + point[2])}h1V${y(point[0])}z`;
  });
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${Math.max(1, points.length)} 100`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.append(shape("gap", gaps), shape("allocated", allocated), shape("unavailable", unavailable));
  const words = `${inUse(known.at(-1))} now, at most ${Math.round(Math.max(...known.map((point) => point[0])))}`;
  svg.setAttribute("aria-label", words);
  const at = element("p", "at", pointed === null ? words : wordsAt(pointed));
  const axis = element("p", "quiet axis");
  axis.append(element("span", "", clock(past.began)), element("span", "", "now"));
  place.replaceChildren(svg, axis, at);
}

const clock = (seconds) => new Date(seconds * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
const inUse = ([allocated, available, unavailable]) => `${Math.round(allocated)} of ${Math.round(allocated + available + unavailable)} devices allocated`;

let pointed = null; // the point on the timeline under the mouse pointer
byId("past").addEventListener("pointermove", (event) => {
  pointed = event.target.closest("svg") && event.clientX;
  const at = byId("past").querySelector(".at");
  if (at && pointed !== null) at.textContent = wordsAt(pointed);
});
byId("past").addEventListener("pointerleave", () => {
  pointed = null;
  drawPast();
});

function wordsAt(x) {
  const { left, width } = byId("past").getBoundingClientRect();
  const at = Math.max(0, Math.min(past.points.length - 1, Math.floor(((x - left) / width) * past.points.length)));
  const point = past.points[at];
  return `${clock(past.began + at * past.width)}: ${point ? inUse(point) : "no count"}`;
}

follow({ path: "/ui/api/changes", take, clear });
