// The page of machines. It draws what /ui/api/machines/changes sends, and requests a plan when the user asks for one; it decides nothing itself.

import { age, ask, byId, element, follow } from "./session.js";

const START = "allot up --catalog examples/autoscaling/catalogue.yaml";
const STEPS = ["launched", "registered", "initialized"];
const USUAL = ["ephemeral-storage", "pods"]; // resources that rarely distinguish machines
const NEW = 1500; // ms for which a change is marked

let choice = 0; // the number of available types
let waiting = null; // {count, version}: the pods for which a plan would be made now
let plan = null; // the plan on the page
let making = null; // identifies the request in progress

function clear() {
  waiting = plan = making = null;
  for (const id of ["claims", "lines", "sources", "overlays"]) draw(byId(id), [], () => "", () => null);
  for (const id of ["headline", "proof", "parts", "plan-state", "how"]) byId(id).replaceChildren();
}

function take(told) {
  const live = !told.whole;
  if (told.whole) drawHow(told.catalogue);
  if (told.claims) drawClaims(told.claims, live);
  if (told.sources) drawSources(told.sources, live);
  if (told.overlays) drawOverlays(told.overlays, live);
  if (told.types) drawTypes(told.types, live);
  if (told.waiting) waiting = told.waiting;
  if (told.waiting || told.types) drawState();
}

// Draws rows, each with a key. Unchanged rows stay in the page, which keeps focus, open details and scrolling.
function draw(place, rows, key, make, live = false) {
  const known = (place.known ??= new Map()); // by key: {text, node}
  const now = new Set(rows.map(key));
  for (const [id, { node }] of known) {
    if (now.has(id)) continue;
    node.remove();
    known.delete(id);
  }
  let at = place.firstChild;
  for (const row of rows) {
    const id = key(row);
    const text = JSON.stringify(row);
    const before = known.get(id);
    if (before?.text !== text) {
      const node = make(row);
      const open = before?.node.querySelector("details")?.open;
      if (open) node.querySelector("details")?.setAttribute("open", "");
      if (live) mark(node);
      if (before?.node === at) at = at.nextSibling;
      before?.node.remove();
      known.set(id, { text, node });
      place.insertBefore(node, at);
    } else if (before.node === at) at = at.nextSibling;
    else place.insertBefore(before.node, at);
  }
}

function mark(node) {
  node.classList.add("new");
  setTimeout(() => node.classList.remove("new"), NEW);
}

const plural = (count, word) => `${count.toLocaleString()} ${word}${count === 1 ? "" : "s"}`;
const joined = (...parts) => parts.filter(Boolean).join(" · ");
const moreThan = (id, { count, rows }) => (byId(id).textContent = count > rows.length ? `and ${(count - rows.length).toLocaleString()} more` : "");

function entry(className, ...parts) {
  const made = element("li", className);
  made.append(...parts);
  return made;
}

function head(name, detail, end) {
  const made = element("div", "head");
  made.append(element("b", "", name));
  if (detail) made.append(element("span", "quiet", detail));
  if (end) made.append(element("span", "end", end));
  return made;
}

// --- requested machines ---

const perHour = (price) => (price ? `${price} per hour` : "");

function drawClaims(told, live) {
  const states = Object.entries(told.states).map(([state, count]) => `${count.toLocaleString()} ${state}`);
  byId("claims-count").textContent = told.count ? `${told.count.toLocaleString()}: ${states.join(", ")}` : "";
  draw(byId("claims"), told.rows, (row) => row.name, claimRow, live);
  moreThan("claims-more", told);
  if (!told.count) byId("claims-more").textContent = "There are no requested machines that you may see.";
}

function claimRow(claim) {
  const steps = element("span", "steps");
  steps.setAttribute("role", "img");
  steps.setAttribute("aria-label", STEPS.map((step, at) => `${claim.steps[at] ? "" : "not "}${step}`).join(", "));
  steps.append(...claim.steps.map((done) => element("i", done ? "done" : "")));
  const first = element("div", "head");
  first.append(steps, element("b", "", claim.name), element("span", `state ${claim.wrong ? "bad" : ""}`, claim.state));
  if (claim.price) first.append(element("span", "end", perHour(claim.price)));
  const time = element("time", "quiet", age(claim.since));
  time.dateTime = claim.since;
  const second = element("div", "head");
  const node = claim.node && claim.node !== claim.name ? `node ${claim.node}` : "";
  second.append(element("span", "quiet", joined(claim.type, claim.zone, claim.capacityType, claim.source && `from ${claim.source}`, node)), time);
  const made = entry(claim.wrong ? "wrong" : "", first, second);
  if (claim.message) made.append(element("p", claim.wrong ? "bad" : "quiet", claim.message));
  return made;
}

// --- pools and groups ---

function drawSources(told, live) {
  byId("sources-count").textContent = told.machines ? `${plural(told.machines, "machine")}, ${perHour(told.price)}` : "";
  draw(byId("sources"), told.rows, (row) => `${row.kind} ${row.name}`, sourceRow, live);
  moreThan("sources-more", told);
  if (!told.count) byId("sources-more").textContent = "There are no NodePools or NodeGroups that you may see: plans may use machines of every type.";
}

function sourceRow(source) {
  const fixed = source.fixed === null ? "" : `always ${source.fixed}`;
  const kind = joined(source.kind === "NodePool" ? "pool" : "group", source.inFile && "in a file", fixed);
  const unknown = source.unpriced ? `, and ${source.unpriced} of unknown price` : "";
  const price = source.machines > source.unpriced ? `, ${perHour(source.price)}` : "";
  const made = entry(source.problems.length ? "wrong" : "", head(source.name, kind, plural(source.machines, "machine")));
  if (price || unknown) made.append(element("p", "quiet", (price + unknown).slice(2)));
  made.append(...source.limits.map(limitBar));
  made.append(...source.problems.map((words) => element("p", "bad", words)));
  return made;
}

function limitBar({ name, used, limit, part }) {
  const made = element("div", "limit");
  const words = element("span", "", name);
  const bar = element("meter", part >= 1 ? "full" : "");
  bar.max = 1;
  bar.value = part;
  bar.setAttribute("aria-label", `${name}: ${used} of ${limit}`);
  made.append(words, element("span", "quiet", `${used} of ${limit}`), bar);
  return made;
}

// --- overlays ---

function drawOverlays(told, live) {
  const wrong = told.rows.filter((row) => row.wrong).length;
  byId("overlays-count").textContent = told.count ? joined(told.count.toLocaleString(), wrong && `${wrong} with problems`) : "";
  draw(byId("overlays"), told.rows, (row) => row.name, overlayRow, live);
  moreThan("overlays-more", told);
  if (!told.count) byId("overlays-more").textContent = "There are no NodeOverlays that you may see. They add what a catalogue does not know: prices, resources, devices.";
}

function overlayRow(overlay) {
  const where = overlay.inFile ? "in a file" : "";
  const made = entry(overlay.wrong ? "wrong" : "", head(overlay.name, joined(`weight ${overlay.weight}`, where), ""));
  if (overlay.reason) made.firstChild.append(element("span", "badge", overlay.reason));
  made.append(element("p", "", overlay.says.join("; ") || "changes nothing"));
  const types = overlay.types.join(", ") + (overlay.moreTypes ? ` and ${overlay.moreTypes} more` : "");
  made.append(element("p", "quiet", overlay.types.length ? `applies to ${types}` : "applies to no available machine"));
  made.append(...overlay.problems.map((words) => element("p", "bad", words)));
  if (overlay.moreProblems) made.append(element("p", "bad", `and ${overlay.moreProblems} more`));
  return made;
}

// --- machine types ---

const range = ([low, high]) => (low === high ? low : `${low} to ${high}`);

function drawTypes(told, live) {
  choice = told.count;
  byId("types-count").textContent = told.count ? plural(told.count, "kind") : "";
  draw(byId("lines"), told.rows, (row) => JSON.stringify([row.source, row.type, row.capacity, row.devices]), typeRow, live);
  moreThan("types-more", told);
  if (!told.count) byId("types-more").textContent = "There are no machine types to choose from.";
}

function typeRow(type) {
  const row = element("tr");
  const resources = Object.entries(type.capacity).filter(([name]) => !USUAL.includes(name)).map(([name, amount]) => `${name} ${amount}`);
  const devices = type.devices.map(([driver, count, overlay]) => `${count} × ${driver}${overlay ? ` (${overlay})` : ""}`);
  const cells = [type.type, type.source || "–", [...type.zones, ...type.capacityTypes].join(", "), resources.join(", "), devices.join(", "), type.overlays.join(", ")];
  cells.forEach((text, at) => {
    const cell = element(at ? "td" : "th", "", text || "–");
    if (!at) cell.scope = "row";
    if (!text) cell.classList.add("none");
    row.append(cell);
  });
  const price = element("td", "n", range(type.prices));
  if (range(type.listed) !== range(type.prices)) {
    const before = element("s", "quiet", range(type.listed));
    before.setAttribute("aria-label", `instead of ${range(type.listed)}`);
    price.append(" ", before);
  }
  if (type.soldOut) price.append(" ", element("span", "badge", "sold out"));
  row.append(price);
  return row;
}

// --- the plan ---

function drawHow(catalogue) {
  byId("how").hidden = catalogue;
  byId("how").replaceChildren("The server has no catalogue of machines. Start it with one: ", element("code", "", START));
}

function drawState() {
  const possible = waiting !== null && (choice > 0 || waiting.count > 0);
  byId("make").disabled = making !== null || !possible;
  byId("make").textContent = plan ? "Plan again" : "Plan";
  const stale = plan && waiting && plan.version !== waiting.version;
  byId("plan-state").className = stale && !making ? "stale" : "quiet";
  byId("plan-state").textContent = making ? "planning …" : stale ? "out of date: the waiting pods or the available machines have changed" : plan ? "up to date" : "";
  byId("plan").classList.toggle("stale", Boolean(stale));
  if (plan || !waiting) return;
  const pods = waiting.count === 1 ? "1 pod waits" : `${waiting.count.toLocaleString()} pods wait`;
  byId("headline").textContent = waiting.count ? `${pods} for a node.` : "No pod that you may see waits for a node.";
  byId("proof").textContent = waiting.count ? "A plan shows which machines could run them, and at what price. Nothing is launched." : "";
}

byId("make").addEventListener("click", async () => {
  const asked = (making = Symbol("plan"));
  drawState();
  const told = await ask("/ui/api/plan").catch((error) => ({ error: error.message }));
  if (making !== asked) return; // another user may be logged in by now
  making = null;
  plan = told.error ? null : told;
  if (plan) drawPlan();
  else byId("parts").replaceChildren(element("p", "bad", told.error));
  drawState();
});

function drawPlan() {
  byId("headline").textContent = plan.headline;
  byId("proof").textContent = plan.proof;
  const parts = [];
  if (plan.machines.length) parts.push(...part("Machines to add", plan.machines.map(newMachines), plan.moreMachines));
  if (plan.left.length) parts.push(...part("Pods that would stay pending", plan.left.map(leftOut), plan.moreLeft));
  if (plan.existing.count) parts.push(...part("Room on nodes that exist or are on their way", [onNodes(plan.existing)], 0));
  parts.push(...plan.notes.map((note) => element("p", "quiet", note)));
  byId("parts").replaceChildren(...parts);
}

function part(title, rows, more) {
  const found = element("ul", "rows");
  found.append(...rows);
  const rest = more ? [element("p", "quiet", `and ${more.toLocaleString()} more`)] : [];
  return [element("h3", "", title), found, ...rest];
}

function opened(className, summary, ...inside) {
  const box = element("details");
  const top = element("summary");
  top.append(...summary);
  box.append(top, ...inside);
  return entry(className, box);
}

function newMachines(sort) {
  const where = joined(sort.zone, sort.capacityType, sort.source && `from ${sort.source}`, plural(sort.pods, "pod"));
  const price = sort.count > 1 ? `${sort.count} × ${sort.price} = ${perHour(sort.together)}` : perHour(sort.price);
  const each = element("ul", "each");
  each.append(...sort.each.map((machine) => entry("", element("b", "", machine.name), places(machine, false))));
  if (sort.count > sort.each.length) each.append(entry("quiet", `and ${sort.count - sort.each.length} more`));
  return opened("", [head(`${sort.count} × ${sort.type}`, where, price)], each);
}

function places({ count, pods }, withNode) {
  const made = element("ul", "places");
  made.append(
    ...pods.map((place) => {
      const line = entry("", element("span", "", place.pod));
      if (withNode) line.append(element("span", "quiet", ` on ${place.node}`));
      if (place.devices.length) line.append(element("span", "quiet", ` with ${place.devices.join(", ")}`));
      return line;
    }),
  );
  if (count > pods.length) made.append(entry("quiet", `and ${(count - pods.length).toLocaleString()} more`));
  return made;
}

const onNodes = (existing) => opened("", [head(plural(existing.count, "pod"), "", "")], places(existing, true));

function leftOut(left) {
  const names = left.pods.slice(0, 3).join(", ") + (left.count > 3 ? ` and ${(left.count - 3).toLocaleString()} more` : "");
  const types = element("ul", "places");
  types.append(
    ...left.types.map(({ reason, count, types }) => {
      const line = entry("", element("span", "", reason));
      line.append(element("span", "quiet", `: ${types.join(", ")}${count > types.length ? ` and ${count - types.length} more` : ""}`));
      return line;
    }),
  );
  const all = left.count > 3 ? [element("p", "quiet", left.pods.join(", "))] : [];
  return opened("wrong", [head(names, "", ""), element("p", "bad", left.reason)], ...all, types);
}

follow({ path: "/ui/api/machines/changes", take, clear });
