"""The cluster as the console keeps it: watched, counted, and asked in processes of their own."""
