"""The engine of low latency in C, and the plug-ins that are made of it."""
