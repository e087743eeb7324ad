// The page without a server: a recording in, heard before and after, and the microphone.

import { Alphamf } from "./alphamf.js";
import * as api from "./api.js";
import { Pictures } from "./picture.js";
import { Player } from "./player.js";
import { facts, spoken, time } from "./text.js";
import { wav } from "./wav.js";

const $ = (id) => document.getElementById(id);
const LONGEST = 3600;
const STEP = 5;

const engine = Alphamf.load();
const columns = new Worker("columns.js", { type: "module" });
const pictures = new Pictures();
const player = new Player(showPlayer, () => complain("This part is not denoised yet."));
let opened = null;
let count = 0;

const say = (sentence) => { $("status").textContent = sentence; };
function complain(sentence) {
  $("alert").textContent = sentence;
  setTimeout(() => { if ($("alert").textContent === sentence) $("alert").textContent = ""; }, 12000);
}

// ---- a recording

async function open(file) {
  if (!file.size) return complain(`${file.name} is empty (0 bytes).`);
  let sound;
  try {
    sound = await decode(file);
  } catch {
    return complain(`${file.name} cannot be played by this browser; try WAV, MP3, M4A or FLAC.`);
  }
  const { rate, input } = sound;
  const frames = input[0].length;
  if (!frames) return complain(`${file.name} has no sound.`);
  if (frames > LONGEST * rate) return complain(`${file.name} is longer than an hour; alphamf on your computer has no such limit.`);
  opened?.stop();
  if (opened) api.forget(opened.id);
  const id = `${++count}`;
  const recording = { id, name: file.name, rate, input, speech: null, ready: 0, columns: {}, stop: () => { recording.stopped = true; } };
  opened = recording;
  api.keep(id, recording);
  pictures.load(id);
  player.load(id, { rate, frames, channels: input.length });
  player.mix(mode(), dry(), 0);
  showRecording(file.name, { rate, channels: input.length, duration: frames / rate });
  draw(recording, "input", input[0]);
  await denoise(recording);
}

async function denoise(recording) {
  const { rate, input } = recording;
  const frames = input[0].length;
  $("progress").hidden = false;
  $("result").hidden = true;
  try {
    const ready = await engine;
    recording.speech = await ready.denoise(input, rate, {
      progress: (done, made) => {
        recording.speech = made;
        recording.ready = done;
        if (opened !== recording) return;
        player.ready = done;
        $("bar").value = done / frames;
        $("progress-text").textContent = `${Math.round((100 * done) / frames)} % denoised; you can listen meanwhile`;
      },
    });
  } catch (error) {
    if (opened === recording) complain(`${recording.name}: ${error.message}`);
    return;
  }
  if (opened !== recording) return;
  recording.ready = player.ready = frames;
  $("progress").hidden = true;
  say(`${recording.name} is done`);
  draw(recording, "speech", recording.speech[0]);
  offer(recording);
}

// The file's own rate where its head says it; of others only the browser knows it.
function rateOf(bytes) {
  if (bytes.byteLength < 28) return 48000;
  const head = new DataView(bytes);
  if (head.getUint32(0) === 0x52494646 && head.getUint32(12) === 0x666d7420) return head.getUint32(24, true);
  if (head.getUint32(0) === 0x664c6143) return head.getUint32(18) >>> 12;
  return 48000;
}

async function decode(file) {
  const bytes = await file.arrayBuffer();
  const said = rateOf(bytes);
  const rate = said >= 8000 && said <= 96000 ? said : 48000;
  const buffer = await new OfflineAudioContext(1, 1, rate).decodeAudioData(bytes);
  const kept = Math.min(buffer.numberOfChannels, 2);
  return { rate, input: Array.from({ length: kept }, (_, c) => buffer.getChannelData(c)) };
}

function draw(recording, of, samples) {
  columns.postMessage({ id: recording.id, of, samples, rate: recording.rate });
}

columns.onmessage = ({ data: { id, of, columns: made } }) => {
  if (opened?.id !== id) return;
  opened.columns[of] = made;
  pictures.load(id);
  showPictures();
};

async function showPictures() {
  if (!opened || !(await pictures.update())) return;
  pictures.draw({ before: $("before"), after: $("after"), sure: $("sure"), ruler: $("ruler") }, 1, duration());
}

let offered = null;
function offer(recording) {
  const { input, speech, rate, name } = recording;
  if (offered) URL.revokeObjectURL(offered);
  const part = dry();
  const mixed = part ? speech.map((channel, c) => channel.map((each, k) => (1 - part) * each + part * input[c][k])) : speech;
  offered = URL.createObjectURL(new Blob([wav(mixed, rate)], { type: "audio/wav" }));
  $("result").href = offered;
  $("result").download = `${name.replace(/\.[^.]*$/, "")}.denoised.wav`;
  $("result").hidden = false;
}

// ---- what is seen

const duration = () => player.about.frames / player.about.rate;
const mode = () => document.querySelector("input[name=mode]:checked").value;
const dry = () => 1 - Number($("strength").value) / 100;

function showRecording(name, about) {
  $("drop").classList.add("small-zone");
  $("drop-title").textContent = "Drop another recording";
  $("editor").hidden = false;
  $("title").textContent = name;
  $("title").focus();
  $("facts").textContent = facts({ ...about, format: name.split(".").at(-1), subtype: "" }).replace(/[ ·]+$/, "");
  $("timeline").setAttribute("aria-valuemax", Math.round(about.duration));
  showPlayer();
}

function showPlayer() {
  if (!player.about) return;
  const place = player.place() / player.about.rate;
  $("play").classList.toggle("playing", player.playing);
  $("play").setAttribute("aria-label", player.playing ? "Pause" : "Play");
  $("clock").textContent = time(place, 1);
  $("cursor").style.left = `${(100 * place) / duration()}%`;
  $("timeline").setAttribute("aria-valuenow", Math.round(place));
  $("timeline").setAttribute("aria-valuetext", spoken(place));
  if (player.playing) requestAnimationFrame(showPlayer);
}

const toggle = () => (player.playing ? player.pause() : player.play());
const seek = (seconds) => player.seek(seconds * player.about.rate).then(showPlayer);

$("play").onclick = toggle;
for (const choice of document.querySelectorAll("input[name=mode]")) choice.onchange = () => player.mix(mode(), dry(), 0);
$("strength").oninput = () => {
  $("strength-text").textContent = `${$("strength").value} %`;
  player.mix(mode(), dry(), 0);
};
$("strength").onchange = () => { if (opened?.ready === opened?.input[0].length) offer(opened); };
$("timeline").onpointerdown = (event) => {
  const box = $("timeline").getBoundingClientRect();
  seek(((event.clientX - box.left) / box.width) * duration());
};
$("timeline").onkeydown = (event) => {
  const to = { ArrowLeft: -STEP, ArrowRight: STEP, Home: -Infinity, End: Infinity }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  seek(Math.max(0, Math.min(duration(), player.place() / player.about.rate + to)));
};
document.onkeydown = (event) => {
  const busy = event.target.closest("button, a, input, summary");
  if (event.key !== " " || busy || !opened) return;
  event.preventDefault();
  toggle();
};
new ResizeObserver(showPictures).observe($("timeline"));
matchMedia("(prefers-color-scheme: dark)").onchange = showPictures;

// ---- files in

$("choose").onclick = () => $("file").click();
$("file").onchange = () => {
  if ($("file").files[0]) open($("file").files[0]);
  $("file").value = "";
};
$("sample").onclick = async () => {
  const response = await fetch("sample.flac");
  if (!response.ok) return complain("The sample cannot be loaded.");
  open(new File([await response.blob()], "sample.flac"));
};
document.ondragover = (event) => {
  event.preventDefault();
  $("drop").classList.add("over");
};
document.ondragleave = () => $("drop").classList.remove("over");
document.ondrop = (event) => {
  event.preventDefault();
  $("drop").classList.remove("over");
  const file = event.dataTransfer.files[0];
  if (file) open(file);
};

// ---- the microphone

let microphone = null;

$("microphone").onclick = async () => {
  if (microphone) return stopMicrophone();
  $("microphone").disabled = true;
  try {
    await startMicrophone();
  } catch (error) {
    stopMicrophone();
    complain(error.name === "NotAllowedError" ? "The browser does not let this page use the microphone." : `The microphone cannot be used: ${error.message}`);
  }
  $("microphone").disabled = false;
};
$("bypass").onchange = () => microphone?.node.set({ bypassed: $("bypass").checked });

async function startMicrophone() {
  player.pause();
  const context = new AudioContext({ latencyHint: "interactive" });
  microphone = { context };
  microphone.stream = await navigator.mediaDevices.getUserMedia({
    audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: false },
  });
  const source = context.createMediaStreamSource(microphone.stream);
  const node = (microphone.node = await (await engine).node(context));
  node.set({ bypassed: $("bypass").checked });
  source.connect(node).connect(context.destination);
  microphone.meters = [[source, "level-in"], [node, "level-out"]].map(([from, id]) => {
    const analyser = new AnalyserNode(context, { fftSize: 2048 });
    from.connect(analyser);
    return { analyser, meter: $(id), samples: new Float32Array(2048) };
  });
  $("live-latency").textContent = `${Math.round(1000 * node.latency)} ms`;
  showMicrophone(true);
  requestAnimationFrame(showLevels);
}

function stopMicrophone() {
  microphone?.node?.set({ closed: true });
  for (const track of microphone?.stream?.getTracks() ?? []) track.stop();
  microphone?.context.close();
  microphone = null;
  showMicrophone(false);
}

function showMicrophone(on) {
  $("microphone").textContent = on ? "Stop the microphone" : "Start the microphone";
  $("microphone").setAttribute("aria-pressed", on);
  $("bypass").disabled = !on;
  $("live-levels").hidden = !on;
}

function showLevels() {
  if (!microphone?.meters) return;
  for (const { analyser, meter, samples } of microphone.meters) {
    analyser.getFloatTimeDomainData(samples);
    const power = samples.reduce((sum, each) => sum + each * each, 1e-9) / samples.length;
    meter.value = Math.max(-60, 10 * Math.log10(power));
  }
  requestAnimationFrame(showLevels);
}

// ---- without a network, after the first visit

if ("serviceWorker" in navigator && isSecureContext) navigator.serviceWorker.register("offline.js").catch(() => {});
