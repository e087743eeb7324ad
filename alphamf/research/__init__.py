"""Experiments of the papers, their data, and measurements of speed."""
