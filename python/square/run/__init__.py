"""``square run``: one process per node of an overlay, on this machine or, over ssh, on others.

admission    what is refused before anything starts
job          the parent: starts workers, drives them through the policies, measures
mailbox      waiting for one thing, hearing of all others
worker       the child: one node, and the members that live on it
protocol     the lines that the two exchange
processes    children that are always ended
operations   who gives and who gets, in each operation that can be run
network      what is between the nodes: loopback, or a network of the kernel's
machines     nodes on other machines, over ssh
clocks       the time that those show
namespaces   network namespaces that leave nothing behind
wiring       an overlay as lines for ip and tc
interfaces   a worker's end of the wiring, and what the kernel counts there
sites        a network of namespaces for any program, not `square run`'s own workers
ranks        the ranks of a torch.distributed job at such sites
enter        how a program gets there
payload      the bytes to send, and how they are compared
sums         what members add, and what the sum must be
measurement  what members reported under one policy
outcome      what a run was: figures and the JSON document
progress     what people see while it runs
"""
