// A node's line to its controller: one connection after another, until it is ended.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/seldom.h"
#include "controller/node_control/candidates.h"
#include "controller/node_control/recollection.h"
#include "controller/node_control/wire.h"
#include "controller/part_reader.h"
#include "square/controller_client.h"
#include "square/executor.h"

namespace square::controller {

// How long a line that is ended waits for the controller to see the goodbye.
inline constexpr Duration kGoodbyeWait = std::chrono::milliseconds(200);
// The longest wait of a call for a controller that is away.
inline constexpr Duration kLongestAbsence = std::chrono::seconds(90);
// Events that may wait to be sent; with more, heartbeats wait, too, and what was seen of blocks is not told.
inline constexpr std::size_t kMostWaiting = 64;

struct NodeControlOptions : ControllerClientOptions {
  std::uint64_t incarnation = 0;         // of the node's process, drawn
  std::vector<std::string> controllers;  // as for Candidates, in the place of `controller_address`
};

// Dials, says hello and what the node remembers, beats, and tells the node what the controller says; where
// the connection breaks it begins again. Of the node's strand, which runs nothing more when the line goes.
class ControlLine {
 public:
  // `changed` is called whenever one of the questions below has another answer. All must live longer.
  struct Surroundings {
    ControlWire& wire;
    const Clock& clock;
    std::shared_ptr<Executor> executor;
    Recollection& recollection;
    ControlledNode& node;
    std::function<void()> changed;
  };
  ControlLine(Surroundings surroundings, NodeControlOptions options);

  // Begins to dial. `settled` is called once: with OK at the first welcome, or with the errors of
  // ControllerClient::connect().
  void start(std::function<void(Status)> settled);
  void heard(ControlWire::Number connection, const v1::ControllerEvent& event);
  void ended(ControlWire::Number connection, const Status& reason);
  // Says goodbye, and what the node has finished; `left` is called when the controller has seen it, or after
  // kGoodbyeWait.
  void leave(const FinishedOperations& finished, std::function<void()> left);

  // As ControllerClient has them.
  void close_group(const std::string& group, std::uint64_t number);
  void report_broken_links(LinkTroubles troubles);
  void report_sights(const std::vector<BlockSight>& sights);

  // The controller that welcomed this node last.
  [[nodiscard]] const std::string& controller() const { return candidates_.current(); }
  // The same, in words.
  [[nodiscard]] std::string controller_name() const;
  [[nodiscard]] bool is_welcome() const { return is_welcome_; }
  // Has been without a controller for kLongestAbsence, of which somebody has waited for one `since`.
  [[nodiscard]] bool is_given_up(TimePoint since) const;
  // Why there is none.
  [[nodiscard]] Status absence() const;
  // Of the connection that is there. Precondition: is_welcome().
  [[nodiscard]] ControlWire::Number connection() const { return connection_; }
  // Connections lost so far.
  [[nodiscard]] std::uint64_t losses() const { return losses_; }
  // The plan that was activated last over this connection.
  [[nodiscard]] Epoch activated() const { return activated_; }
  // No plan has come that is not active here.
  [[nodiscard]] bool has_active_plan() const { return is_welcome_ && activated_ == received_; }
  // The controller has heard of all groups of that name that were closed.
  [[nodiscard]] bool has_told_closed(const std::string& group) const;

 private:
  void dial();
  void dial(const std::string& address);
  void wake(const std::vector<LostController>& before);
  void introduce();
  void over(const Status& reason);
  void settle(const Status& outcome);
  void end_leaving();
  Status handle(const v1::ControllerEvent& event);
  void believe(const v1::Address& address);
  Status handle_signed(const v1::SignedPlan& plan);
  Status handle_plan(const v1::PlanPart& part);
  void examine(const v1::Inquiry& inquiry);
  Status welcome(const v1::Welcome& message);
  void beat(ControlWire::Number connection);
  // Beats are late where this process was stopped.
  void note_stop(TimePoint now);
  [[nodiscard]] std::string key_share() const;
  void say(const v1::NodeEvent& event);
  [[nodiscard]] std::function<void(Executor::Task)> say_later();
  void say_installed(Epoch epoch, bool is_moving);
  void say_closed(const std::string& group, std::uint64_t number);
  void say_broken_links();
  void later(Duration wait, Executor::Task task);

  const Surroundings by_;
  const NodeControlOptions options_;
  Candidates candidates_;
  std::optional<PartReader> parts_;  // of the connection

  std::function<void(Status)> settled_;
  std::function<void()> left_;
  bool has_left_ = false;
  bool is_refused_ = false;  // by a controller that will not think again
  bool was_ever_welcome_ = false;

  ControlWire::Number last_connection_ = 0;
  ControlWire::Number connection_ = 0;  // 0: none
  std::string dialled_;
  bool is_welcome_ = false;
  std::uint32_t version_ = 0;  // of the control protocol; once it is welcome
  TimePoint away_since_;
  Status last_failure_;
  Duration wait_ = ControllerClient::kMinReconnectWait;
  Duration heartbeat_{0};
  TimePoint beat_at_{};
  std::optional<TimePoint> resumed_at_;
  Seldom unknown_;          // events
  std::string told_share_;  // what the controller knows of key_share()
  Epoch received_{0};
  Epoch activated_{0};
  std::uint64_t losses_ = 0;
  std::set<std::pair<std::string, std::uint64_t>> closing_;  // groups; the controller has not heard
  std::optional<LinkTroubles> broken_links_;                 // as reported last
};

}  // namespace square::controller
