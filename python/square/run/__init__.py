"""``square run``: one process per node of an overlay, on this machine.

admission    what is refused before anything starts
job          the parent: starts workers, drives them through the policies, measures
mailbox      waiting for one thing, hearing of all others
worker       the child: one node, and the members that live on it
protocol     the lines that the two exchange
processes    children that are always ended
payload      the bytes to send, and how they are compared
measurement  what members reported under one policy
outcome      what a run was: figures and the JSON document
progress     what people see while it runs
"""
