// Operations on a group, as one member sees them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "square/group.h"
#include "square/member_host.h"
#include "square/status.h"

namespace square {

// An operation that runs. Thread-safe.
class Work {
 public:
  virtual ~Work() = default;
  // Blocks until the operation is over and returns its outcome. It ends by itself
  // within its timeout plus Node::kDrainTime.
  virtual Status wait() = 0;
  // Blocks until it is over or `timeout` passed, and says which.
  virtual bool wait_for(Duration timeout) = 0;
  [[nodiscard]] virtual bool is_done() const = 0;
  // Ends it on every member, unless it is over. Does not block: wait() returns soon.
  virtual void cancel() = 0;
};

// All members must call the same operations in the same order. After a failure every
// later call fails with FAILED_PRECONDITION and the first cause: make a new group.
// Thread-safe; must not outlive its node.
class Communicator {
 public:
  static constexpr Duration kDefaultTimeout = std::chrono::minutes(5);

  // Registers the group with the controller and waits for a plan. `rank` lives on
  // `node`, which is in this process (OverlayNode) or a gateway that it attached to. Errors: INVALID_ARGUMENT
  // for a rank that is not of this node; those of ControllerClient::register_group(). Blocks for `timeout` at
  // most.
  static Result<std::unique_ptr<Communicator>> create(MemberHost& node, GroupSpec group, Rank rank,
                                                      Duration timeout = kDefaultTimeout);
  ~Communicator();

  [[nodiscard]] Rank rank() const;
  [[nodiscard]] std::size_t size() const;

  // Copies the root's `data` to every member's. All sizes must be equal; zero is
  // allowed. `data` must stay valid until the work is done. Blocks only where `root`
  // has no plan yet: it is registered first.
  Result<std::shared_ptr<Work>> broadcast_async(std::span<std::byte> data, Rank root,
                                                Duration timeout = kDefaultTimeout);
  // The same, and waits. Errors: see Node::post().
  Status broadcast(std::span<std::byte> data, Rank root, Duration timeout = kDefaultTimeout);

  // Adds every member's `input`, element by element, into the root's `output`. Every call
  // under one plan adds in the same order, so the bits are the same. Input and output may be
  // the same memory. `output` is ignored elsewhere. Errors: INVALID_ARGUMENT for a type
  // that cannot be added, a size that is not a multiple of the element's, sizes that differ;
  // those of Node::post().
  Result<std::shared_ptr<Work>> reduce_async(std::span<const std::byte> input, std::span<std::byte> output,
                                             Reduction reduction, Rank root,
                                             Duration timeout = kDefaultTimeout);
  Status reduce(std::span<const std::byte> input, std::span<std::byte> output, Reduction reduction, Rank root,
                Duration timeout = kDefaultTimeout);

  // The same into every member's `output`; all have the same bits.
  Result<std::shared_ptr<Work>> all_reduce_async(std::span<const std::byte> input,
                                                 std::span<std::byte> output, Reduction reduction,
                                                 Duration timeout = kDefaultTimeout);
  Status all_reduce(std::span<const std::byte> input, std::span<std::byte> output, Reduction reduction,
                    Duration timeout = kDefaultTimeout);

 private:
  class Core;
  explicit Communicator(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace square
