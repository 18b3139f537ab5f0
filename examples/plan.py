"""Plans one overlay under every policy and shows what each tenant would get.

python examples/plan.py [SCENARIO]
"""

import sys
from pathlib import Path

import square

ABILENE = Path(__file__).with_name("abilene.toml")


def main() -> None:
    scenario = square.Scenario.read(sys.argv[1] if len(sys.argv) > 1 else str(ABILENE))
    for policy in square.policy_names():
        plan = square.plan(scenario, policy=policy)
        square.validate(plan)
        shares = ", ".join(f"{tenant.name} {tenant.rate_bps / 1e6:.2f}" for tenant in plan.tenants)
        print(f"{policy:15} {shares} Mbit/s; least rate {plan.min_rate_bps / 1e6:.2f}")


if __name__ == "__main__":
    main()
