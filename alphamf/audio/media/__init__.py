"""Media files (MP4, Matroska and others) by PyAV: read one audio track, or replace it."""
