// What a controller's store holds: what the next controller must know, and must not give again.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/admission.h"
#include "controller/session_numbers.h"
#include "square/plan.h"
#include "square/v1/controller.pb.h"
#include "store/store.h"

namespace square::controller {

// Numbers are set aside so many at a time, so that plans which bring nothing new need no room on the disk.
inline constexpr std::uint32_t kNumbersAhead = 1024;

// Not thread-safe.
class Ledger {
 public:
  // In an open overlay the topology is made of the nodes that join, and not kept.
  Ledger(std::unique_ptr<store::Store> store, bool is_open) : store_(std::move(store)), is_open_(is_open) {}

  [[nodiscard]] PlanOrigin origin() const { return {store_->id(), store_->term()}; }

  // What earlier controllers left; empty where there was none. Errors: those of Store::read(), DATA_LOSS for
  // a record that cannot be understood.
  Result<v1::Past> read();
  // After read(), of the state that the controller is started with: topology and policy that were set under
  // an earlier controller which was started with the same. Errors: DATA_LOSS.
  Status restore(PlanningState& state);

  // Before anybody is told of a plan `epoch` that was made of this state. Errors: those of Store::write();
  // FAILED_PRECONDITION where another controller leads. Where nothing had to be written a full disk is none.
  Status keep(const PlanningState& state, const SessionNumbers& numbers, Epoch epoch);

 private:
  using Records = std::map<std::string, std::string>;
  // What a group's record is made of: as long as that is the same the record is, on the same nodes.
  struct KeptGroup {
    std::shared_ptr<const RegisteredGroup> group;
    std::vector<SessionId> sessions;

    friend bool operator==(const KeptGroup&, const KeptGroup&) = default;
  };
  using Groups = std::map<std::string, KeptGroup, std::less<>>;

  [[nodiscard]] Records records_of(const PlanningState& state, const SessionNumbers& numbers, Epoch epoch);
  [[nodiscard]] static Groups groups_of(const GroupRegistry& registry, const SessionNumbers& numbers);
  // What is other in the store.
  [[nodiscard]] std::vector<store::Write> writes_for(const Records& records, const Groups& groups,
                                                     const SessionNumbers& numbers,
                                                     const Topology& topology) const;

  std::unique_ptr<store::Store> store_;
  const bool is_open_;
  Records kept_;
  Groups groups_;                               // as the last keep() left them,
  std::vector<std::string> nodes_;              // with these nodes
  std::shared_ptr<const std::string> given_;    // the overlay that the controller was started with
  std::shared_ptr<const std::string> overlay_;  // as it is now,
  std::optional<std::uint32_t> revision_;       // and the revision of the state that it is of
  v1::Past ahead_;                              // numbers below these are set aside
};

}  // namespace square::controller
