"""Evaluation of denoisers: pairs, methods, scores, tables and the report page."""
