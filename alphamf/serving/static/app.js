// The page: files in, a list of recordings, one of them open.

import * as api from "./api.js";
import { Editor } from "./editor.js";
import { DEFAULTS, Item } from "./item.js";
import { Recorder } from "./recorder.js";
import * as text from "./text.js";

const $ = (id) => document.getElementById(id);
const KEY = "recordings";
const TOGETHER = "together";
const UNDO = 60; // seconds
const options = Object.fromEntries(
  [...new URLSearchParams(location.search)].filter(([name]) => ["preset", "seed"].includes(name)),
);

let items = [];
let opened = null;
let limits = { max_upload: Infinity };
let sending = false;
let removed = null; // what Undo brings back; the server keeps it until then

const say = (sentence) => { $("status").textContent = sentence; };
const complain = (sentence) => {
  $("alert").textContent = sentence;
  setTimeout(() => { if ($("alert").textContent === sentence) $("alert").textContent = ""; }, 12000);
};

const editor = new Editor(say, complain);
const events = new api.Events(
  (state) => {
    const item = items.find(({ id }) => id === state.id);
    if (!item) return;
    const before = item.state;
    item.state = state;
    if (before?.state !== state.state) announce(item);
    if (before && !before.echo?.done && state.echo?.done) say(`The echo of ${item.name} is removed`);
    show();
  },
  (id) => {
    const item = items.find((each) => each.id === id);
    if (item) drop(item);
  },
);

function announce(item) {
  if (item.done) say(`${item.name} is done`);
  else if (item.failed) say(`${item.name}: ${item.state.error}`);
  else if (item.state.state === "denoising") say(`${item.name} is being denoised; its first ten seconds can be heard`);
}

function remember() {
  const kept = items.filter(({ id }) => id).map(({ id, name, settings }) => ({ id, name, settings }));
  sessionStorage.setItem(KEY, JSON.stringify(kept));
  sessionStorage.setItem(TOGETHER, JSON.stringify($("together").checked));
}

function add(files) {
  for (const file of files) {
    const item = new Item(file.name);
    item.file = file;
    item.changed = changed;
    if ($("together").checked && opened) item.settings = { ...opened.settings };
    items.push(item);
    if (file.size > limits.max_upload) {
      item.error = `${file.name} is larger than ${limits.max_upload / 1e6} MB: alphamf serve --max-size allows more`;
    } else if (!file.size) {
      item.error = `${file.name} is empty (0 bytes)`;
    }
    if (item.error) say(item.error);
  }
  if (files.length) opened = items.at(-files.length);
  show();
  send();
}

// The files of a drop, and those with a known extension in its folders, as the command takes them.
async function dropped({ items: parts, files }) {
  const entries = [...parts].map((part) => part.webkitGetAsEntry?.()).filter(Boolean); // before a wait
  if (!entries.some((entry) => entry.isDirectory)) return [...files];
  const found = [];
  for (const entry of entries) await collect(entry, found, true);
  if (!found.length) complain("The folder has no recordings in a format that can be read");
  return found;
}

async function collect(entry, found, named) {
  if (entry.isFile) {
    const known = limits.suffixes?.some((suffix) => entry.name.toLowerCase().endsWith(suffix)) ?? true;
    if (named || (known && !entry.name.startsWith("."))) found.push(await promised((...back) => entry.file(...back)));
    return;
  }
  const reader = entry.createReader();
  const inside = [];
  for (let some = [null]; some.length;) { // it gives a hundred at a time
    some = await promised((...back) => reader.readEntries(...back));
    inside.push(...some);
  }
  inside.sort((one, other) => (one.name < other.name ? -1 : 1));
  for (const each of inside) await collect(each, found, false);
}

const promised = (call) => new Promise((done, failed) => call(done, failed));

// One file is sent at a time.
async function send() {
  if (sending) return;
  const item = items.find((each) => each.file && !each.error);
  if (!item) return;
  sending = true;
  const { file } = item;
  await forgetRemoved(); // a server has places for a few recordings only
  try {
    const request = api.upload(file, item.name, options, (share) => { item.sent = share; show(); });
    item.cancel = request.cancel;
    const state = await request.done;
    item.id = state.id;
    if (limits.named) item.name = state.name;
    item.state ??= state;
    if (!items.includes(item)) await api.remove(item.id);
  } catch (error) {
    item.error = error.message;
    if (items.includes(item)) say(error.message);
  }
  item.file = null;
  sending = false;
  show();
  send();
}

function drop(item) {
  const place = items.indexOf(item);
  if (place < 0) return;
  item.cancel?.();
  items.splice(place, 1);
  if (opened === item) opened = items[Math.min(place, items.length - 1)] ?? null;
  show();
}

function removeOpened() {
  const item = opened;
  if (!item) return;
  const place = items.indexOf(item);
  say(`${item.name} was ${item.done || item.failed ? "removed" : "cancelled"}`);
  drop(item);
  (opened ? $("title") : $("choose")).focus();
  if (!item.done) {
    forget(item);
    return;
  }
  forgetRemoved();
  removed = { item, place, timer: setTimeout(forgetRemoved, 1000 * UNDO) };
  $("removed-text").textContent = `${item.name} was removed.`;
  $("removed").hidden = false;
}

function removeFailed() {
  for (const item of items.filter(({ failed }) => failed)) {
    drop(item);
    forget(item);
  }
  (opened ? $("title") : $("choose")).focus();
}

async function forget({ id }) {
  if (id) await api.remove(id).catch((error) => complain(error.message));
}

// The time for Undo is over: the server deletes the recording.
async function forgetRemoved() {
  const item = takeRemoved()?.item;
  if (item) await forget(item);
}

function takeRemoved() {
  const taken = removed;
  clearTimeout(taken?.timer);
  removed = null;
  $("removed").hidden = true;
  return taken;
}

function undo() {
  const { item, place } = takeRemoved();
  items.splice(place, 0, item);
  opened = item;
  show();
  say(`${item.name} is back`);
  $("title").focus();
}

function row(item) {
  const entry = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  button.innerHTML = '<span class="file" dir="auto"></span><span class="state"></span><progress max="1"></progress>';
  button.addEventListener("click", () => { opened = item; show(); });
  entry.append(button);
  return entry;
}

function showRow(entry, item) {
  const button = entry.firstElementChild;
  const [file, state, bar] = button.children;
  file.textContent = item.name;
  state.textContent = item.sentence();
  state.classList.toggle("failed", item.failed);
  bar.hidden = item.finished || item.failed;
  bar.value = item.share();
  bar.setAttribute("aria-label", `Progress of ${item.name}`);
  if (item === opened) button.setAttribute("aria-current", "true");
  else button.removeAttribute("aria-current");
}

const rows = new WeakMap();

function show() {
  $("drop").classList.toggle("small-zone", items.length > 0);
  $("drop-title").textContent = items.length ? "Drop more recordings here" : "Drop a noisy recording here";
  $("list").hidden = items.length < 2;
  const failed = items.filter((item) => item.failed).length;
  $("clear").hidden = failed < 2;
  $("clear").textContent = `Remove ${failed} failed`;
  const wanted = items.map((item) => {
    if (!rows.has(item)) rows.set(item, row(item));
    showRow(rows.get(item), item);
    return rows.get(item);
  });
  if (wanted.some((entry, k) => $("items").children[k] !== entry) || $("items").children.length !== wanted.length) {
    $("items").replaceChildren(...wanted);
  }
  if (opened) editor.open(opened);
  else editor.close();
  changed();
}

// Have the echo removed where a slider asks for it, and stop that where none does any more.
async function askForEcho(item) {
  const { echo } = item.state ?? {};
  const wanted = item.settings.echo > 0;
  const open = wanted ? item.done && !echo : echo && !echo.done;
  if (item.asking || item.refused === wanted || !open) return;
  item.refused = undefined;
  item.asking = true;
  try {
    item.state = await (wanted ? api.startEcho(item.id) : api.stopEcho(item.id));
  } catch (error) {
    item.refused = wanted; // until the slider is moved to 0, or from there
    complain(error.message);
  }
  item.asking = false;
  show();
}

function changed() {
  if ($("together").checked && opened) {
    for (const item of items) item.settings = { ...opened.settings };
  }
  remember();
  events.watch(items.filter((item) => item.id && !item.finished && !item.failed).map(({ id }) => id));
  items.forEach(askForEcho);
  const done = items.filter((item) => item.finished);
  $("archive").hidden = done.length < 2;
  $("archive").textContent = done.length === items.length ? "Download all as zip" : `Download ${done.length} as zip`;
  $("archive").href = api.archiveAddress(done.map((item) => ({ id: item.id, mix: editor.mixOf(item) })));
}

function restore() {
  let kept = [];
  try { kept = JSON.parse(sessionStorage.getItem(KEY)) ?? []; } catch { /* nothing to restore */ }
  items = kept.map(({ id, name, settings }) =>
    Object.assign(new Item(name, id), { settings: { ...DEFAULTS, ...settings }, changed }));
  $("together").checked = sessionStorage.getItem(TOGETHER) === "true";
  opened = items[0] ?? null;
  show();
}

function listen() {
  $("choose").addEventListener("click", () => $("files").click());
  $("files").addEventListener("change", () => { add($("files").files); $("files").value = ""; });
  $("remove").addEventListener("click", removeOpened);
  $("clear").addEventListener("click", removeFailed);
  $("undo").addEventListener("click", undo);
  addEventListener("pagehide", forgetRemoved);
  $("together").addEventListener("change", changed);
  $("sample").addEventListener("click", async () => {
    try {
      const file = await api.sample();
      add([new File([file], "sample.flac")]);
    } catch (error) {
      complain(error.message);
    }
  });
  for (const kind of ["dragenter", "dragover"]) {
    document.addEventListener(kind, (event) => { event.preventDefault(); $("drop").classList.add("over"); });
  }
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) $("drop").classList.remove("over"); });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    $("drop").classList.remove("over");
    dropped(event.dataTransfer).then(add, (error) => complain(`The folder cannot be read: ${error.message}`));
  });
  let recorder = null;
  $("record").addEventListener("click", async () => {
    try {
      if (recorder) {
        const file = await recorder.stop();
        recorder = null;
        add([file]);
      } else {
        recorder = new Recorder((seconds, level) => {
          $("recording-time").textContent = text.time(seconds);
          $("recording-level").value = level;
        });
        await recorder.start();
        say("Recording");
      }
    } catch (error) {
      recorder = null;
      complain(`The microphone cannot be used: ${error.message}`);
    }
    $("recording").hidden = !recorder;
    $("record").textContent = recorder ? "Stop recording" : "Record";
  });
}

listen();
restore();
try {
  limits = await api.server();
  $("drop-formats").textContent =
    `${limits.common.join(", ")} and more; up to ${limits.max_upload / 1e6} MB and ${limits.max_minutes} minutes`;
  editor.offer(limits.downloads);
  if (!limits.named) {
    $("promise").textContent = "A demo. For private recordings, run alphamf on your own computer.";
    $("kept").textContent = `Files are deleted after ${limits.kept_minutes} minutes, and their names are not kept.`;
  }
} catch (error) {
  complain(error.message);
}
