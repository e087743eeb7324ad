"""Training of the networks that denoise: mixtures, clips on disk, losses and the optimiser.

``python -m alphamf.training`` is the command.
"""
