"""The scenario language: parse YAML files with line numbers, check them, and expand each scenario's matrix into cells."""
