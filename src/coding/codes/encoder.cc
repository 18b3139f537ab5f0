#include "square/encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "coding/codes/float_scale.h"
#include "coding/codes/halves.h"
#include "coding/codes/payload.h"
#include "coding/codes/redundancy.h"
#include "coding/fields/field.h"

namespace square {
namespace {

// Would sums of multiples of the blocks keep the digits of all of them?
bool can_be_coded_as_floats(const Generation& generation, std::span<const std::byte> data) {
  FloatScale scale;
  for (std::uint32_t i = 0; i < generation.blocks && generation.bytes_of(i) > 0; ++i) {
    scale.include(largest_magnitude(data.subspan(i * generation.block_bytes(), generation.bytes_of(i))));
  }
  return scale.keeps_digits();
}

}  // namespace

Result<Encoder> Encoder::make(const EncoderOptions& options, std::span<const std::byte> data,
                              std::shared_ptr<const void> owner) {
  if (options.field == FieldKind::kFloat32) return make_of_floats(options, data, std::move(owner));
  const Generation generation{options.number, options.field, options.blocks, data.size()};
  SQUARE_RETURN_IF_ERROR(check_generation(generation));
  return Encoder(generation, data, std::move(owner));
}

Result<Encoder> Encoder::make_of_floats(const EncoderOptions& options, std::span<const std::byte> data,
                                        std::shared_ptr<const void> owner) {
  const std::size_t element = element_bytes(options.elements);
  if (!(is_half(options.elements) || options.elements == ElementType::kFloat32) ||
      data.size() % element != 0) {
    return invalid_argument(
        fmt::format("{} bytes of {} are no floats that can be coded: float32, float16 and "
                    "bfloat16 are; the field gf256 takes anything",
                    data.size(), to_string(options.elements)));
  }
  Generation generation{options.number, FieldKind::kFloat32, options.blocks,
                        data.size() / element * sizeof(float)};
  SQUARE_RETURN_IF_ERROR(check_generation(generation));
  std::shared_ptr<std::vector<std::byte>> wide;
  if (is_half(options.elements))
    wide = std::make_shared<std::vector<std::byte>>(widened(options.elements, data));
  const std::span<const std::byte> floats = wide ? std::span<const std::byte>(*wide) : data;
  if (can_be_coded_as_floats(generation, floats))
    return Encoder(generation, floats, wide ? std::move(wide) : std::move(owner));
  generation.field = FieldKind::kGf256;
  generation.data_bytes = data.size();
  return Encoder(generation, data, std::move(owner));
}

Encoder::Encoder(const Generation& generation, std::span<const std::byte> data,
                 std::shared_ptr<const void> owner)
    : generation_(generation), data_(data), owner_(std::move(owner)) {
  const std::uint64_t block_bytes = generation_.block_bytes();
  while (first_padded_ < generation_.blocks && generation_.bytes_of(first_padded_) == block_bytes)
    ++first_padded_;
  padded_.resize((generation_.blocks - first_padded_) * block_bytes);
  const auto rest = data_.subspan(first_padded_ * block_bytes);
  std::ranges::copy(rest, padded_.begin());
}

const std::byte* Encoder::block(std::uint32_t index) const {
  const std::uint64_t block_bytes = generation_.block_bytes();
  return index < first_padded_ ? data_.data() + index * block_bytes
                               : padded_.data() + (index - first_padded_) * block_bytes;
}

CodedBlock Encoder::systematic(std::uint32_t index) const {
  SQUARE_CHECK(index < generation_.blocks, "a generation has so many blocks");
  CodedBlock made{generation_, std::vector<double>(generation_.blocks), {}};
  made.coefficients[index] = 1;
  if (const std::uint64_t size_bytes = generation_.bytes_of(index); size_bytes > 0) {
    made.payload = Buffer(owner_, data_.data() + index * generation_.block_bytes(), size_bytes);
  }
  return made;
}

Result<CodedBlock> Encoder::coded(std::span<const double> coefficients) const {
  CodedBlock made{generation_, {coefficients.begin(), coefficients.end()}, {}};
  if (const auto index = made.systematic_index(); index && coefficients.size() == generation_.blocks) {
    return systematic(*index);
  }
  NewPayload payload(generation_.block_bytes());
  made.payload = payload.buffer;
  SQUARE_RETURN_IF_ERROR(check_coded_block(made));
  std::vector<const std::byte*> blocks;
  CoefficientMatrix row = CoefficientMatrix::from_shape({1, generation_.blocks});
  for (std::uint32_t i = 0; i < generation_.blocks; ++i) {
    blocks.push_back(block(i));
    row(0, i) = coefficients[i];
  }
  std::byte* const out = payload.data;
  field_of(generation_.field).combine(row, blocks, {&out, 1}, generation_.block_bytes());
  return made;
}

CodedBlock Encoder::next() {
  const std::uint64_t number = made_++;
  if (number < generation_.blocks) return systematic(static_cast<std::uint32_t>(number));
  return *coded(redundant_row(generation_, number - generation_.blocks));
}

}  // namespace square
