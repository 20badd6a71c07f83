"""Request logs and our own records, in and out. What a file cannot tell is counted and said, never guessed."""
