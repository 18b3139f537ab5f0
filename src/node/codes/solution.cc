#include "node/codes/solution.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "coding/codes/payload.h"
#include "coding/fields/field.h"

namespace square {
namespace {

// The block's checksum as the source's, if one of the sums says it.
std::optional<std::uint32_t> checksum_of(const Generations::Solution& solution, std::size_t block) {
  for (const Generations::Part& part : solution.parts) {
    const auto& checksums = part.payload.checksums;
    if (block - solution.first < checksums.size() && checksums[block - solution.first])
      return checksums[block - solution.first];
  }
  return std::nullopt;
}

class Writing {
 public:
  Writing(const Generations::Solution& solution, const BlockShape& shape,
          const std::vector<std::byte*>& destinations, const trust::BlockOpener* opener)
      : solution_(solution), shape_(shape), destinations_(destinations), opener_(opener) {}

  std::vector<std::size_t> run() {
    for (const Generations::Part& part : solution_.parts) inputs_.push_back(part.payload.sum);
    const std::size_t size_bytes = common_length(solution_.field, inputs_);
    for (const std::size_t block : solution_.known) {
      auto known = known_block(block);
      if (!known) return solution_.missing;
      inputs_.push_back(*std::move(known));
    }
    std::vector<const std::byte*> in;
    for (Buffer& input : inputs_) {
      if (input.size_bytes() < size_bytes || input.slices().size() > 1) input = padded(input, size_bytes);
      in.push_back(first_byte(input));
    }
    std::vector<std::byte*> out;
    for (const std::size_t block : solution_.missing) out.push_back(room_for(block, size_bytes));
    if (size_bytes > 0) field_of(solution_.field).combine(matrix(), in, out, size_bytes);
    std::vector<std::size_t> wrong;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!take(solution_.missing[i], out[i], size_bytes)) wrong.push_back(solution_.missing[i]);
    }
    return wrong;
  }

 private:
  [[nodiscard]] std::byte* place_of(std::size_t destination, std::size_t block) const {
    return destinations_[destination] + block * shape_.block_bytes;
  }
  [[nodiscard]] std::size_t sent_bytes(std::size_t block) const {
    return shape_.bytes_of(block) + (opener_ != nullptr ? trust::kSealBytes : 0);
  }

  // As the source has sent it.
  [[nodiscard]] std::optional<Buffer> known_block(std::size_t block) const {
    const Buffer data(nullptr, place_of(0, block), shape_.bytes_of(block));
    return opener_ != nullptr ? opener_->seal_again(block, data) : std::optional(data);
  }

  [[nodiscard]] CoefficientMatrix matrix() const {
    CoefficientMatrix matrix = CoefficientMatrix::from_shape({solution_.missing.size(), inputs_.size()});
    for (std::size_t i = 0; i < solution_.missing.size(); ++i) {
      for (std::size_t k = 0; k < inputs_.size(); ++k) matrix(i, k) = solution_.matrix[i][k];
    }
    return matrix;
  }

  // Its place, where it is as long as what is solved, and may be seen there before it is known to be right.
  std::byte* room_for(std::size_t block, std::size_t size_bytes) {
    if (opener_ == nullptr && shape_.bytes_of(block) == size_bytes) return place_of(0, block);
    rooms_.push_back(std::make_unique_for_overwrite<std::byte[]>(size_bytes));
    return rooms_.back().get();
  }

  // From where it was solved into all buffers. False where it is not right.
  [[nodiscard]] bool take(std::size_t block, const std::byte* solved, std::size_t size_bytes) const {
    const std::span<const std::byte> sent(solved, std::min(size_bytes, sent_bytes(block)));
    const auto expected = checksum_of(solution_, block);
    const bool is_right = size_bytes >= sent_bytes(block) && (!expected || crc32c(sent) == *expected);
    if (opener_ != nullptr) {
      const auto opened =
          is_right ? opener_->open(block, Buffer(nullptr, sent.data(), sent.size())) : std::nullopt;
      for (std::size_t d = 0; opened && d < destinations_.size(); ++d) opened->copy_to(place_of(d, block));
      return opened.has_value();
    }
    for (std::size_t d = 0; d < destinations_.size(); ++d) {
      std::byte* const place = place_of(d, block);
      if (place != solved) std::memcpy(place, sent.data(), sent.size());
    }
    return is_right;
  }

  const Generations::Solution& solution_;
  const BlockShape& shape_;
  const std::vector<std::byte*>& destinations_;
  const trust::BlockOpener* const opener_;
  std::vector<Buffer> inputs_;  // the sums, then the known blocks
  std::vector<std::unique_ptr<std::byte[]>> rooms_;
};

}  // namespace

std::vector<std::size_t> write_solution(const Generations::Solution& solution, const BlockShape& shape,
                                        const std::vector<std::byte*>& destinations,
                                        const trust::BlockOpener* opener) {
  return Writing(solution, shape, destinations, opener).run();
}

}  // namespace square
