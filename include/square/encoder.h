// Makes the coded blocks of a run of bytes.
#pragma once

#include <memory>
#include <span>

#include "square/coded_block.h"
#include "square/reduction.h"

namespace square {

struct EncoderOptions {
  std::uint64_t number = 0;  // of the generation
  FieldKind field = FieldKind::kGf256;
  std::uint32_t blocks = 1;  // K
  // Of floats, what the data are: kFloat32, or kFloat16 and kBfloat16, which are coded as float32 so that
  // sums keep their digits. The generation has the bytes of float32 then, twice as many.
  ElementType elements = ElementType::kFloat32;
};

// Not for use by several threads at once. Systematic blocks show the data, coded ones have memory of their
// own.
class Encoder {
 public:
  // Floats whose largest magnitudes differ more between two blocks are coded as bytes: the smaller ones would
  // lose their digits in the sums.
  static constexpr double kMostScale = 1e4;

  // Shows `data`, which stays as it is while the encoder or one of its systematic blocks lives; `owner`, if
  // there is one, is held as long. Where `options` ask for floats and there are an infinity, a NaN or scales
  // further apart than kMostScale, bytes are coded, halves as they are: generation() says so. Errors: as
  // check_generation(); INVALID_ARGUMENT for floats of other elements. Reads all data if they are floats.
  static Result<Encoder> make(const EncoderOptions& options, std::span<const std::byte> data,
                              std::shared_ptr<const void> owner = nullptr);

  [[nodiscard]] const Generation& generation() const { return generation_; }

  // Precondition: `index` below generation().blocks.
  [[nodiscard]] CodedBlock systematic(std::uint32_t index) const;
  // Errors: INVALID_ARGUMENT for another number of coefficients than there are blocks, one that is no number
  // of the field, or nothing but zeros. Reads all blocks whose coefficient is not 0.
  [[nodiscard]] Result<CodedBlock> coded(std::span<const double> coefficients) const;
  // The systematic blocks first, then sums. Of the first 256 over bytes, and 65,536 over pairs of them, any K
  // decode (Cauchy's matrix); the first sum has no factors but 1. Later sums, and those of floats, are random
  // by the generation's number.
  CodedBlock next();

 private:
  static Result<Encoder> make_of_floats(const EncoderOptions& options, std::span<const std::byte> data,
                                        std::shared_ptr<const void> owner);
  Encoder(const Generation& generation, std::span<const std::byte> data, std::shared_ptr<const void> owner);
  [[nodiscard]] const std::byte* block(std::uint32_t index) const;

  Generation generation_;
  std::span<const std::byte> data_;
  std::shared_ptr<const void> owner_;
  // The blocks that the data does not fill, from first_padded_ on.
  std::uint32_t first_padded_ = 0;
  std::vector<std::byte> padded_;
  std::uint64_t made_ = 0;
};

}  // namespace square
