"""The scheduling queue: units, their parts, and the classes in which equivalent units wait."""
