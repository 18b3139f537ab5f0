// A node's end of its line: one connection after another, until it is ended.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "controller/candidates.h"
#include "controller/grpc/heartbeats.h"
#include "controller/part_reader.h"
#include "controller/recollection.h"
#include "square/controller_client.h"
#include "square/v1/controller.grpc.pb.h"

namespace square::controller {

// How long a line that is ended waits for the controller to see the goodbye.
inline constexpr Duration kGoodbyeWait = std::chrono::milliseconds(200);
// A controller that is away is waited for so long by who wants something of it.
inline constexpr Duration kLongestAbsence = std::chrono::seconds(30);

// Two threads: one connects and reads, one writes and watches the time. Thread-safe.
class ClientLine {
 public:
  using Clock = std::chrono::steady_clock;

  using StubPtr = std::shared_ptr<v1::Controller::Stub>;

  // `dial` makes a new channel to an address: one whose connection was refused waits for as long as an
  // attempt may take before the next. `recollection` is told of plans, and tells controllers to come of them;
  // it must live longer.
  using Dial = std::function<StubPtr(const std::string& address)>;
  // `controllers` as for Candidates.
  ClientLine(ControllerClientOptions options, std::vector<std::string> controllers, ControllerEvents events,
             Dial dial, Recollection& recollection);
  ~ClientLine();

  // Waits for the first welcome. Errors as ControllerClient::connect().
  Status wait_for_welcome();
  // Waits until the controller has welcomed this node, for kLongestAbsence at most. Errors: UNAVAILABLE with
  // what was last heard, CANCELLED.
  Status wait_for_line(Clock::time_point end);
  // Of the latest channel.
  [[nodiscard]] StubPtr stub() const;
  // The controller that welcomed this node last.
  [[nodiscard]] std::string controller() const { return candidates_.current(); }
  // Connections lost so far.
  [[nodiscard]] std::uint64_t losses() const;
  // Waits until `epoch` is active here. Errors: UNAVAILABLE if a connection was lost after `losses`,
  // DEADLINE_EXCEEDED, CANCELLED.
  Status wait_for_activation(Epoch epoch, std::uint64_t losses, Clock::time_point end);
  // Says so, again over later connections, until the controller has heard.
  void close_group(const std::string& group, std::uint64_t number);
  // Until it has heard of all groups of that name that were closed. Errors: DEADLINE_EXCEEDED, CANCELLED.
  Status wait_until_closed(const std::string& group, Clock::time_point end);
  // Goes with the next heartbeat.
  void note_use(CollectiveId collective, std::uint64_t bytes) { beats_.note_use(collective, bytes); }
  // Says so, and again over later connections.
  void report_broken_links(LinkTroubles troubles);
  [[nodiscard]] bool is_connected() const;
  void report_sights(const std::vector<BlockSight>& sights);
  // Says goodbye, and what the node has finished, and ends the threads. Idempotent.
  void stop(const FinishedOperations& finished);

 private:
  struct Connection;
  using ConnectionPtr = std::shared_ptr<Connection>;
  // What a plan's `installed` refers to: it may be called after the line is gone.
  struct Outbox;

  void read_loop();
  Status serve_connection(const std::string& address);
  Status handle(const v1::ControllerEvent& event, std::uint64_t connection);
  void believe(const std::string& fingerprint);
  Status handle_signed(const v1::SignedPlan& plan, std::uint64_t connection);
  Status handle_plan(const v1::PlanPart& part, std::uint64_t connection);
  void examine(const v1::Inquiry& inquiry, std::uint64_t connection);
  void welcome(const v1::Welcome& message);
  bool pause(Duration wait);
  void write_loop();
  std::optional<Clock::time_point> keep_time(Clock::time_point& next_beat);
  void write(const ConnectionPtr& connection, const v1::NodeEvent& event);

  const ControllerClientOptions options_;
  const ControllerEvents events_;
  const Dial dial_;
  Recollection& recollection_;
  Heartbeats beats_;
  Candidates candidates_;
  std::optional<PartReader> parts_;  // of the thread that reads, and of its connection
  const std::uint64_t incarnation_;
  const std::shared_ptr<Outbox> outbox_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  StubPtr stub_;
  ConnectionPtr connection_;
  std::uint64_t connections_ = 0;
  Clock::time_point welcome_end_;  // when an unanswered hello is given up
  bool welcomed_ = false;          // on this connection
  bool ever_welcomed_ = false;
  Status last_failure_;
  bool refused_ = false;  // by a controller that will not think again
  Duration heartbeat_{0};
  Epoch activated_{0};
  std::uint64_t losses_ = 0;
  std::set<std::pair<std::string, std::uint64_t>> closing_;  // groups; the controller has not heard

  std::optional<LinkTroubles> broken_links_;  // as reported last

  std::map<CollectiveId, std::uint64_t> used_;  // bytes, since the last heartbeat

  std::thread reader_;
  std::thread writer_;
};

}  // namespace square::controller
