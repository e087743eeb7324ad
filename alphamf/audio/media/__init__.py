"""Media files (MP4, Matroska and others) by PyAV: one audio track in, and out among the others."""
