"""Training of the refiner and the second stage: mixtures, clips on disk, losses and the optimiser.

``python -m alphamf.training`` is the command.
"""
