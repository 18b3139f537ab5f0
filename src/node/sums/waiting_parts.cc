#include "node/sums/waiting_parts.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace square {

bool WaitingParts::add(std::size_t block, StreamIndex stream, std::size_t parents, std::size_t parent,
                       SumPart part) {
  Block& known = blocks_[block];
  known.stream = stream;
  known.parts.resize(parents);
  if (known.parts[parent].has_arrived) return false;
  known.parts[parent] = std::move(part);
  known.parts[parent].has_arrived = true;
  ++known.arrived;
  return true;
}

bool WaitingParts::has(std::size_t block, std::size_t parent) const {
  const auto known = blocks_.find(block);
  return known != blocks_.end() && known->second.parts[parent].has_arrived;
}

bool WaitingParts::is_complete(std::size_t block) const {
  const auto known = blocks_.find(block);
  return known != blocks_.end() && known->second.arrived == known->second.parts.size();
}

bool WaitingParts::may_come_on(std::size_t block, StreamIndex stream) const {
  const auto known = blocks_.find(block);
  return known == blocks_.end() || known->second.stream == stream;
}

std::vector<SumPart> WaitingParts::take(std::size_t block) {
  const auto known = blocks_.find(block);
  std::vector<SumPart> parts = std::move(known->second.parts);
  blocks_.erase(known);
  return parts;
}

std::vector<WaitingParts::Place> WaitingParts::in_order() const {
  std::vector<std::tuple<std::uint64_t, std::size_t, StreamIndex>> waiting;
  for (const auto& [block, known] : blocks_) {
    const std::uint64_t sequence = known.parts.front().sequence;
    waiting.emplace_back(sequence == 0 ? ~std::uint64_t{0} : sequence, block, known.stream);
  }
  std::ranges::sort(waiting);
  std::vector<Place> places;
  for (const auto& [sequence, block, stream] : waiting) places.push_back({block, stream});
  return places;
}

}  // namespace square
