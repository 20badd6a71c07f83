"""What a server's prefix cache is like, found out from outside: by asking, counting and, where nothing is told,
timing."""
