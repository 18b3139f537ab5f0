// How the root of a sum knows that a part was lost, on one of its streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "node/sums/sum_messages.h"
#include "square/ids.h"

namespace square {

// Loss is known, never guessed: links keep the order of a stream, so what does not come before
// something that was sent later, a block or a report, is lost. Not thread-safe.
class LossWatch {
 public:
  explicit LossWatch(std::size_t parents) : seen_(parents) {}

  // A parent's part with this place in the stream's order, from 1, is here: the blocks that the parent
  // passed over since its last. They are lost, unless they came before.
  std::span<const std::uint32_t> on_part(const std::vector<std::uint32_t>& order, std::size_t parent,
                                         std::uint64_t sequence);
  void on_report(const SumReport& report);

  // What all contributors have reported, at least: a block before `position` that is not here, and was
  // not asked for by a request after `number`, is lost.
  struct Reported {
    std::uint32_t number = 0;
    std::uint32_t position = 0;
  };
  // Nothing while one of them has not reported.
  [[nodiscard]] std::optional<Reported> reported_by(std::size_t contributors) const;

 private:
  std::vector<std::uint64_t> seen_;  // by parent: the last sequence
  std::map<NodeId, Reported> reported_;
};

}  // namespace square
