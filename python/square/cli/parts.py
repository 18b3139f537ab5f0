"""The parts of a plan by id and by name: a plan makes them anew each time that it is asked."""

from square._core import Plan, PlanCollective


class Parts:
    """A plan, read once. Nothing changes."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.policy = plan.policy
        self.realised = plan.realised
        self.nodes = plan.nodes
        self.names = [node.name for node in self.nodes]
        self.links = plan.links
        self.sessions = {session.id: session for session in plan.sessions}
        self.collectives = {collective.id: collective for collective in plan.collectives}
        certificate = plan.certificate
        self.levels = certificate.levels
        self.level_bound_bps = certificate.level_bound_bps
        self.cost_bound_usd_per_hour = certificate.cost_bound_usd_per_hour

    def rate_bps(self, collective: PlanCollective) -> float:
        """What the streams carry; without streams, what the linear program allows."""
        return collective.rate_bps if self.realised else collective.lp_rate_bps
