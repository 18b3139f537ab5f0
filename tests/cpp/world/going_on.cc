#include "world/going_on.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/log.h"

namespace square::test {
namespace {

constexpr Duration kPatience = std::chrono::seconds(90);
constexpr std::uint64_t kCalls = 2;
constexpr std::size_t kFloats = 5'000;

// Of its members, by rank.
std::vector<std::uint64_t> names_in(const GroupSpec& group) {
  std::vector<std::uint64_t> names;
  for (const Rank rank : group.origin.ranks) names.push_back(rank.value());
  names.insert(names.end(), group.origin.joiners.begin(), group.origin.joiners.end());
  return names;
}

}  // namespace

void GoingOn::begin(const Old& old, std::size_t rank, std::size_t site, std::uint32_t joiners, Done done) {
  RegroupRequest request;
  request.group = old.group;
  request.number = old.number;
  request.ranks = {Rank(static_cast<std::uint32_t>(rank))};
  request.joiners = joiners;
  ask(std::make_shared<Member>(Member{rank, site, std::move(done)}), request);
}

void GoingOn::join(const std::string& group, std::uint64_t joiner, std::size_t site, Done done) {
  RegroupRequest request;
  request.group = group;
  request.joiner = joiner;
  ask(std::make_shared<Member>(Member{joiner, site, std::move(done)}), request);
}

void GoingOn::ask(const MemberPtr& member, const RegroupRequest& request) {
  site_of(*member).control().regroup(
      request, simulation_.clock().now(), kPatience, [this, member](const Result<GroupSpec>& next) {
        log(LogLevel::kInfo, "job", "{} at {}: goes on: {}", member->name, site_of(*member).name(),
            next.is_ok() ? next->name : next.status().to_string());
        if (!next.is_ok()) return member->done(next.status());
        member->group = *next;
        events_.regrouped(next->origin.number, *next);
        register_next(member);
      });
}

Rank GoingOn::rank_of(const Member& member) {
  const std::vector<std::uint64_t> names = names_in(member.group);
  return Rank(static_cast<std::uint32_t>(std::ranges::find(names, member.name) - names.begin()));
}

void GoingOn::register_next(const MemberPtr& member) {
  GroupSpec group = member->group;
  group.collectives = {{CollectiveOp::kAllReduce, Rank(0), 1.0, kFloats * sizeof(float), {}, 0}};
  site_of(*member).control().register_group(
      group, simulation_.clock().now(), kPatience,
      [this, member, group](const Result<GroupRegistration>& made) {
        if (!made.is_ok()) {
          // As LocalGroups does.
          site_of(*member).control().close_group(group.name, group.number);
          return member->done(made.status());
        }
        events_.registered(group, *made);
        member->made = *made;
        DataPlane& node = site_of(*member).node();
        const std::string label = group_label(group.name, made->number);
        if (made->key) node.set_group_key(label, made->key);
        node.set_members(made->collectives.front(), label, {rank_of(*member)});
        call(member);
      });
}

void GoingOn::call(const MemberPtr& member) {
  member->input.assign(kFloats, static_cast<float>((member->calls + 1) * (member->name + 1)));
  member->output.assign(kFloats, -1.0F);
  MemberOperation operation;
  operation.collective = member->made.collectives.front();
  operation.operation = OperationId(member->calls);
  operation.rank = rank_of(*member);
  operation.input = std::as_bytes(std::span(member->input));
  operation.output = std::as_writable_bytes(std::span(member->output));
  operation.reduction = {ElementType::kFloat32, ReduceOp::kSum};
  operation.group_size = static_cast<std::uint32_t>(names_in(member->group).size());
  operation.timeout = kPatience;
  operation.done = [this, member](const Status& outcome) { ended(member, outcome); };
  site_of(*member).node().post(std::move(operation));
}

void GoingOn::ended(const MemberPtr& member, const Status& outcome) {
  if (!outcome.is_ok()) return close(member, outcome);
  std::uint64_t sum = 0;
  for (const std::uint64_t name : names_in(member->group)) sum += (member->calls + 1) * (name + 1);
  const auto expected = static_cast<float>(sum);
  if (std::ranges::any_of(member->output, [expected](float one) { return one != expected; }))
    events_.fault(fmt::format("{} at {}: wrong bytes in {}", member->name, site_of(*member).name(),
                              member->group.name));
  if (++member->calls == kCalls) return close(member, {});
  // Not from here: it is the node's strand that tells.
  site_of(*member).post([this, member] { call(member); });
}

void GoingOn::close(const MemberPtr& member, const Status& outcome) {
  Site& site = site_of(*member);
  site.post([this, member, outcome, &site] {
    site.node().close_group(group_label(member->group.name, member->made.number));
    site.control().close_group(member->group.name, member->made.number);
    member->done(outcome);
  });
}

}  // namespace square::test
