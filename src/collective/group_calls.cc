#include "collective/group_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "collective/pause_watch.h"

namespace square {
namespace {

// An all-reduce is planned for so many bytes at least: the plan cuts whole bytes into shares, and
// the first call may be far smaller than those that matter.
constexpr std::uint64_t kLeastPlannedBytes = std::uint64_t{1} << 20U;

std::shared_ptr<Work> join_works(const std::vector<QueuedOperation>& operations) {
  JoinedWork::Parts works;
  for (const QueuedOperation& operation : operations) works.push_back(operation.work);
  return JoinedWork::join(std::move(works));
}

}  // namespace

Part multicast_source(Rank self, std::span<const std::byte> data, ElementType elements) {
  Part part;
  part.collective.root = self;
  part.call.is_root = true;
  part.call.input = data;
  part.call.elements = elements;
  return part;
}

Part multicast_destination(Rank root, std::span<std::byte> data) {
  Part part;
  part.collective.root = root;
  part.call.output = data;
  return part;
}

GroupCollective unicast(Rank from, Rank to, std::uint32_t channel) {
  GroupCollective collective;
  collective.root = from;
  collective.members = {std::min(from, to), std::max(from, to)};
  collective.channel = channel;
  return collective;
}

Part unicast_source(Rank self, Rank to, std::span<const std::byte> data, std::uint32_t channel) {
  Part part = multicast_source(self, data);
  part.collective = unicast(self, to, channel);
  return part;
}

Part unicast_destination(Rank self, Rank from, std::span<std::byte> data, std::uint32_t channel) {
  Part part = multicast_destination(from, data);
  part.collective = unicast(from, self, channel);
  return part;
}

Status copy_own(Rank self, std::span<const std::byte> from, std::span<std::byte> to) {
  if (from.size() != to.size()) {
    return invalid_argument(fmt::format("rank {} gives itself {} bytes, into a buffer of {}", self.value(),
                                        from.size(), to.size()));
  }
  if (!from.empty() && from.data() != to.data()) std::memmove(to.data(), from.data(), from.size());
  return Status::ok();
}

GroupCalls::GroupCalls(MemberHost& node, GroupSpec group, Rank rank)
    : node_(node),
      group_(std::move(group)),
      first_collectives_(std::exchange(group_.collectives, {})),
      rank_(rank),
      made_at_(node.clock().now()),
      queue_(std::make_shared<CallQueue>(node)) {}

std::uint64_t GroupCalls::number() {
  const std::lock_guard lock(mutex_);
  return number_;
}

Status GroupCalls::check_rank(Rank rank, const char* what) const {
  if (rank.index() < size()) return Status::ok();
  return invalid_argument(
      fmt::format("{} {} is not a rank of group \"{}\" of {}", what, rank.value(), group_.name, size()));
}

Status GroupCalls::check_buffers(std::size_t count, const char* what) const {
  if (count == size()) return Status::ok();
  return invalid_argument(
      fmt::format("{} {} for the {} members of group \"{}\"", count, what, size(), group_.name));
}

std::vector<Rank> GroupCalls::ranks() const {
  std::vector<Rank> all;
  for (std::uint32_t rank = 0; rank < size(); ++rank) all.emplace_back(rank);
  return all;
}

Status GroupCalls::check_usable() {
  // Before any lock: the parent's threads may have held it.
  SQUARE_RETURN_IF_ERROR(process_.check(fmt::format("group \"{}\"", group_.name)));
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return closed();
  }
  const Status failure = queue_->failure();
  if (failure.is_ok()) return failure;
  return failed_precondition(
      fmt::format("group \"{}\" failed before ({}); make a new group", group_.name, failure.to_string()));
}

Status GroupCalls::enrol(Duration timeout) {
  const GroupSpec wanted = with(first_collectives_);
  SQUARE_ASSIGN_OR_RETURN(GroupPart part, node_.join_group(wanted, rank_, timeout));
  membership_ = std::move(part.membership);
  note(wanted, part.registration);
  return Status::ok();
}

Result<GroupCalls::NextGroup> GroupCalls::next_group(std::uint32_t joiners, Duration timeout,
                                                     bool allow_minority) {
  RegroupRequest request{group_.name, 0, {rank_}, 0, joiners, {}, allow_minority};
  {
    const std::lock_guard lock(mutex_);
    request.number = number_;
  }
  SQUARE_ASSIGN_OR_RETURN(GroupSpec next, node_.regroup(request, timeout));
  const auto place = std::ranges::find(next.origin.ranks, rank_) - next.origin.ranks.begin();
  const auto index = static_cast<std::size_t>(place);
  const bool is_own = next.tenant == group_.tenant && next.origin.group == group_.name &&
                      index < next.nodes.size() && next.nodes[index] == group_.nodes[rank_.index()];
  if (!is_own) {
    return permission_denied(fmt::format("group \"{}\" cannot go on as \"{}\", which is not of its members",
                                         group_.name, next.name));
  }
  if (!allow_minority) SQUARE_RETURN_IF_ERROR(check_company(next));
  return NextGroup{std::move(next), Rank(static_cast<Rank::value_type>(place))};
}

// Of two that go on without one another both would train on.
Status GroupCalls::check_company(const GroupSpec& next) const {
  const auto is_here = [&](const std::string& node) { return node == node_.name(); };
  const bool is_left_alone =
      std::ranges::all_of(next.nodes, is_here) && !std::ranges::all_of(group_.nodes, is_here);
  if (!is_left_alone || !node_.was_stopped_since(made_at_)) return Status::ok();
  return failed_precondition(fmt::format(
      "group \"{}\" does not go on with node \"{}\" alone: this process was stopped for {:.0f} s or "
      "more, and the others may have gone on without it; start it again",
      group_.name, node_.name(), to_seconds(kLongPause)));
}

void GroupCalls::refuse() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
}

void GroupCalls::leave() {
  std::shared_ptr<const void> membership;  // ends without the mutex
  const std::lock_guard lock(mutex_);
  membership.swap(membership_);
}

Status GroupCalls::closed() const {
  return failed_precondition(fmt::format("group \"{}\" was closed; make a new one", group_.name));
}

Status GroupCalls::enrol(std::vector<GroupCollective> collectives, Duration timeout) {
  const GroupSpec wanted = with(std::move(collectives));
  SQUARE_ASSIGN_OR_RETURN(const GroupRegistration made, node_.register_group(wanted, timeout));
  note(wanted, made);
  return Status::ok();
}

GroupSpec GroupCalls::with(std::vector<GroupCollective> collectives) const {
  for (GroupCollective& collective : collectives) {
    // The plan cuts this many bytes into shares; every call is cut in proportion.
    if (collective.op == CollectiveOp::kAllReduce)
      collective.size_bytes = std::max(collective.size_bytes, kLeastPlannedBytes);
  }
  GroupSpec wanted = group_;
  wanted.collectives = std::move(collectives);
  return wanted;
}

void GroupCalls::note(const GroupSpec& wanted, const GroupRegistration& made) {
  const std::string label = group_label(wanted.name, made.number);
  const std::lock_guard lock(mutex_);
  number_ = made.number;
  for (std::size_t i = 0; i < wanted.collectives.size(); ++i) {
    const GroupCollective& collective = wanted.collectives[i];
    registered_.try_emplace(identity_of(collective), Registered{made.collectives[i], 0});
    node_.set_members(made.collectives[i], label, members_on(wanted, collective, node_.name()));
  }
}

std::vector<GroupCollective> GroupCalls::missing(const std::vector<GroupCollective>& collectives) {
  const std::lock_guard lock(mutex_);
  std::map<CollectiveIdentity, GroupCollective> found;
  for (const GroupCollective& collective : collectives) {
    CollectiveIdentity identity = identity_of(collective);
    if (!registered_.contains(identity)) found.emplace(std::move(identity), collective);
  }
  std::vector<GroupCollective> list;
  for (const auto& [identity, collective] : found) list.push_back(collective);
  return list;
}

Status GroupCalls::ensure(const std::vector<GroupCollective>& collectives, Duration timeout) {
  if (missing(collectives).empty()) return Status::ok();
  const std::lock_guard lock(enrolment_);
  std::vector<GroupCollective> added = missing(collectives);
  return added.empty() ? Status::ok() : enrol(std::move(added), timeout);
}

Result<std::shared_ptr<Work>> GroupCalls::call(CallKind kind, std::vector<Part> parts, Duration timeout,
                                               std::vector<GroupCollective> collectives) {
  SQUARE_RETURN_IF_ERROR(check_usable());
  for (Part& part : parts) {
    part.collective.size_bytes = std::max(part.call.input.size(), part.call.output.size());
    collectives.push_back(part.collective);
  }
  SQUARE_RETURN_IF_ERROR(ensure(collectives, timeout));
  std::shared_ptr<Work> work;
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return closed();
    SQUARE_RETURN_IF_ERROR(queue_->check_room().with_context(fmt::format("group \"{}\"", group_.name)));
    const std::uint64_t order = call_count_;
    auto operations = describe(next_number(kind), std::move(parts), timeout);
    work = join_works(operations);
    if (kind != CallKind::kNone) {
      queue_->add_call(order, std::move(operations));
    } else {
      for (QueuedOperation& operation : operations) queue_->add_message(std::move(operation));
    }
  }
  queue_->post_ready();
  return work;
}

GroupCalls::Numbered GroupCalls::number_call(CallKind kind, std::function<void()> due) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t order = call_count_;
  const bool is_due = queue_->begin_composite(order, std::move(due));
  return {next_number(kind), order, is_due};
}

Result<std::shared_ptr<Work>> GroupCalls::call_step(GroupCall number, std::vector<Part> parts,
                                                    Duration timeout) {
  SQUARE_RETURN_IF_ERROR(queue_->failure());
  std::shared_ptr<Work> work;
  {
    const std::lock_guard lock(mutex_);
    auto operations = describe(number, std::move(parts), timeout);
    work = join_works(operations);
    for (QueuedOperation& operation : operations) queue_->add_step(std::move(operation));
  }
  queue_->post_ready();
  return work;
}

GroupCall GroupCalls::next_number(CallKind kind) {
  if (kind == CallKind::kNone) return {};
  return {kind, static_cast<std::uint16_t>(call_count_++ % kGroupCallNumbers)};
}

std::vector<QueuedOperation> GroupCalls::describe(GroupCall number, std::vector<Part> parts,
                                                  Duration timeout) {
  std::vector<QueuedOperation> operations;
  for (Part& part : parts) {
    part.call.call = number;
    operations.push_back(describe(std::move(part), timeout));
  }
  return operations;
}

bool GroupCalls::is_registered(const GroupCollective& collective) { return missing({collective}).empty(); }

GroupCalls::Next GroupCalls::next_of(const GroupCollective& collective) {
  const std::lock_guard lock(mutex_);
  const Registered& registered = registered_.at(identity_of(collective));
  return {registered.id, OperationId(registered.calls)};
}

std::shared_ptr<PostedWork> GroupCalls::post_next(Part part, OperationId expected, Duration timeout) {
  std::shared_ptr<PostedWork> work;
  {
    const std::lock_guard lock(mutex_);
    if (registered_.at(identity_of(part.collective)).calls != expected.value()) return nullptr;
    QueuedOperation operation = describe(std::move(part), timeout);
    work = operation.work;
    queue_->add_message(std::move(operation));
  }
  queue_->post_ready();
  return work;
}

void GroupCalls::fail(const Next& where, const Status& cause) {
  if (queue_->is_dropped()) return;
  node_.fail(where.collective, where.operation, cause);
  queue_->fail(cause);
  queue_->post_ready();
}

QueuedOperation GroupCalls::describe(Part part, Duration timeout) {
  Registered& collective = registered_.at(identity_of(part.collective));
  MemberOperation& call = part.call;
  call.timeout = timeout;
  call.collective = collective.id;
  call.operation = OperationId(collective.calls++);
  call.rank = rank_;
  call.group_size = static_cast<std::uint32_t>(size());
  call.progress = std::make_shared<CallProgress>(call.collective, call.operation, call.call);
  auto work = std::make_shared<PostedWork>(
      call.progress, [queue = std::weak_ptr(queue_), id = call.collective, operation = call.operation] {
        if (const auto alive = queue.lock()) alive->cancel(id, operation);
      });
  return {std::move(call), std::move(work), membership_};
}

}  // namespace square
