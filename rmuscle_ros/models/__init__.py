"""Policy families, one file each, behind one interface (base.py). May import nn and the leaves."""
