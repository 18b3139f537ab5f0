// One call of a collective on this node: what is the same for all of them.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "node/arrival.h"
#include "node/context.h"
#include "node/groups/calls.h"
#include "node/lifetime.h"
#include "node/links/outgoing_link.h"
#include "node/messages/answers.h"
#include "node/operations/local_fan_out.h"
#include "node/operations/operation_host.h"
#include "node/operations/operation_work.h"

namespace square {

// The local members and their timers, the outcome, and the buffers until nothing refers to them any
// more. What is sent and received is its work. Not thread-safe: used on the node's strand, always
// held by a shared_ptr.
class Operation : public std::enable_shared_from_this<Operation> {
 public:
  using PlanPointer = std::shared_ptr<const InstalledCollective>;
  struct Member {
    MemberOperation call;
    Executor::TimerId timer = 0;
  };

  // `op` is the collective's.
  Operation(std::shared_ptr<NodeContext> node, OperationHost& host, OperationKey key, CollectiveOp op);

  // How many local members take part; known once the group is.
  void set_member_count(std::size_t count);
  // `plan` is the active one. Preconditions: the rank has not posted yet; check_call()
  // found nothing wrong.
  void post(MemberOperation member, const PlanPointer& plan);

  // A block, probe, request or report.
  void on_arrival(Arrival arrival);
  void on_acknowledgement(const FrameHeader& header, const Acknowledgement& ack);
  // Somebody called under a newer plan, which cuts the buffer.
  void on_layout(const InstalledCollective& plan, const FrameHeader& header);
  // A stream that starts here may take another block. False if the operations that come
  // after this one must wait.
  bool fill(const StreamKey& key) { return work_->fill(key); }
  void shed(SessionId session) { work_->shed(session); }
  void hurry() { work_->hurry(); }

  // Ends the operation for all local members. `announce`: this node is where it failed.
  void fail(const Status& cause, bool announce);
  // The node goes away: nothing is said to anybody any more.
  void abandon();

  // What a member elsewhere said first that it called.
  [[nodiscard]] const std::optional<HeardCall>& heard_call() const { return heard_call_; }
  // The group's call that this is a part of, as far as somebody said it.
  [[nodiscard]] GroupCall call() const;
  void hear_call(HeardCall call) { heard_call_ = std::move(call); }

  // What the members here wait for.
  [[nodiscard]] std::string describe_missing() const;

  [[nodiscard]] bool has_failed() const { return outcome_.has_value() && !outcome_->is_ok(); }
  [[nodiscard]] bool has_calls() const { return !members_.empty(); }
  [[nodiscard]] bool has_posted(Rank rank) const { return members_.contains(rank); }
  // Whether anything runs on a plan older than `epoch`, and moving what can.
  [[nodiscard]] bool runs_before(Epoch epoch) const { return work_->runs_before(epoch); }
  void migrate(const PlanPointer& plan, bool may_stay) { work_->migrate(plan, may_stay); }
  // Moves what can at no cost to the rates of a plan that is active now.
  void follow(const PlanPointer& plan) {
    if (!outcome_) work_->follow(plan);
  }
  // No plan has the collective any more as it was since this epoch: nodes refuse what is under way so.
  void let_go(Epoch closed) {
    if (!outcome_) work_->let_go(closed);
  }

  // For its work:
  [[nodiscard]] const std::shared_ptr<NodeContext>& node() const { return node_; }
  [[nodiscard]] OperationHost& host() const { return host_; }
  [[nodiscard]] const OperationKey& key() const { return key_; }
  // By rank; those who have posted.
  [[nodiscard]] const std::map<Rank, Member>& members() const { return members_; }
  [[nodiscard]] bool all_posted() const { return member_count_ > 0 && members_.size() == member_count_; }
  [[nodiscard]] bool is_over() const { return outcome_.has_value(); }
  // Keeps the operation's buffers pinned until the last copy of it is gone, on any thread.
  std::shared_ptr<const void> make_pin(const void* buffer);
  // Frames that show the buffers go to the session's neighbours.
  void show_to_neighbours(const InstalledCollective& plan, SessionId session);
  // From member to member on this node, without a link.
  void give_locally(FanOut job);
  // Looks whether all is done, or all is drained. May end the operation.
  void check_progress();

 private:
  void on_timeout(Rank rank);
  // A block came, or a confirmation of one.
  void note_bytes();
  void release_buffers();
  void force_release_later(int round);
  void force_release(int round);
  void deliver_outcome();

  std::shared_ptr<NodeContext> node_;
  OperationHost& host_;
  const OperationKey key_;
  std::unique_ptr<OperationWork> work_;
  std::size_t member_count_ = 0;
  std::map<Rank, Member> members_;
  std::optional<HeardCall> heard_call_;
  std::size_t copies_ = 0;                     // to other members on this node, under way
  std::size_t pins_ = 0;                       // frames may still show members' buffers
  std::set<std::string> receivers_of_frames_;  // neighbours that such frames go to
  std::optional<TimePoint> first_byte_;        // that came
  std::optional<Status> outcome_;
  bool is_finished_ = false;
  Lifetime life_;
};

}  // namespace square
