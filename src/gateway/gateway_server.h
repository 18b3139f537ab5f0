// What a gateway does with what its processes ask for.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/own_process.h"
#include "base/seldom.h"
#include "gateway/attachment.h"
#include "gateway/gateway_operations.h"
#include "gateway/handshakes.h"
#include "gateway/local_socket.h"
#include "gateway/registrations.h"
#include "square/gateway.h"

namespace square::gateway {

// Operations that one process may wait to hear of at once.
inline constexpr std::size_t kMaxWatchesOfOne = 1'024;

// On the loop's thread unless said otherwise. Always held by a shared_ptr.
class GatewayServer final : public AttachmentHost, public std::enable_shared_from_this<GatewayServer> {
 public:
  GatewayServer(MemberHost& node, GatewayOptions options, std::shared_ptr<EventLoop> loop,
                LocalListener listener);
  // stop(), and waits for registrations.
  ~GatewayServer() override;

  // Any thread, as Gateway says; start() once, first. Errors: those of EventLoop::start().
  Status start();
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const OwnProcess& process() const { return process_; }
  [[nodiscard]] Gateway::Statistics statistics();
  void stop();

  Status greet(Attachment& from, const v1::GatewayHello& hello, SentSegment probe,
               v1::GatewayWelcome& welcome) override;
  Status register_group(Attachment& from, std::uint64_t number, const v1::GatewayRegister& request) override;
  void close_group(Attachment& from, const v1::GatewayClose& message) override;
  Status post(Attachment& from, std::uint64_t number, const v1::GatewayPost& message) override {
    return operations_->post(from, number, message);
  }
  Status staged(Attachment& from, std::uint64_t number, StagedMemory where) override {
    return operations_->staged(from, number, std::move(where));
  }
  Result<ChunkTarget> place_chunk(Attachment& from, const Header& header) override {
    return operations_->place_chunk(from, header);
  }
  void took_chunk(Attachment& from, const Header& header) override { operations_->took_chunk(from, header); }
  void cancel(Attachment& from, std::uint64_t number) override { operations_->cancel(from, number); }
  void fail(Attachment& from, const v1::GatewayFail& message) override;
  void watch(Attachment& from, std::uint64_t number, const v1::GatewayWatch& message) override;
  void streamed(Attachment& from, std::uint64_t number) override { operations_->streamed(from, number); }
  void gone(Attachment& from, const Status& reason) override;

 private:
  struct Member {
    std::unique_ptr<Attachment> attachment;
    std::size_t watches = 0;
  };

  void accept_all();
  [[nodiscard]] Status check_user(const Attachment& from, const std::string& tenant) const;
  void listen(bool listens);
  void tick();
  [[nodiscard]] Gateway::Statistics count() const;
  [[nodiscard]] Attachment* find(AttachmentId id) const;
  // Whose groups the process may be in; empty: anybody's.
  [[nodiscard]] std::vector<std::string> tenants_of(const Attachment& from) const;
  Status check_register(const Attachment& from, const GroupSpec& group) const;
  // A registration as it came: by whom, under which number, and as which rank, if it joins.
  struct Request {
    AttachmentId attachment = 0;
    std::uint64_t number = 0;
    std::optional<Rank> joins;
  };
  void regroup(Attachment& from, const Request& asked, const v1::GatewayRegister& request);
  void registered(const Request& request, const GroupSpec& group, const Result<GroupPart>& result);
  void answer_register(const Request& request, const Result<GroupRegistration>& result);
  void answer_watch(AttachmentId attachment, std::uint64_t number, const Status& outcome);
  void end_of(const Departure& departure, const Attachment& leaver, const Status& reason);
  // `stopped` runs when nothing runs any more.
  void end_all(std::function<void()> stopped);
  void finish_stop_if_quiet();

  const OwnProcess process_;
  MemberHost& node_;
  const GatewayOptions options_;
  const std::shared_ptr<EventLoop> loop_;
  LocalListener listener_;
  const std::string path_;
  std::optional<EventLoop::WatchId> listening_;  // none: accepts nobody
  AttachmentId last_attachment_ = 0;
  GroupTable groups_;
  const std::shared_ptr<GatewayOperations> operations_;
  const std::shared_ptr<Registrations> registrations_;
  std::map<AttachmentId, Member> members_;
  Handshakes handshakes_;
  Seldom seldom_;  // of refused users in the log
  std::function<void()> stopped_;
  bool is_ending_ = false;

  std::mutex stop_mutex_;
  std::atomic<bool> is_stopped_ = false;
};

}  // namespace square::gateway
