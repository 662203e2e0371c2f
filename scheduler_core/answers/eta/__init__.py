"""When a group starts: how long pods run, the queue run forward, and the answer."""
