// The source's part of an operation in one session: which block goes on which stream,
// who has what, and what must be sent again.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "node/context.h"
#include "node/lifetime.h"
#include "node/links/outgoing_link.h"
#include "node/messages/answers.h"
#include "node/multicast/block_set.h"
#include "node/multicast/cargo_frames.h"
#include "node/multicast/sent_streams.h"

namespace square {

// Loss is known, never guessed: a stream keeps the order of its blocks, so a block that
// a destination does not have although it has seen a later one of the same stream (or a
// probe) is lost. So may be all that was under way on a stream when one of its first links
// was lost, and it is late where one is suspected: it goes again at once, on whichever stream has room. So it
// does from a stream that is silent, which gets no new blocks until it moves. Not thread-safe: used on the
// node's strand.
class Sender {
 public:
  using Links = std::map<std::string, std::unique_ptr<OutgoingLink>>;

  // What an all-reduce says of the multicast of its sums; a broadcast has no need to.
  struct Sums {
    std::uint32_t block_bytes = 0;
    Epoch layout{0};
  };

  // What is sent. With `sums`, a block goes once make_ready() has named it.
  struct Cargo {
    OperationId operation;
    Buffer data;     // the session's bytes; its owner's deleter tells when they are free
    GroupCall call;  // said with every frame
    ElementType elements = ElementType::kBytes;
    std::optional<Sums> sums{};
    Sealing sealing{};
  };
  Sender(NodeContext& node, Links& links, std::shared_ptr<const InstalledCollective> plan,
         const PlanSession& session, Cargo cargo, std::function<void()> on_done);
  ~Sender();

  // Puts blocks in line wherever there is room.
  void fill();
  // The bytes of this block are final now. Call fill() next.
  void make_ready(std::size_t block) { ready_.push_back(block); }
  void on_acknowledgement(const FrameHeader& header, const Acknowledgement& ack);
  // A link came back: asks soon what everybody has.
  void hurry();
  // Goes on under a newer plan that has the same session: what the old plan's streams
  // still carry may arrive; after a while the rest is sent again, what they do not carry at once.
  void migrate(std::shared_ptr<const InstalledCollective> plan);
  // Nodes refuse what streams since this epoch carry: it goes again now.
  void let_go(Epoch closed);

  // All goes over codes with redundancy, and gets through over what is left of their ways.
  [[nodiscard]] bool outlives_losses() const;

  [[nodiscard]] bool is_done() const { return waiting_ == 0; }
  [[nodiscard]] Epoch epoch() const { return plan_->epoch(); }
  // Names the destinations that do not have everything, and how much they have.
  [[nodiscard]] std::string describe_missing() const;

 private:
  using Assignment = sending::Assignment;
  using Stream = sending::Stream;
  using Destination = sending::Destination;
  using LastAssignment = sending::LastAssignment;
  using Turns = sending::Turns;

  void open_streams();
  void put_in_line();
  void tell_others();
  void arm_probe();
  void probe();
  void look_later();
  [[nodiscard]] std::size_t unassigned() const { return again_.size() + (block_count_ - next_block_); }
  // For a block that goes again, trees alone.
  Stream* choose_stream(bool is_again);
  bool fill_again();
  [[nodiscard]] bool take_again(std::size_t& block);
  [[nodiscard]] bool take_new(std::size_t& block);
  void take_generation(Stream& stream, std::size_t first);
  void send_generation(Stream& stream, std::size_t first);
  void send_owed(Stream& stream);
  bool steal_for(Stream& faster);
  void assign(Stream& stream, std::size_t block);
  void find_losses(Destination& destination);
  void find_lost_links();
  void find_silent_streams();
  void send_again(Stream& stream);
  void leave_streams(TimePoint carried_at);
  void send_what_was_left(TimePoint carried_by);
  // What carries the assignment's block was put on the stream last of all.
  [[nodiscard]] bool is_newest(const Stream& stream, const Assignment& assignment) const;
  [[nodiscard]] std::size_t index_of(const Stream& stream) const {
    return static_cast<std::size_t>(&stream - streams_.data());
  }
  void send_again(std::size_t block);
  void forget_settled(std::size_t stream);

  NodeContext& node_;
  Links& links_;
  std::shared_ptr<const InstalledCollective> plan_;
  SessionId session_;
  const Cargo cargo_;
  std::function<void()> on_done_;
  const CargoFrames frames_;
  const std::size_t block_bytes_;
  const std::size_t block_count_;
  std::vector<Stream> streams_;
  Turns turns_;
  std::vector<Destination> destinations_;
  std::size_t waiting_ = 0;        // destinations that are not done
  std::size_t next_block_ = 0;     // so many were taken; without sums in order
  std::deque<std::size_t> ready_;  // with sums: in the order of their ends
  std::deque<std::size_t> again_;
  std::vector<bool> is_again_;
  std::vector<bool> taken_;  // put on a stream once at least
  std::vector<LastAssignment> last_;
  std::optional<Epoch> left_;          // that of the plan before
  std::vector<TimePoint> carried_at_;  // by then streams of an older plan have delivered it, or lost it
  Duration probe_wait_ = kMinProbeWait;
  Executor::TimerId probe_timer_ = 0;
  Executor::TimerId look_timer_ = 0;
  TimePoint look_at_{};
  Lifetime life_;
};

}  // namespace square
