"""How dictionaries and networks are trained."""
