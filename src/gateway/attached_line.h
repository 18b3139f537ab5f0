// A process's end of its attachment.
#pragma once

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/own_process.h"
#include "gateway/attached_operations.h"
#include "gateway/group_table.h"
#include "gateway/message_socket.h"
#include "square/gateway.h"
#include "square/member_host.h"
#include "square/v1/gateway.pb.h"

namespace square::gateway {

class AttachedLine final : public MessageHandler, public std::enable_shared_from_this<AttachedLine> {
 public:
  AttachedLine(AttachOptions options, std::shared_ptr<EventLoop> loop, FileDescriptor socket);

  // Says hello and waits for the answer.
  Status begin();
  // Leaves; every operation has ended afterwards. Not from the loop's thread.
  void leave();
  [[nodiscard]] bool has_left() const { return has_left_; }
  [[nodiscard]] const OwnProcess& process() const { return process_; }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool is_shared() const { return is_shared_; }
  [[nodiscard]] const std::string& why_streamed() const { return why_streamed_; }

  Result<GroupPart> join_group(const GroupSpec& group, Rank member, Duration timeout);
  Result<GroupRegistration> register_group(const GroupSpec& group, Duration timeout) {
    return enrol(group, std::nullopt, timeout);
  }
  Result<GroupSpec> regroup(const RegroupRequest& request, Duration timeout);
  void post(MemberOperation operation);
  void cancel(CollectiveId collective, OperationId operation);
  void fail(CollectiveId collective, OperationId operation, const Status& cause);
  void after(Duration delay, std::function<void()> then);
  void work(std::size_t bytes, const std::function<void()>& task, std::function<void()> then) {
    operations_.work(bytes, task, std::move(then));
  }
  void watch(CollectiveId collective, OperationId operation, Duration timeout,
             std::function<void(Status)> arrived);

  Result<ChunkTarget> on_header(const Header& header) override {
    return header.type == MessageType::kChunk ? operations_.place_chunk(header) : ChunkTarget{};
  }
  Status on_message(const Header& header, std::span<const std::byte> body, Descriptors descriptors) override;
  void on_streamed(std::uint64_t number) override { operations_.streamed(number); }
  void on_down(const Status& reason) override;

 private:
  void leave_once();
  Result<GroupRegistration> enrol(const GroupSpec& group, std::optional<Rank> joins, Duration timeout);
  // As the request says; `what` names it.
  Result<v1::GatewayRegistered> ask(v1::GatewayRegister request, const std::string& what, Duration timeout);
  void note(const GroupSpec& group, const GroupRegistration& made, bool joins);
  void close_group(const std::string& group, Rank member);

  // All on the loop's thread:
  void tick();
  void answer(std::uint64_t number, Result<v1::GatewayRegistered> answer);
  void tell_watch(std::uint64_t number, const Status& outcome);
  [[nodiscard]] Status down_status() const;
  void notify_if_quiet();

  // Why nothing can be asked of the gateway: the process has left, or is a forked child.
  [[nodiscard]] Status check_usable() const;

  const OwnProcess process_;
  const AttachOptions options_;
  const std::shared_ptr<EventLoop> loop_;
  std::unique_ptr<MessageSocket> connection_;  // none: down
  std::optional<Status> down_;
  bool was_silent_ = false;  // so the gateway ended the attachment
  AttachedOperations operations_;

  bool is_started_ = false;
  std::once_flag leaving_;
  std::atomic<bool> has_left_ = false;
  std::promise<Status> welcomed_;
  bool is_welcomed_ = false;
  std::string name_;
  bool is_shared_ = false;
  std::string why_streamed_;
  Duration lease_{std::chrono::seconds(10)};

  struct Joined {
    std::size_t ranks = 0;
    std::set<CollectiveId> collectives;
  };
  std::mutex groups_mutex_;
  std::map<std::string, Joined> groups_;

  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, std::shared_ptr<std::promise<Result<v1::GatewayRegistered>>>> requests_;
  std::map<std::uint64_t, std::function<void(Status)>> watches_;
  std::multimap<TimePoint, std::function<void()>> timers_;
  bool is_leaving_ = false;
  std::shared_ptr<std::promise<void>> left_;
};

}  // namespace square::gateway
