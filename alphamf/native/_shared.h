/* Made by `python -m benchmarks.engine_constants` from the Python modules named here. */
#ifndef ALPHAMF_SHARED_H
#define ALPHAMF_SHARED_H

/* alphamf.tools.arrays */
#define LOG_LIMIT 60.0f
#define LARGEST_PHI 1.1420074e+26f

/* alphamf.factorization.cells */
#define TINY 1e-12f
#define LARGEST 1e+30f
#define FLOOR 1e-09f

/* alphamf.learnt.network */
#define FEATURES 5
#define OUTPUTS_OF_CELL 2
#define ADDED 2
#define TAPS 5
#define DILATIONS 7
#define MOST_DEEP 3
#define LATE_FRAMES {1, 1, 8}
#define HIGH_BINS {4, 16, 1}
#define LOGIT 3.0f
#define LEAK 0.1f
#define NORM_EPSILON 1e-05f
#define NARROWEST 0.001f
#define SILENT 1e-10f

/* alphamf.learnt.causal */
#define EDGE_LOW 0.85
#define EDGE_HIGH 0.9

/* alphamf.learnt.causal */
#define ALIGNMENT 64
#define PANEL 64
#define BIAS 128

/* alphamf.learnt.second_stage */
#define SILENT_PAIR 1e-07f
#define MOST_SPEECH 1.5f
#define CHANGE 0.75f
#define START_OF_SOUND (-4.0f)
#define START_OF_SPEECH 0.6931472f

/* alphamf.learnt.refiner */
#define AROUND 3
#define IN_PAUSES 1.0f
#define IN_PAUSES_ABOVE 1.8f
#define SPEECH_DB (-12.0f)
#define PAUSE_DB (-22.0f)
#define TINY_POWER 1e-30f

/* alphamf.learnt.bands */
#define BANDS 30
#define BELOW 12
#define FIRST_HZ 7500.0
#define LAST_HZ 20000.0

/* alphamf.denoising.high_bands */
#define CROSSED_FROM 7600.0
#define CROSSED_TO 8000.0

/* alphamf.denoising.grids */
#define BAND_LOW 0.85
#define BAND_HIGH 0.95

/* alphamf.audio.stft */
#define FRAME_HOPS 8
#define SYNTHESIS_HOPS 5

/* alphamf.denoising.uncertainty */
#define SPEECH_LOW 150.0
#define SPEECH_HIGH 4000.0
#define SPAN 0.14
#define RATIO_MOST 3.0
#define LEVEL_LEAST (-8.0)
#define WEIGHTS {0.72, 0.4, 1.99}

/* alphamf.denoising.spatial */
#define SHARED 0.7f

/* alphamf.denoising.uncertainty */
#define DEVIATION_SCALE 0.78f
#define DEVIATION_POWER 0.4f
#define DEVIATION_LEAST 0.001f
#define FAINT 0.001
#define FAINT_STD 0.38f
#define BEND 6000

/* alphamf.denoising.gain */
#define FAINT_MOST_DB 12.0f
#define STEEPNESS 3

#endif
