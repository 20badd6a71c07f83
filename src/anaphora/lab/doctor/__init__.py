"""What is wrong with a server, and what to do: checks that rest on one another, with what was seen and the fix."""
