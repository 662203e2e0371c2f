"""`muster-sandbox load`: pods, Jobs and gangs that come and go in a cluster."""
