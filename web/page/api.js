// What player.js and picture.js ask of a server, answered in the browser.

const known = new Map();
const COLUMNS = { input: "input", speech: "speech" };

export function keep(id, recording) {
  known.set(id, recording);
}

export function forget(id) {
  known.delete(id);
}

export async function sound(id, start, count) {
  const { input, speech, ready, failed } = known.get(id);
  const there = start + count <= ready;
  const channels = there ? [...input, ...speech] : input;
  const data = new Float32Array(count * channels.length);
  channels.forEach((channel, c) => data.set(channel.subarray(start, start + count), c * count));
  return { speech: there ? "whole" : "none", data, failed };
}

export async function picture(id, of, first) {
  const columns = known.get(id).columns[COLUMNS[of]];
  return columns ? columns.subarray(first * 98) : new Uint8Array();
}
