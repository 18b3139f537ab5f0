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
    SQUARE_ASSIGN_OR_RETURN(const GroupRegistration registered, node_.register_group(group_, timeout));
    std::vector<Rank> local;
    for (std::uint32_t rank = 0; rank < group_.nodes.size(); ++rank) {
      if (group_.nodes[rank] == node_.name()) local.emplace_back(rank);
    }
    for (std::size_t i = 0; i < group_.collectives.size(); ++i) {
      broadcasts_.try_emplace(group_.collectives[i].root, Registered{registered.collectives[i], 0});
      node_.set_members(registered.collectives[i], group_.name, local);
    }
    return Status::ok();
  }

  Result<std::shared_ptr<Work>> broadcast(std::span<std::byte> data, Rank root, Duration timeout) {
    const std::lock_guard lock(mutex_);
    if (root.index() >= size()) {
      return invalid_argument(
          fmt::format("root {} is not a rank of group \"{}\" of {}", root.value(), group_.name, size()));
    }
    if (const auto failure = first_failure()) {
      return failed_precondition(fmt::format("group \"{}\" failed before ({}); make a new group", group_.name,
                                             failure->to_string()));
    }
    if (!broadcasts_.contains(root)) {
      group_.collectives.push_back({CollectiveOp::kBroadcast, root, 1.0, data.size()});
      if (const Status enrolled = enrol(timeout); !enrolled.is_ok()) {
        group_.collectives.pop_back();
        return enrolled;
      }
    }
    return std::shared_ptr<Work>(post(broadcasts_.at(root), data, rank_ == root, timeout));
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

  std::shared_ptr<PostedWork> post(Registered& collective, std::span<std::byte> data, bool is_source,
                                   Duration timeout) {
    MemberOperation call;
    call.collective = collective.id;
    call.operation = OperationId(collective.calls++);
    call.rank = rank_;
    call.input = data;
    call.output = data;
    call.is_root = is_source;
    call.timeout = timeout;
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
  std::map<Rank, Registered> broadcasts_;
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
  return core_->broadcast(data, root, timeout);
}

Status Communicator::broadcast(std::span<std::byte> data, Rank root, Duration timeout) {
  SQUARE_ASSIGN_OR_RETURN(const auto work, core_->broadcast(data, root, timeout));
  return work->wait();
}

}  // namespace square
