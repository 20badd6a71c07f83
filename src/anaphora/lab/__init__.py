"""The measuring lab: experiments on any OpenAI-compatible server, raw records, statistics and the report."""
