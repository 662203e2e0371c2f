"""Who calls the API server, and what they may do: tokens, impersonation, roles, reviews."""
