#include "square/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>

#include "base/check.h"
#include "square/controller_client.h"

namespace square {
namespace {

// The outcome of one call, from the node's strand to whoever waits.
class PostedWork final : public Work {
 public:
  explicit PostedWork(std::function<void()> cancel) : cancel_(std::move(cancel)) {}

  Status wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return outcome_.has_value(); });
    return *outcome_;
  }

  bool wait_for(Duration timeout) override {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return outcome_.has_value(); });
  }

  bool is_done() const override {
    const std::lock_guard lock(mutex_);
    return outcome_.has_value();
  }

  void cancel() override {
    if (!is_done()) cancel_();
  }

  // The first outcome counts.
  void finish(Status outcome) {
    const std::lock_guard lock(mutex_);
    if (outcome_) return;
    outcome_ = std::move(outcome);
    changed_.notify_all();
  }

 private:
  std::function<void()> cancel_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Status> outcome_;
};

// Who posts to a node that stops is told so: the call is dropped, and this with it.
struct Finisher {
  std::shared_ptr<PostedWork> work;
  ~Finisher() { work->finish(cancelled("the node was stopped before the operation ended")); }
};

// Of an all-reduce whose usual size nobody told.
constexpr std::uint64_t kNominalBytes = std::uint64_t{1} << 20U;

Status check_group(const MemberHost& node, const GroupSpec& group, Rank rank) {
  if (group.nodes.empty()) return invalid_argument(fmt::format("group \"{}\" has no members", group.name));
  if (rank.index() >= group.nodes.size()) {
    return invalid_argument(fmt::format("group \"{}\" has {} members, so no rank {}", group.name,
                                        group.nodes.size(), rank.value()));
  }
  if (group.nodes[rank.index()] != node.name()) {
    return invalid_argument(fmt::format("rank {} of group \"{}\" lives on node \"{}\", not on \"{}\"",
                                        rank.value(), group.name, group.nodes[rank.index()], node.name()));
  }
  return Status::ok();
}

}  // namespace

class Communicator::Core {
 public:
  Core(MemberHost& node, GroupSpec group, Rank rank) : node_(node), group_(std::move(group)), rank_(rank) {}

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] std::size_t size() const { return group_.nodes.size(); }

  // Registers what the group's spec says now, and takes part in it.
  Status enrol(Duration timeout) {
    for (GroupCollective& collective : group_.collectives) {
      // The plan cuts this many bytes into shares; every call is cut in proportion.
      if (collective.op == CollectiveOp::kAllReduce && collective.size_bytes == 0)
        collective.size_bytes = kNominalBytes;
    }
    SQUARE_ASSIGN_OR_RETURN(const GroupRegistration registered, node_.register_group(group_, timeout));
    std::vector<Rank> local;
    for (std::uint32_t rank = 0; rank < group_.nodes.size(); ++rank) {
      if (group_.nodes[rank] == node_.name()) local.emplace_back(rank);
    }
    for (std::size_t i = 0; i < group_.collectives.size(); ++i) {
      registered_.try_emplace(key_of(group_.collectives[i]), Registered{registered.collectives[i], 0});
      node_.set_members(registered.collectives[i], group_.name, local);
    }
    return Status::ok();
  }

  // One member's part in a call, all but the numbers of the collective and the call.
  Result<std::shared_ptr<Work>> call(CollectiveOp op, Rank root, MemberOperation part) {
    const std::lock_guard lock(mutex_);
    if (root.index() >= size()) {
      return invalid_argument(
          fmt::format("root {} is not a rank of group \"{}\" of {}", root.value(), group_.name, size()));
    }
    if (const auto failure = first_failure()) {
      return failed_precondition(fmt::format("group \"{}\" failed before ({}); make a new group", group_.name,
                                             failure->to_string()));
    }
    const GroupCollective wanted{op, root, 1.0, std::max(part.input.size(), part.output.size())};
    if (!registered_.contains(key_of(wanted))) {
      group_.collectives.push_back(wanted);
      if (const Status enrolled = enrol(part.timeout); !enrolled.is_ok()) {
        group_.collectives.pop_back();
        return enrolled;
      }
    }
    part.is_root = has_root(op) && rank_ == root;
    return std::shared_ptr<Work>(post(registered_.at(key_of(wanted)), std::move(part)));
  }

 private:
  struct Registered {
    CollectiveId id;
    std::uint64_t calls = 0;
  };
  // Shared with the calls under way, which may outlive the communicator.
  struct Failure {
    std::mutex mutex;
    std::optional<Status> first;
  };

  [[nodiscard]] std::optional<Status> first_failure() const {
    const std::lock_guard lock(failure_->mutex);
    return failure_->first;
  }

  using Key = std::pair<CollectiveOp, Rank>;
  static bool has_root(CollectiveOp op) { return op != CollectiveOp::kAllReduce; }
  static Key key_of(const GroupCollective& collective) {
    return {collective.op, has_root(collective.op) ? collective.root : Rank(0)};
  }

  std::shared_ptr<PostedWork> post(Registered& collective, MemberOperation call) {
    call.collective = collective.id;
    call.operation = OperationId(collective.calls++);
    call.rank = rank_;
    auto work = std::make_shared<PostedWork>(
        [node = &node_, id = call.collective, operation = call.operation] { node->cancel(id, operation); });
    call.done = [finisher = std::make_shared<Finisher>(work), failure = failure_](Status outcome) {
      if (!outcome.is_ok()) {
        const std::lock_guard lock(failure->mutex);
        if (!failure->first) failure->first = outcome;
      }
      finisher->work->finish(std::move(outcome));
    };
    node_.post(std::move(call));
    return work;
  }

  MemberHost& node_;
  GroupSpec group_;
  const Rank rank_;
  std::mutex mutex_;
  std::map<Key, Registered> registered_;
  std::shared_ptr<Failure> failure_ = std::make_shared<Failure>();
};

Communicator::Communicator(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Communicator::~Communicator() = default;

Result<std::unique_ptr<Communicator>> Communicator::create(MemberHost& node, GroupSpec group, Rank rank,
                                                           Duration timeout) {
  SQUARE_RETURN_IF_ERROR(check_group(node, group, rank));
  auto core = std::make_unique<Core>(node, std::move(group), rank);
  SQUARE_RETURN_IF_ERROR(core->enrol(timeout));
  return std::unique_ptr<Communicator>(new Communicator(std::move(core)));
}

Rank Communicator::rank() const { return core_->rank(); }
std::size_t Communicator::size() const { return core_->size(); }

Result<std::shared_ptr<Work>> Communicator::broadcast_async(std::span<std::byte> data, Rank root,
                                                            Duration timeout) {
  MemberOperation part;
  part.input = data;
  part.output = data;
  part.timeout = timeout;
  return core_->call(CollectiveOp::kBroadcast, root, std::move(part));
}

Status Communicator::broadcast(std::span<std::byte> data, Rank root, Duration timeout) {
  SQUARE_ASSIGN_OR_RETURN(const auto work, broadcast_async(data, root, timeout));
  return work->wait();
}

Result<std::shared_ptr<Work>> Communicator::reduce_async(std::span<const std::byte> input,
                                                         std::span<std::byte> output, Reduction reduction,
                                                         Rank root, Duration timeout) {
  MemberOperation part;
  part.input = input;
  if (rank() == root) part.output = output;
  part.reduction = reduction;
  part.timeout = timeout;
  return core_->call(CollectiveOp::kReduce, root, std::move(part));
}

Status Communicator::reduce(std::span<const std::byte> input, std::span<std::byte> output,
                            Reduction reduction, Rank root, Duration timeout) {
  SQUARE_ASSIGN_OR_RETURN(const auto work, reduce_async(input, output, reduction, root, timeout));
  return work->wait();
}

Result<std::shared_ptr<Work>> Communicator::all_reduce_async(std::span<const std::byte> input,
                                                             std::span<std::byte> output, Reduction reduction,
                                                             Duration timeout) {
  MemberOperation part;
  part.input = input;
  part.output = output;
  part.reduction = reduction;
  part.timeout = timeout;
  return core_->call(CollectiveOp::kAllReduce, Rank(0), std::move(part));
}

Status Communicator::all_reduce(std::span<const std::byte> input, std::span<std::byte> output,
                                Reduction reduction, Duration timeout) {
  SQUARE_ASSIGN_OR_RETURN(const auto work, all_reduce_async(input, output, reduction, timeout));
  return work->wait();
}

}  // namespace square
