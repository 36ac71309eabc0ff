"""The controller: watches a cluster, asks the placement service, binds what it answers.

A thin loop: events of watches (`cluster`) -> `batch` -> request and answer (`asking`) -> `binding`
-> `reports`, which `cycle` runs. The service alone decides where pods go. All state is in
the cluster, so the controller may be killed at any line.
"""
