"""Named targets: where a server is, which environment variable holds its key, its model and its prices."""
