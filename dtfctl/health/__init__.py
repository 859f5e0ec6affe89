"""Who is alive, who is stuck, when to try again: pure state machines; the caller passes the time in."""
