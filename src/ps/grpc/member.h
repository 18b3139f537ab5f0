// What servers and workers have alike: a node of the overlay, lines of the data flow, and a line to the
// master.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "controller/grpc/control_stream.h"
#include "ps/grpc/communicator_lines.h"
#include "ps/protocol.h"
#include "square/node.h"
#include "square/parameter_server.h"
#include "square/thread_executor.h"
#include "square/v1/parameter_server.grpc.pb.h"

namespace square::ps {

// Asks a master. Errors: UNAVAILABLE with the address where nobody answers within the time;
// UNAUTHENTICATED.
Result<v1::PsAnswer> ask_master(const std::string& address, const std::shared_ptr<Identity>& identity,
                                Duration timeout);

// What comes on the line, on the strand. The line is opened again and again.
struct MemberHandlers {
  std::function<void()> on_attached;
  std::function<void(const v1::PsOrder&)> on_order;
  std::function<void()> on_detached;
  std::function<void()> on_time;  // a few times in a beat
};

class Member {
 public:
  // Between attempts to reach the master.
  static constexpr Duration kMinWait = std::chrono::milliseconds(50);
  static constexpr Duration kMaxWait = std::chrono::milliseconds(1000);
  static constexpr Duration kKeepalive = std::chrono::milliseconds(1000);
  static constexpr Duration kKeepaliveTimeout = std::chrono::milliseconds(2000);
  static constexpr Duration kConnectTime = std::chrono::seconds(20);
  // A line on which this many reports wait to be sent is ended, and the master dialled anew.
  static constexpr std::size_t kMaxQueued = 65'536;

  // Finds the master, and joins its overlay. Errors: those of ask_master() and Node::join(). Blocks.
  static Result<std::unique_ptr<Member>> join(const MemberOptions& options);
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // Opens the line. What `handlers` refer to must outlive stop().
  void attach(MemberHandlers handlers);
  // On the strand. Dropped where no line is open.
  void send(v1::PsReport report);
  // Ends the line, once what was sent is on it, for which it waits kMaxWait at most, and the data flow. No
  // handler runs any more. Idempotent.
  void stop();

  [[nodiscard]] ThreadExecutor& strand() { return strand_; }
  [[nodiscard]] DataLines& lines() { return *lines_; }
  [[nodiscard]] std::uint64_t incarnation() const { return incarnation_; }
  [[nodiscard]] const MemberOptions& options() const { return options_; }
  // Runs on the strand, and waits for it; false where that is stopped. Not from the strand.
  bool run(const std::function<void()>& task);

 private:
  using Line = controller::ControlStream<v1::ParameterServer, v1::PsReport, v1::PsOrder>;

  Member(MemberOptions options, std::unique_ptr<Node> node);
  void dial();
  void over();
  void tick();

  const MemberOptions options_;
  const std::uint64_t incarnation_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<CommunicatorLines> lines_;
  ThreadExecutor strand_;
  controller::CallQueue calls_;
  // Of the strand.
  MemberHandlers handlers_;
  std::shared_ptr<Line> line_;
  bool is_attached_ = false;
  TimePoint dialled_{};
  Duration wait_ = kMinWait;
  TimePoint next_beat_{};
};

}  // namespace square::ps
