// A recording of the list: a file on its way to the server, then the state that the server tells.

import * as text from "./text.js";

// What the sliders and menus set; strength and echo in percent, limit in dB, where 61 is none.
export const DEFAULTS = { strength: 100, echo: 0, limit: 61, format: "input", loudness: "input" };

export class Item {
  constructor(name, id = null) {
    this.name = name;
    this.id = id;
    this.state = null;
    this.error = null;
    this.sent = 0;
    this.settings = { ...DEFAULTS };
    this.refused = undefined; // whether removing the echo was wanted when the server refused
    this.changed = () => {};
  }

  get done() {
    return this.state?.state === "done";
  }

  get failed() {
    return Boolean(this.error ?? this.state?.error);
  }

  // Whether the echo is to be removed, and the server has not done it yet.
  get echoing() {
    const { echo } = this.state ?? {};
    return this.done && this.settings.echo > 0 && !echo?.done && !echo?.error && !this.refused;
  }

  get finished() {
    return this.done && !this.echoing;
  }

  // The part of the echo that is removed from what is heard and downloaded.
  get echo() {
    return this.state?.echo?.done ? this.settings.echo / 100 : 0;
  }

  share() {
    if (this.echoing) return this.state.echo?.progress ?? 0;
    return this.state ? this.state.progress : 0;
  }

  sentence() {
    if (this.failed) return this.error ?? this.state.error;
    if (!this.state) return this.sent ? `sending, ${Math.round(100 * this.sent)} %` : "waiting to be sent";
    const { state, previewing, progress, seconds_left: left } = this.state;
    if (this.echoing) return `removing the echo, ${Math.round(100 * this.share())} %`;
    if (state === "done") return "done";
    if (state === "reading") return "reading";
    if (state === "waiting") return previewing ? "denoising the first ten seconds" : "waiting to begin";
    const parts = [`denoising, ${Math.round(100 * progress)} %`];
    if (left !== null) parts.push(text.left(left));
    return parts.join(", ");
  }

  // What can be heard before the whole is done.
  audible() {
    if (this.echoing) return "Until then you hear it with its echo.";
    if (!this.state?.preview || this.done || this.failed) return "";
    const { preview, ready, about } = this.state;
    if (ready > preview.start) return `The first ${text.time(ready / about.rate)} can be heard.`;
    const [start, end] = [preview.start, preview.start + preview.frames].map((place) => text.time(place / about.rate));
    return `${start} to ${end} can be heard.`;
  }
}
