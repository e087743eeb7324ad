// Numbers as text.

export function time(seconds, digits = 0) {
  const scale = 10 ** digits;
  const whole = Math.floor(seconds * scale + 1e-6) / scale;
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  const rest = (whole % 60).toFixed(digits).padStart(digits ? 3 + digits : 2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

export function spoken(seconds) {
  const minutes = Math.floor(seconds / 60);
  const rest = Math.floor(seconds % 60);
  return minutes ? `${minutes} minutes ${rest} seconds` : `${rest} seconds`;
}

export function left(seconds) {
  if (seconds < 10) return "a few seconds left";
  if (seconds < 90) return `about ${Math.round(seconds / 5) * 5} s left`;
  return `about ${Math.round(seconds / 60)} min left`;
}

export function facts({ duration, rate, channels, format, subtype }) {
  const sound = channels === 1 ? "mono" : channels === 2 ? "stereo" : `${channels} channels`;
  const bits = /^PCM_\D*(\d+)$/.exec(subtype)?.[1];
  const samples = bits ? `${bits} bit` : subtype.replaceAll("_", " ").toLowerCase();
  const codec = subtype.startsWith("MPEG_LAYER") ? format : `${format} ${samples}`; // MP3 says it
  return [time(duration), `${rate / 1000} kHz`, sound, codec].join(" · ");
}

export function decibels(value) {
  return `${Math.round(value * 10) / 10} dB`;
}
