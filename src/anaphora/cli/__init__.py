"""One module a verb. The only room that sees the whole house; it builds and connects things."""
