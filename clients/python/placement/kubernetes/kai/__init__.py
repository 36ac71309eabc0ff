"""KAI: PodGroups and Queues."""
