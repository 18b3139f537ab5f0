// A node where flows of a code meet: adds their blocks and sends the sum on.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "node/context.h"
#include "node/lifetime.h"
#include "node/links/outgoing_stream.h"
#include "node/plan/installed_collective.h"
#include "square/frame.h"

namespace square {

// Blocks that wait for those that they are added to hold their credit, and so their parents back. One whose
// other half does not come for so long, or for so many times what a block takes, is let go: an operation that
// has ended leaves some.
inline constexpr Duration kAdderPatience = std::chrono::seconds(2);
inline constexpr double kAdderPatienceBlocks = 8;
// What has nothing waiting is forgotten after this time; nobody tells a relay that an operation is over.
inline constexpr Duration kAdderMemory = std::chrono::seconds(1);
// Operations that one adder remembers; one more takes the place of the oldest with nothing waiting.
inline constexpr std::size_t kMaxAddedOperations = 4'096;

// Streams keep the order of their blocks, and a generation has the same number on all streams of its code: a
// block whose number another stream has passed without it is alone for good, and dropped. So losses are
// known, not guessed, and what is held is bounded by the windows of the terms. Not thread-safe: used on the
// node's strand.
class CodeAdder {
 public:
  // `stream` begins here, and goes on to `children`. The plan is kept.
  CodeAdder(std::shared_ptr<NodeContext> node, std::shared_ptr<const InstalledCollective> plan,
            const LocalStream& stream, std::vector<std::shared_ptr<OutgoingStream>> children);
  ~CodeAdder();

  void on_block(const LocalStream& term, const Frame& frame, const std::shared_ptr<void>& guard);
  // Everything of the term up to here has been sent.
  void on_probe(const LocalStream& term, const FrameHeader& header);
  void drop(OperationId operation) { operations_.erase(operation); }

 private:
  struct Item {
    Frame frame;
    std::shared_ptr<void> guard;
    TimePoint came_at;
  };
  struct Term {
    std::deque<Item> waiting;
    std::uint64_t seen = 0;
    bool is_probed = false;  // since the last probe went on
  };
  struct Operation {
    std::vector<Term> terms;
    bool is_adding = false;
    std::optional<FrameHeader> probe{};
    TimePoint used_at{};

    [[nodiscard]] bool is_waiting() const;
  };

  Operation* open(OperationId operation);
  bool make_room();
  Term& term_of(Operation& operation, const LocalStream& term) const;
  void go_on(OperationId id, Operation& operation);
  // False where a block of each term is there, of the same generation; what is alone is gone then.
  static bool drop_alone(Operation& operation);
  void add(OperationId id, Operation& operation);
  // `sum`: nothing where what came cannot be added.
  void on_added(OperationId id, const std::optional<Frame>& sum, const std::shared_ptr<void>& guard);
  void send_probe(Operation& operation);
  [[nodiscard]] Duration patience(const Operation& operation) const;
  void forget_later();

  std::shared_ptr<NodeContext> node_;
  const std::shared_ptr<const InstalledCollective> plan_;
  const LocalStream& stream_;
  const std::vector<std::shared_ptr<OutgoingStream>> children_;
  std::map<OperationId, Operation> operations_;
  Executor::TimerId forget_timer_ = 0;
  Lifetime life_;
};

}  // namespace square
