"""A simulation's results as an object, as files, on the terminal, in figures and on a page."""
