export declare const WIDE_RATE: number;

export interface Controls {
  /** 0 leaves the sound as it is, 1 (default) removes all noise that is found. */
  strength?: number;
  /** Largest attenuation in dB; null (default): no limit. */
  maxAttenuation?: number | null;
}

export interface AlphamfNode extends AudioWorkletNode {
  /** By how much the output is late, in seconds. */
  latency: number;
  /** Change the controls, switch the denoiser off and on (the latency stays), or close the node. */
  set(controls: Controls & { bypassed?: boolean; closed?: boolean }): void;
}

export declare class Alphamf {
  static load(options?: { base?: string | URL }): Promise<Alphamf>;
  /** Load the weights for a rate in Hz beforehand. */
  prepare(rate: number): Promise<string>;
  denoise(samples: Float32Array, rate: number, options?: Controls & { progress?: (samples: number, made: Float32Array[]) => void }): Promise<Float32Array>;
  denoise(samples: Float32Array[], rate: number, options?: Controls & { progress?: (samples: number, made: Float32Array[]) => void }): Promise<Float32Array[]>;
  node(context: BaseAudioContext, options?: Controls & { channels?: number }): Promise<AlphamfNode>;
  close(): void;
}
