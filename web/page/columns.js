// Columns of a picture: lowest and highest sample, then the levels of bands on the mel scale, as bytes of
// which picture.js tells more. A worker, since a long recording takes a second.

const COLUMNS = 1200;
const BANDS = 96;
const RECORD = 2 + BANDS;
const FLOOR = -120;

onmessage = ({ data: { id, of, samples, rate } }) => {
  const columns = draw(samples, rate);
  postMessage({ id, of, columns }, [columns.buffer]);
};

function draw(samples, rate) {
  const size = Math.max(16, 2 ** Math.round(Math.log2(0.025 * rate)));
  const hop = size / 2;
  const frames = Math.max(1, Math.ceil(samples.length / hop));
  const count = Math.min(COLUMNS, frames);
  const filters = melFilters(size, rate);
  const window = Float64Array.from({ length: size }, (_, k) => 0.5 - 0.5 * Math.cos((2 * Math.PI * k) / size));
  const scale = (size / 4) ** 2;
  const out = new Uint8Array(count * RECORD);
  const re = new Float64Array(size);
  const im = new Float64Array(size);
  const sum = new Float64Array(BANDS);
  for (let column = 0, frame = 0; column < count; column++) {
    const end = Math.floor(((column + 1) * frames) / count);
    const rows = end - frame;
    let low = 0;
    let high = 0;
    sum.fill(0);
    for (; frame < end; frame++) {
      for (let k = 0; k < size; k++) {
        const sample = samples[frame * hop + k] ?? 0;
        if (k < hop) {
          low = Math.min(low, sample);
          high = Math.max(high, sample);
        }
        re[k] = sample * window[k];
      }
      im.fill(0);
      transform(re, im);
      filters.forEach(({ first, weights }, band) => {
        for (let k = 0; k < weights.length; k++) {
          const bin = first + k;
          sum[band] += (weights[k] * (re[bin] ** 2 + im[bin] ** 2)) / scale;
        }
      });
    }
    const at = column * RECORD;
    out[at] = Math.round(Math.max(-1, low) * 127 + 128);
    out[at + 1] = Math.round(Math.min(1, high) * 127 + 128);
    for (let band = 0; band < BANDS; band++) {
      const decibels = 10 * Math.log10(Math.max(sum[band] / rows, 1e-12));
      out[at + 2 + band] = Math.round(Math.max(0, Math.min(1, 1 - decibels / FLOOR)) * 255);
    }
  }
  return out;
}

// Triangles with a sum of one, as the bins from `first` on.
function melFilters(size, rate) {
  const top = 2595 * Math.log10(1 + rate / 2 / 700);
  const centre = (k) => 700 * (10 ** ((top * k) / (BANDS + 1) / 2595) - 1);
  const spacing = rate / size;
  return Array.from({ length: BANDS }, (_, band) => {
    const [before, middle, after] = [centre(band), centre(band + 1), centre(band + 2)];
    const rise = Math.max(middle - before, spacing);
    const fall = Math.max(after - middle, spacing);
    const first = Math.max(0, Math.ceil((middle - rise) / spacing));
    const last = Math.min(size / 2, Math.floor((middle + fall) / spacing));
    const weights = [];
    for (let bin = first; bin <= last; bin++) {
      const away = bin * spacing - middle;
      weights.push(Math.max(0, away < 0 ? 1 + away / rise : 1 - away / fall));
    }
    const whole = Math.max(weights.reduce((a, b) => a + b, 0), 1e-9);
    return { first, weights: weights.map((each) => each / whole) };
  });
}

// The Fourier transform in place; sizes are powers of two.
function transform(re, im) {
  const size = re.length;
  for (let k = 1, other = 0; k < size; k++) {
    let bit = size >> 1;
    for (; other & bit; bit >>= 1) other ^= bit;
    other ^= bit;
    if (k < other) {
      [re[k], re[other]] = [re[other], re[k]];
      [im[k], im[other]] = [im[other], im[k]];
    }
  }
  for (let half = 1; half < size; half *= 2) {
    for (let k = 0; k < half; k++) {
      const c = Math.cos((Math.PI * k) / half);
      const s = -Math.sin((Math.PI * k) / half);
      for (let at = k; at < size; at += 2 * half) {
        const x = re[at + half] * c - im[at + half] * s;
        const y = re[at + half] * s + im[at + half] * c;
        re[at + half] = re[at] - x;
        im[at + half] = im[at] - y;
        re[at] += x;
        im[at] += y;
      }
    }
  }
}
