// One call of a collective on this node: the local members' buffers, and the senders
// and receivers that fill or drain them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "node/receiver.h"
#include "node/sender.h"

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
  // Sends an answer to the parent of a stream.
  virtual void answer(const LocalStream& stream, Frame frame) = 0;
  // The operation failed here first: tell all members.
  virtual void announce_failure(const OperationKey& key, const Status& cause) = 0;
  // Nothing refers to any buffer any more; members have their outcome.
  virtual void on_finished(const OperationKey& key, const Status& outcome) = 0;
};

// Not thread-safe: used on the node's strand, always held by a shared_ptr.
class Operation : public std::enable_shared_from_this<Operation> {
 public:
  Operation(std::shared_ptr<NodeContext> node, OperationHost& host, OperationKey key)
      : shared_node_(std::move(node)), node_(*shared_node_), host_(host), key_(key) {}

  // How many local members take part; known once the group is.
  void set_member_count(std::size_t count);
  // `plan` is the active one; used if the member is the source. Precondition: the rank
  // has not posted yet.
  void post(MemberOperation member, const std::shared_ptr<const InstalledPlan>& plan);

  void on_block(const std::shared_ptr<const InstalledPlan>& plan, const LocalStream& stream, Frame frame,
                std::shared_ptr<void> guard);
  void on_probe(const std::shared_ptr<const InstalledPlan>& plan, const LocalStream& stream,
                const FrameHeader& header);
  void on_acknowledgement(const FrameHeader& header, const Acknowledgement& ack);
  // A stream of this session may take another block.
  void fill(SessionId session);

  // Ends the operation for all local members. `announce`: this node is where it failed.
  void fail(const Status& cause, bool announce);

  // The node goes away: nothing is said to anybody any more.
  void abandon();

  [[nodiscard]] bool has_failed() const { return outcome_.has_value() && !outcome_->is_ok(); }
  [[nodiscard]] bool has_posted(Rank rank) const { return members_.contains(rank); }
  // Whether a sender runs on a plan older than `epoch`, and moving those that can.
  [[nodiscard]] bool runs_before(Epoch epoch) const;
  void migrate(const std::shared_ptr<const InstalledPlan>& plan);

 private:
  struct Member {
    MemberOperation call;
    Executor::TimerId timer = 0;
  };

  Receiver* receiver_for(const std::shared_ptr<const InstalledPlan>& plan, SessionId session,
                         const FrameHeader& header);
  void start_source(const MemberOperation& source, const std::shared_ptr<const InstalledPlan>& plan);
  Status add_sender(const PlanSession& session, const std::shared_ptr<const void>& pin);
  void copy_to_neighbours(const MemberOperation& source);
  void open_receivers();
  void open(SessionId session, Receiver& receiver);
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
  std::shared_ptr<const InstalledPlan> plan_;  // of the source, or of the first block
  std::map<SessionId, std::unique_ptr<Sender>> senders_;
  std::map<SessionId, std::shared_ptr<Receiver>> receivers_;
  std::size_t copies_ = 0;  // to other members on the source's node, under way
  bool copied_ = false;
  bool is_pinned_ = false;                     // frames may still show the source's buffer
  std::set<std::string> receivers_of_frames_;  // neighbours that the source sends to
  std::optional<Status> outcome_;
  bool is_finished_ = false;
};

}  // namespace square
