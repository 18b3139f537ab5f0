// Decides who is there, what is planned and when a plan is active. Knows no gRPC and no threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/seldom.h"
#include "controller/absences.h"
#include "controller/admission.h"
#include "controller/agenda.h"
#include "controller/attendance.h"
#include "controller/closed_parts.h"
#include "controller/deferred.h"
#include "controller/demand_meter.h"
#include "controller/epoch_planner.h"
#include "controller/granting.h"
#include "controller/link_reports.h"
#include "controller/measurements.h"
#include "controller/members.h"
#include "controller/node_line.h"
#include "controller/open_overlay.h"
#include "controller/publication.h"
#include "controller/refused_nodes.h"
#include "controller/regroupings.h"
#include "controller/requests.h"
#include "controller/succession.h"
#include "controller/trial.h"
#include "square/controller.h"
#include "store/store.h"

namespace square::controller {

// A change that the store could not take is tried again so often.
inline constexpr Duration kStoreRetry = std::chrono::seconds(1);

// Thread-safe. step() plans and publishes, one change at a time; everything else
// takes a mutex for a moment. What comes during a change waits for its end and is planned together,
// so batches grow as planning slows down, and nothing waits for a batch to fill. Replies and lines are
// called outside of the mutex. Its parts do the work; it has the mutex and the order of calls.
// Where planning takes long a quick plan is published at once, and the policy's own when it is ready, unless
// what is to be planned has changed by then.
class Coordinator {
 public:
  struct Surroundings {
    const square::Clock& clock;  // must live longer
    // Called when a step is due, or somebody may find what it waits for: also under the mutex, so it must not
    // call back.
    std::function<void()> wake;
    PlanSourceFactory plans;
    // Dials these, by node, from now on, and tells refused() who is no more. Called under the mutex.
    std::function<void(std::map<std::string, std::string>)> watch = [](const auto&) {};
    std::shared_ptr<const Granting> granting = nullptr;  // none: groups need no grants
  };

  // Takes up what the store has, and plans the scenario. Errors: those of check_scenario(), make_plan() and
  // Ledger; FAILED_PRECONDITION where the store is of another topology.
  static Result<std::unique_ptr<Coordinator>> create(Surroundings surroundings, Duration lease,
                                                     Duration install_timeout, Scenario scenario,
                                                     std::unique_ptr<store::Store> store);
  ~Coordinator() { stop(); }

  // Does what is due, and says when the next step is, if none is asked for before; nullopt once it is
  // stopped. Blocks while it plans and writes. One caller at a time.
  std::optional<TimePoint> step();

  // Of a line that begins. Errors as ControllerClient::connect().
  Status join(const v1::Hello& hello, const std::shared_ptr<NodeLine>& line);
  // Of a line that has joined; ignored when another line has taken its place.
  void heartbeat(const std::string& node, const NodeLine* line, const v1::Heartbeat& beat);
  void broken_links(const std::string& node, const NodeLine* line, const v1::BrokenLinks& report);
  void installed(const std::string& node, const NodeLine* line, Epoch epoch, bool is_moving = false);
  // It has not got the plan that its part of this one was told against.
  void lacking(const std::string& node, const NodeLine* line, Epoch epoch);
  void closed(const std::string& node, const NodeLine* line, const v1::Closed& part);
  void lost(const std::string& node, const NodeLine* line);
  void goodbye(const std::string& node, const NodeLine* line, const v1::Goodbye& goodbye);

  // Calls `reply` once: when the demand's plan is active, on the connected nodes that have a part in it at
  // least, or with the error.
  void submit(Demand demand, Reply reply);

  // See ControllerClient::regroup(). `reply` is called once, within `patience`.
  void regroup(Regroup asked, Duration patience, RegroupReply reply);
  // This process was refused at the node's address.
  void refused(const std::string& node, const std::string& address);
  // Of nodes that another controller had these are taken for gone. Call it before any joins.
  void presume_gone(const std::vector<LostController>& lost) { members_.presume_gone(lost, time()); }
  [[nodiscard]] PublishedPlanPtr active() const;
  [[nodiscard]] std::vector<NodeInformation> nodes() const;
  // The topology, and what was measured of its links.
  [[nodiscard]] v1::ListLinksResponse links() const;
  [[nodiscard]] std::vector<Attendant> attendance() const;
  // Of the names, those not connected or without the active plan.
  [[nodiscard]] std::vector<std::string> missing(const std::vector<std::string>& names) const;
  [[nodiscard]] bool is_stopping() const;

  // Fails what is pending, closes all lines, cancels a plan in the making. Idempotent.
  void stop();

 private:
  Coordinator(Surroundings surroundings, Duration lease, Duration install_timeout, PlanningState state,
              bool open, std::unique_ptr<store::Store> store);

  Status take_up();
  bool absorb_pasts(Deferred& deferred);
  void keep(Admission& admission, bool is_wanted);
  void expire(Deferred& deferred);
  void settle(Deferred& deferred);
  void begin(std::unique_lock<std::mutex>& lock, Deferred& deferred);
  bool absorb_membership();
  void publish(Deferred& deferred, Admission admission);
  [[nodiscard]] TimePoint next_wake() const;
  [[nodiscard]] bool has_plan() const { return publication_.active() || publication_.is_under_way(); }
  Status admit_member(const v1::Hello& hello);
  void note_departure(const std::string& node);
  // Who left an open overlay: without links.
  [[nodiscard]] bool is_gone(const std::string& node) const { return open_ && open_->is_gone(node); }
  [[nodiscard]] Absences::Nodes gone() const { return open_ ? open_->gone() : Absences::Nodes(); }
  [[nodiscard]] TimePoint time() const { return surroundings_.clock.now(); }

  const Surroundings surroundings_;
  mutable std::mutex mutex_;
  Agenda agenda_;
  bool stopping_ = false;
  bool has_news_ = false;  // groups came from an earlier controller's nodes, ended, or may change again
  // Written by step(), which alone may read it without the mutex.
  PlanningState state_;
  Succession succession_;
  EpochPlanner planner_;  // of step() alone, but for stop()

  Members members_;
  std::optional<OpenOverlay> open_;  // the topology is made of the nodes that join
  Absences absences_;                // of an open overlay those that have not left
  LinkReports links_;
  RefusedNodes refused_;
  std::optional<TimePoint> retry_;  // when a change that the store did not take is tried again
  bool is_deposed_ = false;         // another controller has the store
  Publication publication_;
  Requests requests_;
  Retrials retrials_;
  Regroupings regroupings_;
  ClosedParts closed_;
  DemandMeter demand_;
  Seldom foreign_uses_;  // that nodes told of
  Measurements measurements_;
};

}  // namespace square::controller
