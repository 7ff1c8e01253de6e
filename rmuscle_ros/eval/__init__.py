"""What a run did: records of it, their summary and the report page.

``records`` holds what was observed, ``summary`` turns it into ``summary.json`` and the terminal
table, ``report`` into one self-contained HTML page. May import policy, sim and everything to
their right in the import rule, never ROS: nodes and drivers convert their messages to records.
"""
