"""The scheduling framework: extension points as Protocols, and the data that plugins and engine exchange."""
