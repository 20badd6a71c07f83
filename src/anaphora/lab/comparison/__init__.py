"""Two saved runs side by side: what changed, by how much, and whether chance alone would have done it."""
