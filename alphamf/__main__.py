"""``python -m alphamf``: the command line."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working directory, which may be a stranger's folder
    from alphamf.cli.start import main

    main()
