// Denoise 32-bit floats: node engine.mjs FOLDER RATE CHANNELS IN OUT [BYTES OF THE WEIGHTS]; prints the latency,
// or the error.

import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, rate, channels, source, target, cut] = process.argv.slice(2);
const { Engine, denoiseBlocks } = await import(pathToFileURL(`${folder}/engine.js`));
const exact = (file) => { const b = readFileSync(file); return b.buffer.slice(b.byteOffset, b.byteOffset + b.byteLength); };
const module = new WebAssembly.Module(readFileSync(`${folder}/alphamf.wasm`));
const weights = exact(`${folder}/alphamf-${Number(rate) >= 16000 ? "16k" : "8k"}.weights`);
try {
  const engine = new Engine(module, cut ? weights.slice(0, Number(cut)) : weights, { rate: Number(rate), channels: Number(channels) });
  const all = new Float32Array(exact(source));
  const length = all.length / channels;
  const inputs = Array.from({ length: channels }, (_, c) => all.subarray(c * length, (c + 1) * length));
  const out = new Float32Array(all.length);
  for (const { at, parts } of denoiseBlocks(engine, inputs)) parts.forEach((part, c) => out.set(part, c * length + at));
  writeFileSync(target, out);
  console.log(engine.latency);
} catch (error) {
  console.log(error.message);
}
