"""Messages to values and back. Nothing is decided here, and outside this folder only other modules
of `api` see messages.
"""
