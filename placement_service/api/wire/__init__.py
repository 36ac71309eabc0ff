"""Messages to values and back: where the wire ends.

Nothing is decided here, and nothing outside this folder, `status`, `service`
and `server` sees a message.
"""
