"""The checks of the probe, a module for each topic; importing one registers its checks."""
