"""Durmus et al., "Stochastic Gradient Richardson-Romberg MCMC" (NIPS 2016)."""
