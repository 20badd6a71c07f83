"""Where and why prompts part: how each request first differs from the nearest earlier one, the cause, and a cure."""
