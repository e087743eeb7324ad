// Plays a recording in pieces of two seconds: input, speech and, where it is wanted, the speech
// without echo run side by side, and a gain for each mixes them. So before, after and what was taken away change without a gap, and long recordings need
// little memory.

import * as api from "./api.js";

export const PIECE = 2;
const AHEAD = 1.2;
const KEPT = 60;
const FADE = 0.006;

export const SOUNDS = ["input", "speech", "echoFree"];

export function gains(mode, dry, echo) {
  if (mode === "before") return { input: 1, speech: 0, echoFree: 0 };
  const wet = 1 - dry;
  if (mode === "removed") return { input: wet, speech: -wet * (1 - echo), echoFree: -wet * echo };
  return { input: dry, speech: wet * (1 - echo), echoFree: wet * echo };
}

export class Player {
  constructor(changed, waiting) {
    this.changed = changed;
    this.waiting = waiting;
    this.mode = "after";
    this.dry = 0;
    this.echo = 0;
    this.loop = null;
    this.playing = false;
  }

  // about: rate, channels and frames of the recording.
  load(id, about) {
    this.pause();
    this.context?.close();
    this.context = null;
    this.id = id;
    this.about = about;
    this.position = 0;
    this.pieces = new Map();
    this.ready = 0;
    this.echoReady = false;
  }

  // The server has removed the echo: fetch what is to come with it.
  async offerEcho() {
    this.echoReady = true;
    if (this.playing) await this.seek(this.place());
  }

  open() {
    const { rate } = this.about;
    try { this.context = new AudioContext({ sampleRate: rate }); } catch { this.context = new AudioContext(); }
    this.out = new GainNode(this.context);
    this.out.connect(this.context.destination);
    const wanted = gains(this.mode, this.dry, this.echo);
    for (const name of SOUNDS) {
      this[name] = new GainNode(this.context, { gain: wanted[name] });
      this[name].connect(this.out);
    }
  }

  mix(mode, dry, echo) {
    this.mode = mode;
    this.dry = dry;
    this.echo = echo;
    if (!this.context) return;
    const wanted = gains(mode, dry, echo);
    const now = this.context.currentTime;
    for (const name of SOUNDS) this[name].gain.setTargetAtTime(wanted[name], now, FADE);
  }

  // Samples of the recording at the place that is heard now.
  place() {
    if (!this.playing) return this.position;
    const now = this.context.currentTime;
    const heard = this.plan.findLast((part) => part.time <= now) ?? this.plan[0];
    if (!heard) return this.position;
    const gone = Math.max(0, Math.round((now - heard.time) * this.about.rate));
    return heard.start + Math.min(gone, heard.count);
  }

  async play() {
    if (this.playing || !this.about) return;
    if (!this.context) this.open();
    const end = this.loop ? this.loop[1] : this.about.frames;
    if (this.position >= end) this.position = this.loop ? this.loop[0] : 0;
    this.plan = [];
    this.sources = [];
    this.next = this.position;
    this.at = null;
    this.playing = true;
    this.changed();
    const run = (this.run = Symbol("run"));
    await this.context.resume();
    this.out.gain.setTargetAtTime(1, this.context.currentTime, FADE);
    while (this.run === run) {
      const now = this.context.currentTime;
      if (this.at !== null && this.at - now > AHEAD) {
        await new Promise((wake) => setTimeout(wake, 100));
      } else if (!(await this.schedule(run))) {
        await this.drain(run);
        return;
      }
    }
  }

  // Schedule the next piece; false at the end, or where there is no speech yet.
  async schedule(run) {
    const { rate, frames } = this.about;
    let end = frames;
    if (this.loop) {
      if (this.next >= this.loop[1] || this.next < this.loop[0]) this.next = this.loop[0];
      end = this.loop[1];
    }
    if (this.next >= end) return false;
    const index = Math.floor(this.next / (PIECE * rate));
    const piece = await this.piece(index);
    if (this.run !== run) return true;
    if (!piece.speech && this.mode !== "before") {
      this.starved = true;
      return false;
    }
    const offset = this.next - index * PIECE * rate;
    const count = Math.min(piece.input.length - offset, end - this.next);
    const soonest = Math.ceil((this.context.currentTime + 0.03) * rate) / rate;
    if (this.at === null || this.at < soonest) this.at = soonest;
    for (const name of SOUNDS) {
      const buffer = piece[name];
      if (!buffer) continue;
      const source = new AudioBufferSourceNode(this.context, { buffer });
      source.connect(this[name]);
      source.start(this.at, offset / rate, count / rate);
      this.sources.push(source);
    }
    this.plan.push({ time: this.at, start: this.next, count });
    this.plan = this.plan.slice(-8);
    this.sources = this.sources.slice(-24);
    this.next += count;
    this.at += count / rate;
    return true;
  }

  async drain(run) {
    const starved = this.starved;
    this.starved = false;
    const wait = Math.max(0, (this.at ?? 0) - this.context.currentTime);
    await new Promise((wake) => setTimeout(wake, wait * 1000));
    if (this.run !== run) return;
    this.position = this.next;
    this.pause(false);
    if (starved) this.waiting();
  }

  pause(keep = true) {
    if (!this.playing) return;
    if (keep) this.position = this.place();
    this.playing = false;
    this.run = null;
    const now = this.context.currentTime;
    this.out.gain.setTargetAtTime(0, now, FADE);
    for (const source of this.sources) source.stop(now + 5 * FADE);
    this.changed();
  }

  async seek(place) {
    const was = this.playing;
    this.pause();
    this.position = Math.max(0, Math.min(this.about.frames, Math.round(place)));
    this.changed();
    if (was) await this.play();
  }

  // Pieces without the final speech, or without the one without echo, are asked for again once it
  // is there.
  async piece(index) {
    const { rate, frames } = this.about;
    const start = index * PIECE * rate;
    const count = Math.min(PIECE * rate, frames - start);
    const known = this.pieces.get(index);
    const echo = Number(this.echoReady);
    if (known && known.echo === echo && (known.kind === "whole" || this.ready < start + count)) {
      if (known.kind !== "none") return known;
    }
    const { speech, data } = await api.sound(this.id, start, count, echo);
    const size = this.about.channels * count;
    const part = (k) => (data.length > k * size ? this.buffer(data.subarray(k * size, (k + 1) * size), count) : null);
    const found = { kind: speech, echo, input: part(0), speech: part(1), echoFree: part(2) };
    this.pieces.set(index, found);
    if (this.pieces.size > KEPT) this.pieces.delete(this.pieces.keys().next().value);
    return found;
  }

  buffer(data, count) {
    const { rate, channels } = this.about;
    // The browser knows how to play these; of others it would drop channels.
    const known = [1, 2, 4, 6].includes(channels);
    const buffer = new AudioBuffer({ length: count, numberOfChannels: known ? channels : 1, sampleRate: rate });
    if (known) {
      for (let c = 0; c < channels; c++) buffer.copyToChannel(data.subarray(c * count, (c + 1) * count), c);
      return buffer;
    }
    const mean = buffer.getChannelData(0);
    for (let k = 0; k < data.length; k++) mean[k % count] += data[k] / channels;
    return buffer;
  }
}
