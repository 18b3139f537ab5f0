#include "node/sums/loss_watch.h"

#include <algorithm>
#include <limits>

namespace square {

std::span<const std::uint32_t> LossWatch::on_part(const std::vector<std::uint32_t>& order, std::size_t parent,
                                                  std::uint64_t sequence) {
  std::uint64_t& seen = seen_[parent];
  const std::uint64_t begin = std::min<std::uint64_t>(seen, order.size());
  const std::uint64_t end = std::clamp<std::uint64_t>(sequence - 1, begin, order.size());
  seen = std::max(seen, sequence);
  return std::span(order).subspan(begin, end - begin);
}

void LossWatch::on_report(const SumReport& report) {
  Reported& known = reported_[report.contributor];
  known.number = std::max(known.number, report.number);
  known.position = std::max(known.position, report.position);
}

std::optional<LossWatch::Reported> LossWatch::reported_by(std::size_t contributors) const {
  if (reported_.size() < contributors) return std::nullopt;
  constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
  Reported least{kMost, kMost};
  for (const auto& [node, one] : reported_) {
    least.number = std::min(least.number, one.number);
    least.position = std::min(least.position, one.position);
  }
  return least;
}

}  // namespace square
