// Keeps the page current: asks for its fragment every few seconds, and swaps it where it changed.
"use strict";

const live = document.querySelector("#live[data-live]");
const state = document.getElementById("state");
const EVERY = 5000;
let etag = "";

// Ages beside times: the server tells moments, so that what does not change stays equal.
function ages(root) {
  const now = Date.now();
  for (const item of root.querySelectorAll("time")) {
    const seconds = Math.round((now - Date.parse(item.dateTime)) / 1000);
    if (Number.isNaN(seconds)) continue;
    item.title = item.dateTime;
    item.textContent = seconds >= 0 ? span(seconds) + " ago" : "in " + span(-seconds);
  }
}

function span(seconds) {
  if (seconds < 120) return seconds + " s";
  if (seconds < 7200) return Math.round(seconds / 60) + " min";
  if (seconds < 172800) return Math.round(seconds / 3600) + " h";
  return Math.round(seconds / 86400) + " days";
}

// The swap keeps what the reader has opened, and where the keyboard is.
function swap(text) {
  const open = [...live.querySelectorAll("details[open]")].map((item) => item.id);
  const at = live.contains(document.activeElement) ? path(document.activeElement) : null;
  live.innerHTML = text;
  for (const id of open) {
    const item = id && document.getElementById(id);
    if (item) item.open = true;
  }
  if (at) document.querySelector(at)?.focus({ preventScroll: true });
  ages(live);
}

function path(element) {
  if (element.id) return "#" + CSS.escape(element.id);
  const own = element.parentElement;
  if (!own || element === live) return "#live";
  const place = [...own.children].indexOf(element) + 1;
  return path(own) + " > :nth-child(" + place + ")";
}

async function refresh() {
  if (document.hidden) return;
  const url = new URL(location.href);
  url.searchParams.set("fragment", "");
  const headers = etag ? { "If-None-Match": etag } : {};
  try {
    const answer = await fetch(url, { headers, cache: "no-store", credentials: "same-origin" });
    if (answer.status === 200) {
      const text = await answer.text();
      swap(text);
      etag = answer.headers.get("ETag") || "";
      say("");
    } else if (answer.status === 304) {
      say("");
    } else if (answer.status !== 503) {
      say("The console answers " + answer.status + "; what you see may be old.");
    }
  } catch {
    say("The console does not answer; what you see may be old.");
  }
  ages(live);
}

function say(text) {
  if (state.textContent !== text) state.textContent = text;
}

ages(document);
if (live) {
  setInterval(refresh, EVERY);
  document.addEventListener("visibilitychange", refresh);
}
