"""The examples: they do what their pages say."""
