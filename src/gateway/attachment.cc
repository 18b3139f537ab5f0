#include "gateway/attachment.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/check.h"
#include "gateway/messages.h"

namespace square::gateway {
namespace {

// How long a process may take to read why it is sent away.
constexpr Duration kFarewellTime = std::chrono::milliseconds(500);
// The number of this system call, on all machines since Linux 5.3. Headers that are older do not have it.
constexpr long kPidfdOpen = 434;

// With the next of the descriptors that came, the message's first in front.
SentSegment segment_of(bool is_there, const v1::GatewaySegment& segment, Descriptors& descriptors) {
  SentSegment sent;
  if (!is_there) return sent;
  sent.nonce = segment.nonce();
  if (descriptors.empty()) return sent;
  sent.descriptor = std::move(descriptors.front());
  descriptors.erase(descriptors.begin());
  return sent;
}

}  // namespace

Attachment::Attachment(AttachmentHost& host, EventLoop& loop, AttachmentId id, FileDescriptor socket,
                       LocalPeer peer)
    : host_(host), loop_(loop), id_(id), peer_(peer), connection_(loop, std::move(socket), *this) {}

Attachment::~Attachment() {
  if (process_watch_) loop_.forget(*process_watch_);
}

std::string Attachment::describe() const {
  if (!is_known_) return "a process that has not said who it is";
  return tenant.empty() ? fmt::format("process {}", peer_.process)
                        : fmt::format("process {} of tenant \"{}\"", peer_.process, tenant);
}

void Attachment::send(MessageType type, std::uint64_t number, const google::protobuf::MessageLite& message) {
  connection_.send(type, number, body_of(message));
}

void Attachment::close(const Status& reason) {
  if (is_closing_) return;
  is_closing_ = true;
  v1::GatewayStatus message;
  put_status(reason, message);
  send(MessageType::kClosing, 0, message);
  connection_.end_after_sending(reason, kFarewellTime);
}

void Attachment::drop(const Status& reason) {
  is_closing_ = true;
  connection_.end(reason);
}

void Attachment::tick(Duration heartbeat, Duration lease, Duration handshake) {
  if (!is_known_ && !is_closing_ && std::chrono::steady_clock::now() - began_ > handshake) {
    return close(deadline_exceeded("a process must say who it is as soon as it has connected"));
  }
  if (!connection_.tick(heartbeat, lease)) return;
  // A process that was stopped reads why when it goes on.
  v1::GatewayStatus message;
  put_status(connection_.silence(), message);
  message.set_was_silent(true);
  is_closing_ = true;
  connection_.end_with(MessageType::kClosing, body_of(message), connection_.silence());
}

Result<ChunkTarget> Attachment::on_header(const Header& header) {
  if (!is_known_ && header.type != MessageType::kHello) {
    return data_loss(fmt::format("a {} message where a hello belongs", to_string(header.type)));
  }
  if (header.type != MessageType::kChunk || is_closing_) return ChunkTarget{};
  return host_.place_chunk(*this, header);
}

Status Attachment::on_message(const Header& header, std::span<const std::byte> body,
                              Descriptors descriptors) {
  if (is_closing_) return {};
  if (const Status taken = take(header, body, std::move(descriptors)); !taken.is_ok()) close(taken);
  return {};
}

Status Attachment::take(const Header& header, std::span<const std::byte> body, Descriptors descriptors) {
  if (!is_known_) return take_hello(header, body, std::move(descriptors));
  switch (header.type) {
    case MessageType::kRegister: {
      v1::GatewayRegister request;
      SQUARE_RETURN_IF_ERROR(parse_body(header.type, body, request));
      return host_.register_group(*this, header.number, request);
    }
    case MessageType::kPost: {
      v1::GatewayPost call;
      SQUARE_RETURN_IF_ERROR(parse_body(header.type, body, call));
      return host_.post(*this, header.number, call);
    }
    case MessageType::kStaged: {
      v1::GatewayStaged where;
      SQUARE_RETURN_IF_ERROR(parse_body(header.type, body, where));
      StagedMemory memory;
      memory.input = segment_of(where.has_input(), where.input(), descriptors);
      memory.output = segment_of(where.has_output(), where.output(), descriptors);
      return host_.staged(*this, header.number, std::move(memory));
    }
    case MessageType::kChunk: host_.took_chunk(*this, header); return {};
    case MessageType::kCancel: host_.cancel(*this, header.number); return {};
    case MessageType::kFail: {
      v1::GatewayFail message;
      SQUARE_RETURN_IF_ERROR(parse_body(header.type, body, message));
      host_.fail(*this, message);
      return {};
    }
    case MessageType::kWatch: {
      v1::GatewayWatch message;
      SQUARE_RETURN_IF_ERROR(parse_body(header.type, body, message));
      host_.watch(*this, header.number, message);
      return {};
    }
    case MessageType::kClose: {
      v1::GatewayClose message;
      SQUARE_RETURN_IF_ERROR(parse_body(header.type, body, message));
      host_.close_group(*this, message);
      return {};
    }
    case MessageType::kGoodbye:
      said_goodbye_ = true;
      connection_.end(cancelled("the process has left"));
      return {};
    default: return invalid_argument(fmt::format("a {} message is not a process's", to_string(header.type)));
  }
}

Status Attachment::take_hello(const Header& header, std::span<const std::byte> body,
                              Descriptors descriptors) {
  v1::GatewayHello hello;
  SQUARE_RETURN_IF_ERROR(parse_body(header.type, body, hello));
  tenant = hello.tenant();
  v1::GatewayWelcome welcome;
  SentSegment probe = segment_of(hello.has_probe(), hello.probe(), descriptors);
  SQUARE_RETURN_IF_ERROR(host_.greet(*this, hello, std::move(probe), welcome));
  is_known_ = true;
  send(MessageType::kWelcome, 0, welcome);
  watch_process();
  return {};
}

// A child that the process has forked keeps the connection open when the process has ended. A kernel without
// such descriptors, and a process that the kernel does not show here, leave the silence to tell.
void Attachment::watch_process() {
  process_ = FileDescriptor(static_cast<int>(syscall(kPidfdOpen, peer_.process, 0)));
  if (!process_) return;
  process_watch_ = loop_.watch(process_.get(), EPOLLIN, [this](std::uint32_t) {
    connection_.end_after_reading(unavailable("the process has ended"));
  });
}

}  // namespace square::gateway
