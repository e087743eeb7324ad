"""Training of the refiner: mixtures, clips on disk, losses and the optimiser.

``python -m alphamf.training.refiner.train`` is its command.
"""
