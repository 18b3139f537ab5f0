"""``square run``: one process per node of an overlay, on this machine.

job          the parent: starts workers, drives them through the policies, measures
worker       the child: one node, and the members that live on it
protocol     the lines that the two exchange
processes    children that are always ended
payload      the bytes to send, and how they are compared
outcome      what a run was: figures and the JSON document
report       what people see after it
progress     what people see while it runs
"""
