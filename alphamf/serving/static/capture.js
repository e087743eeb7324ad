// An audio worklet that passes on what the microphone hears.

registerProcessor("capture", class extends AudioWorkletProcessor {
  process([input]) {
    if (input.length) this.port.postMessage(input[0].slice());
    return true;
  }
});
