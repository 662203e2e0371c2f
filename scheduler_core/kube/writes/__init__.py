"""The writer of API objects with its connections, and the recorder of Events."""
