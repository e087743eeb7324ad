"""Denoise files: plan the outputs, process each file, and write additional results."""
