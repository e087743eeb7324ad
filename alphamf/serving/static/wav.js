// A WAV file of 16 bits: `channels` are arrays of samples, of one length.

export function wav(channels, rate) {
  const width = 2 * channels.length;
  const bytes = width * channels[0].length;
  const data = new DataView(new ArrayBuffer(44 + bytes));
  const text = (at, word) => [...word].forEach((c, k) => data.setUint8(at + k, c.charCodeAt(0)));
  text(0, "RIFF");
  data.setUint32(4, 36 + bytes, true);
  text(8, "WAVEfmt ");
  data.setUint32(16, 16, true);
  data.setUint16(20, 1, true);
  data.setUint16(22, channels.length, true);
  data.setUint32(24, rate, true);
  data.setUint32(28, width * rate, true);
  data.setUint16(32, width, true);
  data.setUint16(34, 16, true);
  text(36, "data");
  data.setUint32(40, bytes, true);
  const samples = new Int16Array(data.buffer, 44); // little-endian, as every browser's processor is
  channels.forEach((channel, c) => {
    for (let k = 0; k < channel.length; k++) {
      samples[k * channels.length + c] = Math.round(Math.max(-1, Math.min(1, channel[k])) * 32767);
    }
  });
  return data.buffer;
}
