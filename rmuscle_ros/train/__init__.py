"""Trains a policy for the simulated station: demonstrations, training, export.

disturbance       smooth, fading deviations from the expert's plan
demonstrations    one episode of the expert, disturbed, with clean labels
dataset           demonstrations on disk, one file each, and their settings
generate          fills a dataset with all processors
settings          every number of a training run
samples           batches: which frames, which labels, in which order
objective         the flow-matching loss and the auxiliary one
shortcut          the look-or-guess correlation
state             a run's checkpoint: written whole or not at all, resumed bit for bit
run               the training loop
journal           losses and checks as CSV and PNG
export            the shipped checkpoint and its model card
command           ``rmuscle train ...``

``ros`` and ``cli`` may import this package; it imports policy, sim and what lies below them.
"""
