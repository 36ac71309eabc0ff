"""Questions about a cluster that could be different, answered with proof.

Each question is a module: `explain`, `capacity`, `repack`, `diff`, `replay`, `simulate`. A
question changes a request (`changes`) and asks the service through an `Ask`; nothing here
knows files, terminals or Kubernetes objects, and nothing here places pods itself.
"""
