"""Files that earlier versions wrote still work: a folder for each version, and a test that uses them as a user would."""
