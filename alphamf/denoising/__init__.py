"""Denoising: arrays, files, streams and live sound."""
