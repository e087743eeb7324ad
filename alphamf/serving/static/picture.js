// Draws what the server sends as columns: lowest and highest sample, then bands from low to high;
// for the level of the speech its lower end, middle and upper end. Bytes are decibels, 120 in 255.

import * as api from "./api.js";
import { time } from "./text.js";

const BANDS = 96;
const RECORD = 2 + BANDS;
const LEVEL = 3;
const RANGE = Math.round((65 / 120) * 255);
const ACTIVE = Math.round((20 / 120) * 255);
const WAVE = 0.26;

const toDecibels = (byte) => (byte / 255 - 1) * 120;
const toByte = (amplitude) => Math.round(255 * (1 + Math.log10(amplitude) / 6));
const AMPLITUDES = Array.from({ length: 256 }, (_, byte) => 10 ** (toDecibels(byte) / 20));

export class Pictures {
  load(id) {
    this.id = id;
    this.bytes = { input: new Uint8Array(), speech: new Uint8Array(), band: new Uint8Array() };
    this.busy = false;
  }

  // Fetch the columns that have come.
  async update() {
    const { id, bytes } = this;
    if (this.busy) return false;
    this.busy = true;
    try {
      for (const [of, record] of [["input", RECORD], ["speech", RECORD], ["band", LEVEL]]) {
        const known = bytes[of].length / record;
        if (of === "input" && known) continue;
        const more = await api.picture(id, of, known);
        const all = new Uint8Array(bytes[of].length + more.length);
        all.set(bytes[of]);
        all.set(more, bytes[of].length);
        bytes[of] = all;
      }
    } finally {
      if (this.id === id) this.busy = false;
    }
    return this.id === id;
  }

  // dry: the part of the input that is left in.
  draw(canvases, share, duration, dry) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const total = this.bytes.input.length / RECORD;
    if (!total) return;
    const top = loudest(this.bytes.input);
    const empty = colour("--ramp-empty");
    this.panel(canvases.before, this.bytes.input, total, top, [empty, colour("--ramp-before")]);
    this.panel(canvases.after, mixed(this.bytes.speech, this.bytes.input, dry), total, top, [empty, colour("--ramp-after")]);
    this.level(canvases.sure, share, top, colour("--accent"));
    ruler(canvases.ruler, duration, colour("--muted"));
  }

  panel(canvas, bytes, total, top, [from, to]) {
    const { context, width, height } = prepared(canvas);
    const count = bytes.length / RECORD;
    if (!count) return;
    const wave = height * WAVE;
    const image = new ImageData(count, BANDS);
    const ramp = shades(from, to);
    for (let x = 0; x < count; x++) {
      for (let b = 0; b < BANDS; b++) {
        const level = Math.max(0, Math.min(1, (bytes[x * RECORD + 2 + b] - top + RANGE) / RANGE));
        image.data.set(ramp[Math.round(level * 255)], 4 * ((BANDS - 1 - b) * count + x));
      }
    }
    const small = new OffscreenCanvas(count, BANDS);
    small.getContext("2d").putImageData(image, 0, 0);
    context.drawImage(small, 0, wave, (width * count) / total, height - wave);
    context.fillStyle = to;
    const peak = Math.max(8, ...everyPeak(this.bytes.input));
    for (let x = 0; x < count; x++) {
      const low = (bytes[x * RECORD] - 128) / peak;
      const high = (bytes[x * RECORD + 1] - 128) / peak;
      const y = (value) => wave * (0.5 - 0.44 * value);
      context.fillRect((width * x) / total, y(high), Math.max(1, width / total), Math.max(1, y(low) - y(high)));
    }
  }

  // The band of the level: narrow where it is sure.
  level(canvas, share, top, accent) {
    const { context, width, height } = prepared(canvas);
    const bytes = this.bytes.band;
    const count = bytes.length / LEVEL;
    if (!count) return;
    const y = (byte) => height * (1 - Math.max(0.02, Math.min(0.98, (byte - top + RANGE - 12) / RANGE)));
    const x = (k) => (width * share * (k + 0.5)) / count;
    context.beginPath();
    for (let k = 0; k < count; k++) context.lineTo(x(k), y(bytes[k * LEVEL + 2]));
    for (let k = count - 1; k >= 0; k--) context.lineTo(x(k), y(bytes[k * LEVEL]));
    context.fillStyle = accent;
    context.globalAlpha = 0.28;
    context.fill();
    context.globalAlpha = 1;
    context.beginPath();
    for (let k = 0; k < count; k++) context.lineTo(x(k), y(bytes[k * LEVEL + 1]));
    context.strokeStyle = accent;
    context.lineWidth = 1.5 * devicePixelRatio;
    context.lineJoin = "round";
    context.stroke();
  }

  // How wide the band is while there is speech, in dB up and down, and where it is widest.
  sureness() {
    const bytes = this.bytes.band;
    const widths = [];
    let highest = 0;
    for (let k = 1; k < bytes.length; k += LEVEL) highest = Math.max(highest, bytes[k]);
    for (let k = 0; k < bytes.length; k += LEVEL) {
      if (bytes[k + 1] < highest - ACTIVE) continue;
      widths.push({ half: (toDecibels(bytes[k + 2]) - toDecibels(bytes[k])) / 2, share: (k / LEVEL + 0.5) / (bytes.length / LEVEL) });
    }
    if (!widths.length) return null;
    const sorted = [...widths].sort((one, other) => one.half - other.half);
    return { usual: sorted[sorted.length >> 1].half, worst: sorted.at(-1) };
  }
}

// The columns of speech with a part of the input; amplitudes add, as gains shift no phase.
export function mixed(speech, input, dry) {
  if (!dry) return speech;
  return speech.map((byte, k) => {
    if (k % RECORD < 2) return Math.round(byte + dry * (input[k] - byte));
    return toByte((1 - dry) * AMPLITUDES[byte] + dry * AMPLITUDES[input[k]]);
  });
}

function prepared(canvas) {
  const box = canvas.getBoundingClientRect();
  canvas.width = Math.round(box.width * devicePixelRatio);
  canvas.height = Math.round(box.height * devicePixelRatio);
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  return { context, width: canvas.width, height: canvas.height };
}

// Times under the pictures, no closer than a finger.
function ruler(canvas, duration, muted) {
  const { context, width, height } = prepared(canvas);
  const room = (duration * 72 * devicePixelRatio) / width;
  const step = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600].find((each) => each >= room) ?? 3600;
  context.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
  context.fillStyle = muted;
  context.textBaseline = "bottom";
  for (let second = 0; second < duration; second += step) {
    const label = time(second);
    const x = (width * second) / duration;
    const size = context.measureText(label).width;
    if (x + size < width) context.fillText(label, second ? x - size / 2 : x, height);
  }
}

function loudest(bytes) {
  let found = 0;
  for (let k = 0; k < bytes.length; k++) if (k % RECORD > 1) found = Math.max(found, bytes[k]);
  return found;
}

function* everyPeak(bytes) {
  for (let k = 0; k < bytes.length; k += RECORD) yield Math.max(128 - bytes[k], bytes[k + 1] - 128);
}

function shades(from, to) {
  const parse = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
  const [a, b] = [parse(from), parse(to)];
  return Array.from({ length: 256 }, (_, k) => {
    const part = (k / 255) ** 1.2;
    return [...a.map((value, c) => Math.round(value + (b[c] - value) * part)), 255];
  });
}
