// What each node is sent of a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/kept_ways.h"
#include "square/plan.h"
#include "square/v1/controller.pb.h"

namespace square::controller {

// A plan cut into records, each written once however many nodes are sent it. A node's part has the links that
// it is an end of, and the collectives that it is a member of or relays for, whole: their members and all
// their streams say how large blocks are and who must be there. Collectives without sessions run on one node,
// and no plan says on which: everybody has them. Immutable: any thread.
class PlanParts {
 public:
  using EventPtr = std::shared_ptr<const v1::ControllerEvent>;

  // `base`: those of the plan published before, if there is one. A collective that is as it was there, with
  // its sessions and its tenant's weight, is so since that plan says, if that is after the plan `after`;
  // others are since this one. `kept` collectives are told as the earlier plan told them, and since then.
  // Precondition: can_keep().
  explicit PlanParts(const std::shared_ptr<const Plan>& plan, const PlanParts* base = nullptr,
                     Epoch after = Epoch(0), const KeptWays& kept = {});

  // What all nodes together are told: the plan with lifelines, and with the kept collectives as they were.
  [[nodiscard]] const Plan& whole() const { return *whole_; }
  [[nodiscard]] const std::set<CollectiveId>& kept() const { return kept_; }
  // Nothing for a collective that the plan does not have.
  [[nodiscard]] std::optional<Epoch> since(CollectiveId collective) const;

  // Of the collective that is as it is for longest; the plan's own where there is none.
  [[nodiscard]] Epoch oldest() const { return oldest_; }

  // All that concerns `node`; where it has its part of `base`, a plan of the same origin, only what is other
  // than in that. A node that the plan does not know gets the nodes' names.
  [[nodiscard]] EventPtr event_for(const std::string& node, const PlanParts* base = nullptr) const;
  // Of all records: no part is larger.
  [[nodiscard]] std::size_t size_bytes() const;

 private:
  using Link = std::pair<NodeId, NodeId>;

  // By ascending keys.
  template <typename Key>
  struct Records {
    std::vector<Key> keys;
    std::vector<std::string> bytes;

    void add(Key key, const google::protobuf::MessageLite& record);
  };
  // One node's, by position among the records, ascending.
  struct Share {
    std::vector<std::uint32_t> tenants;
    std::vector<std::uint32_t> links;
    std::vector<std::uint32_t> collectives;
    std::vector<std::uint32_t> sessions;
  };

  void add_tenants(const Plan& plan);
  void add_links(const Plan& plan);
  void add_sessions(const Plan& plan);
  void add_collectives(const Plan& plan, const PlanParts* base, Epoch after);
  void share_out(const Plan& plan);
  // Since when the plan's collective, whose record this is, is as it is.
  [[nodiscard]] Epoch since(const PlanCollective& collective, v1::PartCollective record,
                            const PlanParts* base, Epoch after) const;
  [[nodiscard]] bool has_same_sessions(CollectiveId collective, const PlanParts& base) const;
  [[nodiscard]] bool has_same_nodes(const PlanParts& base) const;
  [[nodiscard]] bool has_same_weight(const std::string& tenant, const PlanParts& base) const;
  [[nodiscard]] const Share& share_of(const std::string& node) const;

  // Tells the kept collectives as `before` does.
  void keep(const PlanParts& before);

  std::shared_ptr<const Plan> whole_;
  std::set<CollectiveId> kept_;
  // The fields of the message that are the same for all nodes, and no records.
  v1::PlanPart head_;
  std::vector<std::string> nodes_;
  std::map<std::string, std::size_t> numbers_;  // of nodes
  Records<std::string> tenants_;
  Records<Link> links_;
  Records<CollectiveId> collectives_;
  Records<SessionId> sessions_;
  std::vector<double> weights_;                                     // of tenants
  std::vector<Epoch> since_;                                        // of collectives
  std::map<CollectiveId, std::vector<std::uint32_t>> sessions_of_;  // positions
  Epoch oldest_;
  std::vector<Share> shares_;  // by node
};

}  // namespace square::controller
