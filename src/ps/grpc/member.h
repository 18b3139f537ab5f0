// What servers and workers have alike: a node of the overlay, lines of the data flow, and a line to the
// master.
#pragma once

#include <functional>
#include <memory>
#include <semaphore>
#include <string>

#include "ps/grpc/communicator_lines.h"
#include "ps/grpc/member_line.h"
#include "square/node.h"
#include "square/parameter_server.h"
#include "square/thread_executor.h"

namespace square::ps {

// What comes on the line, on the strand.
struct MemberHandlers {
  std::function<void()> on_attached;
  std::function<void(const v1::PsOrder&)> on_order;
  std::function<void()> on_detached;
  std::function<void()> on_time;  // a few times in a beat
};

class Member {
 public:
  // Of the master's, that the strand has not come to.
  static constexpr std::ptrdiff_t kMaxWaitingOrders = 4096;

  // Finds the master, and joins its overlay. Errors: those of ask_master() and Node::join(). Blocks.
  static Result<std::unique_ptr<Member>> join(const MemberOptions& options);
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // Opens the line. What `handlers` refer to must outlive stop().
  void attach(MemberHandlers handlers);
  void send(v1::PsReport report);
  // Ends the line, once what was sent is on it, and the data flow. No handler runs any more. Idempotent.
  void stop();

  [[nodiscard]] ThreadExecutor& strand() { return strand_; }
  [[nodiscard]] DataLines& lines() { return *lines_; }
  [[nodiscard]] std::uint64_t incarnation() const { return incarnation_; }
  [[nodiscard]] const MemberOptions& options() const { return options_; }
  // Runs on the strand, and waits for it; false where that is stopped. Not from the strand.
  bool run(const std::function<void()>& task);

 private:
  Member(MemberOptions options, std::unique_ptr<Node> node);
  void tick();

  const MemberOptions options_;
  const std::uint64_t incarnation_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<CommunicatorLines> lines_;
  std::counting_semaphore<> room_{
      kMaxWaitingOrders};  // for orders on the strand: the line is not read beyond
  ThreadExecutor strand_;
  MemberHandlers handlers_;
  std::unique_ptr<MemberLine> line_;
  TimePoint next_beat_{};  // on the strand
};

}  // namespace square::ps
