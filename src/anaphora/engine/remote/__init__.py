"""The engine's callers in other processes: messages, and both ends of the channel that carries them."""
