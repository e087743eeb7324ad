// Live sound for an hour in headless Chromium, beside a node that only copies, which shows what the machine itself
// lost: node web/hour.mjs OUT/page [MINUTES], OUT as web/build.py makes it. Prints a line a minute, and the sum.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";

const [folder, minutes = "60"] = process.argv.slice(2);
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm" };
const COPY = `registerProcessor("copy", class extends AudioWorkletProcessor {
  process([input], [output]) { input.forEach((each, c) => output[c].set(each)); return true; }
});`;
const server = createServer(({ url }, answer) => {
  try {
    const content = url === "/copy.js" ? COPY : readFileSync(join(folder, url === "/" ? "index.html" : url.slice(1)));
    answer.writeHead(200, { "content-type": TYPES[extname(url)] ?? (url === "/" ? "text/html" : "application/octet-stream") }).end(content);
  } catch {
    answer.writeHead(404).end();
  }
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

// Chromium's protocol over two pipes: messages that end with a zero byte.
const profile = mkdtempSync(join(tmpdir(), "alphamf-hour-"));
const flags = ["headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking", "disable-sync",
  "disable-dev-shm-usage", "autoplay-policy=no-user-gesture-required", "remote-debugging-pipe",
  `user-data-dir=${profile}`];
const chromium = spawn("chromium", flags.map((flag) => `--${flag}`), { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
const waiting = new Map();
const worklets = [];
let rest = Buffer.alloc(0);
let count = 0;
chromium.stdio[4].on("data", (part) => {
  rest = Buffer.concat([rest, part]);
  for (let end; (end = rest.indexOf(0)) >= 0; rest = rest.subarray(end + 1)) {
    const { id, result, error, method, params } = JSON.parse(rest.subarray(0, end).toString());
    if (method === "Target.attachedToTarget" && params.targetInfo.type.includes("worklet")) worklets.push(params.sessionId);
    if (error) waiting.get(id)?.reject(new Error(error.message));
    else waiting.get(id)?.resolve(result);
    waiting.delete(id);
  }
});
function call(method, params = {}, sessionId = undefined) {
  const id = ++count;
  chromium.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}
const { targetId } = await call("Target.createTarget", { url: `http://127.0.0.1:${server.address().port}/` });
const { sessionId } = await call("Target.attachToTarget", { targetId, flatten: true });
await call("Target.setAutoAttach", { autoAttach: true, waitForDebuggerOnStart: false, flatten: true }, sessionId);
async function evaluate(expression) {
  const { result, exceptionDetails } = await call("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true }, sessionId);
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
}
const LOADED = "location.protocol === 'http:' && document.readyState === 'complete'";
while (!(await evaluate(LOADED))) await new Promise((resolve) => setTimeout(resolve, 100));
await evaluate(`(async () => {
  const { Alphamf } = await import("/alphamf.js");
  const alphamf = await Alphamf.load();
  const bytes = await (await fetch("sample.flac")).arrayBuffer();
  globalThis.lanes = [];
  for (const own of [true, false]) {
    const context = new AudioContext({ sampleRate: 48000, latencyHint: "interactive" });
    const source = new AudioBufferSourceNode(context, { buffer: await context.decodeAudioData(bytes.slice()), loop: true });
    const analyser = new AnalyserNode(context, { fftSize: 32768 });
    if (!own) await context.audioWorklet.addModule("copy.js");
    const node = own ? await alphamf.node(context) : new AudioWorkletNode(context, "copy");
    source.connect(node).connect(analyser).connect(context.destination);
    source.start();
    lanes.push({ context, analyser });
  }
  await new Promise((resolve) => setTimeout(resolve, 5000)); // what starts with it is not of it
  for (const lane of lanes) lane.start = { time: lane.context.currentTime, clock: performance.now(), ...lane.context.playbackStats.toJSON() };
})()`);

const NOW = `lanes.map(({ context, analyser, start }) => {
  const { underrunEvents, underrunDuration } = context.playbackStats;
  const sound = new Float32Array(analyser.fftSize);
  analyser.getFloatTimeDomainData(sound);
  return {
    underruns: underrunEvents - start.underrunEvents,
    lost: 1000 * (underrunDuration - start.underrunDuration),
    behind: performance.now() - start.clock - 1000 * (context.currentTime - start.time),
    level: 10 * Math.log10(sound.reduce((sum, each) => sum + each * each, 0) / sound.length),
  };
})`;

// Megabytes of the page's process, and seconds of a core that its busiest audio thread took.
function measure() {
  const renderers = readdirSync("/proc").filter((pid) => {
    try {
      const line = readFileSync(`/proc/${pid}/cmdline`, "utf8");
      return line.includes(profile) && line.includes("type=renderer");
    } catch {
      return false;
    }
  });
  const each = renderers.map((pid) => {
    const threads = readdirSync(`/proc/${pid}/task`).map((task) => {
      const [, name, rest] = readFileSync(`/proc/${pid}/task/${task}/stat`, "utf8").match(/\((.*)\) (.*)/s);
      const [user, system] = rest.split(" ").slice(11, 13).map(Number);
      return { name, seconds: (user + system) / 100 };
    });
    const memory = Number(readFileSync(`/proc/${pid}/status`, "utf8").match(/VmRSS:\s+(\d+)/)[1]) / 1000;
    return { memory, seconds: Math.max(0, ...threads.filter(({ name }) => name.includes("AudioW")).map(({ seconds }) => seconds)) };
  });
  return each.reduce((a, b) => (a.seconds > b.seconds ? a : b));
}

const memories = [];
const first = measure();
for (let minute = 1; minute <= Number(minutes); minute++) {
  await new Promise((resolve) => setTimeout(resolve, 60000));
  const { memory, seconds } = measure();
  const heap = (await call("Runtime.getHeapUsage", {}, worklets[0])).usedSize / 1000;
  memories.push(memory);
  const lanes = await evaluate(NOW);
  const told = ["alphamf", "copy"].map((name, k) => {
    const { underruns, lost, behind, level } = lanes[k];
    return `${name}: ${underruns} underruns, ${lost.toFixed(1)} ms lost, ${behind.toFixed(0)} ms behind, ${level.toFixed(1)} dB`;
  });
  const cost = (seconds - first.seconds) / (60 * minute);
  console.log(`${minute} min; ${told.join("; ")}; ${(100 * cost).toFixed(1)} % of a core; page ${memory.toFixed(0)} MB; heap of the worklet ${heap.toFixed(0)} kB`);
}
console.log(`memory of the page: ${Math.min(...memories).toFixed(0)} to ${Math.max(...memories).toFixed(0)} MB`);
const gone = new Promise((resolve) => chromium.on("exit", resolve));
await call("Browser.close");
await gone;
rmSync(profile, { recursive: true, force: true });
server.close();
