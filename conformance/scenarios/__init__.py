"""The scenario language: models of a document, the loader with line numbers, expansion into cells."""
