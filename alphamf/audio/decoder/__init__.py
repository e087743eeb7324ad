"""Decode recordings in processes that can open nothing else."""
