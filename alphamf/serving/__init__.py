"""The page: a web server of this machine that denoises recordings, and what the browser shows."""
