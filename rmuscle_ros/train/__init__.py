"""Trains a policy for the simulated station: demonstrations, training, export.

disturbance       smooth, fading deviations from the expert's plan
demonstrations    one episode of the expert, disturbed, with clean labels
dataset           demonstrations on disk, one file each, and their settings
generate          fills a dataset on all processor cores
settings          every number of a training run
samples           the data in memory, and which of it makes up each batch
objective         the flow-matching loss, and the auxiliary one against guessing
gradients         one step's gradients, by one process per core
state             a run's checkpoint: written whole or not at all, resumed bit for bit
shortcut, check   the look-or-guess correlation; closed-loop success of a running training
journal           losses and checks as CSV and PNG
run               the training loop
evaluation        closed-loop success of a finished checkpoint
export, card      the shipped checkpoint and its model card
*_command         ``rmuscle train data``, ``run`` and ``export``

``ros`` and ``cli`` may import this package; it imports rollout, policy, sim and what lies below.
"""
