"""Samplers, targets and the loop that runs them: a library of its own."""
