"""The controller: watches a cluster, asks the placement service, binds what it answers.

A thin loop and nothing more: `watch` events -> `cache` -> `batch` -> translation
(`placement.kubernetes`) -> `ask` -> `apply` -> `report`, held together by `cycle`. The service
alone decides where pods go. All state is in the cluster, so the controller may be killed at any
line.
"""
