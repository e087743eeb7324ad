// Records the microphone as it is, without the browser's own processing, into a WAV file.

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
    return new File([wav(this.parts, this.count, rate)], name);
  }
}

function wav(parts, count, rate) {
  const data = new DataView(new ArrayBuffer(44 + 2 * count));
  const text = (at, word) => [...word].forEach((c, k) => data.setUint8(at + k, c.charCodeAt(0)));
  text(0, "RIFF");
  data.setUint32(4, 36 + 2 * count, true);
  text(8, "WAVEfmt ");
  data.setUint32(16, 16, true);
  data.setUint16(20, 1, true);
  data.setUint16(22, 1, true);
  data.setUint32(24, rate, true);
  data.setUint32(28, 2 * rate, true);
  data.setUint16(32, 2, true);
  data.setUint16(34, 16, true);
  text(36, "data");
  data.setUint32(40, 2 * count, true);
  let at = 44;
  for (const part of parts) {
    for (const sample of part) {
      data.setInt16(at, Math.round(Math.max(-1, Math.min(1, sample)) * 32767), true);
      at += 2;
    }
  }
  return data.buffer;
}
