"""Plans one overlay under every policy and shows what each tenant would get.

python examples/plan.py [SCENARIO]
"""

import argparse
from pathlib import Path

import square

ABILENE = Path(__file__).with_name("abilene.toml")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scenario", nargs="?", type=Path, default=ABILENE, help="TOML (default abilene.toml)")
    try:
        scenario = square.Scenario.read(parser.parse_args().scenario)
    except square.SquareError as error:
        raise SystemExit(f"plan.py: {error}") from None
    for policy in square.policy_names():
        plan = square.plan(scenario, policy=policy)
        square.validate(plan)
        shares = ", ".join(f"{tenant.name} {tenant.rate_bps / 1e6:.2f}" for tenant in plan.tenants)
        print(f"{policy:15} {shares} Mbit/s; least rate {plan.min_rate_bps / 1e6:.2f}")


if __name__ == "__main__":
    main()
