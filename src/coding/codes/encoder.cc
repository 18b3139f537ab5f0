#include "square/encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "coding/codes/payload.h"
#include "coding/codes/redundancy.h"
#include "coding/fields/field.h"

namespace square {
namespace {

// The largest magnitude; infinite if there is something that is no number.
float largest_magnitude(std::span<const std::byte> floats) {
  float largest = 0;
  for (std::size_t at = 0; at < floats.size(); at += sizeof(float)) {
    float value;
    std::memcpy(&value, floats.data() + at, sizeof(float));
    if (!std::isfinite(value)) return INFINITY;
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

// Would sums of multiples of the blocks keep the digits of all of them?
bool can_be_coded_as_floats(const Generation& generation, std::span<const std::byte> data) {
  float least = INFINITY;
  float most = 0;
  for (std::uint32_t i = 0; i < generation.blocks; ++i) {
    const float magnitude = largest_magnitude(data.subspan(
        std::min<std::uint64_t>(data.size(), i * generation.block_bytes()), generation.bytes_of(i)));
    least = std::min(least, magnitude);
    most = std::max(most, magnitude);
  }
  return std::isfinite(most) && most <= Encoder::kMostScale * static_cast<double>(least);
}

}  // namespace

Result<Encoder> Encoder::make(const EncoderOptions& options, std::span<const std::byte> data,
                              std::shared_ptr<const void> owner) {
  Generation generation{options.number, options.field, options.blocks, data.size()};
  SQUARE_RETURN_IF_ERROR(check_generation(generation));
  if (generation.field == FieldKind::kFloat32 && !can_be_coded_as_floats(generation, data)) {
    generation.field = FieldKind::kGf256;
  }
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
