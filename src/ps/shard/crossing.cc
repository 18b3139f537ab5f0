#include "ps/shard/crossing.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace square::ps {
namespace {

// One push, as it comes in.
class Arrival {
 public:
  Arrival(const v1::PsTransfer& transfer, ElementType type, const PartReader& current,
          std::span<float> values)
      : transfer_(transfer), type_(type), current_(current), values_(values) {
    if (current_) scratch_.resize(std::min(values.size(), kPartElements));
    norms_.reserve(values.size() / kBlockElements + 1);
  }

  // Parts in their order.
  Status take(std::size_t index, std::span<const std::byte> message) {
    const std::size_t first = index * kPartElements;
    SQUARE_RETURN_IF_ERROR(
        check_part(message, {transfer_.version(), transfer_.ticket(), transfer_.shard().begin() + first}));
    const std::span<const std::byte> payload = message.subspan(kPartHeadBytes);
    const std::span<float> out = values_.subspan(first, part_size(values_.size(), index));
    const std::span<float> current = std::span(scratch_).first(current_ ? out.size() : 0);
    if (current_) SQUARE_RETURN_IF_ERROR(current_(index, current));
    const std::size_t element_bytes = payload.size() / out.size();
    for (std::size_t at = 0; at < out.size(); at += kBlockElements) {
      const std::size_t count = std::min(kBlockElements, out.size() - at);
      const auto bytes = payload.subspan(at * element_bytes, count * element_bytes);
      const std::span<float> block = out.subspan(at, count);
      norms_.push_back(current_ ? receive_parameters(block, current.subspan(at, count), bytes)
                                : ps::receive(block, bytes, type_));
    }
    return {};
  }
  [[nodiscard]] NormOf norm() const { return total(norms_); }

 private:
  const v1::PsTransfer& transfer_;
  const ElementType type_;
  const PartReader& current_;
  const std::span<float> values_;
  std::vector<float> scratch_;
  std::vector<NormOf> norms_;
};

}  // namespace

Result<NormOf> receive_push(DataLine& line, Staging& staging, const v1::PsTransfer& transfer,
                            ElementType type, const PartReader& current, std::span<float> values) {
  const std::size_t parts = parts_of(values.size());
  const auto bytes_of_part = [&](std::size_t i) { return part_bytes(part_size(values.size(), i), type); };
  Arrival arrival(transfer, type, current, values);
  Window window(line, staging, parts, parts == 0 ? 0 : bytes_of_part(0));
  for (std::size_t i = 0; i < std::min(parts, kPartsUnderWay); ++i) {
    SQUARE_RETURN_IF_ERROR(window.receive(i, bytes_of_part(i)));
  }
  for (std::size_t i = 0; i < parts; ++i) {
    SQUARE_RETURN_IF_ERROR(window.wait(i));
    SQUARE_RETURN_IF_ERROR(arrival.take(i, window.buffer(i, bytes_of_part(i))));
    const std::size_t next = i + kPartsUnderWay;
    if (next < parts) SQUARE_RETURN_IF_ERROR(window.receive(next, bytes_of_part(next)));
  }
  return arrival.norm();
}

Status send_parameters(DataLine& line, Staging& staging, const v1::PsTransfer& transfer,
                       const PartReader& read) {
  const std::size_t elements = transfer.shard().end() - transfer.shard().begin();
  const std::size_t parts = parts_of(elements);
  const auto bytes_of_part = [&](std::size_t i) {
    return part_bytes(part_size(elements, i), ElementType::kFloat32);
  };
  Window window(line, staging, parts, parts == 0 ? 0 : bytes_of_part(0));
  for (std::size_t i = 0; i < parts; ++i) {
    SQUARE_RETURN_IF_ERROR(window.wait(i));  // for the one before in its buffer
    const std::span<std::byte> message = window.buffer(i, bytes_of_part(i));
    SQUARE_RETURN_IF_ERROR(read(i, payload_of(message)));
    seal(message, {transfer.version(), transfer.maker(), transfer.shard().begin() + i * kPartElements});
    SQUARE_RETURN_IF_ERROR(window.send(i, message.size()));
  }
  for (std::size_t i = parts; i < parts + kPartsUnderWay; ++i) SQUARE_RETURN_IF_ERROR(window.wait(i));
  return {};
}

}  // namespace square::ps
