#include "transport/grpc/tail_channel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grpcpp/create_channel_posix.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/net/socket.h"
#include "transport/grpc/channel_settings.h"
#include "transport/grpc/limits.h"
#include "transport/grpc/sealed_dial.h"
#include "trust/grpc/credentials.h"

namespace square::rpc {
namespace {

// Bytes that the network has, beyond which an answer may wait behind them.
constexpr std::uint64_t kMuchUnderWay = std::uint64_t{64} << 10U;

// The host answers that no process listens at the port. It is said in words only, those of the system.
bool is_refusal(const std::string& words) {
  return words.find(std::strerror(ECONNREFUSED)) != std::string::npos;
}

// The address without its port; IPv4's as IPv6 maps it.
in6_addr address_of(const sockaddr_storage& name) {
  if (name.ss_family == AF_INET6) return reinterpret_cast<const sockaddr_in6&>(name).sin6_addr;
  in6_addr mapped{};
  mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
  std::memcpy(mapped.s6_addr + 12, &reinterpret_cast<const sockaddr_in&>(name).sin_addr, sizeof(in_addr));
  return mapped;
}

// A machine has no link to itself: what limits there is its processors.
bool is_on_this_machine(int socket) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t size = sizeof(own);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0) return true;
  size = sizeof(peer);
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return true;
  const in6_addr there = address_of(peer);
  const in6_addr here = address_of(own);
  constexpr std::uint8_t kLoopbackNetwork = 127;
  const bool is_loopback =
      IN6_IS_ADDR_LOOPBACK(&there) || (IN6_IS_ADDR_V4MAPPED(&there) && there.s6_addr[12] == kLoopbackNetwork);
  return is_loopback || IN6_ARE_ADDR_EQUAL(&there, &here);
}

}  // namespace

TailChannel::TailChannel(ChannelOwner& owner, std::shared_ptr<Link> link, std::size_t number,
                         grpc::CompletionQueue& queue, const Destination& to, const Settings& settings)
    : Channel(owner, LinkEnd::kTail, queue), to_(to), settings_(settings) {
  join(std::move(link), number);
}

void TailChannel::begin() {
  arm_deadline(kConnectDeadline);
  if (owner_.self().identity != nullptr) return begin_sealed();
  dial_ = settings_.dialler.dial(to_.address, queue_, expect(Op::kDialled));
}

void TailChannel::begin_sealed() {
  auto dialled = dial_sealed(owner_.self().identity, to_.peer, to_.address, settings_.arguments,
                             settings_.silence_deadline);
  if (!dialled.is_ok()) {
    dial_ = std::make_shared<Dial>(queue_, expect(Op::kDialled));
    return dial_->finish(dialled.status());
  }
  caught_ = std::move(dialled->socket);
  channel_ = std::move(dialled->channel);
  call();
}

void TailChannel::on_socket(Result<net::FileDescriptor> dialled) {
  if (dialled.is_ok()) socket_ = net::FileDescriptor(fcntl(dialled->get(), F_DUPFD_CLOEXEC, 0));
  const int error = errno;
  if (is_closing() || !socket_) {
    deadline_.Cancel();
    const std::string why = dialled.is_ok() ? net::describe_errno(error) : dialled.status().message();
    return end(unreachable(why));
  }
  configure_socket(socket_.get(), settings_.silence_deadline);
  channel_ = grpc::CreateCustomInsecureChannelFromFd(to_.address, dialled->release(), settings_.arguments);
  call();
}

void TailChannel::call() {
  context_ = std::make_unique<grpc::ClientContext>();
  context_->AddMetadata(kVersionKey, std::to_string(link_versions().oldest));
  context_->AddMetadata(kNewestKey, std::to_string(link_versions().newest));
  context_->AddMetadata(kFromKey, percent_encode(owner_.self().name));
  context_->AddMetadata(kToKey, percent_encode(to_.peer));
  context_->AddMetadata(kLinkKey, link().id());
  context_->AddMetadata(kChannelKey, std::to_string(number()));
  stream_ = grpc::GenericStub(channel_).PrepareCall(context_.get(), kMethod, &queue_);
  stream_->StartCall(expect(Op::kStart));
}

void TailChannel::advance(Op op, bool ok) {
  switch (op) {
    case Op::kStart:
      if (!ok) return conclude();
      return stream_->ReadInitialMetadata(expect(Op::kMetadata));
    case Op::kMetadata:
      if (!ok || is_closing() || !was_accepted()) return conclude();
      return on_accepted();
    case Op::kTick:
      if (!ok || is_closing() || has_ended()) return;
      is_ticking_ = link().look(*this, has_taken());
      if (is_ticking_) arm_tick();
      return;
    case Op::kDeadline:
      if (!ok || is_up() || has_ended()) return;
      return on_deadline();
    case Op::kProbe:
      looks_closely_ = ok && !is_closing() && !has_ended() && link().look_closely(*this);
      if (looks_closely_) arm_probe();
      return;
    case Op::kRoom: waits_for_room_ = false; return pump();
    case Op::kDialled: return on_socket(dial_->take());
    case Op::kFinish:
      deadline_.Cancel();
      tick_.Cancel();
      return end(explain());
    default: return;
  }
}

void TailChannel::on_accepted() {
  deadline_.Cancel();
  look_for_socket();
  if (socket_) {
    queued_.begin(socket_.get(), link().send_queue(),
                  number() == 0 ? kMinSendQueueBytes : kMinFurtherQueueBytes);
  }
  is_local_ = is_on_this_machine(socket_.get());
  link().evidence.note(trust::certificate_of(*context_->auth_context()));
  go_up(to_.peer);
  if (is_local_ && number() == 0) link().note_local();
}

void TailChannel::arm_deadline(std::chrono::milliseconds time) {
  deadline_.Set(&queue_, std::chrono::system_clock::now() + time, expect(Op::kDeadline));
}

void TailChannel::on_deadline() {
  look_for_socket();
  if (!shakes_hands_ && !net::peer_of(socket_.get()).empty()) {
    shakes_hands_ = true;
    return arm_deadline(kHandshakeDeadline);
  }
  const auto waited = kConnectDeadline + (shakes_hands_ ? kHandshakeDeadline : std::chrono::milliseconds(0));
  fail(unavailable(fmt::format("cannot reach node \"{}\" at {}: no answer within {} ms; is it running?",
                               to_.peer, to_.address, waited.count())));
}

// gRPC's own, where that dials.
void TailChannel::look_for_socket() {
  if (!caught_) return;
  if (auto caught = caught_->take()) socket_ = std::move(caught);
}

void TailChannel::arm_tick() {
  tick_.Set(&queue_, std::chrono::system_clock::now() + kWatchInterval, expect(Op::kTick));
}

// The tail of a link that is not used has nothing to look for.
void TailChannel::note_write(bool begun, std::size_t size_bytes) {
  if (begun) queued_.note_written(size_bytes, steady_clock().now());
  if (!begun || number() != 0 || std::exchange(is_ticking_, true)) return;
  link().begin_looks();
  arm_tick();
}

std::size_t TailChannel::room() {
  if (!socket_ || is_local_) return kMaxFrameBytes;  // it is going, or nothing waits for a network
  if (waits_for_room_) return 0;
  const std::size_t room = queued_.room(steady_clock().now());
  if (room > 0) return room;
  waits_for_room_ = true;
  const auto wait = std::chrono::duration_cast<std::chrono::system_clock::duration>(queued_.wait());
  room_alarm_.Set(&queue_, std::chrono::system_clock::now() + wait, expect(Op::kRoom));
  return 0;
}

void TailChannel::arm_probe() {
  probe_alarm_.Set(&queue_, std::chrono::system_clock::now() + kProbeLook, expect(Op::kProbe));
}

bool TailChannel::begin_close_looks() {
  if (is_local_) return false;
  if (!std::exchange(looks_closely_, true)) arm_probe();
  return true;
}

SocketFigures TailChannel::figures() {
  if (!socket_) return {};
  SocketFigures figures = queued_.figures(steady_clock().now());
  figures.is_limited = figures.is_limited && !is_local_;
  return figures;
}

// And more is in line: an answer may wait behind that. What a stopped process's kernel takes of little is
// none.
bool TailChannel::has_taken() {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  const bool is_moving = std::exchange(taken_bytes_, info.tcpi_bytes_acked) != info.tcpi_bytes_acked;
  const std::uint64_t under_way = std::uint64_t{info.tcpi_unacked} * info.tcpi_snd_mss;
  return is_moving && (info.tcpi_notsent_bytes > 0 || under_way > kMuchUnderWay);
}

bool TailChannel::was_accepted() const {
  const auto& metadata = context_->GetServerInitialMetadata();
  const auto found = metadata.find(kVersionKey);
  if (found == metadata.end()) return false;
  const auto version = version_of({found->second.data(), found->second.size()});
  return version && link_versions().contains(*version);
}

void TailChannel::finish() {
  if (is_closing()) context_->TryCancel();
  part();
  stream_->Finish(&status_, expect(Op::kFinish));
}

void TailChannel::cancel() {
  if (dial_ != nullptr) dial_->give_up();
  if (context_ == nullptr) return;
  context_->TryCancel();
  part();
}

// Before any event says that the call is over: where a write is stuck, none does.
void TailChannel::part() {
  if (!is_up() || !socket_) return;
  queued_.end();
  owner_.part(std::move(socket_));
}

void TailChannel::release() {
  queued_.end();
  stream_.reset();
  context_.reset();
  channel_.reset();
  if (socket_) shutdown(socket_.get(), SHUT_RDWR);
  socket_ = {};
}

Status TailChannel::unreachable(const std::string& why) const {
  if (is_refusal(why)) {
    return not_found(fmt::format("cannot reach node \"{}\" at {}: nobody listens there; is it running?",
                                 to_.peer, to_.address));
  }
  return unavailable(
      fmt::format("cannot reach node \"{}\" at {}: {}; is it running?", to_.peer, to_.address, why));
}

Status TailChannel::explain() const {
  const std::string& words = status_.error_message();
  const auto code = static_cast<StatusCode>(status_.error_code());
  if (!is_up()) {
    if (is_refusal(words) || code == StatusCode::kUnavailable) return unreachable(words);
    if (code == StatusCode::kOk || code == StatusCode::kUnimplemented) {
      return unavailable(fmt::format(
          "cannot reach node \"{}\" at {}: what listens there is not a Square node; check the address",
          to_.peer, to_.address));
    }
    if (code == StatusCode::kCancelled) {
      return unavailable(
          fmt::format("node \"{}\" at {} closed the link before it was up", to_.peer, to_.address));
    }
    return {code, fmt::format("node \"{}\" at {} refused the link: {}", to_.peer, to_.address, words)};
  }
  if (code == StatusCode::kOk || code == StatusCode::kCancelled) {
    return unavailable(fmt::format("node \"{}\" at {} closed the link", to_.peer, to_.address));
  }
  return {code, fmt::format("lost the link to node \"{}\" at {}: {}", to_.peer, to_.address, words)};
}

}  // namespace square::rpc
