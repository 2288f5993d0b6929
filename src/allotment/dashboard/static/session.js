// What all pages share: the login, and the stream from which a page is drawn.
//
// A stream consists of lines of JSON. The first has everything ("whole"), each later one has what changed. A page names the
// stream's path, takes each line, and clears its content after a logout. All text enters pages as text, never as markup.

export const byId = (id) => document.getElementById(id);
export const ORDER = new Intl.Collator(undefined, { numeric: true });
const TOKEN = "allotment-token";
const RETRY = [1000, 2000, 5000, 10000];
const LOGOUT = "logout";

export function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== "") made.textContent = text;
  return made;
}

for (const link of document.querySelectorAll("nav a")) {
  if (new URL(link.href).pathname === location.pathname.replace(/\/$/, "")) link.setAttribute("aria-current", "page");
}

// --- the stream ---

let page = null; // {path, take, clear}
let reading = null; // aborts the open stream; null: there is none

export function follow(asked) {
  page = asked;
  read();
}

async function read() {
  if (reading || document.hidden) return;
  const mine = (reading = new AbortController());
  try {
    await readOn(mine.signal);
  } finally {
    if (reading === mine) reading = null;
  }
}

async function readOn(signal) {
  for (let failures = 0; ; ) {
    try {
      const response = await fetch(page.path, { headers: authorization(), signal });
      if (response.status === 401) return askForToken();
      if (!response.ok) throw new Error(await refusal(response));
      for await (const line of lines(response)) {
        const told = parsed(line);
        if (told.error?.code === 401) return askForToken();
        if (told.error) throw new Error(told.error.message);
        if (told.whole) begin(told);
        else if (told.notes) drawNotes(told.notes);
        page.take(told);
        failures = 0;
      }
      throw new Error("the server ended the connection");
    } catch (error) {
      if (!signal.aborted) {
        connection(`not live: ${error.message}; trying again …`, "broken");
        await new Promise((resolve) => setTimeout(resolve, RETRY[Math.min(failures++, RETRY.length - 1)]));
      }
      if (signal.reason === LOGOUT) return askForToken("");
      if (signal.aborted) return;
    }
  }
}

// An answer whose texts are safe to show: control characters, and characters that would hide or reverse their surroundings, are escaped.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
const written = (text) => text.replace(HIDDEN, (each) => `\\u{${each.codePointAt(0).toString(16)}}`);
export const parsed = (text) =>
  text.includes("\\") || text.search(HIDDEN) >= 0
    ? JSON.parse(text, (_, value) => (typeof value === "string" ? written(value) : value))
    : JSON.parse(text);

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

function begin(told) {
  byId("login").hidden = true;
  byId("picture").hidden = false;
  byId("leave").hidden = !sessionStorage.getItem(TOKEN);
  drawNotes(told.notes);
  connection("live", "live");
}

function drawNotes(notes) {
  byId("notes").replaceChildren(...notes.map((note) => element("p", "", note)));
}

// A browser opens at most six connections to a server, and each stream keeps one, so a hidden page closes its stream. Its content
// stays, and is drawn again when the page becomes visible. Browsers keep pages that the user has left, together with their streams.
function pause() {
  reading?.abort("hidden");
  reading = null;
  if (byId("login").hidden) connection("paused while nobody looks", "");
}
const goOn = () => page && byId("login").hidden && read();
document.addEventListener("visibilitychange", () => (document.hidden ? pause() : goOn()));
addEventListener("pagehide", pause);
addEventListener("pageshow", goOn);

function connection(text, className) {
  const place = byId("connection");
  if (place.textContent !== text) place.textContent = text;
  place.className = className;
}

// --- login ---

const authorization = () => {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
};

// The server's answer to a request, unchanged; an error says why there is no answer.
export async function ask(path, query = {}) {
  const asked = new URLSearchParams(query).toString();
  const response = await fetch(asked ? `${path}?${asked}` : path, { headers: authorization() }).catch(() => null);
  if (!response) throw new Error("the server did not answer");
  if (!response.ok) throw new Error(await refusal(response));
  return parsed(await response.text());
}

async function refusal(response) {
  try {
    return (await response.json()).message;
  } catch {
    return `the server answered ${response.status}`;
  }
}

function askForToken(why) {
  const had = sessionStorage.getItem(TOKEN);
  sessionStorage.removeItem(TOKEN);
  page.clear();
  byId("notes").replaceChildren();
  byId("picture").hidden = byId("leave").hidden = true;
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
  read();
});
byId("leave").addEventListener("click", () => (reading ? reading.abort(LOGOUT) : askForToken("")));

// --- time ---

export function age(since) {
  const seconds = Math.max(0, (Date.now() - Date.parse(since)) / 1000);
  return Number.isNaN(seconds) ? "" : `for ${duration(seconds)}`;
}

export function duration(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

setInterval(() => {
  for (const time of document.querySelectorAll("time")) time.textContent = age(time.dateTime);
}, 5000);
