"""What a voice agent hears, denoised: for Pipecat and for LiveKit Agents."""
