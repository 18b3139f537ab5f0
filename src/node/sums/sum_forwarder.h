// Every node of a reduce session but its root: adds what its parents send and what its own members
// give, if it has any, and sends one sum to its one child.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "node/lifetime.h"
#include "node/links/outgoing_link.h"
#include "node/sums/ask_timer.h"
#include "node/sums/block_retries.h"
#include "node/sums/contribution.h"
#include "node/sums/leaving_queue.h"
#include "node/sums/own_blocks.h"
#include "node/sums/sum_messages.h"
#include "node/sums/sum_session.h"
#include "node/sums/waiting_parts.h"

namespace square {

class SumForwarder final : public SumSession {
 public:
  using Links = std::map<std::string, std::unique_ptr<OutgoingLink>>;
  struct Host {
    // To every parent of the stream.
    std::function<void(const LocalStream& stream, const Frame& frame)> answer;
    // Something may be done or drained now. May destroy nothing.
    std::function<void()> progress;
    // A stream that starts here may take blocks: asks its operations, the oldest first.
    std::function<void(const StreamKey& key)> fill;
    // The sums begin again: see shed().
    std::function<void()> on_restart;
  };

  // Contributes if the node is a member of the session; else it only passes on what comes.
  SumForwarder(std::shared_ptr<NodeContext> node, Links& links,
               std::shared_ptr<const InstalledCollective> plan, const SumLabel& label, Host host);
  ~SumForwarder() override;

  // Of a contributor only.
  void open(SumBuffers buffers, std::shared_ptr<const void> pin) override;
  Status on_block(Arrival arrival) override;
  Status on_request(const Arrival& arrival) override;
  Status on_report(Arrival arrival) override;
  bool fill(const StreamKey& key) override;
  void shed() override;
  void migrate(const std::shared_ptr<const InstalledCollective>& plan) override;
  void hurry() override;
  void cancel() override;

  [[nodiscard]] bool is_done() const override { return done_; }
  [[nodiscard]] bool is_drained() const override { return adding_ == 0; }
  [[nodiscard]] bool has_results() const override { return false; }
  [[nodiscard]] Epoch epoch() const override { return plan_->epoch(); }
  [[nodiscard]] std::string describe_missing() const override;

 private:
  struct Stream {
    const LocalStream* local;
    std::shared_ptr<OutgoingStream> to;
    LeavingQueue leaving{};
    OwnBlocks own{};  // where the stream starts here

    [[nodiscard]] bool starts_here() const { return local->starts_here(); }
    [[nodiscard]] const StreamKey& key() const { return local->key; }
  };

  // Beginnings
  void enter(std::shared_ptr<const InstalledCollective> plan, bool knows_start);
  void deal();
  Status adopt(const std::shared_ptr<const InstalledCollective>& plan, const FrameHeader& header);
  Status begin_by(const SumRequest& request);
  void drop_everything();
  [[nodiscard]] OutgoingLink& link_of(const Stream& stream) const {
    return *links_.at(stream.local->children.front());
  }
  [[nodiscard]] Stream* find(StreamIndex index);

  // Blocks
  [[nodiscard]] bool belongs_to(std::size_t block, StreamIndex stream) const;
  void drop_block(std::size_t block, std::uint16_t retry);
  void add_if_complete(Stream& stream, std::size_t block);
  void pass_on(Stream& stream, std::size_t block, std::vector<SumPart> parts);
  void emit_own(Stream& stream, const OwnBlocks::Turn& turn);
  void make_sum(Stream& stream, std::size_t block, const std::shared_ptr<LeavingQueue::Item>& item,
                std::vector<SumPart> parts);
  void flush(Stream& stream);
  void fill_all();

  // What the root asks, and hears
  void follow(Stream& stream, const SumRequest& request);
  void report(Stream& stream, std::uint32_t number);
  void push_report(Stream& stream, std::uint32_t number);
  [[nodiscard]] Frame report_on(const Stream& stream, std::uint32_t number) const;
  void put_report(Stream& stream, Frame report);
  void finish();
  void arm_ask();
  void ask();

  std::shared_ptr<NodeContext> node_;
  Links& links_;
  std::shared_ptr<const InstalledCollective> plan_;
  Host host_;
  std::optional<Contribution> own_;  // of members here; none at a relay
  bool is_cancelled_ = false;
  bool done_ = false;
  std::map<StreamIndex, Stream> streams_;
  WaitingParts parts_;
  BlockRetries retries_;
  std::unordered_set<std::size_t> passed_;  // blocks that went on at their present retry
  std::size_t adding_ = 0;
  AskTimer ask_timer_;
  Lifetime life_;
};

}  // namespace square
