"""The web page: a local server that denoises recordings, and the files for the browser."""
