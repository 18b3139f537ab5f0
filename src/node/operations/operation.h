// One call of a collective on this node: the local members' buffers, and the senders,
// receivers and sums that fill or drain them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "node/multicast/receiver.h"
#include "node/multicast/sender.h"
#include "node/sums/sum_session.h"

namespace square {

struct OperationKey {
  CollectiveId collective;
  OperationId operation;
  friend auto operator<=>(const OperationKey&, const OperationKey&) = default;
};

// What an operation needs of its node.
class OperationHost {
 public:
  virtual ~OperationHost() = default;
  virtual Sender::Links& links() = 0;
  // An installed plan, or none.
  virtual std::shared_ptr<const InstalledPlan> plan_of(Epoch epoch) = 0;
  virtual std::shared_ptr<const InstalledPlan> active_plan() = 0;
  // Sends an answer to the parents of a stream.
  virtual void answer(const LocalStream& stream, Frame frame) = 0;
  // Lets the operations of the stream's session put blocks on it, the oldest first.
  virtual void fill_stream(const StreamKey& key) = 0;
  // The sums of a session begin again, perhaps under a newer plan.
  virtual void on_restart(const OperationKey& key, SessionId session) = 0;
  // The operation failed here first: tell all members.
  virtual void announce_failure(const OperationKey& key, const Status& cause) = 0;
  // Nothing refers to any buffer any more; members have their outcome.
  virtual void on_finished(const OperationKey& key, const Status& outcome) = 0;
};

// What somebody called, as error messages say it.
struct HeardCall {
  GroupCall call;
  std::string who;
};
// INVALID_ARGUMENT that names both.
Status different_calls(const HeardCall& one, const HeardCall& other);

// Not thread-safe: used on the node's strand, always held by a shared_ptr.
class Operation : public std::enable_shared_from_this<Operation> {
 public:
  using PlanPointer = std::shared_ptr<const InstalledPlan>;

  Operation(std::shared_ptr<NodeContext> node, OperationHost& host, OperationKey key)
      : shared_node_(std::move(node)), node_(*shared_node_), host_(host), key_(key) {}

  // How many local members take part; known once the group is.
  void set_member_count(std::size_t count);
  // `plan` is the active one. Preconditions: the rank has not posted yet; check_call()
  // found nothing wrong.
  void post(MemberOperation member, const PlanPointer& plan);
  // Whether the call is one that the collective can have: its sizes, what it adds.
  static Status check_call(const MemberOperation& call, const Plan& plan);

  void on_block(Arrival block);
  void on_probe(const Arrival& probe);
  void on_acknowledgement(const FrameHeader& header, const Acknowledgement& ack);
  // Of a reduce session.
  void on_part(Arrival part);
  void on_request(const Arrival& request);
  void on_report(Arrival report);
  // Somebody called under a newer plan, which cuts the buffer.
  void on_layout(const InstalledPlan& plan, const FrameHeader& header);
  // A stream that starts here may take another block. False if the operations that come
  // after this one must wait.
  bool fill(const StreamKey& key);
  void shed(SessionId session);

  // Ends the operation for all local members. `announce`: this node is where it failed.
  void fail(const Status& cause, bool announce);

  // The node goes away: nothing is said to anybody any more.
  void abandon();

  // What a member elsewhere said first that it called.
  [[nodiscard]] const std::optional<HeardCall>& heard_call() const { return heard_call_; }
  void hear_call(HeardCall call) { heard_call_ = std::move(call); }

  [[nodiscard]] bool has_failed() const { return outcome_.has_value() && !outcome_->is_ok(); }
  [[nodiscard]] bool has_posted(Rank rank) const { return members_.contains(rank); }
  // Whether a sender or a sum runs on a plan older than `epoch`, and moving those that can.
  [[nodiscard]] bool runs_before(Epoch epoch) const;
  void migrate(const PlanPointer& plan);

 private:
  struct Member {
    MemberOperation call;
    Executor::TimerId timer = 0;
  };

  Receiver* receiver_for(const Arrival& arrival);
  void start_source(const MemberOperation& source, const PlanPointer& plan);
  void copy_to_neighbours(const MemberOperation& source);
  void open_receivers();
  void open(SessionId session, Receiver& receiver);
  // Keeps the operation's buffers pinned until the last copy of it is gone, on any thread.
  std::shared_ptr<const void> make_pin(const void* buffer);
  Buffer show(const std::shared_ptr<const void>& pin, const std::byte* data, const ByteRange& range);
  void note_receivers(const InstalledPlan& plan, SessionId session);

  // Sums (operation_sums.cc)
  Status check_neighbours(const MemberOperation& call) const;
  [[nodiscard]] bool agrees_on_layout(const InstalledPlan& plan, const FrameHeader& header);
  [[nodiscard]] bool agrees_on_layout(const Arrival& arrival) {
    return agrees_on_layout(*arrival.plan, arrival.header());
  }
  [[nodiscard]] bool has_results() const;
  void cut_by(const PlanPointer& plan);
  [[nodiscard]] Epoch layout_of(const InstalledPlan& plan) const;
  [[nodiscard]] bool carries_bytes(const PlanSession& session) const;
  [[nodiscard]] ByteRange range_of(const PlanSession& session) const;
  void open_sums(const PlanPointer& plan);
  void open_sum(const PlanSession& session, const std::shared_ptr<const void>& pin);
  void open_multicast_of_sums(const PlanSession& session, const SumShape& shape,
                              const std::shared_ptr<const void>& pin);
  SumSession* sums_for(const Arrival& arrival);
  std::shared_ptr<SumSession> add_sums(const PlanPointer& plan, const PlanSession& session,
                                       const SumShape& shape);
  void sum_locally();
  void on_sum(SessionId session, std::size_t block);
  [[nodiscard]] bool sums_arrived() const;
  [[nodiscard]] std::string describe_missing_sums() const;

  [[nodiscard]] bool all_posted() const { return member_count_ > 0 && members_.size() == member_count_; }
  [[nodiscard]] const MemberOperation* source() const;
  [[nodiscard]] bool everything_arrived() const;
  [[nodiscard]] bool is_quiet() const;
  void check_progress();
  void on_timeout(Rank rank);
  [[nodiscard]] std::string describe_missing() const;
  void release_buffers();
  void force_release_later();
  void deliver_outcome();

  std::shared_ptr<NodeContext> shared_node_;
  NodeContext& node_;
  OperationHost& host_;
  OperationKey key_;
  std::size_t member_count_ = 0;
  std::map<Rank, Member> members_;
  // Of the source, or of the first block; of an all-reduce: the plan that cuts its buffer.
  PlanPointer plan_;
  std::optional<HeardCall> heard_call_;
  bool is_sum_ = false;  // a reduce or an all-reduce, known from a post
  bool sums_are_open_ = false;
  std::map<SessionId, std::unique_ptr<Sender>> senders_;
  std::map<SessionId, std::shared_ptr<Receiver>> receivers_;
  // Of another cut, perhaps not drained.
  std::vector<std::shared_ptr<Receiver>> former_receivers_;
  std::vector<std::shared_ptr<SumSession>> former_sums_;
  std::map<SessionId, std::shared_ptr<SumSession>> sums_;
  std::map<SessionId, SessionId> multicast_of_;  // by the reduce whose sums it carries
  std::size_t copies_ = 0;                       // to other members on this node, under way
  bool copied_ = false;
  std::size_t pins_ = 0;                       // frames may still show members' buffers
  std::set<std::string> receivers_of_frames_;  // neighbours that show-ing frames go to
  std::optional<Status> outcome_;
  bool is_finished_ = false;
};

}  // namespace square
