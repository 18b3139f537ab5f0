// Parts of blocks that wait for the other parents' parts, or for a local member's call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "square/buffer.h"
#include "square/ids.h"

namespace square {

struct SumPart {
  Buffer payload;
  // The slot of the window that it took: given back when the sum has left.
  std::shared_ptr<void> guard{};
  std::uint64_t sequence = 0;  // 0: of a retry
  bool has_arrived = false;
};

// Not thread-safe: used on the node's strand.
class WaitingParts {
 public:
  struct Place {
    std::size_t block;
    StreamIndex stream;
  };
  // False if this parent's part is here already. Precondition: parent < parents.
  bool add(std::size_t block, StreamIndex stream, std::size_t parents, std::size_t parent, SumPart part);
  [[nodiscard]] bool has(std::size_t block, std::size_t parent) const;
  // Every parent's part is here.
  [[nodiscard]] bool is_complete(std::size_t block) const;
  // No part of the block came on another stream.
  [[nodiscard]] bool may_come_on(std::size_t block, StreamIndex stream) const;
  [[nodiscard]] std::size_t size() const { return blocks_.size(); }

  // All parts of a block, by parent; it waits no more. Precondition: one is here.
  std::vector<SumPart> take(std::size_t block);
  void drop(std::size_t block) { blocks_.erase(block); }
  template <typename Predicate>
  void drop_if(const Predicate& is_wrong) {
    std::erase_if(blocks_, [&](const auto& entry) {
      return is_wrong(Place{entry.first, entry.second.stream});
    });
  }
  void clear() { blocks_.clear(); }

  // What waits, in the order in which its streams carry it: so what passes keeps it.
  [[nodiscard]] std::vector<Place> in_order() const;

 private:
  struct Block {
    StreamIndex stream;
    std::size_t arrived = 0;
    std::vector<SumPart> parts;  // by parent
  };
  std::map<std::size_t, Block> blocks_;
};

}  // namespace square
