// The root of a reduce session: parts meet its members' own, and the sums are in the outputs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "node/lifetime.h"
#include "node/links/lossy_relays.h"
#include "node/sums/ask_timer.h"
#include "node/sums/block_retries.h"
#include "node/sums/loss_watch.h"
#include "node/sums/stream_silence.h"
#include "node/sums/sum_results.h"
#include "node/sums/sum_session.h"
#include "node/sums/waiting_parts.h"

namespace square {

// After so many questions in a row without a block, though all have called the operation, the
// root lets everything begin again: windows may be full of parts that wait for one another.
inline constexpr int kMaxIdleAsks = 4;
inline constexpr int kMostIdleAsks = 64;

class SumRoot final : public SumSession {
 public:
  struct Host {
    // To every parent of the stream.
    std::function<void(const LocalStream& stream, const Frame& frame)> answer;
    std::function<void(const Status& cause)> fail;
    // Something may be done or drained now. May destroy nothing.
    std::function<void()> progress;
    // The block's sum is in the outputs.
    std::function<void(std::size_t block)> on_sum;
    // The sums begin again: see shed().
    std::function<void()> on_restart;
  };

  SumRoot(std::shared_ptr<NodeContext> node, std::shared_ptr<const InstalledCollective> plan,
          const SumLabel& label, Host host);
  ~SumRoot() override;

  void open(SumBuffers buffers, std::shared_ptr<const void> pin) override;
  Status on_block(Arrival arrival) override;
  Status on_request(const Arrival&) override { return data_loss("only a root has requests"); }
  Status on_report(Arrival arrival) override;
  bool fill(const StreamKey&) override { return true; }  // no stream starts at its root
  void shed() override { parts_.clear(); }
  void migrate(const std::shared_ptr<const InstalledCollective>& plan) override;
  void hurry() override;
  void cancel() override;

  [[nodiscard]] bool is_done() const override { return done_; }
  [[nodiscard]] bool is_drained() const override { return adding_ == 0 && results_.is_drained(); }
  [[nodiscard]] bool has_results() const override { return results_.has_any(); }
  [[nodiscard]] Epoch epoch() const override { return plan_->epoch(); }
  // Whose calls are not known, too.
  [[nodiscard]] std::string describe_missing() const override;

 private:
  struct Stream {
    const LocalStream* local;
    LossWatch losses;
    std::vector<std::optional<RelayOnWay>> relays;  // by parent: whether that adds what others send
  };

  void enter(std::shared_ptr<const InstalledCollective> plan, const std::vector<bool>& done_before);
  void deal();
  [[nodiscard]] const PlanSession& planned() const { return *plan_->session(label_.session); }
  [[nodiscard]] Stream* find(StreamIndex index);
  void drop_everything();

  // Blocks (sum_root.cc)
  [[nodiscard]] bool belongs_to(std::size_t block, StreamIndex stream) const;
  void take_part(Stream& stream, std::size_t block, std::size_t parent, SumPart part);
  void add_if_complete(std::size_t block);
  void close_zone();
  void take_landed();
  void count_sum(std::size_t block);
  void finish();

  // Recovery (sum_root_recovery.cc)
  void find_gap(Stream& stream, std::size_t parent, std::uint64_t sequence);
  void find_lost(Stream& stream);
  void request_again(Stream& stream, const std::vector<std::uint32_t>& blocks);
  void send_request(Stream& stream, SumRequest request);
  void arm_ask();
  void ask();
  void poll();
  void poll_soon();
  [[nodiscard]] bool leave_silent_streams();
  void blame_relays(StreamIndex stream) const;
  [[nodiscard]] std::vector<NodeId> contributors() const;
  [[nodiscard]] bool is_left(StreamIndex index) const {
    return index.index() < left_.size() && left_[index.index()];
  }
  [[nodiscard]] bool all_have_called() const;
  void begin_again(std::shared_ptr<const InstalledCollective> plan);

  std::shared_ptr<NodeContext> node_;
  std::shared_ptr<const InstalledCollective> plan_;
  Host host_;
  bool is_open_ = false;
  bool is_cancelled_ = false;
  bool done_ = false;
  std::vector<bool> done_before_;  // of this generation
  std::vector<bool> left_;         // streams of the plan that take no blocks any more
  SumBuffers buffers_;
  std::shared_ptr<const void> pin_;
  std::shared_ptr<const Interleave> interleave_ = std::make_shared<const Interleave>();
  std::map<StreamIndex, Stream> streams_;
  WaitingParts parts_;
  BlockRetries retries_;
  SumResults results_;
  std::size_t adding_ = 0;
  std::uint32_t request_count_ = 0;
  AskTimer ask_timer_;
  Lifetime life_;
  TimePoint polled_at_ = TimePoint::min();
  bool is_poll_due_ = false;
  int idle_asks_ = 0;
  bool may_have_lost_ = false;     // a link was lost, here or at a contributor, since all began
  int idle_limit_ = kMaxIdleAsks;  // twice as many after each beginning that brought nothing
  StreamSilence silence_;
  std::set<NodeId> called_;  // contributors whose members have called
};

}  // namespace square
