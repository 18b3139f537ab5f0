// The node's state machine: plans, links and operations, all on one strand.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "node/arrival.h"
#include "node/context.h"
#include "node/lifetime.h"
#include "node/links/flush.h"
#include "node/links/incoming_link.h"
#include "node/links/outgoing_link.h"
#include "node/multicast/receiver.h"
#include "node/multicast/sender.h"
#include "node/operations/operation.h"
#include "node/plan/installed_plan.h"
#include "node/sums/relayed_sums.h"
#include "square/data_plane.h"
#include "transport/pacing/pacer.h"

namespace square {

// Operations that may be open on a node at once, posted or announced by frames.
inline constexpr std::size_t kMaxOpenOperations = 4'096;
// Aborted operations that a node remembers, so that each abort is passed on once.
inline constexpr std::size_t kMaxRememberedAborts = 1'024;
// Of those, how many a neighbour hears again when its link comes up.
inline constexpr std::size_t kRepeatedAborts = 64;
// How far a frame's operation may be ahead of those that have finished.
inline constexpr std::uint64_t kMaxOperationsAhead = 1'024;
// Operations that members wait to hear of, at once.
inline constexpr std::size_t kMaxWatches = 4'096;
// Waits between attempts to open a link; they go on while a plan needs it.
inline constexpr Duration kMinRedialWait = std::chrono::milliseconds(50);
inline constexpr Duration kMaxRedialWait = std::chrono::seconds(1);
// An operation that is called while a link that it uses is lost waits for the link so long: if the
// neighbour is a member, and if it only relays, so that a plan may go around it. The second is longer
// than a controller takes to miss a node (its lease) and to change the plan.
inline constexpr Duration kMemberReturnTime = std::chrono::seconds(2);
inline constexpr Duration kRelayReturnTime = std::chrono::seconds(30);
// Operations under an old plan that keeps a new one waiting are told to move up this often.
inline constexpr Duration kMoveWait = std::chrono::seconds(1);
// In an abort: whatever runs in the session.
inline constexpr OperationId kEveryOperation{~std::uint64_t{0}};

class DataPlane::Core final : public TransportHandler, public OperationHost {
 public:
  Core(DataPlaneOptions options, const Clock& clock, Transport& transport, Executor& executor);
  ~Core() override;

  // Runs on the strand, unless the core is gone by then.
  void on_strand(std::function<void(Core&)> task);
  [[nodiscard]] const NodeContext& context() const { return context_; }

  void stop(std::function<void()> stopped);
  void set_address(const std::string& peer, const std::string& address);
  void install_plan(const std::shared_ptr<const Plan>& plan, std::function<void(Epoch)> installed);
  void activate_plan(Epoch epoch);
  void learn_groups(const Plan& plan);
  void set_members(CollectiveId collective, const std::string& group, std::vector<Rank> ranks);
  void post(MemberOperation call);
  void cancel(const OperationKey& key);
  void fail(OperationKey key, const Status& cause);
  void watch(const OperationKey& key, Duration timeout, std::function<void(Status)> arrived);
  [[nodiscard]] NodeMetrics metrics() const;

  // TransportHandler, from any thread:
  void on_link_up(LinkHandle link, LinkEnd end, std::string_view peer) override;
  void on_frame(LinkHandle link, Frame frame) override;
  void on_sent(LinkHandle link) override;
  void on_round_trip(LinkHandle link, Duration round_trip) override;
  void on_link_down(LinkHandle link, Status reason) override;

  // OperationHost:
  Sender::Links& links() override { return outgoing_; }
  std::shared_ptr<const InstalledPlan> plan_of(Epoch epoch) override;
  std::shared_ptr<const InstalledPlan> active_plan() override {
    return active_ ? plan_of(*active_) : nullptr;
  }
  void answer(const LocalStream& stream, Frame frame) override;
  void fill_stream(const StreamKey& key) override { flush_.mark_room(key); }
  void on_restart(const OperationKey& key, SessionId session) override;
  void announce_failure(const OperationKey& key, const Status& cause) override;
  void on_finished(const OperationKey& key, const Status& outcome) override;

 private:
  struct Connection {
    LinkEnd end;
    std::string peer;
    std::optional<Duration> round_trip{};  // as the transport measured it last
    std::size_t channels = 1;              // that it was told to use
  };
  struct Dial {
    Duration wait = kMinRedialWait;
    bool is_open = false;  // an attempt or a connection exists
  };
  struct Collective {
    std::string group;  // empty while no member is known
    std::vector<Rank> ranks;
    std::uint64_t all_finished_below = 0;
    std::set<std::uint64_t> finished;
    std::optional<Status> failure;
    std::optional<OperationId> failed_operation;
    // Of the processes that speak in the sessions, as first seen: sources, roots, contributors.
    std::map<std::pair<SessionId, NodeId>, std::uint32_t> lives;
    [[nodiscard]] bool has_finished(OperationId operation) const;
  };
  struct Abort {
    SessionId session;
    OperationId operation;
    std::uint64_t number = 0;  // only for kEveryOperation, then not 0
    Status cause;
  };
  // What local members called, while it runs.
  struct LocalCall {
    CallKind kind = CallKind::kNone;
    Rank rank;
    std::set<OperationKey> running;
  };
  struct Watch {
    Executor::TimerId timer = 0;
    std::function<void(Status)> arrived;
  };
  struct PendingInstall {
    Epoch epoch;
    std::function<void(Epoch)> installed;
  };
  // Calls (core_calls.cc)
  // Both are false, and the operations fail, if members differ: the first compares with what local
  // members called, the second keeps the call of one and compares it with what was heard before.
  bool compare_calls(const OperationKey& key, const std::string& who, GroupCall call);
  bool note_call(const OperationKey& key, Rank rank, GroupCall call);
  void forget_calls(const OperationKey& key);
  // A member elsewhere said with a frame what it called. False if that ended the operation.
  bool agrees_on_call(const OperationKey& key, Operation& operation, const FrameHeader& header,
                      std::string_view from);

  // Watches (core_watches.cc)
  void tell_watches(const OperationKey& key, const Status& outcome);
  void fail_watches(CollectiveId collective, const Status& cause);

  // Plans and links (core_links.cc)
  void open_links(const InstalledPlan& plan);
  void open_incoming(const InstalledPlan& plan);
  void retire_before(Epoch epoch);
  void confirm_installs();
  void move_up();
  // A stream has room: its source may put the next block in line, oldest operation first.
  void fill_sources(const StreamKey& key);
  IncomingLink& incoming_from(const std::string& peer);
  void follow_plans();
  void dial(const std::string& peer);
  // As many as carry the link's rate over its round trip.
  void choose_channels(LinkHandle link);
  void link_up(LinkHandle link, LinkEnd end, const std::string& peer);
  void link_down(LinkHandle link, const Status& reason);
  void tail_down(const std::string& peer, const Status& reason);
  void head_down(const std::string& peer, const Status& reason);
  void fail_sessions(const std::set<SessionId>& sessions, const Status& cause);
  // `plan` is the one under which the operation was called, at `since`.
  void await_lost_links(const OperationKey& key, const std::shared_ptr<const InstalledPlan>& plan,
                        TimePoint since);
  [[nodiscard]] Status check_lost_links(const InstalledPlan& plan, CollectiveId collective, TimePoint since,
                                        std::optional<TimePoint>& next) const;

  // Frames (core_frames.cc)
  void take_frame(LinkHandle link, Frame frame, Landing landing);
  // False for a frame of a plan that is gone, or of nobody.
  [[nodiscard]] bool place(Arrival& arrival) const;
  void refuse();
  void take_block(LinkHandle link, Arrival arrival);
  void take_probe(Arrival arrival);
  void take_part(Arrival arrival);
  void take_request(const Arrival& arrival);
  void take_report(Arrival arrival);
  [[nodiscard]] static bool is_member(const Arrival& arrival);
  void take_acknowledgement(Arrival arrival);
  void take_abort(const Arrival& arrival);
  void abort_here(const OperationKey& key, SessionId session, const Status& cause);
  // To the session's neighbours in a plan: all but `except`, or `only` this one.
  void pass_abort(const InstalledPlan& plan, const Abort& abort, const std::string& except,
                  const std::string& only = "");
  void repeat_aborts(const std::string& peer);
  void fail_all(CollectiveId collective, const Status& cause);
  [[nodiscard]] Status check_life(const Arrival& arrival, NodeId speaker);
  // False if it is known already.
  [[nodiscard]] bool remember(const Abort& abort);
  // The open operation that a stream's frame belongs to, or none: then a frame that
  // asks for an answer has got it.
  std::shared_ptr<Operation> operation_for(const Arrival& arrival);
  // The same for a reduce, without an answer.
  std::shared_ptr<Operation> sum_for(const Arrival& arrival, const std::string& from);
  void answer_abort(const Arrival& arrival, const Status& cause);
  void poison(const OperationKey& key, const Status& cause);
  [[nodiscard]] Status check_part(const Plan& plan, const MemberOperation& call) const;
  std::shared_ptr<Operation> open_operation(const OperationKey& key, const InstalledPlan& plan);
  void send_answer(const std::string& peer, Frame frame);

  [[nodiscard]] std::size_t largest_block(SessionId session) const;
  void finish_stop_if_quiet();

  std::shared_ptr<NodeContext> shared_context_;
  NodeContext& context_;
  Pacer egress_{kUnlimited};
  std::map<std::string, std::string> addresses_;
  std::map<Epoch, std::shared_ptr<const InstalledPlan>> plans_;
  std::optional<Epoch> active_;
  std::vector<PendingInstall> pending_installs_;
  Executor::TimerId move_timer_ = 0;
  Flush flush_;
  Sender::Links outgoing_;
  std::map<std::string, std::unique_ptr<IncomingLink>> incoming_;
  RelayedSums relayed_sums_;
  std::map<LinkHandle, Connection> connections_;
  std::map<std::string, Dial> dials_;
  // Which were up and are down, and why. Links that have not been up yet are not lost.
  std::map<std::pair<LinkEnd, std::string>, std::string> lost_links_;
  std::map<CollectiveId, Collective> collectives_;
  std::multimap<OperationKey, Watch> watches_;
  std::map<std::string, std::map<std::uint16_t, LocalCall>, std::less<>> calls_;  // by group and number
  std::map<OperationKey, std::shared_ptr<Operation>> operations_;
  // Over all plans: an operation keeps its block size when it moves to another.
  std::map<SessionId, std::size_t> largest_blocks_;
  std::deque<Abort> aborts_;  // oldest first
  std::uint64_t abort_count_ = 0;
  std::function<void()> stopped_;
  bool is_stopping_ = false;
  Lifetime life_;
};

}  // namespace square
