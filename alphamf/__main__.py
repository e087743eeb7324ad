"""``python -m alphamf``: the command line."""

from alphamf.cli.start import main

if __name__ == "__main__":
    main()
