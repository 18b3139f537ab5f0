#include "gateway/message_socket.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace square::gateway {

MessageSocket::MessageSocket(EventLoop& loop, FileDescriptor socket, MessageHandler& handler)
    : loop_(loop), socket_(std::move(socket)), handler_(handler) {
  last_heard_ = last_said_ = ticked_ = std::chrono::steady_clock::now();
  read_out_of_band_too(socket_);
  watch_ = loop_.watch(socket_.get(), EPOLLIN, [this](std::uint32_t events) { on_ready(events); });
  if (!watch_) end(resource_exhausted("the system lets this process wait for no more connections"));
}

MessageSocket::~MessageSocket() {
  *alive_ = false;
  if (watch_) loop_.forget(*watch_);
  shutdown(socket_.get(), SHUT_RDWR);  // nothing is added to what is unread
  // Descriptors may be unread, and are closed with the socket.
  int unread_bytes = 0;
  if (ioctl(socket_.get(), FIONREAD, &unread_bytes) != 0 || unread_bytes > 0)
    loop_.closer().close(std::move(socket_));
}

void MessageSocket::end(Status reason) {
  if (reason_) return;
  reason_ = std::move(reason);
  loop_.post([this, alive = alive_, why = *reason_] {
    if (*alive) handler_.on_down(why);
  });
}

void MessageSocket::end_after_sending(Status reason, Duration patience) {
  if (reason_ || farewell_) return;
  farewell_ = std::move(reason);
  patience_end_ = std::chrono::steady_clock::now() + patience;
  want_to_write(true);
}

void MessageSocket::end_after_reading(Status reason) {
  if (!reason_) read_turn();
  end(std::move(reason));
}

void MessageSocket::end_with(MessageType type, std::string body, Status reason) {
  send(type, 0, std::move(body));
  write_turn();
  end(std::move(reason));
}

Status MessageSocket::silence() const {
  return unavailable(fmt::format("nothing was heard for {:.1f} s",
                                 to_seconds(std::chrono::steady_clock::now() - last_heard_)));
}

bool MessageSocket::tick(Duration heartbeat, Duration lease) {
  const Time now = std::chrono::steady_clock::now();
  // Who was stopped itself has yet to read what came meanwhile.
  if (now - ticked_ > lease / 2) last_heard_ += now - ticked_;
  ticked_ = now;
  if (reason_) return false;
  if (std::exchange(is_held_up_, false)) want_to_write(true);
  if (farewell_ && now >= patience_end_) {
    end(*farewell_);
    return false;
  }
  if (now - last_heard_ > lease) return true;
  if (now - last_said_ > heartbeat && messages_.empty() && !farewell_) send(MessageType::kHeartbeat, 0);
  return false;
}

void MessageSocket::send(MessageType type, std::uint64_t number, std::string body, Descriptors descriptors) {
  if (reason_ || farewell_) return;
  if (messages_.size() >= kMaxQueuedMessages) {
    return end(resource_exhausted(
        fmt::format("{} messages wait for a peer that does not read them", messages_.size())));
  }
  const auto bytes = std::as_bytes(std::span(body));
  const Header header{type, number, 0, static_cast<std::uint32_t>(body.size())};
  if (body.size() > max_body_bytes(type)) {
    return end(resource_exhausted(fmt::format("a {} message of {} bytes is over the limit of {}",
                                              to_string(type), body.size(), max_body_bytes(type))));
  }
  messages_.push_back({encode_header(header, bytes), std::move(body), std::move(descriptors)});
  last_said_ = std::chrono::steady_clock::now();
  want_to_write(true);
}

void MessageSocket::stream(std::uint64_t number, std::span<const std::byte> data,
                           std::shared_ptr<const void> owner) {
  if (reason_ || farewell_) return;
  streams_.push_back({number, data, std::move(owner)});
  want_to_write(true);
}

void MessageSocket::drop_stream(std::uint64_t number) {
  const auto found = std::ranges::find(streams_, number, &Stream::number);
  if (found == streams_.end()) return;
  if (is_writing_ && is_chunk_ && found == streams_.begin()) {
    found->is_dropped = true;  // a chunk is not cut short: the peer has seen its header
    return;
  }
  streams_.erase(found);
  loop_.post([this, alive = alive_, number] {
    if (*alive && !reason_) handler_.on_streamed(number);
  });
}

void MessageSocket::on_ready(std::uint32_t events) {
  if (reason_) return;
  // What a peer said last tells why nothing can be written to it any more.
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0U) read_turn();
  if (!reason_ && (events & EPOLLOUT) != 0U) write_turn();
}

// False, and the connection ends, for more than a message may bring, and for what is no memory.
bool MessageSocket::take_descriptors(Descriptors brought, bool is_cut) {
  bool is_memory_alone = true;
  for (FileDescriptor& one : brought) {
    if (is_memory(one)) {
      came_.push_back(std::move(one));
    } else {
      is_memory_alone = false;
      loop_.closer().close(std::move(one));
    }
  }
  if (is_memory_alone && came_.size() <= kMaxDescriptors && !is_cut) return true;
  came_.clear();
  end(permission_denied(is_memory_alone
                            ? fmt::format("a message came with more than {} descriptors{}", kMaxDescriptors,
                                          is_cut ? ", or this process may open no more files" : "")
                            : "a message came with a descriptor that is not of a memory file"));
  return false;
}

// False when there is no more for now, or never again.
bool MessageSocket::read_some(std::byte* to, std::size_t size, std::size_t& done) {
  Descriptors brought;
  const auto [got, is_cut] = receive(socket_, {to, size}, brought);
  if (got > 0) {
    if (!take_descriptors(std::move(brought), is_cut)) return false;
    done += static_cast<std::size_t>(got);
    last_heard_ = std::chrono::steady_clock::now();
    return true;
  }
  if (got == 0) {
    end(farewell_ ? *farewell_ : unavailable("the connection was closed"));
  } else if (errno != EAGAIN && errno != EINTR) {
    end(unavailable(fmt::format("the connection broke: {}", net::describe_errno(errno))));
  }
  return false;
}

void MessageSocket::read_turn() {
  for (std::size_t turn = 0; turn < kTurnBytes && !reason_;) {
    const std::size_t before = read_bytes_;
    if (!header_) {
      if (!read_some(header_bytes_.data() + read_bytes_, kHeaderBytes - read_bytes_, read_bytes_)) return;
      turn += read_bytes_ - before;
      if (read_bytes_ == kHeaderBytes && !take_header()) return;
    } else {
      std::byte* to = target_.data != nullptr ? target_.data : body_.data();
      if (!read_some(to + read_bytes_, header_->body_bytes - read_bytes_, read_bytes_)) return;
      turn += read_bytes_ - before;
      if (read_bytes_ == header_->body_bytes && !take_body()) return;
    }
  }
}

bool MessageSocket::take_header() {
  auto header = decode_header(header_bytes_);
  if (!header.is_ok()) {
    end(header.status());
    return false;
  }
  auto target = handler_.on_header(*header);
  if (!target.is_ok()) {
    end(target.status());
    return false;
  }
  header_ = *header;
  target_ = std::move(*target);
  read_bytes_ = 0;
  if (target_.data == nullptr) body_.resize(header_->body_bytes);
  return header_->body_bytes > 0 || take_body();
}

bool MessageSocket::take_body() {
  const std::byte* data = target_.data != nullptr ? target_.data : body_.data();
  const std::span<const std::byte> body(data, header_->body_bytes);
  Status taken = check_body(header_bytes_, body);
  if (taken.is_ok() && header_->type != MessageType::kHeartbeat && !farewell_) {
    taken = handler_.on_message(*header_, body, std::exchange(came_, {}));
  }
  header_.reset();
  read_bytes_ = 0;
  target_ = {};
  body_.clear();
  came_.clear();
  if (body_.capacity() > kMaxHelloBytes) body_.shrink_to_fit();
  if (!taken.is_ok()) end(taken);
  return !reason_;
}

void MessageSocket::want_to_write(bool wants) {
  if (wants == wants_to_write_ || !watch_) return;
  wants_to_write_ = wants;
  loop_.change(*watch_, wants ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

// Messages before data: an outcome does not wait for another operation's bytes.
bool MessageSocket::next_message() {
  written_bytes_ = 0;
  if (!messages_.empty()) {
    current_ = std::move(messages_.front());
    messages_.pop_front();
    current_body_ = std::as_bytes(std::span(current_.body));
    is_chunk_ = false;
    return is_writing_ = true;
  }
  if (streams_.empty()) return false;
  const Stream& stream = streams_.front();
  current_body_ = stream.data.subspan(stream.sent_bytes,
                                      std::min(kMaxChunkBytes, stream.data.size() - stream.sent_bytes));
  const Header header{MessageType::kChunk, stream.number, stream.sent_bytes,
                      static_cast<std::uint32_t>(current_body_.size())};
  current_ = {encode_header(header, current_body_), {}};
  is_chunk_ = true;
  return is_writing_ = true;
}

void MessageSocket::finish_chunk() {
  Stream stream = std::move(streams_.front());
  streams_.pop_front();
  stream.sent_bytes += current_body_.size();
  last_said_ = std::chrono::steady_clock::now();
  if (!stream.is_dropped && stream.sent_bytes < stream.data.size()) {
    streams_.push_back(std::move(stream));
  } else {
    handler_.on_streamed(stream.number);
  }
}

// What is left of the current message, as far as there is room.
ssize_t MessageSocket::write_some() {
  const std::size_t of_header = std::min(written_bytes_, kHeaderBytes);
  const std::size_t of_body = written_bytes_ - of_header;
  std::array<iovec, 2> pieces{};
  pieces[0] = {current_.header.data() + of_header, kHeaderBytes - of_header};
  pieces[1] = {const_cast<std::byte*>(current_body_.data()) + of_body, current_body_.size() - of_body};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control{};
  if (!current_.descriptors.empty()) {
    std::array<int, kMaxDescriptors> numbers{};
    const std::size_t bytes = current_.descriptors.size() * sizeof(int);
    for (std::size_t i = 0; i < current_.descriptors.size(); ++i)
      numbers.at(i) = current_.descriptors[i].get();
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(part), numbers.data(), bytes);
  }
  const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  if (sent > 0) current_.descriptors.clear();
  return sent;
}

void MessageSocket::write_turn() {
  for (std::size_t turn = 0; turn < kTurnBytes && !reason_;) {
    if (!is_writing_ && !next_message()) {
      want_to_write(false);
      // The peer reads to the end and closes: to close first could cost it the last message.
      if (farewell_) shutdown(socket_.get(), SHUT_WR);
      return;
    }
    const ssize_t sent = write_some();
    if (sent < 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      if (errno == ETOOMANYREFS) {
        // The user's processes have as many descriptors on their way as the kernel lets them: the peers read.
        is_held_up_ = true;
        return want_to_write(false);
      }
      return end(unavailable(fmt::format("the connection broke: {}", net::describe_errno(errno))));
    }
    turn += static_cast<std::size_t>(sent);
    written_bytes_ += static_cast<std::size_t>(sent);
    if (written_bytes_ < kHeaderBytes + current_body_.size()) continue;
    is_writing_ = false;
    if (is_chunk_) finish_chunk();
  }
}

}  // namespace square::gateway
