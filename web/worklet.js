// Denoises live sound in blocks of 128 samples. Nothing is allocated after the constructor.

import { Engine } from "./engine.js";

class AlphamfProcessor extends AudioWorkletProcessor {
  constructor({ processorOptions }) {
    super();
    const { module, weights, channels, strength, maxAttenuation } = processorOptions;
    this.bypassed = false;
    this.strength = strength;
    this.maxAttenuation = maxAttenuation;
    try {
      this.engine = new Engine(module, weights, { rate: Math.round(sampleRate), channels, strength, maxAttenuation });
      this.port.postMessage({ latency: this.engine.latency });
    } catch (error) {
      this.port.postMessage({ error: error.message });
    }
    this.port.onmessage = ({ data }) => this.set(data);
  }

  // A bypass leaves the sound as it is and as late as before, so that nothing jumps.
  set({ strength, maxAttenuation, bypassed, closed }) {
    this.strength = strength ?? this.strength;
    if (maxAttenuation !== undefined) this.maxAttenuation = maxAttenuation;
    this.bypassed = bypassed ?? this.bypassed;
    this.closed = closed ?? this.closed;
    this.engine?.control(this.bypassed ? 0 : this.strength, this.maxAttenuation);
  }

  process([input], [output]) {
    const { engine } = this;
    if (!engine || this.closed) return false;
    const count = output[0].length;
    for (let c = 0; c < output.length; c++) {
      const view = engine.views[c];
      const source = input[c] ?? input[0];
      if (source) for (let k = 0; k < count; k++) view[k] = source[k];
      else for (let k = 0; k < count; k++) view[k] = 0;
    }
    engine.run(count);
    for (let c = 0; c < output.length; c++) {
      const view = engine.views[c];
      const sound = output[c];
      for (let k = 0; k < count; k++) sound[k] = view[k];
    }
    return true;
  }
}

registerProcessor("alphamf", AlphamfProcessor);
