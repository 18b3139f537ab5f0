// The groups that are to be planned, and the numbers of their collectives.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "controller/demand_meter.h"
#include "controller/went_on.h"
#include "square/grant.h"
#include "square/group.h"
#include "square/scenario.h"
#include "square/status.h"

namespace square::controller {

inline constexpr std::size_t kMaxGroups = 65'536;

struct RegisteredCollective {
  CollectiveId id;
  GroupCollective spec;
  // What only a scenario can ask for.
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::kPlanned;
  std::optional<double> required_bps{};
  std::vector<Duration> max_latency{};  // by rank, or empty
  std::uint32_t redundancy = 0;         // also by its group
  std::string group{};                  // CollectiveSpec::group
};

struct RegisteredGroup {
  std::string tenant;
  std::vector<std::string> nodes;  // by rank
  std::vector<RegisteredCollective> collectives;
  bool permanent = false;  // of the scenario: stays when its nodes leave, or close it
  std::uint64_t number = 0;
  std::set<std::string> closed{};            // nodes whose members call nothing more
  std::set<std::string> gone{};              // that have no part in it, until one there registers it
  std::set<std::string> told{};              // whose members were told here that they have a part in it
  bool is_adopted = false;                   // registered with an earlier controller
  GroupOrigin origin{};                      // the group that it was before
  bool is_untried = false;                   // adopted, and not known yet to be one that can be planned here
  Status unplannable{};                      // why it is set aside: then no plan has it
  std::uint32_t redundancy = 0;              // of its broadcasts to all members
  double weight = 1.0;                       // of its tenant, as granted
  Quota open{};                              // as well
  std::string grant{};                       // shown by who registered last
  std::vector<std::string> granted_nodes{};  // that it lets the group be on; empty: all
  std::string keys{};                        // by who registered first and had some

  // None of its nodes that is `still_there` has a part in it.
  [[nodiscard]] bool is_over(const std::function<bool(const std::string&)>& still_there) const;
};

class Granting;

// A value, cheap to copy: planning tries a change on a copy.
class GroupRegistry {
 public:
  // The scenario's collectives as permanent groups "collective/0" and so on, which keep their ids.
  // Precondition: check_scenario(scenario).is_ok(). With `granting` groups are registered, and adopted, with
  // grants only; but for those without a registrant, which the operator's own process registers.
  explicit GroupRegistry(const Scenario& scenario, std::shared_ptr<const Granting> granting = nullptr);

  [[nodiscard]] const Granting* granting() const { return granting_.get(); }  // null: nobody grants

  struct Registered {
    std::vector<CollectiveId> collectives;  // in the order of the spec
    bool changed = false;                   // a new plan is due
    std::uint64_t number = 0;               // of the group
    std::string keys{};                     // the group's
  };
  // See ControllerClient::register_group(). Besides: ABORTED where the registrant has closed the group of
  // that name and others have not yet. After an error nothing has changed.
  Result<Registered> add(const GroupSpec& spec, const Topology& topology);

  // Groups of an earlier controller, whose collectives have these numbers. Errors: FAILED_PRECONDITION where
  // a number, or the name, is another's here; those of add().
  struct Adopted {
    GroupSpec spec;
    std::vector<CollectiveId> collectives;
    std::uint64_t number = 0;
    std::set<std::string> closed{};
    bool is_kept = false;  // in the store: there the operator's own groups have no grant
    [[nodiscard]] bool needs_grant() const { return !is_kept || !spec.grant.empty(); }
  };
  // Which group has a collective, for check_adopted() of many.
  using Owners = std::unordered_map<CollectiveId, std::string>;
  [[nodiscard]] Owners owners() const;
  [[nodiscard]] Status check_adopted(const Adopted& group, const Owners& owners) const;
  // Returns whether that is news. After an error nothing has changed. Precondition: check_adopted() is OK.
  Result<bool> adopt(const Adopted& group, const Topology& topology);
  void give_none_below(CollectiveId collective, std::uint64_t group);
  [[nodiscard]] CollectiveId next_collective() const { return CollectiveId(next_id_); }
  [[nodiscard]] std::uint64_t next_group() const { return next_number_; }

  // The name of the group that this one went on in, or that the joiner has a part in.
  [[nodiscard]] std::optional<std::string> find_next(const std::string& name, std::uint64_t number) const;
  [[nodiscard]] const WentOn& went_on() const { return went_on_; }
  // A group went on under an earlier controller.
  void note_went_on(const Continuation& one) { went_on_.note(one); }
  [[nodiscard]] std::optional<std::string> find_joined(std::uint64_t joiner) const;

  using Groups = std::map<std::string, std::shared_ptr<const RegisteredGroup>, std::less<>>;
  [[nodiscard]] const Groups& groups() const { return groups_; }

  // Those adopted of which nobody knows yet whether they can be planned here.
  [[nodiscard]] std::vector<std::string> untried() const;
  // With a reason no plan has the group, and who calls it is told so; OK: plans have it. It counts as tried.
  void set_aside(const std::string& name, const Status& why);
  // Topology or policy are other ones: those set aside are untried again.
  void try_again();

  // The node's members call nothing more in the group of that name and number. Whether that ends the
  // group: of the others none that is `still_there` has a part in it any more.
  bool close(const std::string& name, std::uint64_t number, const std::string& node,
             const std::function<bool(const std::string&)>& still_there);

  // The node has no part in the group of that name, as far as is known, until it registers it again. Whether
  // that ends the group.
  bool miss(const std::string& name, const std::string& node,
            const std::function<bool(const std::string&)>& still_there);

  // Members on these nodes were told that their registrations succeeded. From now on the group that it has as
  // its origin has gone on.
  void note_told(const std::string& name, std::uint64_t number, const std::vector<std::string>& nodes);
  // One there was told that it failed, and no other waits for a word: miss(), unless one had it before.
  bool note_failed(const std::string& name, std::uint64_t number, const std::string& node,
                   const std::function<bool(const std::string&)>& still_there);

  // Removes the groups that `left` was the last member of, as `still_there` tells of the others, which may
  // have closed it. Returns their names.
  std::vector<std::string> remove_abandoned(const std::string& left,
                                            const std::function<bool(const std::string&)>& still_there);

  [[nodiscard]] bool uses(std::string_view node) const;
  // The collectives of each tenant's groups, without those that a scenario asks for.
  [[nodiscard]] std::vector<TenantUses> collectives_by_tenant() const;
  [[nodiscard]] bool has_group_without(std::string_view node) const;
  [[nodiscard]] bool is_empty() const { return groups_.empty(); }

  // Adds all collectives, by id, and tenants that the scenario does not name, with weight 1.
  // Precondition: the scenario's topology has the nodes of all groups.
  void fill(Scenario& scenario) const;

 private:
  // A node's part has changed: whether that ends the group, which goes then.
  bool replace(Groups::iterator at, RegisteredGroup group,
               const std::function<bool(const std::string&)>& still_there);
  Result<Registered> extend(RegisteredGroup& group, const GroupSpec& spec);
  // What lets the tenant have the group; none is needed where nobody grants. Errors: those of
  // Granting::check(), PERMISSION_DENIED where the name is another tenant's.
  [[nodiscard]] Result<std::optional<Grant>> granted(const GroupSpec& spec) const;
  // What is granted counts for `group`. Errors: RESOURCE_EXHAUSTED.
  Status apply(const Grant& grant, RegisteredGroup& group, const GroupSpec& spec) const;

  Groups groups_;
  WentOn went_on_;
  std::shared_ptr<const Granting> granting_;
  CollectiveId::value_type next_id_ = 0;
  std::uint64_t next_number_ = 1;  // of groups; never given twice either
};

}  // namespace square::controller
