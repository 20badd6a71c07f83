"""One file, one question: which trials are sent, and what their records say. The rounds are a plan; nothing here
sends."""
