"""The report page of an evaluation: text, tables, charts, sounds and their template."""
