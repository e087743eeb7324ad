"""Roychowdhury & Parthasarathy, "Adaptive Bayesian sampling with Monte Carlo EM" (NIPS 2017)."""
