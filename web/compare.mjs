// Milliseconds of one core per 10 ms of sound, beside RNNoise, in turn and five times; the least of each:
// node compare.mjs OUT/npm SOUND.wav, with 48 kHz, mono, 16 bits, after npm install @shiguredo/rnnoise-wasm.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

globalThis.window = globalThis; // RNNoise's package wants a browser
const { Rnnoise } = await import("@shiguredo/rnnoise-wasm");
const [folder, sound] = process.argv.slice(2);
const { Engine, denoiseBlocks } = await import(pathToFileURL(resolve(folder, "engine.js")));
const exact = (file) => { const b = readFileSync(file); return b.buffer.slice(b.byteOffset, b.byteOffset + b.byteLength); };
const samples = Float32Array.from(new Int16Array(exact(sound).slice(44)), (each) => each / 32768);
const module = new WebAssembly.Module(readFileSync(resolve(folder, "alphamf.wasm")));
const weights = exact(resolve(folder, "alphamf-16k.weights"));
const rnnoise = await Rnnoise.load();

function runAlphamf() {
  const engine = new Engine(module, weights, { rate: 48000 });
  return () => { for (const block of denoiseBlocks(engine, [samples])) void block; };
}

function runRnnoise() {
  const state = rnnoise.createDenoiseState();
  const size = rnnoise.frameSize;
  return () => {
    for (let at = 0; at + size <= samples.length; at += size) state.processFrame(samples.slice(at, at + size));
  };
}

const makers = { alphamf: runAlphamf, RNNoise: runRnnoise };
const least = {};
for (let round = 0; round < 5; round++) {
  for (const [name, make] of Object.entries(makers)) {
    const run = make();
    const before = process.cpuUsage();
    run();
    const { user, system } = process.cpuUsage(before);
    const cost = (user + system) / 1000 / (samples.length / 480);
    least[name] = Math.min(least[name] ?? Infinity, cost);
  }
}
for (const [name, cost] of Object.entries(least)) console.log(`${name} ${cost.toFixed(3)} ms per 10 ms, RNNoise = 1: ${(cost / least.RNNoise).toFixed(2)}`);
