"""The posteriors that samplers can run on."""
