// Demands that wait to be planned, and for their answers.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/admission.h"
#include "controller/deferred.h"
#include "controller/group_registry.h"
#include "controller/planner_turns.h"
#include "controller/publication.h"
#include "square/clock.h"

namespace square::controller {

inline constexpr std::size_t kMaxPendingRequests = 100'000;

struct Answer {
  std::vector<CollectiveId> collectives;
  Epoch epoch;
  std::uint64_t group = 0;  // its number
  std::string keys{};       // its key, wrapped for its members
};
using Reply = std::function<void(Result<Answer>)>;

// Every request is pending, then of the batch that is planned, then planned and waiting for its plan
// to be active. It is answered once: then, or where it fails before. Not thread-safe.
class Requests {
 public:
  using TimePoint = square::TimePoint;

  // A group's nodes have `patience` to join, and what is planned the same to be installed.
  explicit Requests(Duration patience) : patience_(patience) {}

  // Errors: RESOURCE_EXHAUSTED for more than kMaxPendingRequests; then `reply` is left as it was.
  Status add(Demand demand, Reply& reply, TimePoint now);

  // Answers requests that were not planned within their patience, and those whose plan was abandoned.
  void refuse_late(TimePoint now, const Status& reason, Deferred& deferred);
  // Answers what is pending and does not pass the check with the check's error.
  void refuse(const std::function<Status(const Demand&)>& check, Deferred& deferred);
  // Makes a batch of what is pending, but for groups that must wait, or are not their tenant's turn, and have
  // not waited long enough. The demands stay where they are until judge().
  std::vector<const Demand*> take_batch(TimePoint now,
                                        const std::function<bool(const GroupSpec&)>& must_wait);
  // Charges the time that planning the batch took to its tenants, by what they asked for.
  void charge(Duration took, TimePoint now);
  // One verdict for each demand of the batch. Refusals are answered.
  void judge(std::vector<Verdict> verdicts, Deferred& deferred);
  // There are some that wait for their plan.
  [[nodiscard]] bool has_planned() const;
  // What is planned is so in a plan that became active; nodes that are late do not install it.
  void note(const Settlement& settlement);
  // Of which nodes members were told that they have a part in a group of this name and number, and of which
  // they were told that they have none, while no other there waits for a word.
  struct Told {
    std::vector<std::string> in{};
    std::vector<std::string> out{};
  };
  using TheTold = std::map<std::pair<std::string, std::uint64_t>, Told>;
  // Answers what is active and has no node any more that is awaited and matters to it: DEADLINE_EXCEEDED
  // where a late one does. `awaited` says who has still to install a plan.
  TheTold answer_planned(const std::function<std::vector<std::string>(Epoch)>& awaited, Deferred& deferred);
  // Answers all with the error. The batch stays until judge(), as it may be in use.
  void fail_all(const Status& reason, Deferred& deferred);

  // When the first of those pending has waited long enough, or it is its turn; `latest` at the latest.
  [[nodiscard]] TimePoint next_end(TimePoint now, TimePoint latest) const;

 private:
  struct Request {
    Demand demand;
    Reply reply;
    TimePoint received;
    bool answered = false;
  };
  using RequestPtr = std::shared_ptr<Request>;
  struct Planned {
    RequestPtr request;
    Answer made;                       // but for the epoch
    std::optional<Epoch> active = {};  // the plan that was active first
    std::vector<std::string> late = {};
    std::map<std::string, Duration> unheard = {};  // see Settlement
  };

  [[nodiscard]] bool is_waiting(const std::string& group, const std::string& node) const;
  // Those that matter to the request.
  static std::vector<std::string> of_interest(const Request& request, const std::vector<std::string>& nodes);
  static void answer(const RequestPtr& request, Result<Answer> result, Deferred& deferred);

  const Duration patience_;
  PlannerTurns turns_;
  std::vector<RequestPtr> pending_;
  std::vector<RequestPtr> batch_;
  std::vector<Planned> planned_;
};

// Members that were told that they have no part will not close their group. Returns whether one ended by
// that.
bool absorb(const Requests::TheTold& told, GroupRegistry& registry,
            const std::function<bool(const std::string&)>& is_there);

}  // namespace square::controller
