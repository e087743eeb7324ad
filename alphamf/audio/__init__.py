"""Audio input and output: files and their formats, sampling rates, the STFT."""
