"""The judge: a request and the bindings of a plan enter, broken rules and the score leave.

It shares nothing with the engine: it imports the entities alone and reads every rule anew.
"""
