"""The node ``aloha_station``: the simulated station with the topics of a real one."""
