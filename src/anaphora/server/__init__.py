"""The OpenAI-compatible HTTP server: requests in, answers or event streams out, metrics, and the operator's routes."""
