"""Live sound: devices, denoising between them, and recording."""
