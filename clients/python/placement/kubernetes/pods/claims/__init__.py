"""Resource claims (dynamic resource allocation) and the devices that they choose."""
