"""The papers' experiments: a folder a paper, `catalogue` names them all."""
