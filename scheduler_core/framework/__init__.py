"""The scheduling framework: extension points as Protocols, and what passes between them."""
