"""The gRPC edge: the server, its settings, and messages to values and back.

Bytes enter, a `Request` goes to the pipeline, and a `Placement` leaves as a message. It knows
nothing of how a placement is found: the only folder with gRPC and the generated stubs.
"""
