"""Coded blocks from Python: buffers and tensors of any type come back bit by bit, mistakes are named."""

import random

import numpy as np
import pytest
import square
from square import errors

DTYPES = ["uint8", "int16", "float16", "float32", "float64", "int64", "bool", "complex64"]


def data_of(dtype: str, count: int, chance: random.Random) -> np.ndarray:
    """Any bits: NaNs with payloads and negative zeros too."""
    size = count * np.dtype(dtype).itemsize
    raw = np.frombuffer(chance.randbytes(size), "uint8").copy()
    return (raw % 2).view("bool") if dtype == "bool" else raw.view(dtype)


@pytest.mark.parametrize("field", ["gf256", "gf65536"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_data_of_any_type_comes_back(dtype: str, field: str, seed: int) -> None:
    chance = random.Random(seed)
    for count in [1, 63, 64, 65, chance.randrange(2, 5000)]:
        data = data_of(dtype, count, chance)
        encoder = square.Encoder(data, blocks=chance.randrange(2, 9), field=field, number=count)
        recoder = square.Recoder(encoder.generation)
        lost = encoder.next()
        while recoder.rank < encoder.generation.blocks:
            recoder.add(square.CodedBlock.parse(encoder.next().tobytes()))
        back = np.empty_like(data)
        decoder = square.Decoder(encoder.generation, back)
        assert decoder.rank == 0
        while decoder.rank < encoder.generation.blocks:
            decoder.add(square.CodedBlock.parse(recoder.next(seed=chance.randrange(1000)).tobytes()))
        decoder.finish()
        assert back.tobytes() == data.tobytes()
        assert not decoder.add(lost)


def test_the_paper_s_code_rounds() -> None:
    """3a + 2b of Figure 1, with b beside it: a is nearly what it was."""
    a, b = np.float32([1.1, -2.3, 0.7]), np.float32([0.4, 5.5, -1.9])
    encoder = square.Encoder(np.concatenate([a, b]), blocks=2, field="float32")
    merged = encoder.coded([3, 2])
    assert merged.coefficients == [3, 2]
    assert np.allclose(np.frombuffer(merged.payload, "float32"), 3 * a + 2 * b)
    back = np.empty(6, "float32")
    decoder = square.Decoder(encoder.generation, back)
    decoder.add(encoder.systematic(1))
    assert decoder.add(merged)
    decoder.finish()
    assert np.allclose(back, np.concatenate([a, b]), rtol=1e-6)
    assert back[3:].tobytes() == b.tobytes()


def test_floats_that_would_be_spoilt_are_coded_as_bytes() -> None:
    for odd in [np.inf, np.nan, 1e20]:
        data = np.ones(64, "float32")
        data[5] = odd
        assert square.Encoder(data, blocks=2, field="float32").generation.field == "gf256"
    assert square.Encoder(np.ones(64, "float32"), blocks=2, field="float32").generation.field == "float32"


def test_halves_are_coded_as_float32() -> None:
    data = np.linspace(1, 2, 1000).astype("float16")
    encoder = square.Encoder(data, blocks=4, field="float32")
    assert encoder.generation.data_bytes == 2 * data.nbytes
    encoder.next()
    back = np.zeros_like(data)
    decoder = square.Decoder(encoder.generation, back)
    while decoder.rank < 4:
        decoder.add(square.CodedBlock.parse(encoder.next().tobytes()))
    decoder.finish()
    assert back.tobytes() == data.tobytes()
    with pytest.raises(errors.InvalidArgumentError, match="8000 bytes of data as float32"):
        square.Decoder(square.Generation(blocks=4, data_bytes=8000, field="float32"), back)


def test_mistakes_are_named() -> None:
    data = np.arange(100, dtype="uint8")
    encoder = square.Encoder(data, blocks=3)
    with pytest.raises(errors.InvalidArgumentError, match='no field "gf7"'):
        square.Encoder(data, blocks=3, field="gf7")
    with pytest.raises(errors.InvalidArgumentError, match="1 to 256 blocks"):
        square.Encoder(data, blocks=0)
    with pytest.raises(errors.InvalidArgumentError, match="float32, float16 and"):
        square.Encoder(data, blocks=2, field="float32")
    with pytest.raises(errors.InvalidArgumentError, match="no block 3"):
        encoder.systematic(3)
    with pytest.raises(errors.InvalidArgumentError, match="nothing in it"):
        encoder.coded([0, 0, 0])
    with pytest.raises(errors.InvalidArgumentError, match="no number of its field"):
        encoder.coded([0.5, 0, 1])
    decoder = square.Decoder(encoder.generation, np.empty(100, "uint8"))
    with pytest.raises(errors.FailedPreconditionError, match="rank 0 of 3"):
        decoder.finish()
    with pytest.raises(errors.InvalidArgumentError, match="room for 99"):
        square.Decoder(encoder.generation, np.empty(99, "uint8"))
    with pytest.raises(errors.InvalidArgumentError):
        square.Decoder(encoder.generation, bytes(100))
    with pytest.raises(errors.InvalidArgumentError, match="generation 5"):
        decoder.add(square.Encoder(data, blocks=3, number=5).next())
    with pytest.raises(errors.FailedPreconditionError, match="no block"):
        square.Recoder(encoder.generation).next()
    stored = encoder.next().tobytes()
    with pytest.raises(errors.DataLossError, match="cut off"):
        square.CodedBlock.parse(stored[:-1])
    with pytest.raises(errors.DataLossError, match="changed"):
        square.CodedBlock.parse(stored[:-1] + bytes([stored[-1] ^ 1]))
    with pytest.raises(errors.InvalidArgumentError, match="no coded block"):
        square.CodedBlock.parse(bytes(100))


def test_a_block_keeps_the_data_that_it_shows() -> None:
    data = np.arange(1000, dtype="uint8")
    block = square.Encoder(data, blocks=2).systematic(0)
    expected = data[:500].tobytes()
    del data
    assert block.payload == expected
