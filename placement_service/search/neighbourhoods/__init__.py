"""A few gangs and domains at a time, while all the rest of a plan stays."""
