// A destination's part of an operation in one session: blocks into the members' buffers,
// acknowledgements to the source.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "node/arrival.h"
#include "node/codes/generations.h"
#include "node/context.h"
#include "node/landing/landing.h"
#include "node/lifetime.h"
#include "node/messages/answers.h"
#include "node/multicast/block_set.h"
#include "node/multicast/unsealer.h"

namespace square {

// Blocks are acknowledged in groups, at the latest after this time.
inline constexpr std::size_t kBlocksPerAcknowledgement = 64;
inline constexpr Duration kAcknowledgementDelay = std::chrono::milliseconds(200);
// Probes on one stream are answered so far apart.
inline constexpr Duration kProbeAnswers = std::chrono::milliseconds(2);

// Not thread-safe: used on the node's strand. While it is open most blocks are in their place
// before it hears of them (node/landing.h); the rest is copied as payload work.
class Receiver {
 public:
  // Sends an answer up the stream.
  using Answer = std::function<void(const LocalStream& stream, Frame frame)>;
  // Called once, when every member has every byte.
  using Done = std::function<void()>;
  // What the first frame says of the operation; all others must agree.
  using Shape = BlockShape;

  struct Place {
    NodeId self;  // this node
    SessionId session;
    OperationId operation;
    std::uint32_t incarnation = 0;  // of the source
  };
  Receiver(std::shared_ptr<NodeContext> node, Place place, Shape shape, Answer answer, Done on_done);
  ~Receiver();
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  [[nodiscard]] const Shape& shape() const { return shape_; }
  // What the first frame said is what the source says: of sealed blocks, once one was opened.
  [[nodiscard]] bool is_proven() const { return unsealer_.is_proven(); }
  [[nodiscard]] bool is_of(const FrameHeader& header) const {
    return Shape::of(header) == shape_ && header.incarnation == place_.incarnation;
  }
  // A shape that nobody could fill: its sizes are checked before anything is allocated.
  static Status check(const Shape& shape);

  // What sealed blocks are opened with, once there is a key.
  void set_sealing(Sealing sealing) { unsealer_.set_sealing(std::move(sealing)); }
  // Every local member has posted: where the session's bytes go in each one's buffer. Again:
  // changes nothing. Precondition: blocks that are sealed have a key.
  void open(std::vector<std::byte*> destinations);

  // Errors: DATA_LOSS for a block that does not fit the shape.
  Status on_block(Arrival arrival);
  void on_probe(const Arrival& probe);

  // Stops: no byte is written once drained() is true.
  void cancel();
  [[nodiscard]] bool is_drained() const { return copying_ == 0 && (!zone_ || zone_->is_drained()); }
  [[nodiscard]] bool is_done() const { return is_open_ && delivered_ == have_.size(); }
  [[nodiscard]] std::uint64_t bytes_delivered() const { return bytes_delivered_; }

 private:
  struct Held {
    std::size_t block;
    Buffer payload;
  };
  struct Progress {
    std::shared_ptr<const LocalStream> stream;
    std::uint64_t seen = 0;
    TimePoint probed = TimePoint::min();  // when a probe was answered
  };

  Progress& progress_of(std::shared_ptr<const LocalStream> stream);
  // False where there is no room for it.
  bool take_block(std::size_t block, Arrival& arrival);
  [[nodiscard]] bool is_rounded(std::size_t block) const { return !rounded_.empty() && rounded_[block]; }
  void write_again(std::size_t block, Arrival& arrival);
  bool take_sum(Arrival& arrival);
  void deliver(std::size_t block, Buffer payload, std::shared_ptr<void> guard);
  void on_copied(std::size_t block, std::size_t bytes);
  // Solves for blocks of generations whose sums are there.
  void solve();
  void deliver(Generations::Solution solution);
  struct Solved {
    Generations::Solving generation{};
    std::vector<std::size_t> blocks{};
    std::vector<std::size_t> wrong{};
    bool are_rounded = false;
  };
  void on_solved(const Solved& solved);
  void say_wrong(const Solved& solved);
  void count_delivered(std::size_t bytes);
  void on_delivered(std::size_t bytes);
  void close_zone();
  [[nodiscard]] bool is_answer_due(bool has_company) const;
  // Up this stream, about all streams of its epoch.
  void answer(const LocalStream& stream, bool is_awaited);
  void answer_on_every_stream();
  void answer_later(const std::shared_ptr<const LocalStream>& stream);
  void forget_held();

  std::shared_ptr<NodeContext> node_;
  const Place place_;
  std::string tenant_;  // of the session, known from the first block on
  Shape shape_;
  Answer answer_;
  Done on_done_;
  bool is_open_ = false;
  bool is_cancelled_ = false;
  bool accepting_ = true;
  std::vector<std::byte*> destinations_;
  std::shared_ptr<LandingZone> zone_;  // while open, and after
  BlockSet have_;
  std::vector<Held> held_;
  std::set<std::size_t> on_the_way_;  // that it has, and that are being written
  std::vector<bool> rounded_;         // by block: solved as floats; empty until one is
  Generations generations_;
  Unsealer unsealer_;
  std::size_t copying_ = 0;
  std::size_t delivered_ = 0;
  std::uint64_t bytes_delivered_ = 0;
  std::map<StreamKey, Progress> progress_;
  std::size_t unanswered_ = 0;    // blocks
  TimePoint unanswered_since_{};  // the first of them
  Executor::TimerId answer_timer_ = 0;
  Lifetime life_;
};

// Tells the source again that all is there, for a probe after the end.
Frame final_answer(const LocalStream& stream, NodeId self, const FrameHeader& question);

}  // namespace square
