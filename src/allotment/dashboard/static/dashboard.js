// The dashboard's page. It draws what /ui/api/changes tells, a line of JSON at a time, and decides nothing itself.
//
// The first line is everything ("whole"), each later one what has changed. Pools are drawn cell by cell, so that a change costs
// the cells that it touches. All text gets into the page as text, never as markup.

const byId = (id) => document.getElementById(id);
const TOKEN = "allotment-token";
const SEVERAL = "several nodes";
const ROWS = 100; // of the table of pools, before somebody asks for all
const RETRY = [1000, 2000, 5000, 10000];
const ORDER = new Intl.Collator(undefined, { numeric: true });
const WORDS = {
  Available: "available",
  Allocated: "allocated",
  PartiallyAllocated: "partially allocated",
  Unavailable: "unavailable",
  Unknown: "not known",
};
const COUNTS = { total: "devices", available: "available", allocated: "allocated", unavailable: "unavailable", unknown: "not known" };
const COLOURS = { available: "s0", allocated: "s1", unavailable: "s3", unknown: "s4" };

const map = byId("map");

let states = [];
let pools = new Map(); // by key: {told, cells, row}
let nodes = new Map(); // by name: {row, cells, label}
let order = null; // keys of pools as the table has them; null when that has to be found out anew
let past = null;
let showAll = false;
let shown = null; // the cell that #about tells of

function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== "") made.textContent = text;
  return made;
}

// --- the stream ---

const authorization = () => {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
};

async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let parts = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    let start = 0;
    for (let end; (end = value.indexOf("\n", start)) >= 0; start = end + 1) {
      parts.push(value.slice(start, end));
      yield parts.join("");
      parts = [];
    }
    parts.push(value.slice(start));
  }
}

let leaving = null;

async function follow() {
  let failures = 0;
  for (;;) {
    leaving = new AbortController();
    try {
      const response = await fetch("/ui/api/changes", { headers: authorization(), signal: leaving.signal });
      if (response.status === 401) return askForToken();
      if (!response.ok) throw new Error(await refusal(response));
      for await (const line of lines(response)) {
        const told = JSON.parse(line);
        if (told.error?.code === 401) return askForToken();
        if (told.error) throw new Error(told.error.message);
        take(told);
        failures = 0;
      }
      throw new Error("the server ended the connection");
    } catch (error) {
      if (leaving.signal.aborted) return askForToken("");
      const pause = RETRY[Math.min(failures++, RETRY.length - 1)];
      connection(`not live: ${error.message}; trying again …`, "broken");
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

async function refusal(response) {
  try {
    return (await response.json()).message;
  } catch {
    return `the server answered ${response.status}`;
  }
}

function connection(text, className) {
  const place = byId("connection");
  if (place.textContent !== text) place.textContent = text;
  place.className = className;
}

function take(told) {
  if (told.whole) begin(told);
  for (const [driver, pool] of told.gone ?? []) removePool(key(driver, pool));
  if (!told.whole) for (const pool of told.pools ?? []) putPool(pool, true);
  if (told.pools || told.gone) {
    placeRows();
    later();
  }
  if (told.waiting) drawWaiting(told.waiting);
  if (told.timeline !== undefined) past = told.timeline;
  if (told.points && past) past.points.splice(told.points.from, Infinity, ...told.points.points);
  if (told.timeline !== undefined || told.points) drawPast();
}

// --- who one is ---

function askForToken(why) {
  const had = sessionStorage.getItem(TOKEN);
  sessionStorage.removeItem(TOKEN);
  clear();
  byId("picture").hidden = byId("leave").hidden = byId("about").hidden = true;
  byId("login").hidden = false;
  byId("refused").textContent = why ?? (had ? "The server does not know this token, or its time is over." : "");
  connection("not logged in", "");
  byId("token").focus();
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, byId("token").value.trim());
  byId("token").value = "";
  byId("login").hidden = true;
  connection("connecting …", "");
  follow();
});
byId("leave").addEventListener("click", () => leaving.abort());

// --- the fleet ---

const key = (driver, pool) => JSON.stringify([driver, pool]);

function clear() {
  pools = new Map();
  nodes = new Map();
  order = null;
  hideAbout();
  for (const id of ["map", "pools", "waiting", "past", "notes", "numbers"]) byId(id).replaceChildren();
}

function begin(told) {
  const focused = document.activeElement?.device ? cellName(document.activeElement) : null;
  clear();
  states = told.states;
  byId("login").hidden = true;
  byId("picture").hidden = false;
  byId("leave").hidden = !sessionStorage.getItem(TOKEN);
  byId("notes").replaceChildren(...told.notes.map((note) => element("p", "", note)));
  drawLegend();
  for (const pool of told.pools) putPool(pool, false);
  placeRows();
  roving(map.querySelector(".cell"));
  if (focused) [...map.querySelectorAll(".cell")].find((cell) => cellName(cell) === focused)?.focus();
  connection("live", "live");
  requestAnimationFrame(() => setTimeout(() => performance.mark("first-picture")));
}

const inOrder = (one, other) => (one.name === SEVERAL) - (other.name === SEVERAL) || ORDER.compare(one.name, other.name);

function nodeOf(name) {
  let node = nodes.get(name);
  if (node) return node;
  const row = element("div", "node");
  row.setAttribute("role", "row");
  const label = element("span", "name", name);
  label.setAttribute("role", "rowheader");
  label.title = name;
  const cells = element("div", "cells");
  cells.setAttribute("role", "presentation");
  row.append(label, cells);
  node = { name, row, cells };
  nodes.set(name, node);
  return node;
}

// Puts rows where they belong; those that are there already stay in the page, and with them focus and scrolling.
function placeRows() {
  if (nodes.size) map.querySelector("p")?.remove();
  else if (!map.firstChild) map.append(element("p", "quiet", "There are no devices that you may see."));
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
  one.devices.every((device, at) => device[0] === other.devices[at][0] && device[2] === other.devices[at][2]);

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
    return;
  }
  if (known) removePool(id);
  const cells = told.devices.map((device) => {
    const cell = document.createElement("div");
    cell.setAttribute("role", "gridcell");
    cell.tabIndex = -1;
    describe(cell, told, device, live);
    nodeOf(device[2] || told.node || SEVERAL).cells.append(cell);
    return cell;
  });
  pools.set(id, { told, cells, row: null, stale: true });
  order = null;
}

function removePool(id) {
  const known = pools.get(id);
  if (!known) return;
  for (const cell of known.cells) {
    const node = nodes.get(cell.closest(".node").firstChild.textContent);
    cell.remove();
    if (cell === shown) hideAbout();
    if (node.cells.childElementCount) continue;
    node.row.remove();
    nodes.delete(node.name);
  }
  known.row?.remove();
  pools.delete(id);
  order = null;
}

function describe(cell, pool, device, live) {
  const [name, state, node, claims = [], message = ""] = device;
  cell.className = `cell s${state}${live ? " new" : ""}`;
  cell.device = { pool, device };
  const held = claims.length ? `, held by ${claims.join(", ")}` : "";
  cell.setAttribute(
    "aria-label",
    `${name} on ${node || pool.node || SEVERAL}: ${WORDS[states[state]]}${held}${message ? `, ${message}` : ""}`,
  );
  if (cell === shown) tellAbout(cell);
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

// --- what follows from pools: drawn once for all that changes at the same time ---

let planned = false;
function later() {
  if (planned) return;
  planned = true;
  setTimeout(() => {
    planned = false;
    drawNumbers();
    drawTable();
    find();
    if (!map.querySelector('.cell[tabindex="0"]')) roving(map.querySelector(".cell"));
  });
}

function drawNumbers() {
  const sums = Object.fromEntries(Object.keys(COUNTS).map((name) => [name, 0]));
  for (const { told } of pools.values()) for (const name in sums) sums[name] += told.counts[name];
  byId("numbers").replaceChildren(
    ...Object.entries(COUNTS)
      .filter(([name]) => name !== "unknown" || sums.unknown)
      .map(([name, words]) => {
        const box = element("div", COLOURS[name] ?? "");
        box.append(element("b", "", sums[name].toLocaleString()), element("span", "", words));
        return box;
      }),
  );
}

function drawTable() {
  const body = byId("pools");
  order ??= [...pools.keys()].sort((one, other) => {
    const [a, b] = [pools.get(one).told, pools.get(other).told];
    return (b.problems.length > 0) - (a.problems.length > 0) || ORDER.compare(a.driver, b.driver) || ORDER.compare(a.pool, b.pool);
  });
  const ids = order;
  const told = showAll ? ids : ids.slice(0, ROWS);
  const rows = told.map((id) => {
    const pool = pools.get(id);
    if (pool.stale || !pool.row) pool.row = tableRow(pool.told);
    pool.stale = false;
    return pool.row;
  });
  if (rows.length !== body.childElementCount || rows.some((row, at) => body.children[at] !== row)) body.replaceChildren(...rows);
  byId("pools-count").textContent = ids.length.toLocaleString();
  byId("more").hidden = told.length === ids.length;
  byId("more").textContent = `Show all ${ids.length.toLocaleString()}`;
}
byId("more").addEventListener("click", () => {
  showAll = true;
  drawTable();
});

function tableRow(pool) {
  const row = element("tr");
  const { counts } = pool;
  row.append(element("td", "", pool.pool), element("td", "", pool.driver), element("td", "", pool.node || SEVERAL));
  for (const name of ["total", "allocated", "available", "unavailable"]) {
    const known = name === "total" || pool.hidden !== null || !counts.unknown;
    const cell = element("td", "n", known ? String(counts[name]) : "unknown");
    cell.dataset.name = name;
    row.append(cell);
  }
  const use = element("div", "use");
  for (const [name, colour] of [["allocated", "s1"], ["unavailable", "s3"], ["unknown", "s4"]]) {
    const part = element("i", colour);
    part.style.width = `${counts.total ? (100 * counts[name]) / counts.total : 0}%`;
    use.append(part);
  }
  const bar = element("td");
  bar.append(use);
  const hidden = pool.hidden ? [`${pool.hidden} of ${pool.unseen || pool.hidden} held by claims that you may not see`] : [];
  const notes = element("td", pool.problems.length ? "" : "plain", [...pool.problems, ...hidden].join("; "));
  row.append(bar, notes);
  return row;
}

function find() {
  const text = byId("find").value.trim().toLowerCase();
  for (const node of nodes.values()) {
    node.row.hidden =
      text !== "" &&
      !node.name.toLowerCase().includes(text) &&
      ![...node.cells.children].some((cell) => cell.getAttribute("aria-label").toLowerCase().includes(text));
  }
}
byId("find").addEventListener("input", find);

// --- one device ---

const published = new Map(); // attributes and capacity, asked for once

async function about({ pool, device }) {
  const id = key(pool.driver, pool.pool) + device[0];
  if (!published.has(id)) {
    const query = new URLSearchParams({ driver: pool.driver, pool: pool.pool, device: device[0] });
    const response = await fetch(`/ui/api/device?${query}`, { headers: authorization() });
    if (published.size > 500) published.clear();
    published.set(id, response.ok ? await response.json() : {});
  }
  return published.get(id);
}

async function tellAbout(cell) {
  shown = cell;
  const { pool, device } = cell.device;
  const [name, state, node, claims = [], message = ""] = device;
  const title = element("h3");
  title.append(element("i", `cell dot s${state}`), `${name}: ${WORDS[states[state]]}`);
  const parts = [title, element("p", "quiet", `pool ${pool.pool} of ${pool.driver}, ${node || pool.node || SEVERAL}`)];
  if (claims.length) parts.push(element("p", "", `held by ${claims.join(", ")}`));
  if (message) parts.push(element("p", "", message));
  const panel = byId("about");
  panel.replaceChildren(...parts);
  panel.hidden = false;
  const details = await about(cell.device).catch(() => ({}));
  if (shown !== cell || cell.device.device !== device) return;
  const list = element("dl");
  const entries = [...Object.entries(details.attributes ?? {}), ...Object.entries(details.capacity ?? {})];
  for (const taint of details.taints ?? []) entries.push(["taint", taint]);
  for (const [term, value] of entries) {
    const pair = element("div");
    pair.append(element("dt", "", term), element("dd", "", Array.isArray(value) ? value.join(", ") : String(value)));
    list.append(pair);
  }
  if (entries.length) panel.append(list);
}

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

// One cell of the grid is reached by Tab, all others from there by arrows.
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
  const cells = [...cell.parentElement.children];
  const at = cells.indexOf(cell);
  const row = (steps) => {
    const rows = [...map.querySelectorAll(".node:not([hidden])")];
    const now = rows.indexOf(cell.closest(".node"));
    const there = rows[Math.max(0, Math.min(rows.length - 1, now + steps))].querySelector(".cells").children;
    return there[Math.min(at, there.length - 1)];
  };
  switch (pressed) {
    case "ArrowRight": return cells[at + 1];
    case "ArrowLeft": return cells[at - 1];
    case "ArrowDown": return row(1);
    case "ArrowUp": return row(-1);
    case "PageDown": return row(10);
    case "PageUp": return row(-10);
    case "Home": return all ? row(-Infinity).parentElement.firstElementChild : cells[0];
    case "End": return all ? row(Infinity).parentElement.lastElementChild : cells.at(-1);
  }
}

// --- pods that wait ---

function drawWaiting(told) {
  byId("waiting-count").textContent = told.count.toLocaleString();
  if (!told.count) return byId("waiting").replaceChildren(element("p", "quiet", "No pod that you may see waits for a node."));
  const list = element("ul");
  list.tabIndex = 0;
  for (const pod of told.pods) {
    const entry = element("li");
    const line = element("div");
    const since = element("time", "", age(pod.since));
    since.dateTime = pod.since ?? "";
    line.append(element("b", "", `${pod.namespace}/${pod.name}`), element("span", "reason", pod.reason), since);
    entry.append(line, element("p", "", pod.message || "The scheduler has not looked at it yet."));
    list.append(entry);
  }
  const parts = [list];
  if (told.count > told.pods.length) parts.push(element("p", "quiet", `and ${told.count - told.pods.length} more that wait less long`));
  byId("waiting").replaceChildren(...parts);
}

function age(since) {
  const seconds = Math.max(0, (Date.now() - Date.parse(since)) / 1000);
  if (Number.isNaN(seconds)) return "";
  return `for ${duration(seconds)}`;
}

function duration(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

setInterval(() => {
  for (const time of document.querySelectorAll("time")) time.textContent = age(time.dateTime);
}, 5000);

// --- the past ---

const SVG = "http://www.w3.org/2000/svg";

function shape(className, d) {
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("class", className);
  path.setAttribute("d", d);
  return path;
}

function drawPast() {
  const place = byId("past");
  if (!past) return place.replaceChildren(element("p", "quiet", "You may not list and watch resourcepools, which tell how much is in use."));
  const { points } = past;
  const known = points.filter(Boolean);
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
  const last = known.at(-1);
  const most = Math.max(0, ...known.map((point) => point[0]));
  const words = last ? `${Math.round(last[0])} of ${Math.round(last[0] + last[1] + last[2])} devices allocated now, at most ${Math.round(most)}` : "nothing yet";
  svg.setAttribute("aria-label", words);
  const axis = element("p", "quiet axis");
  axis.append(element("span", "", new Date(past.began * 1000).toLocaleString()), element("span", "", words), element("span", "", "now"));
  place.replaceChildren(svg, axis);
}

follow();
