"""``python -m alphamf.training CONFIG``: train a network by its configuration file."""

from alphamf.training.refiner.command import main

if __name__ == "__main__":
    main()
