"""What a server does under load: closed and open loops and traces, stage by stage, with the cache on and off."""
