"""The measuring lab: experiments, load and probes on any OpenAI-compatible server, raw records, statistics, reports."""
