"""What every room uses: arrays, files, tables, resumable runs, process pools."""
