"""``rmuscle eval --ros``: the closed-loop comparison through station and policy nodes."""
