// alphamf in the browser: removes noise from speech, recorded or live. Nothing leaves the machine.
//
//   const alphamf = await Alphamf.load();
//   const clean = await alphamf.denoise(samples, 48000);          // Float32Array in, Float32Array out
//   const node = await alphamf.node(audioContext);                // source.connect(node).connect(...)

/** Sounds of this rate and more use the weights for 16 kHz; lower ones those for 8 kHz. */
export const WIDE_RATE = 16000;

const FILES = { wide: "alphamf-16k.weights", narrow: "alphamf-8k.weights" };

export class Alphamf {
  /** Load the engine; weights are loaded when a sound first needs them. */
  static async load({ base = new URL(".", import.meta.url) } = {}) {
    const made = new Alphamf();
    made.base = new URL(base, globalThis.location?.href ?? import.meta.url);
    made.module = await WebAssembly.compile(await fetchBytes(new URL("alphamf.wasm", made.base)));
    made.weights = {};
    made.tasks = new Map();
    made.contexts = new WeakMap();
    return made;
  }

  /** Load the weights for a rate, once. */
  async prepare(rate) {
    const name = rate >= WIDE_RATE ? "wide" : "narrow";
    this.weights[name] ??= fetchBytes(new URL(FILES[name], this.base));
    try { await this.weights[name]; } catch (error) { delete this.weights[name]; throw error; }
    return name;
  }

  /**
   * Denoise a recording in a worker: samples of one channel, or an array of channels of one length.
   * `progress` is called with the number of samples that are done and the channels so far.
   */
  async denoise(samples, rate, { strength = 1, maxAttenuation = null, progress = () => {} } = {}) {
    const several = Array.isArray(samples);
    const channels = several ? samples : [samples];
    const right = channels.length && channels.every((each) => each instanceof Float32Array && each.length === channels[0].length);
    if (!right) throw new Error("alphamf: samples must be a Float32Array, or an array of them of one length");
    const weights = await this.prepare(rate);
    this.worker ??= this.startWorker();
    if (!this.sent?.has(weights)) {
      const known = Object.fromEntries(await Promise.all(Object.entries(this.weights).map(async ([name, file]) => [name, await file])));
      this.worker.postMessage({ module: this.module, weights: known });
      this.sent = new Set(Object.keys(known));
    }
    const id = (this.count = (this.count ?? 0) + 1);
    const made = channels.map(({ length }) => new Float32Array(length));
    await new Promise((resolve, reject) => {
      this.tasks.set(id, { made, resolve, reject, progress });
      this.worker.postMessage({ id, channels, rate, options: { strength, maxAttenuation, weights } });
    });
    return several ? made : made[0];
  }

  /** Make a node of live sound for an AudioContext; `node.latency` is in seconds. */
  async node(context, { channels = 1, strength = 1, maxAttenuation = null } = {}) {
    const weights = await this.weights[await this.prepare(context.sampleRate)];
    if (!this.contexts.has(context)) {
      this.contexts.set(context, context.audioWorklet.addModule(new URL("worklet.js", import.meta.url)));
    }
    await this.contexts.get(context);
    const node = new AudioWorkletNode(context, "alphamf", {
      numberOfInputs: 1,
      numberOfOutputs: 1,
      outputChannelCount: [channels],
      channelCount: channels,
      channelCountMode: "explicit",
      processorOptions: { module: this.module, weights, channels, strength, maxAttenuation },
    });
    const told = await new Promise((resolve) => { node.port.onmessage = ({ data }) => resolve(data); });
    if (told.error) throw new Error(told.error);
    node.latency = told.latency / context.sampleRate;
    node.set = (controls) => node.port.postMessage(controls);
    return node;
  }

  /** End the worker; recordings that are being denoised fail. */
  close() {
    this.worker?.terminate();
    this.fail("alphamf was closed");
    this.worker = this.sent = undefined;
  }

  startWorker() {
    const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }) => {
      const task = this.tasks.get(data.id);
      if (data.parts) {
        data.parts.forEach((part, c) => task.made[c].set(part, data.at));
        task.progress(data.at + data.parts[0].length, task.made);
        return;
      }
      this.tasks.delete(data.id);
      if (data.error) task.reject(new Error(data.error));
      else task.resolve();
    };
    worker.onerror = (event) => this.fail(event.message ?? "the worker could not be started");
    return worker;
  }

  fail(reason) {
    for (const { reject } of this.tasks.values()) reject(new Error(`alphamf: ${reason}`));
    this.tasks.clear();
  }
}

async function fetchBytes(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`alphamf: ${address} cannot be loaded (${response.status})`);
  return response.arrayBuffer();
}
