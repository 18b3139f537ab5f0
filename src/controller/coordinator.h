// Decides who is there, what is planned and when a plan is active. Knows no gRPC.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "controller/admission.h"
#include "controller/node_line.h"
#include "controller/session_numbers.h"
#include "square/controller.h"
#include "square/planner.h"

namespace square::controller {

inline constexpr std::size_t kMaxPendingRequests = 100'000;
// Use that changes brings a new plan at most so often.
inline constexpr Duration kDemandInterval = std::chrono::seconds(1);
// Nodes of an overlay without a topology: they are fully meshed, so links grow as the square.
inline constexpr std::size_t kMaxMeshedNodes = 2'000;

struct Answer {
  std::vector<CollectiveId> collectives;
  Epoch epoch;
};

// Thread-safe. One thread of its own plans and publishes, one change at a time; everything else
// takes a mutex for a moment. What comes during a change waits for its end and is planned together,
// so batches grow as planning slows down, and nothing waits for a batch to fill. Replies and lines are
// called outside of the mutex.
class Coordinator {
 public:
  using Reply = std::function<void(Result<Answer>)>;

  // Plans the scenario. Errors: those of check_scenario() and make_plan().
  static Result<std::unique_ptr<Coordinator>> create(Duration lease, Duration install_timeout,
                                                     Scenario scenario);
  ~Coordinator();

  // Of a line that begins. Errors as ControllerClient::connect().
  Status join(const v1::Hello& hello, const std::shared_ptr<NodeLine>& line);
  // Of a line that has joined; ignored when another line has taken its place.
  void heartbeat(const std::string& node, const NodeLine* line, const v1::Heartbeat& beat);
  void installed(const std::string& node, const NodeLine* line, Epoch epoch);
  void lost(const std::string& node, const NodeLine* line);
  void goodbye(const std::string& node, const NodeLine* line);

  // Calls `reply` once: when the demand's plan is active on every connected node, or with the error.
  void submit(Demand demand, Reply reply);

  [[nodiscard]] PublishedPlanPtr active() const;
  [[nodiscard]] std::vector<NodeInformation> nodes() const;
  Status wait_for_nodes(const std::vector<std::string>& names, Duration timeout) const;

  // Fails what is pending, closes all lines. Idempotent; join_thread() waits for a plan in the making.
  void stop();
  void join_thread();

 private:
  using Clock = std::chrono::steady_clock;
  using TimePoint = Clock::time_point;
  using Deferred = std::vector<std::function<void()>>;  // what must run outside of the lock

  struct Member {
    std::uint64_t incarnation = 0;
    std::uint64_t joined = 0;  // number of the event
    std::string address;
    std::shared_ptr<NodeLine> line;  // null once it broke, until the lease is over
    TimePoint lease_end;
    Epoch sent{0};
    Epoch installed{0};
    Epoch activated{0};
    TimePoint install_end;
  };
  using Members = std::map<std::string, Member, std::less<>>;

  struct Request {
    Demand demand;
    Reply reply;
    TimePoint received;
    bool answered = false;
  };
  using RequestPtr = std::shared_ptr<Request>;

  struct Change {
    PublishedPlanPtr next;  // the active plan again where that already serves the requests
    std::vector<std::pair<RequestPtr, Verdict>> requests;
    std::vector<std::string> late;  // nodes that did not install it in time
  };

  struct Departure {
    std::string node;
    std::uint64_t number;
  };

  Coordinator(Duration lease, Duration install_timeout, PlanningState state, bool open);

  void run();
  void expire(Deferred& deferred);
  void settle(Deferred& deferred);
  void finish_change(Deferred& deferred);
  void begin(std::unique_lock<std::mutex>& lock, Deferred& deferred);
  bool absorb_membership();
  bool absorb_demand();
  bool remesh_open_topology();
  void take_batch();
  [[nodiscard]] bool must_wait_for_nodes(const Request& request) const;
  void publish(Deferred& deferred, Admission admission);
  Result<PublishedPlanPtr> make(const Scenario& scenario);
  [[nodiscard]] TimePoint next_wake() const;

  Member* find(const std::string& node, const NodeLine* line);
  void leave(Members::iterator member);
  void send_addresses(const std::string& name, const Member& member, bool tell_others);
  void send_plan(Member& member, const PublishedPlanPtr& plan);
  void activate(Member& member);
  void answer(const RequestPtr& request, Result<Answer> result, Deferred& deferred);
  void note_work();
  void wake();

  const Duration lease_;
  const Duration install_timeout_;
  const bool open_;  // the topology is made of the nodes that join

  // Of what it says in the log.
  static constexpr const char* kComponent = "controller";

  mutable std::mutex mutex_;
  std::condition_variable wake_condition_;
  mutable std::condition_variable changed_;  // members, or the active plan
  bool wake_ = false;
  bool stopping_ = false;

  // Written by the planner thread, which alone may read it without the mutex.
  PlanningState state_;
  SessionNumbers numbers_;
  Epoch last_epoch_{0};
  Planner planner_;  // starts each plan from the one before

  PublishedPlanPtr active_;
  std::optional<Change> change_;
  Members members_;
  std::uint64_t events_ = 0;
  std::set<std::string> arrivals_;  // not in an open topology yet
  std::set<std::string> left_;      // of an open topology
  std::set<std::string> gone_;      // of those left, the ones without links
  std::vector<Departure> departures_;
  DemandMeter demand_;
  TimePoint next_demand_;  // when its weights are looked at next
  std::vector<RequestPtr> pending_;
  std::vector<RequestPtr> working_;  // being planned
  bool has_work_ = false;

  std::thread thread_;
};

}  // namespace square::controller
