"""Registry and object store: defaulting, validation, conversion, patches, deletion, storage."""
