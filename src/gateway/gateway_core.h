// What a gateway does with what its processes ask for. On the loop's thread unless said otherwise.
#pragma once

#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/net/socket.h"
#include "gateway/attachment.h"
#include "gateway/copier.h"
#include "gateway/segment_cache.h"
#include "gateway/staging.h"
#include "square/gateway.h"

namespace square::gateway {

// Connections whose process has not said yet who it is.
inline constexpr std::size_t kMaxHandshakes = 64;
// An operation that has room and whose input does not come ends after this long.
inline constexpr Duration kMaxInputPause = std::chrono::seconds(30);
// Operations that one process may wait to hear of at once.
inline constexpr std::size_t kMaxWatchesOfOne = 1'024;
inline constexpr Duration kTickInterval = std::chrono::milliseconds(100);

struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

using OwnBytes = std::unique_ptr<std::byte[], FreeBytes>;

// Where an operation's input and output lie while the node works on them. An all-reduce among
// nodes sends its sums from the output, so the node's is out of the process's reach until it is
// through.
struct Staging {
  std::shared_ptr<const Mapping> input_segment;
  std::shared_ptr<const Mapping> output_segment;
  OwnBytes input_copy;
  OwnBytes output_copy;
  std::span<const std::byte> input;
  std::span<std::byte> output;
};

struct CallId {
  AttachmentId attachment = 0;
  std::uint64_t number = 0;
  friend auto operator<=>(const CallId&, const CallId&) = default;
};

// One operation of one process.
struct Call {
  enum class State {
    kWaiting,    // for room
    kAdmitted,   // for its input
    kRunning,    // the node has it
    kReturning,  // its output is being streamed or copied
  };
  State state = State::kWaiting;
  CallId id;
  MemberOperation part;  // without spans and `done`
  std::string tenant;
  std::uint64_t input_bytes = 0;
  std::uint64_t output_bytes = 0;
  bool stays_here = false;        // nothing of it goes to another node
  bool is_output_copied = false;  // from the node's own memory into the process's segment
  std::uint64_t received_bytes = 0;
  std::shared_ptr<Staging> staging;
  TimePoint deadline;
  TimePoint last_progress;

  [[nodiscard]] std::uint64_t bytes() const {
    return input_bytes + (is_output_copied ? 2 : 1) * output_bytes;
  }
};

class GatewayCore final : public AttachmentHost, public std::enable_shared_from_this<GatewayCore> {
 public:
  GatewayCore(MemberHost& host, GatewayOptions options, std::shared_ptr<EventLoop> loop,
              net::Listener listener);
  ~GatewayCore() override;

  // Before the loop starts.
  void begin();
  void tick();
  [[nodiscard]] Gateway::Statistics statistics() const;
  // Ends everything; `stopped` runs when nothing runs any more.
  void stop(std::function<void()> stopped);
  // After the loop has ended: waits for registrations.
  void join_registrations();

  [[nodiscard]] const std::string& address() const { return address_; }

  Status greet(Attachment& from, const v1::GatewayHello& hello, v1::GatewayWelcome& welcome) override;
  Status register_group(Attachment& from, std::uint64_t number, const v1::GatewayRegister& request) override;
  Status post(Attachment& from, std::uint64_t number, const v1::GatewayPost& message) override;
  Status staged(Attachment& from, std::uint64_t number, const v1::GatewayStaged& where) override;
  Result<ChunkTarget> place_chunk(Attachment& from, const Header& header) override;
  void took_chunk(Attachment& from, const Header& header) override;
  void cancel(Attachment& from, std::uint64_t number) override;
  void fail(Attachment& from, const v1::GatewayFail& message) override;
  void watch(Attachment& from, std::uint64_t number, const v1::GatewayWatch& message) override;
  void streamed(Attachment& from, std::uint64_t number) override;
  void gone(Attachment& from, const Status& reason) override;

 private:
  struct Member {
    std::unique_ptr<Attachment> attachment;
    std::uint64_t last_number = 0;
    std::size_t calls = 0;
    std::size_t registrations = 0;
    std::size_t watches = 0;
  };

  // Attachments (gateway_core.cc)
  void accept_all(const net::FileDescriptor& listening);
  void listen(bool listens);
  Status check_register(const Attachment& from, const GroupSpec& group) const;
  void registered(AttachmentId attachment, std::uint64_t number, const GroupSpec& group,
                  const Result<GroupRegistration>& result);
  void answer_register(AttachmentId attachment, std::uint64_t number,
                       const Result<GroupRegistration>& result);
  void end_of(const Departure& departure, const Attachment& leaver, const Status& reason);
  void drop_calls(AttachmentId attachment);
  [[nodiscard]] Attachment* find(AttachmentId id) const;
  void finish_stop_if_quiet();

  void answer_watch(AttachmentId attachment, std::uint64_t number, const Status& outcome);

  // Operations (gateway_calls.cc)
  Status check_post(const Attachment& from, Call& call);
  Status check_call(const Attachment& from, const GroupCollective& collective, const Call& call) const;
  [[nodiscard]] Status check_siblings(const Call& call) const;
  void admit_waiting();
  bool admit(Call& call);
  Status open_segments(const Attachment& from, const v1::GatewayStaged& where, const Call& call,
                       Staging& staging);
  [[nodiscard]] Status no_memory(const Call& call) const;
  void run(Call& call);
  void done(CallId id, Status outcome);
  void finish(CallId id, Status outcome);
  void erase(CallId id);
  // On every member.
  void end_operation(CollectiveId collective, OperationId operation, const Status& cause);
  [[nodiscard]] std::vector<CallId> calls_of(CollectiveId collective, OperationId operation) const;
  void end_late_calls();
  std::function<void(Status)> done_callback(const Call& call);

  MemberHost& host_;
  const GatewayOptions options_;
  const std::shared_ptr<EventLoop> loop_;
  net::Listener listener_;
  const std::string address_;
  std::vector<EventLoop::WatchId> listening_;  // empty: accepts nobody
  AttachmentId last_attachment_ = 0;
  std::map<AttachmentId, Member> members_;
  GroupTable groups_;
  StagingBudget budget_;
  SegmentCache segments_;
  std::map<CallId, Call> calls_;
  std::deque<CallId> waiting_;  // for room, first come first served
  std::map<std::uint64_t, std::thread> registrations_;
  std::uint64_t last_registration_ = 0;
  Copier copier_;
  std::function<void()> stopped_;
  bool is_stopping_ = false;
};

}  // namespace square::gateway
