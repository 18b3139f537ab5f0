// Mixes coded blocks of one generation without decoding them, as a node does where flows meet.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "square/coded_block.h"

namespace square {

// The sum of multiples of `blocks`: the coefficients are of the blocks, what the new one says is of the data.
// Errors: INVALID_ARGUMENT for none, blocks of several generations, another number of coefficients, one that
// is no number of the field, or a sum of which nothing is left; as check_coded_block().
Result<CodedBlock> recode(std::span<const CodedBlock> blocks, std::span<const double> coefficients);

// What a node keeps of one generation to mix. Not for use by several threads at once. Keeps no more than K
// blocks.
class Recoder {
 public:
  // Errors: as check_generation().
  static Result<Recoder> make(const Generation& generation);
  ~Recoder();
  Recoder(Recoder&&) noexcept;
  Recoder& operator=(Recoder&&) noexcept;

  // Was there something new in it? It is kept then, by reference. Errors: as Decoder::add().
  Result<bool> add(const CodedBlock& block);
  // How many blocks are kept.
  [[nodiscard]] std::uint32_t rank() const;
  // The sum of multiples of those that are kept, in the order in which they came. Errors: as recode().
  [[nodiscard]] Result<CodedBlock> coded(std::span<const double> coefficients) const;
  // One with random coefficients, by the number of the generation and `seed` + the number of calls so far:
  // give nodes different seeds. Errors: FAILED_PRECONDITION if nothing is kept.
  Result<CodedBlock> next(std::uint64_t seed = 0);

 private:
  struct State;
  explicit Recoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace square
