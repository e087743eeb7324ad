"""Denoise the input of voice agents: for Pipecat and for LiveKit Agents."""
