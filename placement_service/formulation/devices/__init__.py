"""Devices inside nodes (rule 16): `as_resources` states them, `names` names those of each pod."""
