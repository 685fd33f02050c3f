"""The requirement catalogue as data, and which scenario or defect covers which row."""
