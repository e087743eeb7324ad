"""Tools for all packages: arrays, files, tables, resumable runs, process pools."""
