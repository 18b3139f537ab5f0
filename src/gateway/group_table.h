// Which process of a gateway is which rank of which group.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "square/group.h"
#include "square/status.h"

namespace square::gateway {

using AttachmentId = std::uint64_t;

// Whether all members of a collective live on `node`, so that nothing of it is ever sent.
bool stays_on(const GroupSpec& group, const GroupCollective& collective, const std::string& node);

struct Group {
  GroupSpec spec;  // with its number
  std::map<CollectiveId, GroupCollective> collectives;
  std::set<CollectiveId> staying;  // those whose members are all of the gateway's node
  std::set<Rank> local_ranks;      // of the gateway's node
  std::set<AttachmentId> attachments;
  // Of the ranks of each; what ends with the last reference.
  std::map<AttachmentId, std::multimap<Rank, std::shared_ptr<const void>>> memberships;
  struct Claim {
    AttachmentId attachment = 0;
    std::string owner;                             // in words
    std::map<CollectiveId, std::uint64_t> posted;  // number of the next operation
    bool is_gone = false;
  };
  std::map<Rank, Claim> claims;
  struct Failure {
    Status cause;
    CollectiveId collective;
    OperationId operation;
  };
  // The first one.
  std::optional<Failure> failure;

  // The rank that has left before it posted this operation, and so never will.
  [[nodiscard]] const Claim* missing(CollectiveId collective, std::uint64_t operation) const;
};

// A process that left, as its groups see it.
struct Departure {
  Group* group = nullptr;
  std::vector<Rank> ranks;
  // It had posted nothing, but a rank that nobody else has may have been its own.
  bool may_have_been_a_member = false;
  // They end with this, after what the others are to hear.
  std::multimap<Rank, std::shared_ptr<const void>> memberships{};
};

// Not thread-safe.
class GroupTable {
 public:
  explicit GroupTable(std::string node) : node_(std::move(node)) {}

  // A group that had the name before has ended, and is forgotten with all that had a part in it; of one that
  // has ended already nothing is kept.
  void add(const GroupSpec& spec, const GroupRegistration& registration, AttachmentId attachment);
  // The attachment's rank is a member of a group that it has added.
  void join(const std::string& group, AttachmentId attachment, Rank rank,
            std::shared_ptr<const void> membership);
  [[nodiscard]] bool is_rank(const std::string& group, AttachmentId attachment, Rank rank) const;
  // The rank posts nothing more. The group, which the attachment may still be in with other ranks, until
  // prune(); null if it is no member.
  Group* close(const std::string& group, AttachmentId attachment, Rank rank);

  // Whether the attachment may post this, and that it does. Errors: PERMISSION_DENIED,
  // INVALID_ARGUMENT, ALREADY_EXISTS, FAILED_PRECONDITION, UNAVAILABLE.
  Status claim(CollectiveId collective, OperationId operation, Rank rank, AttachmentId attachment,
               const std::string& owner);

  // The group of a collective, or null.
  [[nodiscard]] Group* find(CollectiveId collective);
  // See stays_on(). False for an unknown one.
  [[nodiscard]] bool stays_here(CollectiveId collective) const;
  [[nodiscard]] std::size_t count_of(AttachmentId attachment) const;
  [[nodiscard]] bool has(const std::string& group, AttachmentId attachment) const;

  // Marks its ranks as gone. Groups without attachments stay until prune().
  std::vector<Departure> leave(AttachmentId attachment);
  void prune();

 private:
  using Groups = std::map<std::string, Group>;
  Groups::iterator erase(Groups::iterator group);

  std::string node_;
  Groups groups_;
  std::map<CollectiveId, std::string> group_of_;
};

}  // namespace square::gateway
