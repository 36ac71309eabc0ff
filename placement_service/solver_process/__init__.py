"""The process that may be killed: jobs go in, solutions come out, whatever the solver does.

It keeps processes ready, and kills one that is late. It does not know what is computed.
"""
