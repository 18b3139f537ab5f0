// One node's part in one reduce session of an operation: its own blocks, the partial sums
// of its parents, and what it passes on. docs/data-plane.md, "Sums".
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "node/arrival.h"
#include "node/context.h"
#include "node/landing/landing.h"
#include "node/links/outgoing_link.h"
#include "node/multicast/block_set.h"
#include "node/sums/interleave.h"
#include "node/sums/sum_messages.h"
#include "node/sums/sum_zone.h"
#include "square/frame.h"
#include "square/reduction.h"

namespace square {

// The root asks how far everybody is after so long without a block; each time without one it
// waits longer. So does a contributor that has sent everything and heard nothing.
inline constexpr Duration kMinAskWait = std::chrono::milliseconds(250);
inline constexpr Duration kMaxAskWait = std::chrono::seconds(2);
// After so many questions in a row without a block, though all have called the operation, the
// root lets everything begin again: windows may be full of parts that wait for one another.
inline constexpr int kMaxIdleAsks = 4;
inline constexpr int kMostIdleAsks = 64;
// What may wait on one stream for a sum ahead of it; more reports are dropped: they come again.
inline constexpr std::size_t kMaxLeavingItems = 4'096;

// What a sum is about; all nodes must agree.
struct SumShape {
  std::uint64_t total_bytes = 0;
  std::uint32_t block_bytes = 0;
  Reduction reduction;
  Epoch layout{0};  // see FrameHeader
  friend bool operator==(const SumShape&, const SumShape&) = default;

  [[nodiscard]] std::size_t block_count() const {
    return std::max<std::size_t>(1, (total_bytes + block_bytes - 1) / block_bytes);
  }
};

// A shape as a frame's header tells it. Errors: DATA_LOSS or INVALID_ARGUMENT for one that nobody
// could add: its sizes are checked before anything is allocated.
SumShape shape_of(const FrameHeader& header);
Status check(const SumShape& shape);

// A block begins again (a higher retry) when the root knows that a part of it was lost, and
// all blocks that are not done begin again (a higher generation) when the root goes on under
// another plan. Parts of different attempts never meet. Loss is known, never guessed: links
// keep the order of a stream, so what does not come before something that was sent later,
// a block or a report, is lost. Not thread-safe: used on the node's strand; sums are
// payload work.
class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  using Links = std::map<std::string, std::unique_ptr<OutgoingLink>>;
  struct Host {
    // To every parent of the stream.
    std::function<void(const LocalStream& stream, const Frame& frame)> answer;
    std::function<void(const Status& cause)> fail;
    // Something may be done or drained now. May destroy nothing.
    std::function<void()> progress;
    // At the root: the block's sum is in the outputs.
    std::function<void(std::size_t block)> on_sum;
    // A stream that starts here may take blocks: asks its operations, the oldest first.
    std::function<void(const StreamKey& key)> fill;
    // The sums begin again: see shed().
    std::function<void()> on_restart;
  };

  Reducer(std::shared_ptr<NodeContext> node, Links& links, std::shared_ptr<const InstalledPlan> plan,
          const PlanSession& session, OperationId operation, SumShape shape, Host host);
  ~Reducer();

  // What the local members give, all of `total_bytes`, added in this order; `pin` keeps them.
  // At the root also where the sums go, and of how many members. Once, when all of them have
  // called the operation.
  void open(std::vector<const std::byte*> inputs, std::vector<std::byte*> outputs, std::uint32_t group_size,
            std::shared_ptr<const void> pin);

  // Said with every frame. Before open().
  void set_call(GroupCall call) { call_ = to_bits(call); }
  [[nodiscard]] GroupCall call() const { return group_call_from_bits(call_); }

  // A part that has landed is added already. Errors: DATA_LOSS or INVALID_ARGUMENT for a block that
  // does not fit; without the name of who sent it.
  Status on_block(Arrival arrival);
  // From the child: followed and passed on to the parents.
  Status on_request(const Arrival& arrival);
  // From a parent: passed on, at the root heard.
  Status on_report(Arrival arrival);
  // A stream that starts here may take blocks. False while this operation has more for it:
  // the next one comes behind, at every contributor alike, or their windows would fill with
  // parts that wait for one another.
  bool fill(const StreamKey& key);
  // An earlier operation of the session is stuck: drops what waits here, so that windows and
  // links are free for it. The root will ask for it again.
  void shed();

  // A newer plan is active: the root begins again with what is not done, a contributor that
  // sent under an older plan tells the root where it is.
  void migrate(const std::shared_ptr<const InstalledPlan>& plan);

  // The root has every sum; elsewhere: it said so.
  [[nodiscard]] bool is_done() const { return done_; }
  // No sum is being made: inputs and outputs are not touched any more.
  [[nodiscard]] bool is_drained() const { return adding_ == 0 && (!zone_ || zone_->is_drained()); }
  // Nothing more is sent, taken or added.
  void cancel();

  [[nodiscard]] bool is_root() const { return is_root_; }
  // At the root: a sum was made.
  [[nodiscard]] bool has_results() const;
  [[nodiscard]] Epoch epoch() const { return plan_->epoch(); }
  [[nodiscard]] const SumShape& shape() const { return shape_; }
  // Which blocks miss whose part, in words; at the root.
  [[nodiscard]] std::string describe_missing() const;
  // "All is done": for who asks when the operation is over.
  static Frame done_answer(const FrameHeader& question, std::uint32_t incarnation);

 private:
  struct Part {
    Buffer payload;
    std::shared_ptr<void> guard;
    std::uint64_t sequence = 0;  // 0: of a retry
    bool arrived = false;
  };
  struct Active {
    StreamIndex stream;
    std::size_t arrived = 0;
    std::vector<Part> parts;  // by parent
  };
  // What leaves in the order in which it began: a sum in the making, or a report.
  struct Item {
    Frame frame;
    std::vector<std::shared_ptr<void>> guards;
    bool ready = false;
  };
  struct Retry {
    std::uint16_t count = 0;
    std::uint32_t request = 0;  // that asked for it
  };
  struct Progress {
    std::uint32_t number = 0;
    std::uint32_t position = 0;
  };
  struct Stream {
    const LocalStream* local = nullptr;
    OutgoingLink* to = nullptr;  // none at the root
    std::size_t next = 0;        // of the order, where the stream starts here
    std::deque<std::uint32_t> again;
    std::optional<std::uint32_t> report_due;  // behind `again`
    std::deque<std::shared_ptr<Item>> leaving;
    bool is_filling = false;
    // At the root:
    std::vector<std::uint64_t> seen;  // by parent: the last sequence
    std::map<NodeId, Progress> contributors;
  };

  // Beginnings (reducer.cc)
  void enter(std::shared_ptr<const InstalledPlan> plan, const std::vector<bool>& done_before,
             bool knows_start);
  void deal();
  void drop_everything();
  [[nodiscard]] bool is_newer(const FrameHeader& header, Epoch epoch) const;
  [[nodiscard]] bool is_older(const FrameHeader& header, Epoch epoch) const;
  Status adopt(const std::shared_ptr<const InstalledPlan>& plan, const FrameHeader& header);
  [[nodiscard]] Stream* find(StreamIndex index);

  // Blocks (reducer.cc)
  [[nodiscard]] std::size_t bytes_of(std::size_t block) const;
  // At the root: it is added, or being added.
  [[nodiscard]] bool is_done(std::size_t block) const {
    return block < done_blocks_.size() && done_blocks_.contains(block);
  }
  [[nodiscard]] std::uint16_t retry_of(std::size_t block) const;
  [[nodiscard]] Status check_same(const SumShape& other) const;
  [[nodiscard]] Status check_block(const FrameHeader& header, std::size_t payload_bytes) const;
  [[nodiscard]] bool belongs_to(std::size_t block, StreamIndex stream) const;
  void take_part(Stream& stream, std::size_t block, Part part, std::size_t parent);
  void add_if_complete(Stream& stream, std::size_t block);
  void pass_on(Stream& stream, std::size_t block, Active& active);
  void finish_at_root(std::size_t block, Active& active);
  void on_added(std::size_t block);
  void open_zone();
  void close_zone();
  void take_landed();
  void count_sum(std::size_t block);
  void emit_own(Stream& stream, std::size_t block, std::uint64_t sequence);
  FrameHeader header_for(const Stream& stream, FrameType type) const;
  void make_sum(std::shared_ptr<Item> item, std::vector<Part> parts, std::size_t block, Stream& stream);
  void flush(Stream& stream);
  void fill_all();

  // Recovery (reducer_recovery.cc)
  void find_gap(Stream& stream, std::size_t parent, std::uint64_t sequence);
  void find_lost(Stream& stream);
  void request_again(Stream& stream, const std::vector<std::uint32_t>& blocks);
  void send_request(Stream& stream, SumRequest request);
  void follow(Stream& stream, const SumRequest& request);
  void report(Stream& stream, std::uint32_t number);
  void push_report(Stream& stream, std::uint32_t number);
  void arm_ask();
  void ask();
  void poll();
  [[nodiscard]] bool all_have_called() const;
  void begin_again(std::shared_ptr<const InstalledPlan> plan);
  void finish();

  std::shared_ptr<NodeContext> node_;
  Links& links_;
  std::shared_ptr<const InstalledPlan> plan_;
  SessionId session_;
  std::uint16_t call_ = 0;
  OperationId operation_;
  SumShape shape_;
  Host host_;
  bool is_root_ = false;
  bool contributes_ = false;
  bool is_open_ = false;
  bool is_cancelled_ = false;
  bool done_ = false;
  // False where parts of a newer generation came before the request that says what it leaves out.
  bool knows_start_ = true;
  std::uint16_t generation_ = 0;
  std::vector<bool> done_before_;  // of this generation
  SumBuffers buffers_;
  std::shared_ptr<const void> pin_;
  std::shared_ptr<const Interleave> interleave_ = std::make_shared<const Interleave>();
  std::map<StreamIndex, Stream> streams_;
  std::map<std::size_t, Active> active_;
  std::map<std::size_t, Retry> retries_;
  std::unordered_set<std::size_t> passed_;  // blocks that went on at their present retry
  // At the root, once it is open: where parts land, and who may add a block.
  std::shared_ptr<SumZone> zone_;
  BlockSet done_blocks_;  // at the root: those that are added, or are being added, as far as it heard
  std::size_t added_ = 0;
  std::size_t adding_ = 0;
  std::uint32_t request_count_ = 0;
  bool heard_ = false;  // a block came since the timer was set
  int idle_asks_ = 0;
  int idle_limit_ = kMaxIdleAsks;  // twice as many after each beginning that brought nothing
  std::set<NodeId> called_;        // at the root: contributors whose members have called
  Duration ask_wait_ = kMinAskWait;
  Executor::TimerId ask_timer_ = 0;
};

}  // namespace square
