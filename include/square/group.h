// Who takes part in a tenant's collectives.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "square/ids.h"
#include "square/scenario.h"

namespace square {

namespace trust {
class GroupKey;
}

// A collective that a group will call: the unit of planning.
struct GroupCollective {
  CollectiveOp op = CollectiveOp::kBroadcast;
  Rank root;
  double weight = 1.0;
  // The usual size of the buffer of one member: for planned completion times only.
  std::uint64_t size_bytes = 0;
  // The ranks that take part, ascending; empty: all. A broadcast among two is a message.
  std::vector<Rank> members{};
  // Tells collectives apart that are alike otherwise, such as messages with different tags.
  std::uint32_t channel = 0;
};

// Registrations with the same identity are the same collective.
struct CollectiveIdentity {
  CollectiveOp op = CollectiveOp::kBroadcast;
  Rank root;  // 0 where the operation has none
  std::vector<Rank> members;
  std::uint32_t channel = 0;
  friend auto operator<=>(const CollectiveIdentity&, const CollectiveIdentity&) = default;
};
CollectiveIdentity identity_of(const GroupCollective& collective);

// The group that another one went on from: see Communicator::shrink() and grow().
struct GroupOrigin {
  std::string group;  // empty: none
  std::uint64_t number = 0;
  // Its ranks that go on, ascending: the first of the new group, in this order.
  std::vector<Rank> ranks{};
  // Behind them those that joined, in this order: RegroupRequest::joiner.
  std::vector<std::uint64_t> joiners{};
};

// Every member registers the same group; the first one creates it.
struct GroupSpec {
  std::string name;  // unique in the overlay
  std::string tenant;
  // The node of every rank, rank 0 first. Ranks on one host share a node.
  std::vector<std::string> nodes;
  std::vector<GroupCollective> collectives;
  // The node whose members register; its client fills it in. Empty: somebody who is no member.
  std::string registrant{};
  // The highest number of a group of this name that the registrant has closed; 0: none. Filled in, too.
  std::uint64_t closed_number = 0;
  // Of a group that another one became.
  GroupOrigin origin{};
  // Its own number, where the controller tells of a group; 0: unknown.
  std::uint64_t number = 0;
  // Of its broadcasts: whichever so many relays and links are lost, nothing need be sent again
  // (CollectiveSpec::redundancy). The same of all members.
  std::uint32_t redundancy = 0;
  // The tenant's, as Authority::grant() has written it; the registrant's client fills it in. Empty: none.
  std::string grant{};
  // The group's key, wrapped for each of its nodes: of who registers first that brings one. Filled in, too.
  std::string keys{};
};

// A member's wish to go on in another group, without members that are gone and with others that join.
struct RegroupRequest {
  std::string group;
  // Of the group; 0 from who joins, and does not know it.
  std::uint64_t number = 0;
  // The members of the node that go on.
  std::vector<Rank> ranks{};
  // What somebody who joins calls itself, drawn at random; 0: a member.
  std::uint64_t joiner = 0;
  // How many are to join.
  std::uint32_t joiners = 0;
  // Of a joiner: the tenants of whose groups it is to be; empty: of any.
  std::vector<std::string> tenants{};
  // Also where others may have gone on elsewhere: then there are two groups, which know nothing of each
  // other.
  bool allow_minority = false;
};

// What the controller made of it: `collectives` in the order of the spec.
struct GroupRegistration {
  std::vector<CollectiveId> collectives;
  // Active on every live node.
  Epoch epoch;
  // Tells the group from others that had its name before; 0: unknown.
  std::uint64_t number = 0;
  // What seals the group's blocks between the nodes of its members; null where nothing does.
  std::shared_ptr<const trust::GroupKey> key{};
  // The same, wrapped for its members; empty where it has none.
  std::string wrapped_keys{};
};

// What nodes and plans call a group: no other ever has the same.
std::string group_label(const std::string& name, std::uint64_t number);

// The ranks on `node` that take part in one of the group's collectives, ascending.
std::vector<Rank> members_on(const GroupSpec& group, const GroupCollective& collective,
                             const std::string& node);

inline constexpr std::size_t kMaxGroupNameBytes = 256;
inline constexpr std::size_t kMaxGroupMembers = 65'536;
inline constexpr std::size_t kMaxGroupCollectives = 65'536;

}  // namespace square
