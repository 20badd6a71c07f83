"""How queries meet the paged keys and values: one seam, and a back end for each kind of hardware, with its planning."""
