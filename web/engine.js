// The engine in WebAssembly, as alphamf/native/alphamf.h describes it. Used by the worker and by the
// audio worklet, which both get the compiled module and the weights from alphamf.js.

/** Samples per channel that go through the engine's memory at a time. */
export const BLOCK = 16384;

export class Engine {
  constructor(module, weights, { rate, channels = 1, strength = 1, maxAttenuation = null }) {
    check({ rate, channels });
    const { exports } = new WebAssembly.Instance(module);
    exports._initialize();
    const room = exports.malloc(weights.byteLength);
    const pointers = exports.malloc(4 * channels);
    const block = exports.malloc(4 * BLOCK * channels);
    if (!room || !pointers || !block) throw new Error("alphamf: there is not enough memory");
    new Uint8Array(exports.memory.buffer, room).set(new Uint8Array(weights));
    this.engine = exports.alphamf_create(room, weights.byteLength, rate, channels, 1);
    if (!this.engine) throw new Error("alphamf: the weights are not those of this engine, or are incomplete");
    // Nothing allocates after this, so the memory does not grow and these views stay.
    const { buffer } = exports.memory;
    new Uint32Array(buffer, pointers, channels).set(Array.from({ length: channels }, (_, c) => block + 4 * BLOCK * c));
    this.views = Array.from({ length: channels }, (_, c) => new Float32Array(buffer, block + 4 * BLOCK * c, BLOCK));
    this.pointers = pointers;
    this.exports = exports;
    this.latency = exports.alphamf_latency(this.engine);
    this.control(strength, maxAttenuation);
  }

  // strength: 0 to 1; maxAttenuation: in dB, null for no limit.
  control(strength, maxAttenuation = null) {
    if (!(strength >= 0 && strength <= 1)) throw new Error(`alphamf: strength is ${strength}; it must be from 0 to 1`);
    if (maxAttenuation !== null && !(maxAttenuation >= 0)) {
      throw new Error(`alphamf: maxAttenuation is ${maxAttenuation}; it must be 0 dB or more`);
    }
    this.exports.alphamf_control(this.engine, strength, maxAttenuation === null ? 0 : 10 ** (-maxAttenuation / 20));
  }

  // Denoise up to BLOCK samples of `views` in place.
  run(count) {
    this.exports.alphamf_process(this.engine, this.pointers, this.pointers, count);
  }

  reset() {
    this.exports.alphamf_reset(this.engine);
  }
}

function check({ rate, channels }) {
  if (!(Number.isInteger(rate) && rate >= 1000 && rate <= 768000)) {
    throw new Error(`alphamf: the rate is ${rate}; it must be a whole number from 1000 to 768000 Hz`);
  }
  if (!(Number.isInteger(channels) && channels >= 1 && channels <= 64)) {
    throw new Error(`alphamf: there are ${channels} channels; there must be from 1 to 64`);
  }
}

// Denoise whole channels, block by block: yields the place of each and its samples. Together they have
// the input's length and no delay.
export function* denoiseBlocks(engine, channels) {
  const length = channels[0].length;
  const total = length + engine.latency;
  for (let at = 0; at < total; at += BLOCK) {
    const count = Math.min(BLOCK, total - at);
    channels.forEach((channel, c) => {
      engine.views[c].fill(0);
      engine.views[c].set(channel.subarray(at, Math.min(length, at + count)));
    });
    engine.run(count);
    const skip = Math.min(count, Math.max(0, engine.latency - at));
    if (skip < count) yield { at: at + skip - engine.latency, parts: channels.map((_, c) => engine.views[c].slice(skip, count)) };
  }
}
