// A recording of the list: a file on its way to the server, then the state that the server tells.

import * as text from "./text.js";

// What the sliders and menus set; strength in percent, limit in dB, where 61 is none.
export const DEFAULTS = { strength: 100, limit: 61, format: "input", loudness: "input" };

export class Item {
  constructor(name, id = null) {
    this.name = name;
    this.id = id;
    this.state = null;
    this.error = null;
    this.sent = 0;
    this.settings = { ...DEFAULTS };
    this.changed = () => {};
  }

  get done() {
    return this.state?.state === "done";
  }

  get failed() {
    return Boolean(this.error ?? this.state?.error);
  }

  share() {
    return this.state ? this.state.progress : 0;
  }

  sentence() {
    if (this.failed) return this.error ?? this.state.error;
    if (!this.state) return this.sent ? `sending, ${Math.round(100 * this.sent)} %` : "waiting to be sent";
    const { state, previewing, progress, seconds_left: left } = this.state;
    if (state === "done") return "done";
    if (state === "reading") return "reading";
    if (state === "waiting") return previewing ? "denoising the first ten seconds" : "waiting for its turn";
    const parts = [`denoising, ${Math.round(100 * progress)} %`];
    if (left !== null) parts.push(text.left(left));
    return parts.join(", ");
  }

  // What can be heard before the whole is done.
  audible() {
    if (!this.state?.preview || this.done || this.failed) return "";
    const { preview, ready, about } = this.state;
    if (ready > preview.start) return `The first ${text.time(ready / about.rate)} can be heard.`;
    const [start, end] = [preview.start, preview.start + preview.frames].map((place) => text.time(place / about.rate));
    return `${start} to ${end} can be heard.`;
  }
}
