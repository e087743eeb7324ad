"""Sound in and out: files and their formats, sampling rates, the STFT."""
