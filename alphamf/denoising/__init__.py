"""Denoising of arrays, files and streams."""
