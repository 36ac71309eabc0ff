"""Koordinator: PodGroups, ElasticQuotas and Reservations."""
