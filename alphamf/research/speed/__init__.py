"""Speed of alphamf, beside plain NumPy and beside a lower bound of the machine."""
