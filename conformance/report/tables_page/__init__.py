"""The page over the tables of many runs: what each candidate's newest run says, trends, and every table."""
