"""The refiner: a small network that corrects alpha-MF's posterior of the speech's gain.

`network` is what it computes, `refiner` its file and its use, and `fine` a second look, at what it
made, in short windows. The others are how it is learnt, by
``python -m alphamf.training.refiner.train``: `shaping`, `noises` and `mixtures` make noisy speech,
`shards` keeps it, `losses` and `intelligibility` say what is wanted, and `lessons` learns.
"""
