"""The operations of the caches, one folder each.

``reference.py`` is the plain PyTorch form: it runs on every device, and every other
implementation is tested against it. May import the leaves only; weights come as arguments.
"""
