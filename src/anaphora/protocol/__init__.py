"""What goes over the wire: OpenAI's request and answer schemas, and the event-stream codec."""
