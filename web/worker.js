// Denoises whole recordings away from the page's own thread; see alphamf.js.

import { Engine, denoiseBlocks } from "./engine.js";

let files = null;

onmessage = ({ data }) => {
  if (data.module) {
    files = data;
    return;
  }
  const { id, channels, rate, options } = data;
  try {
    const engine = new Engine(files.module, files.weights[options.weights], { ...options, rate, channels: channels.length });
    for (const block of denoiseBlocks(engine, channels)) {
      postMessage({ id, ...block }, block.parts.map((each) => each.buffer));
    }
    postMessage({ id, done: true });
  } catch (error) {
    postMessage({ id, error: error.message });
  }
};
