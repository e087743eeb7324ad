// Records the microphone as it is, without the browser's own processing, into a WAV file.

import { wav } from "./wav.js";

export class Recorder {
  constructor(level) {
    this.level = level;
  }

  async start() {
    this.stream = await navigator.mediaDevices.getUserMedia({
      audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: false },
    });
    this.context = new AudioContext();
    await this.context.audioWorklet.addModule("capture.js");
    this.parts = [];
    this.count = 0;
    const node = new AudioWorkletNode(this.context, "capture", { numberOfOutputs: 0 });
    node.port.onmessage = ({ data }) => {
      this.parts.push(data);
      this.count += data.length;
      this.level(this.count / this.context.sampleRate, data.reduce((most, each) => Math.max(most, Math.abs(each)), 0));
    };
    this.context.createMediaStreamSource(this.stream).connect(node);
  }

  async stop() {
    for (const track of this.stream.getTracks()) track.stop();
    const rate = this.context.sampleRate;
    await this.context.close();
    const now = new Date();
    const stamp = new Date(now - now.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
    const name = `Recording ${stamp.replace("T", " ").replaceAll(":", ".")}.wav`;
    return new File([wav([joined(this.parts, this.count)], rate)], name);
  }
}

function joined(parts, count) {
  const all = new Float32Array(count);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
