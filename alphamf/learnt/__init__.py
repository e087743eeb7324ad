"""What was learnt from data, and how it is read: dictionaries and networks."""
