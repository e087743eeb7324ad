"""Decode recordings in processes that can open no other file."""
