"""The controller: watches a cluster, asks the placement service, binds what it answers.

A thin loop and nothing more: `watch` events -> `cache` -> `batch` -> translation
(`placement.kubernetes`) -> `ask` -> `apply` -> `report`, held together by `cycle`. Where
pods go is decided by the service alone; what may be undone by a crash is nowhere but in
the cluster, so the controller may be killed at any line.
"""
