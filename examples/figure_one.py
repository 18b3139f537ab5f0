"""Figure 1 of the paper: where two flows meet a node sends 3a + 2b, and who has b solves for a.

Over floats, as the paper does it, a comes back nearly as it was, and worse the larger b is beside it. Over
bytes (GF(2^8), the default) the same sum brings back every bit.
"""

import numpy as np
import square

ELEMENTS = 4096


def a_from(a: np.ndarray, b: np.ndarray, field: str) -> np.ndarray:
    """What the destination makes of b, which came as it is, and of 3a + 2b."""
    encoder = square.Encoder(np.concatenate([a, b]), blocks=2, field=field)
    merged = encoder.coded([3, 2])
    received = np.empty(2 * ELEMENTS, "float32")
    decoder = square.Decoder(encoder.generation, received)
    decoder.add(encoder.systematic(1))
    decoder.add(merged)
    decoder.finish()
    return received[:ELEMENTS]


def main() -> None:
    chance = np.random.default_rng(1)
    a = chance.standard_normal(ELEMENTS, dtype="float32")
    print(f"{'b beside a':>12}  {'field':>8}  {'exact':>7}  worst error of a")
    for scale in (1e-2, 1.0, 1e2, 1e4):
        b = np.float32(scale) * chance.standard_normal(ELEMENTS, dtype="float32")
        for field in ("float32", "gf256"):
            back = a_from(a, b, field)
            exact = np.mean(back.view("uint32") == a.view("uint32"))
            worst = np.max(np.abs(back - a) / np.maximum(np.abs(a), 1e-30))
            print(f"{scale:>11g}x  {field:>8}  {exact:>7.1%}  {worst:.1e}")
            assert field == "float32" or exact == 1.0


if __name__ == "__main__":
    main()
