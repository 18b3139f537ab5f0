// Gives the data back from any coded blocks of its generation that are enough.
#pragma once

#include <memory>
#include <span>

#include "square/coded_block.h"
#include "square/reduction.h"

namespace square {

// Not for use by several threads at once. Keeps no more than K blocks.
class Decoder {
 public:
  // Writes to `data`, which has generation.data_bytes bytes and stays until the decoder is gone. Errors: as
  // check_generation(); INVALID_ARGUMENT for a span of another size. Where `elements` are halves and the
  // generation is of floats, `data` has half as many bytes and is written by finish(), each element rounded
  // once.
  static Result<Decoder> make(const Generation& generation, std::span<std::byte> data,
                              ElementType elements = ElementType::kFloat32);
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  // Was there something new in it? Of floats also no where the last one would make the condition number too
  // large. A systematic block is copied to its place; of others a reference is kept. Errors: INVALID_ARGUMENT
  // for a block of another generation, and as check_coded_block(): nothing has changed then.
  Result<bool> add(const CodedBlock& block);

  // How many of the blocks so far do not depend on one another: K are enough.
  [[nodiscard]] std::uint32_t rank() const;
  // Solves for the blocks that did not come as they are; the others are not touched, unless all are halves
  // that were coded as float32. Errors:
  // FAILED_PRECONDITION "not yet decodable: rank 2 of 3".
  Status finish();

 private:
  struct State;
  explicit Decoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace square
