// Takes what the node's users, its transport and its operations say to the part that it concerns.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "node/aborts/failures.h"
#include "node/context.h"
#include "node/frames/frame_handler.h"
#include "node/groups/agreement.h"
#include "node/groups/groups.h"
#include "node/groups/watches.h"
#include "node/lifetime.h"
#include "node/links/neighbours.h"
#include "node/links/strangers.h"
#include "node/operations/open_operations.h"
#include "node/operations/operation.h"
#include "node/plan/live_plans.h"
#include "node/sums/relayed_sums.h"
#include "square/data_plane.h"

namespace square {

// All parts of a node, all on one strand. docs/architecture.md draws them.
class DataPlane::Dispatcher final : public TransportHandler,
                                    public OperationHost,
                                    private LivePlans::Host,
                                    private Neighbours::Host {
 public:
  Dispatcher(DataPlaneOptions options, const Clock& clock, Transport& transport, Executor& executor);

  // Runs on the strand, unless the node is gone by then. From any thread.
  void on_strand(std::function<void(Dispatcher&)> task);
  [[nodiscard]] const NodeContext& context() const { return node_; }
  [[nodiscard]] std::vector<LinkReport> take_measured() { return node_.measured.take(); }

  // What DataPlane does, on the strand.
  void stop(std::function<void()> stopped);
  void set_address(const std::string& peer, const std::string& address, std::uint64_t incarnation);
  void set_gone(const std::string& peer, const std::string& reason,
                const std::optional<FinishedOperations>& finished) {
    neighbours_.set_gone(peer, reason, finished);
  }
  void set_unplanned(const std::vector<CollectiveId>& collectives, const std::string& reason);
  [[nodiscard]] FinishedOperations finished() const { return groups_.finished(); }
  void report_broken_links(BrokenLinks::Report report, BrokenLinks::HasController has_controller) {
    neighbours_.broken().set_report(std::move(report), std::move(has_controller));
  }
  void look_for(const std::string& peer) { neighbours_.look_for(peer); }
  void report_sights(Auditor::Report report) { node_.auditor.set_report(std::move(report)); }
  void install_plan(const std::shared_ptr<const Plan>& plan, std::function<void(Epoch)> installed);
  void activate_plan(Epoch epoch, bool moves) { plans_.activate(epoch, moves); }
  void set_members(CollectiveId collective, const std::string& group, std::vector<Rank> ranks);
  void set_group_key(const std::string& group, trust::GroupKeyPtr key) {
    groups_.set_key(group, std::move(key));
  }
  void close_group(const std::string& group);
  void leave_group(const std::string& group, Rank member);
  void post(MemberOperation call);
  void cancel(const OperationKey& key);
  void fail(OperationKey key, const Status& cause);
  void watch(const OperationKey& key, Duration timeout, std::function<void(Status)> arrived);
  [[nodiscard]] std::string describe(const OperationKey& key) const;
  void after(Duration delay, std::function<void()> then);
  [[nodiscard]] NodeStatistics statistics() const;
  [[nodiscard]] NodeMetrics metrics() const;

  // TransportHandler, from any thread:
  void on_link_up(LinkHandle link, LinkEnd end, std::string_view peer) override;
  void on_frame(LinkHandle link, Frame frame) override;
  void on_sent(LinkHandle link) override;
  void on_round_trip(LinkHandle link, Duration round_trip) override;
  void on_capacity(LinkHandle link, double capacity_bps, bool is_probed) override;
  void on_suspicion(LinkHandle link, bool is_suspected) override;
  void on_link_down(LinkHandle link, Status reason) override;

  // OperationHost:
  Neighbours::OutgoingLinks& links() override { return neighbours_.outgoing(); }
  std::shared_ptr<const InstalledCollective> collective_of(CollectiveId collective, Epoch since) override {
    return plans_.find(collective, since);
  }
  std::shared_ptr<const InstalledCollective> active(CollectiveId collective) override {
    return plans_.active(collective);
  }
  [[nodiscard]] Sealing sealing(CollectiveId collective, const std::string& source) const override {
    return {groups_.key_of(collective), groups_.look(collective).group, source};
  }
  void answer(const LocalStream& stream, Frame frame) override { frames_.answer(stream, frame); }
  void fill_stream(const StreamKey& key) override { neighbours_.flush().mark_room(key); }
  [[nodiscard]] std::string lost_links(CollectiveId collective) const override;
  void on_restart(const OperationKey& key, SessionId session) override;
  void announce_failure(const OperationKey& key, const Status& cause, GroupCall call) override {
    failures_.announce(key, cause, call);
  }
  void on_finished(const OperationKey& key, const Status& outcome) override;

 private:
  using PlanPointer = std::shared_ptr<const InstalledPlan>;
  using CollectivePointer = std::shared_ptr<const InstalledCollective>;

  // LivePlans::Host:
  void open(const CollectivePointer& collective) override;
  void close(const CollectivePointer& collective) override;
  void open_plan(const PlanPointer& plan) override {
    neighbours_.install(*plan);
    operations_.set_quotas(plan->plan());
  }
  void move_up(const PlanPointer& plan, bool may_stay) override { operations_.migrate(*plan, may_stay); }
  void follow(const PlanPointer& plan) override { operations_.follow(*plan); }
  [[nodiscard]] bool runs_before(const InstalledPlan& plan) const override {
    return operations_.runs_before(plan);
  }

  // Neighbours::Host:
  void fill_sources(const StreamKey& key) override;
  void on_neighbour_up(const std::string& peer) override { failures_.on_neighbour_up(peer); }
  void on_link_back(LinkEnd end, const std::string& peer) override;
  void on_neighbour_gone(const std::string& peer) override { failures_.on_neighbour_gone(peer); }
  void on_neighbour_replaced(const std::string& peer) override { failures_.on_neighbour_replaced(peer); }

  // What keeps a call from becoming an operation.
  [[nodiscard]] Status check_call(const MemberOperation& call, const Collective& collective) const;
  [[nodiscard]] Status unknown(CollectiveId collective) const;
  // Of one that nothing keeps from it. False, and nothing was done, where there is no room for it yet.
  bool begin(const MemberOperation& call);
  // Fails an operation that a member here has left the group without calling.
  void fail_without_left(Operation& operation);
  // Of a collective that no live plan knows, and that has neither members nor operations here: nothing can be
  // said of it any more.
  void forget_if_over(CollectiveId collective);
  void finish_stop_if_quiet();
  void tell_stopped();

  const std::shared_ptr<NodeContext> shared_node_;
  NodeContext& node_;
  Strangers strangers_;
  Neighbours neighbours_;
  LivePlans plans_;
  RelayedSums relayed_sums_;
  Groups groups_;
  Watches watches_;
  WaitingCalls waiting_;
  OpenOperations operations_;  // before what they use goes
  Failures failures_;
  Agreement agreement_;
  FrameHandler frames_;
  std::vector<std::function<void()>> stopped_;  // who waits for the end of a stop()
  TimePoint last_frame_{};                      // that came
  bool lingers_ = false;                        // until nothing has come for a while
  Lifetime life_;
};

}  // namespace square
