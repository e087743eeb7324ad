"""The posteriors: what a sampler is run on."""
