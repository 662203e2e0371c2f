"""The pages: what each shows, as a document and as HTML."""
