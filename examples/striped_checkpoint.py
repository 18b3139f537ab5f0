"""A checkpoint striped over six sites, of which any four are enough: two are lost, and every bit is back."""

import hashlib
import tempfile
from pathlib import Path

import numpy as np
import square

SITES = ["fra", "lon", "nyc", "sfo", "sin", "syd"]
LOST = ["lon", "sin"]
ENOUGH = 4
FLOATS = 1_000_003  # nothing that four divide


def store(folder: Path, checkpoint: np.ndarray) -> None:
    """A block at each site: the first four are quarters of the data, the others sums of them."""
    encoder = square.Encoder(checkpoint, blocks=ENOUGH)
    for site in SITES:
        (folder / f"{site}.block").write_bytes(encoder.next().tobytes())


def load(folder: Path) -> np.ndarray:
    blocks = [square.CodedBlock.parse(path.read_bytes()) for path in sorted(folder.glob("*.block"))]
    checkpoint = np.empty(blocks[0].generation.data_bytes // 4, "float32")
    decoder = square.Decoder(blocks[0].generation, checkpoint)
    for block in blocks:
        is_new = decoder.add(block)
        print(f"  a block with coefficients {block.coefficients}: rank {decoder.rank}, new: {is_new}")
    decoder.finish()
    return checkpoint


def main() -> None:
    checkpoint = np.random.default_rng(7).standard_normal(FLOATS, dtype="float32")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store(folder, checkpoint)
        stored = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{checkpoint.nbytes} bytes are {stored} at {len(SITES)} sites; {' and '.join(LOST)} are lost")
        for site in LOST:
            (folder / f"{site}.block").unlink()
        loaded = load(folder)
    assert np.array_equal(loaded.view("uint32"), checkpoint.view("uint32"))
    print("the same bits:", hashlib.sha256(loaded.tobytes()).hexdigest()[:16])


if __name__ == "__main__":
    main()
