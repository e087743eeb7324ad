"""How well methods denoise a corpus: pairs, runs, scores, summary and report."""
