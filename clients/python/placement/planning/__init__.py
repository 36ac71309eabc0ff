"""Questions about a cluster that could be different, answered with proof.

- `changes`, `selectors`: a request as it would be with other nodes, gangs or limits.
- `diff`, `replay`: what differs between two answers, and whether a saved request is answered alike.
- `room`, `levels`, `gpus`, `shared_gpus`: what a plan leaves free, by GPUs and by topology levels.
- `simulate`, `planner`: traces of jobs, planned step by step.

Nothing here knows files, terminals or Kubernetes objects, and nothing places pods itself: plans
come from a `planner.Ask`, a function that is given a request and the seconds until the answer must
be there. What lets a gang in, how many more fit and what to move are calls of the service:
`placement.client.PlacementClient.explain`, `capacity` and `repack`.
"""
