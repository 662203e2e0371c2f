"""Array building blocks: the resource index, interning, change logs, element types, and reprieve."""
