// One recording: its pictures, the player, the mix and the download.

import * as api from "./api.js";
import { PIECE, Player } from "./player.js";
import { Pictures } from "./picture.js";
import * as text from "./text.js";

const STEP = 2;
export const NO_LIMIT = 61;
// Strength in percent, as of the preset transcription.
const TRANSCRIPTION = 70;

const $ = (id) => document.getElementById(id);

// What the space bar works where it was reached by Tab. After a click, the space bar plays.
const WORKED_BY_SPACE = "button, summary, input[type=checkbox], select";

export class Editor {
  constructor(say, complain) {
    this.say = say;
    this.complain = complain;
    this.written = null; // the address of a download that the server has just written
    this.item = null;
    this.tabbed = false;
    this.downloads = [];
    this.pictures = new Pictures();
    this.player = new Player(() => this.showPlace(), () => this.starved());
    this.listen();
    new ResizeObserver(() => this.draw()).observe($("timeline"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    const tick = () => { if (this.player.playing) this.showPlace(); requestAnimationFrame(tick); };
    requestAnimationFrame(tick);
  }

  // The part of the input that is left in: the larger of what strength and limit ask for.
  static dry({ settings: { strength, limit } }) {
    const left = 1 - strength / 100;
    const least = limit >= NO_LIMIT ? 0 : 10 ** (-limit / 20);
    return Math.round(Math.max(left, least) * 1e4) / 1e4;
  }

  // What a download of a recording is to be.
  mixOf(item) {
    const { format, loudness } = item.settings;
    return { dry: Editor.dry(item), format, loudness, echo: item.echo };
  }

  // The endings that this server can write.
  offer(downloads) {
    this.downloads = downloads;
    if (this.item) this.showFormats();
  }

  // The input's format first; the others without it.
  showFormats() {
    const own = this.item.state?.output?.split(".").at(-1);
    const others = this.downloads.filter((kind) => kind !== own);
    $("format").replaceChildren(
      new Option(own ? `${own.toUpperCase()} (same)` : "same", "input"),
      ...others.map((kind) => new Option(kind.toUpperCase(), kind)),
    );
    const { format } = this.item.settings;
    $("format").value = others.includes(format) ? format : "input";
  }

  open(item) {
    if (this.item !== item) {
      this.player.pause();
      this.item = item;
      this.loaded = false;
      this.drawn = -1;
      this.drawnDry = null;
    }
    for (const name of ["strength", "echo", "limit", "loudness"]) $(name).value = item.settings[name];
    $("editor").hidden = false;
    this.update();
  }

  close() {
    this.player.pause();
    this.item = null;
    $("editor").hidden = true;
  }

  update() {
    const { item } = this;
    const state = item.state;
    $("title").textContent = item.name;
    $("facts").textContent = state?.about ? text.facts(state.about) : "";
    const failure = item.error ?? state?.error;
    $("failure").hidden = !failure;
    $("failure").textContent = failure ?? "";
    const busy = !failure && !item.done;
    $("progress").hidden = !busy && !item.echoing;
    $("echo-stop").hidden = !item.echoing;
    $("remove").textContent = busy ? "Cancel" : "Remove";
    if (busy || item.echoing) {
      $("bar").value = item.share();
      const sentence = item.sentence();
      $("progress-text").textContent = `${sentence[0].toUpperCase()}${sentence.slice(1)}. ${item.audible()}`;
    }
    const heard = !failure && Boolean(state?.about);
    $("sound").hidden = !heard;
    if (!heard) return;
    if (!this.loaded) this.load();
    this.player.ready = state.ready;
    if (state.echo?.done && !this.player.echoReady) {
      this.player.offerEcho().catch((error) => this.complain(error.message));
    }
    this.showMix();
    $("download").hidden = !item.finished;
    this.showAhead();
    const mark = `${state.ready} ${state.preview?.start}`;
    if (mark !== this.drawn) {
      this.drawn = mark;
      this.fetchPictures();
    }
  }

  load() {
    this.loaded = true;
    const { about } = this.item.state;
    this.player.load(this.item.id, about);
    this.player.mode = document.querySelector("[name=mode]:checked").value;
    this.pictures.load(this.item.id);
    $("sureness").textContent = "";
    $("timeline").setAttribute("aria-valuemax", Math.floor(about.duration));
    this.showFormats();
    this.setLoop(null);
    this.showPlace();
  }

  async fetchPictures() {
    const item = this.item;
    if (await this.pictures.update()) this.draw();
    else if (item === this.item) { this.drawn = -1; return; }
    const found = item === this.item && item.state.state === "done" && this.pictures.sureness();
    if (found) {
      const worst = text.time(found.worst.share * item.state.about.duration);
      $("sureness").textContent =
        `While there is speech, its level is known to within ±${text.decibels(found.usual)} half of the time; ` +
        `least sure near ${worst}.`;
    }
  }

  draw() {
    if (!this.item?.state?.about || $("sound").hidden) return;
    const { ready, about } = this.item.state;
    const canvases = { before: $("before"), after: $("after"), sure: $("sure"), ruler: $("ruler") };
    this.drawnDry = Editor.dry(this.item);
    this.pictures.draw(canvases, ready / about.frames, about.duration, this.drawnDry);
  }

  showResult() {
    const { id, state } = this.item;
    const mix = this.mixOf(this.item);
    const own = state.output.split(".").at(-1);
    const ending = mix.format === "input" ? own : mix.format;
    $("result").href = api.resultAddress(id, mix);
    $("result").textContent = `Download ${ending.toUpperCase()}`;
    $("result").setAttribute("aria-label", `${$("result").textContent}: ${state.output.slice(0, -own.length)}${ending}`);
    const { clipped, note } = state.result;
    $("note").textContent = [note, clipped ? `${clipped} samples beyond full scale were clipped` : ""]
      .filter(Boolean).join("; ");
  }

  // The server writes some downloads first: once, however often one clicks, while a bar moves.
  async download(event) {
    const { href } = $("result");
    if (this.written === href) {
      this.written = null; // a click of this function, which the browser follows
      return;
    }
    event.preventDefault();
    if (!$("writing").hidden) return;
    $("writing").hidden = false;
    try {
      await api.prepare(href);
      if ($("result").href === href) {
        this.written = href;
        $("result").click();
      }
    } catch (error) {
      this.complain(error.message);
    }
    $("writing").hidden = true;
  }

  // Offer to denoise what lies at the cursor before the rest.
  showAhead() {
    const { state } = this.item;
    const busy = ["waiting", "denoising"].includes(state.state) && !state.previewing;
    $("ahead").hidden = !busy || this.heardAt(this.player.place());
  }

  heardAt(place) {
    const { ready, preview, about } = this.item.state;
    const end = Math.min(place + PIECE * about.rate, about.frames);
    return end <= ready || (preview && place >= preview.start && end <= preview.start + preview.frames);
  }

  // Take the settings from the controls.
  set() {
    this.item.settings = {
      strength: Number($("strength").value),
      echo: Number($("echo").value),
      limit: Number($("limit").value),
      format: $("format").value,
      loudness: $("loudness").value,
    };
    this.mix();
  }

  mix() {
    this.update();
    this.item.changed();
  }

  // Play and show the recording by its settings.
  showMix() {
    const { item } = this;
    const { strength, echo } = item.settings;
    const dry = Editor.dry(item);
    this.player.mix(document.querySelector("[name=mode]:checked").value, dry, item.echo);
    const limit = item.settings.limit >= NO_LIMIT ? "no limit" : `${item.settings.limit} dB`;
    $("strength-text").textContent = `${strength} %`;
    $("limit-text").textContent = limit;
    $("strength").setAttribute("aria-valuetext", `${strength} percent`);
    $("limit").setAttribute("aria-valuetext", limit);
    const kept = echo && item.finished && !item.echo;
    const fault = kept && item.state.echo?.error;
    const removed = item.echo ? "removed" : "to remove";
    $("echo-text").textContent = kept ? "not removed" : echo ? `${echo} % ${removed}` : "as it is";
    $("echo").setAttribute("aria-valuetext", $("echo-text").textContent);
    $("effect").textContent = fault ? `The echo could not be removed: ${fault}.` : Editor.effect(dry, item.echo);
    if (item.done) this.showResult();
    if (dry !== this.drawnDry) this.draw();
  }

  // What dry and echo do, in words.
  static effect(dry, echo) {
    const room = echo ? ` --dereverb ${echo}` : "";
    const as = echo && echo < 1 ? "nearly as by" : "as by"; // a part of the echo is another mix there
    if (dry === 1) return "Nothing is removed.";
    if (dry === 0) return `All noise that is found is removed${room && `, ${as} alphamf denoise${room}`}.`;
    return `The noise is lowered by ${text.decibels(-20 * Math.log10(dry))}, ${as} alphamf denoise --strength ${+(1 - dry).toFixed(4)}${room}.`;
  }

  setLoop(loop) {
    this.player.loop = loop;
    $("loop").setAttribute("aria-pressed", String(Boolean(loop)));
    $("selection").hidden = !loop;
    $("loop").textContent = "Loop";
    if (!loop) return;
    const { frames, rate } = this.item.state.about;
    $("loop").textContent = `Loop ${text.time(loop[0] / rate, 1)} to ${text.time(loop[1] / rate, 1)}`;
    $("selection").style.left = `${(100 * loop[0]) / frames}%`;
    $("selection").style.width = `${(100 * (loop[1] - loop[0])) / frames}%`;
  }

  // Set one end of the loop here; the other stays, or is the end of the recording.
  loopAt(end) {
    const { frames, rate } = this.item.state.about;
    const place = this.player.place();
    const loop = [...(this.player.loop ?? [0, frames])];
    loop[end] = place;
    if (loop[1] - loop[0] < rate / 10) loop[1 - end] = end ? 0 : frames;
    if (loop[1] - loop[0] < rate / 10) return;
    this.setLoop(loop);
    this.sayLoop();
  }

  toggleLoop() {
    const { frames } = this.item.state.about;
    this.setLoop(this.player.loop ? null : [0, frames]);
    this.sayLoop();
  }

  sayLoop() {
    const { rate } = this.item.state.about;
    const loop = this.player.loop;
    this.say(loop ? `Loop from ${text.spoken(loop[0] / rate)} to ${text.spoken(loop[1] / rate)}` : "No loop");
  }

  showPlace() {
    const { player } = this;
    $("play").classList.toggle("playing", player.playing);
    $("play").setAttribute("aria-label", player.playing ? "Pause" : "Play");
    if (!this.item?.state?.about) return;
    const { rate, frames, duration } = this.item.state.about;
    const place = player.place();
    $("cursor").style.left = `${(100 * place) / frames}%`;
    $("clock").textContent = `${text.time(place / rate, 1)} / ${text.time(duration)}`;
    const second = Math.floor(place / rate);
    if (second !== this.second) {
      this.second = second;
      $("timeline").setAttribute("aria-valuenow", second);
      $("timeline").setAttribute("aria-valuetext", `${text.spoken(second)} of ${text.spoken(duration)}`);
      this.showAhead();
    }
  }

  starved() {
    this.complain("This part is not denoised yet");
    this.showAhead();
  }

  async toggle() {
    try {
      if (this.player.playing) this.player.pause();
      else await this.player.play();
    } catch (error) {
      this.player.pause();
      this.complain(error.message);
    }
  }

  choose(mode) {
    const input = document.querySelector(`[name=mode][value=${mode}]`);
    input.checked = true;
    this.mix();
    this.say(input.nextElementSibling.textContent);
  }

  forTranscription() {
    $("strength").value = TRANSCRIPTION;
    $("limit").value = NO_LIMIT;
    this.set();
  }

  listen() {
    $("play").addEventListener("click", () => this.toggle());
    $("result").addEventListener("click", (event) => this.download(event));
    $("mode").addEventListener("change", () => this.mix());
    for (const name of ["strength", "echo", "limit", "format", "loudness"]) {
      $(name).addEventListener("input", () => this.set());
    }
    $("transcription").addEventListener("click", () => this.forTranscription());
    $("echo-stop").addEventListener("click", () => { $("echo").value = 0; this.set(); $("echo").focus(); });
    $("loop").addEventListener("click", () => this.toggleLoop());
    $("loop-start").addEventListener("click", () => this.loopAt(0));
    $("loop-end").addEventListener("click", () => this.loopAt(1));
    $("ahead").addEventListener("click", async () => {
      const { rate } = this.item.state.about;
      const second = Math.floor(this.player.place() / rate / PIECE) * PIECE;
      $("ahead").hidden = true;
      try { await api.preview(this.item.id, second); } catch (error) { this.complain(error.message); }
    });
    document.addEventListener("pointerdown", () => { this.tabbed = false; });
    document.addEventListener("keydown", (event) => this.key(event));
    $("timeline").addEventListener("keydown", (event) => this.arrow(event));
    $("timeline").addEventListener("pointerdown", (event) => this.drag(event));
  }

  key(event) {
    if (event.key === "Tab") this.tabbed = true;
    if (event.ctrlKey || event.altKey || event.metaKey || !this.item || !this.loaded) return;
    const keys = {
      " ": () => this.toggle(),
      a: () => this.choose("before"),
      b: () => this.choose("after"),
      r: () => this.choose("removed"),
      l: () => this.toggleLoop(),
      "[": () => this.loopAt(0),
      "]": () => this.loopAt(1),
    };
    const action = keys[event.key.toLowerCase()];
    if (!action || (event.key === " " ? this.tabbed && event.target.matches(WORKED_BY_SPACE) : event.target.matches("select"))) return;
    event.preventDefault();
    action();
  }

  arrow(event) {
    const { rate, frames } = this.item.state.about;
    const place = this.player.place();
    const places = {
      ArrowLeft: place - STEP * rate, ArrowDown: place - STEP * rate,
      ArrowRight: place + STEP * rate, ArrowUp: place + STEP * rate,
      PageDown: place - 10 * rate, PageUp: place + 10 * rate, Home: 0, End: frames,
    };
    if (!(event.key in places)) return;
    event.preventDefault();
    this.player.seek(places[event.key]);
  }

  // A click goes there; a drag selects what is looped.
  drag(event) {
    if (event.button) return;
    const { frames, rate } = this.item.state.about;
    const box = $("timeline").getBoundingClientRect();
    const at = ({ clientX }) => Math.round(Math.max(0, Math.min(1, (clientX - box.left) / box.width)) * frames);
    const first = at(event);
    let far = false;
    const move = (later) => {
      far ||= Math.abs(later.clientX - event.clientX) > 6;
      const ends = [first, at(later)].sort((one, other) => one - other);
      if (far && ends[1] - ends[0] > rate / 20) this.setLoop(ends);
    };
    const end = (later) => {
      $("timeline").removeEventListener("pointermove", move);
      if (later.type === "pointercancel") return;
      if (far) this.sayLoop();
      this.player.seek(far && this.player.loop ? this.player.loop[0] : first);
    };
    $("timeline").setPointerCapture(event.pointerId);
    $("timeline").addEventListener("pointermove", move);
    $("timeline").addEventListener("pointerup", end, { once: true });
    $("timeline").addEventListener("pointercancel", end, { once: true });
  }
}
