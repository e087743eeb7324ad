"""Samplers, targets and the loop that runs them; independent of the rest of alphamf."""
