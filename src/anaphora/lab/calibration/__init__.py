"""How late the client's own stamps are: measured on a server process whose every send is known to the nanosecond."""
