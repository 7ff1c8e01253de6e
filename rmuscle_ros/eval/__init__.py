"""Measurements and what they show: JSON, a table for the terminal, one self-contained HTML page.

A run of the demo: ``records`` holds what was observed, ``summary`` and ``report`` tell it.
``rmuscle eval``: ``modes`` names what is compared, ``workbench`` builds it, ``closed_loop`` runs
it, ``comparison*`` turns the ``trials`` into figures and a page; ``methods`` holds the other
methods. ``characterise``, ``sweep`` and ``separation`` are evaluations of their own. May import
what is to the right of eval in the import rule, never ROS: nodes and drivers convert their
messages to records.
"""
