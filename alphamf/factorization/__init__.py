"""α-stable matrix factorization: the model, its priors, its densities and its inner loops."""
