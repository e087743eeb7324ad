"""Metadata of files: tags, pictures, cues and history; copied to the outputs."""
