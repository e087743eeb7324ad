"""How dictionaries of speech are learnt: voices, the two forms of a run, the choice of rank."""
