// A process's end of its attachment.
#pragma once

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gateway/connection.h"
#include "gateway/copier.h"
#include "gateway/group_table.h"
#include "gateway/segment.h"
#include "square/gateway.h"
#include "square/v1/gateway.pb.h"

namespace square::gateway {

// Reusable segments that are kept for the next operation.
inline constexpr std::size_t kMaxPooledSegments = 32;
inline constexpr std::size_t kMaxPooledBytes = std::size_t{256} << 20U;
// A larger segment than this many times what is needed is not used for it.
inline constexpr std::size_t kMaxSegmentWaste = 4;

// Not thread-safe.
class SegmentPool {
 public:
  // The smallest that fits, or an empty one.
  Segment take(std::size_t size_bytes);
  void give_back(Segment segment);

 private:
  std::vector<Segment> free_;
  std::size_t bytes_ = 0;
};

class AttachedCore final : public ConnectionHandler {
 public:
  AttachedCore(AttachOptions options, std::shared_ptr<EventLoop> loop, FileDescriptor socket);

  // Says hello and waits for the answer.
  Status begin();
  // Leaves; every operation has ended afterwards. Not from the loop's thread.
  void leave();
  [[nodiscard]] bool has_left() const { return has_left_; }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool is_shared() const { return is_shared_; }
  [[nodiscard]] const std::string& why_streamed() const { return why_streamed_; }

  Result<GroupRegistration> register_group(const GroupSpec& group, Duration timeout);
  void post(MemberOperation operation);
  void cancel(CollectiveId collective, OperationId operation);
  void fail(CollectiveId collective, OperationId operation, const Status& cause);
  void watch(CollectiveId collective, OperationId operation, Duration timeout,
             std::function<void(Status)> arrived);

  Result<ChunkTarget> on_header(const Header& header) override;
  Status on_message(const Header& header, std::span<const std::byte> body) override;
  void on_streamed(std::uint64_t number) override;
  void on_down(const Status& reason) override;

 private:
  struct Call {
    MemberOperation operation;
    std::span<const std::byte> input;  // what goes to the gateway
    std::span<std::byte> output;       // what comes back
    // Nothing of it goes to another node: its input lies in `reusable`, and its output then takes
    // that place. Otherwise what goes out is sealed.
    bool stays_on_node = false;
    Segment sealed;
    Segment reusable;
    std::size_t received_bytes = 0;
    bool is_in_use = false;  // a copy or a write looks at the spans
    std::optional<Status> outcome;
  };
  struct SealedInput {
    Status made;
    Segment segment;
  };
  struct KnownCollective {
    GroupCollective collective;
    bool stays_on_node = false;
  };

  void leave_once();

  // All on the loop's thread:
  void start(Call call);
  void admitted(std::uint64_t number);
  void stage(std::uint64_t number, Call& call);
  void staged(std::uint64_t number, const Status& made);
  void ended(std::uint64_t number, Status outcome);
  void finish(std::uint64_t number);
  void finish_unless_in_use(std::uint64_t number);
  void answer(std::uint64_t number, Result<v1::GatewayRegistered> answer);
  void tell_watch(std::uint64_t number, const Status& outcome);
  [[nodiscard]] Status down_status() const;
  void notify_if_quiet();

  // Which parts of a member's buffers the collective uses.
  void choose_parts(Call& call);

  const AttachOptions options_;
  const std::shared_ptr<EventLoop> loop_;
  std::unique_ptr<Connection> connection_;  // none: down
  std::optional<Status> down_;
  Copier copier_;

  bool is_started_ = false;
  std::once_flag leaving_;
  std::atomic<bool> has_left_ = false;
  std::promise<Status> welcomed_;
  bool is_welcomed_ = false;
  std::string name_;
  bool is_shared_ = false;
  std::string why_streamed_;
  Duration lease_{std::chrono::seconds(2)};
  Segment probe_;

  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, Call> calls_;
  std::map<std::uint64_t, std::shared_ptr<std::promise<Result<v1::GatewayRegistered>>>> requests_;
  std::map<std::uint64_t, std::function<void(Status)>> watches_;
  SegmentPool pool_;
  bool is_leaving_ = false;
  std::shared_ptr<std::promise<void>> left_;

  std::mutex mutex_;  // of what follows
  std::map<CollectiveId, KnownCollective> collectives_;
};

}  // namespace square::gateway
