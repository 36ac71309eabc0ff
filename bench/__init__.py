"""Measures the service on seeded instances: how fast, how good, how much of it is proven.

python -m bench              the standard set, as a table
python -m bench --help       everything else; README.md says how to read it
"""
