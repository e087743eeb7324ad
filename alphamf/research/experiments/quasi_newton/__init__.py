"""Fu, Luo & Zhang, "Quasi-Newton Hamiltonian Monte Carlo" (UAI 2016)."""
