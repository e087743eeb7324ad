"""Training of dictionaries and of the refiner's networks."""
