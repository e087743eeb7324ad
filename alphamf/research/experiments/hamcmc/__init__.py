"""Simsekli et al., "Stochastic Quasi-Newton Langevin Monte Carlo" (ICML 2016)."""
